//! The little of YAML that files about data sets use: keys with values, lists, and lists of names by number. Anchors, tags
//! and documents of several parts are refused with a sentence.

use std::collections::BTreeMap;

/// A value of such a file.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Yaml {
    Text(String),
    List(Vec<Yaml>),
    Map(Vec<(String, Yaml)>),
}

impl Yaml {
    pub fn get(&self, key: &str) -> Option<&Yaml> {
        let Yaml::Map(entries) = self else { return None };
        entries.iter().find(|(known, _)| known == key).map(|(_, value)| value)
    }

    /// Text, or nothing for lists, maps and empty values.
    pub fn text(&self) -> Option<&str> {
        let Yaml::Text(text) = self else { return None };
        (!text.is_empty() && text != "~" && text != "null").then_some(text)
    }

    /// The texts of a list, or the only text.
    pub fn texts(&self) -> Option<Vec<&str>> {
        match self {
            Yaml::Text(_) => self.text().map(|text| vec![text]),
            Yaml::List(items) => items.iter().map(Yaml::text).collect(),
            Yaml::Map(_) => None,
        }
    }

    /// Names by number: a list, or a map whose keys are the numbers from 0 on.
    pub fn names(&self) -> Option<Vec<String>> {
        let Yaml::Map(entries) = self else {
            return self.texts().map(|texts| texts.into_iter().map(str::to_string).collect());
        };
        let numbered = entries.iter().map(|(key, value)| Some((key.parse::<usize>().ok()?, value.text()?.to_string())));
        let numbered: BTreeMap<usize, String> = numbered.collect::<Option<_>>()?;
        let complete = numbered.keys().copied().eq(0..numbered.len());
        complete.then(|| numbered.into_values().collect())
    }
}

/// The keys and values of a file of settings; a list is written `[a, b]`. Empty values are left out.
pub fn yaml_settings(text: &str) -> Result<Vec<(String, String)>, String> {
    let Yaml::Map(entries) = parse(text)? else { return Ok(Vec::new()) };
    let mut settings = Vec::new();
    for (key, value) in entries {
        match &value {
            Yaml::Text(_) => settings.extend(value.text().map(|text| (key, text.to_string()))),
            Yaml::List(_) => {
                let items = value.texts().ok_or_else(|| format!("{key} is a list of lists"))?;
                settings.push((key, format!("[{}]", items.join(", "))));
            }
            Yaml::Map(_) => return Err(format!("{key} has keys of its own, which no setting has")),
        }
    }
    Ok(settings)
}

struct Line<'a> {
    number: usize,
    indent: usize,
    text: &'a str,
}

/// The file's root, a map; else what is wrong and in which line.
pub(super) fn parse(text: &str) -> Result<Yaml, String> {
    let lines: Vec<Line> = text
        .lines()
        .enumerate()
        .map(|(index, line)| {
            let content = without_comment(line).trim_end();
            let text = content.trim_start();
            Line { number: index + 1, indent: content.len() - text.len(), text }
        })
        .filter(|line| !line.text.is_empty() && line.text != "---")
        .collect();
    let mut at = 0;
    let value = block(&lines, &mut at, 0, 0)?;
    match (lines.get(at), &value) {
        (Some(line), _) => Err(format!("line {} is indented unlike any line above", line.number)),
        (None, Yaml::Map(_)) => Ok(value),
        (None, _) => Err("it holds no keys".to_string()),
    }
}

/// Where a comment begins: at a `#` outside of quotes, at the start or behind a space.
fn without_comment(line: &str) -> &str {
    let mut quote = None;
    let mut before = ' ';
    for (index, symbol) in line.char_indices() {
        match (quote, symbol) {
            (None, '"' | '\'') => quote = Some(symbol),
            (Some(open), _) if open == symbol => quote = None,
            (None, '#') if before.is_whitespace() => return &line[..index],
            _ => {}
        }
        before = symbol;
    }
    line
}

const DEEPEST: usize = 16;

/// The lines of one indentation from `at` on.
fn block(lines: &[Line], at: &mut usize, indent: usize, depth: usize) -> Result<Yaml, String> {
    let Some(first) = lines.get(*at) else { return Ok(Yaml::Text(String::new())) };
    if depth > DEEPEST {
        return Err(format!("line {} is nested too deeply", first.number));
    }
    let is_list = first.text == "-" || first.text.starts_with("- ");
    let (mut items, mut entries) = (Vec::new(), Vec::new());
    while let Some(line) = lines.get(*at).filter(|line| line.indent == indent) {
        let is_item = line.text == "-" || line.text.starts_with("- ");
        if is_item != is_list {
            break;
        }
        *at += 1;
        if is_list {
            items.push(scalar(line.text[1..].trim(), line.number)?);
            continue;
        }
        let (key, rest) = split_key(line.text).ok_or_else(|| format!("line {} is not `key: value`", line.number))?;
        let value = match lines.get(*at) {
            Some(next) if rest.is_empty() && nests(next, indent) => block(lines, at, next.indent, depth + 1)?,
            _ => scalar(rest, line.number)?,
        };
        entries.push((key, value));
    }
    Ok(if is_list { Yaml::List(items) } else { Yaml::Map(entries) })
}

/// Whether a line belongs to the key before it: it is indented more, or is a list at the same indentation.
fn nests(next: &Line, indent: usize) -> bool {
    next.indent > indent || (next.indent == indent && next.text.starts_with("- "))
}

fn split_key(text: &str) -> Option<(String, &str)> {
    let end = text.find(": ").or_else(|| text.ends_with(':').then(|| text.len() - 1))?;
    Some((unquoted(text[..end].trim()).to_string(), text[end + 1..].trim()))
}

fn unquoted(text: &str) -> &str {
    let inner = |quote: char| text.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote));
    inner('"').or_else(|| inner('\'')).unwrap_or(text)
}

/// A value on one line: text, `[a, b]` or `{0: a, 1: b}`.
fn scalar(text: &str, number: usize) -> Result<Yaml, String> {
    let parts = |inner: &str| -> Vec<String> {
        let parts = inner.split(',').map(|part| part.trim().to_string());
        parts.filter(|part| !part.is_empty()).collect()
    };
    if let Some(inner) = text.strip_prefix('[').map(|rest| rest.strip_suffix(']')) {
        let inner = inner.ok_or_else(|| format!("the list in line {number} is not closed there"))?;
        return Ok(Yaml::List(parts(inner).iter().map(|part| Yaml::Text(unquoted(part).to_string())).collect()));
    }
    if let Some(inner) = text.strip_prefix('{').map(|rest| rest.strip_suffix('}')) {
        let inner = inner.ok_or_else(|| format!("the map in line {number} is not closed there"))?;
        let entry = |part: &String| {
            let (key, value) = part.split_once(':').ok_or_else(|| format!("line {number} has a part without a key"))?;
            Ok((unquoted(key.trim()).to_string(), Yaml::Text(unquoted(value.trim()).to_string())))
        };
        return parts(inner).iter().map(entry).collect::<Result<_, String>>().map(Yaml::Map);
    }
    match text.chars().next() {
        Some('&' | '*' | '!') => Err(format!("line {number} uses an anchor or a tag, which is not supported")),
        // Texts over several lines (download scripts) are kept as their first line; nothing here reads them.
        _ => Ok(Yaml::Text(unquoted(text).to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_data_set_is_understood() {
        let text = "# COCO8\npath: ../data/coco8 # root\ntrain: images/train\nval: [images/a, 'images/b']\nnames:\n  0: person\n  \
                    1: \"traffic light\"\n";
        let yaml = parse(text).unwrap();
        assert_eq!(yaml.get("path").unwrap().text(), Some("../data/coco8"));
        assert_eq!(yaml.get("val").unwrap().texts().unwrap(), ["images/a", "images/b"]);
        assert_eq!(yaml.get("names").unwrap().names().unwrap(), ["person", "traffic light"]);
        let listed = parse("names:\n- a\n- b\nnc: 2").unwrap();
        assert_eq!(listed.get("names").unwrap().names().unwrap(), ["a", "b"]);
        assert_eq!(parse("names: {0: a, 1: b}").unwrap().get("names").unwrap().names().unwrap(), ["a", "b"]);
    }

    #[test]
    fn what_is_not_understood_is_reported() {
        for (text, part) in
            [("a: [1, 2", "closed"), ("nothing", "key"), ("a: *b", "anchor"), ("names:\n    x: 1\n  y: 2", "indented")]
        {
            let error = parse(text).unwrap_err();
            assert!(error.contains(part), "{error}");
        }
        assert_eq!(parse("names:\n  0: a\n  2: b").unwrap().get("names").unwrap().names(), None);
    }
}
