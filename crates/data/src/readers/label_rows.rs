//! Files that list images with any number of labels each: tables, JSON, and plain lists.

use super::table::{PATH_NAMES, fields};
use serde_json::Value;

/// Columns and keys that hold labels, in the order in which they are looked for.
const LABEL_NAMES: [&str; 7] = ["labels", "tags", "classes", "categories", "label", "tag", "class"];
/// What stands between labels, in the order in which it is looked for; none of them: spaces.
const SEPARATORS: [char; 3] = ['|', ';', ','];

/// How labels are to be read.
#[derive(Debug, Clone, Default)]
pub(super) struct LabelRules {
    /// The columns that hold them; those that look like it if none.
    pub columns: Vec<String>,
    /// What stands between labels of one column; what the column has if not given.
    pub separator: Option<String>,
}

/// One image and the names of its labels.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct LabelRow {
    /// From 1 on; of JSON the number of the entry.
    pub line: usize,
    pub path: String,
    pub labels: Vec<String>,
}

/// What a file lists.
#[derive(Debug, Default)]
pub(super) struct LabelRows {
    pub rows: Vec<LabelRow>,
    /// The names in the file's own order, where it has one: a column each.
    pub columns: Option<Vec<String>>,
}

/// The rows of a file with that ending; the error is the rest of a sentence about the file.
pub(super) fn parse(text: &str, ending: &str, rules: &LabelRules) -> Result<LabelRows, String> {
    if !rules.columns.is_empty() && !matches!(ending, "csv" | "tsv") {
        return Err("it has no columns; remove `data.columns`".into());
    }
    let found = match ending {
        "csv" | "tsv" => table(text, rules)?,
        "json" => json(serde_json::from_str(text).map_err(|error| format!("it is no JSON ({error})"))?)?,
        "jsonl" => json_lines(text)?,
        _ => list(text, rules)?,
    };
    if rules.separator.is_some() && (found.columns.is_some() || matches!(ending, "json" | "jsonl")) {
        return Err("every label stands by itself in it; remove `data.separator`".into());
    }
    if found.rows.is_empty() { Err("it lists no images".into()) } else { Ok(found) }
}

/// 1 or 0 in one of the ways that people write it.
fn flag(text: &str) -> Option<bool> {
    match text.trim().to_lowercase().as_str() {
        "1" | "1.0" | "true" | "yes" => Some(true),
        "0" | "0.0" | "false" | "no" => Some(false),
        _ => None,
    }
}

fn table(text: &str, rules: &LabelRules) -> Result<LabelRows, String> {
    let mut lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let header = lines.next().map(|(_, line)| line).ok_or("the table is empty")?;
    let separator = if header.contains('\t') { '\t' } else { ',' };
    let header = fields(header.trim_start_matches('\u{feff}'), separator)?;
    let mut rows = Vec::new();
    for (number, text) in lines {
        let line = number + 1;
        let row = fields(text, separator).map_err(|problem| format!("line {line}: {problem}"))?;
        if row.len() != header.len() {
            return Err(format!("line {line} has {} fields, the header {}", row.len(), header.len()));
        }
        rows.push((line, row));
    }
    let path = header.iter().position(|name| PATH_NAMES.contains(&name.to_lowercase().as_str())).unwrap_or(0);
    let columns = label_columns(&header, path, rules, &rows)?;
    let holds_flags = |column: usize| rows.iter().all(|(_, row)| flag(&row[column]).is_some());
    match columns[..] {
        [only] if !holds_flags(only) => {
            let listed = rows.iter().map(|(_, row)| row[only].as_str());
            let split = Splitter::of(listed, rules);
            let row = |(line, row): &(usize, Vec<String>)| LabelRow {
                line: *line,
                path: row[path].clone(),
                labels: split.labels(&row[only]),
            };
            Ok(LabelRows { rows: rows.iter().map(row).collect(), columns: None })
        }
        _ => {
            let of_row = |(line, row): &(usize, Vec<String>)| {
                let mut labels = Vec::new();
                for &column in &columns {
                    let (name, text) = (&header[column], row[column].trim());
                    match flag(text) {
                        Some(true) => labels.push(name.clone()),
                        Some(false) => {}
                        None if text.is_empty() => {
                            return Err(format!("line {line} does not say whether it is {name}; write 0 or 1"));
                        }
                        None => return Err(format!("line {line}: {text:?} is neither 0 nor 1 ({name})")),
                    }
                }
                Ok(LabelRow { line: *line, path: row[path].clone(), labels })
            };
            let rows = rows.iter().map(of_row).collect::<Result<_, _>>()?;
            Ok(LabelRows { rows, columns: Some(columns.iter().map(|&column| header[column].clone()).collect()) })
        }
    }
}

/// The columns that hold labels.
fn label_columns(
    header: &[String],
    path: usize,
    rules: &LabelRules,
    rows: &[(usize, Vec<String>)],
) -> Result<Vec<usize>, String> {
    let position = |name: &String| {
        let found = header.iter().position(|column| column == name);
        found.ok_or_else(|| format!("it has no column {name:?}; there are {}", header.join(", ")))
    };
    if !rules.columns.is_empty() {
        return rules.columns.iter().map(position).collect();
    }
    let others: Vec<usize> = (0..header.len()).filter(|&column| column != path).collect();
    let named = |name: &&str| others.iter().copied().find(|&column| header[column].eq_ignore_ascii_case(name));
    let named = LABEL_NAMES.iter().find_map(named);
    let is_flags = |&column: &usize| rows.iter().all(|(_, row)| flag(&row[column]).is_some());
    match (others.len(), named) {
        (0, _) => Err("it has no column of labels besides the paths".into()),
        (1, _) => Ok(others),
        _ if others.iter().all(is_flags) => Ok(others),
        (_, Some(named)) => Ok(vec![named]),
        (_, None) => {
            let names: Vec<&str> = others.iter().map(|&column| header[column].as_str()).collect();
            // Where the first row is all 0 and 1, the sentence about the cell that is not says more.
            let is_flag = |&column: &usize| rows.first().is_some_and(|(_, row)| flag(&row[column]).is_some());
            match others.iter().all(is_flag) {
                true => Ok(others),
                false => Err(format!(
                    "of its columns {} not all are 0 and 1; name those of labels by `data.columns`",
                    names.join(", ")
                )),
            }
        }
    }
}

/// Cuts a field into labels.
struct Splitter {
    separator: Option<String>,
}

impl Splitter {
    fn of<'a>(fields: impl Iterator<Item = &'a str> + Clone, rules: &LabelRules) -> Splitter {
        let is_used = |separator: &&char| fields.clone().any(|field| field.contains(**separator));
        let found = || SEPARATORS.iter().find(is_used).map(char::to_string);
        let separator = rules.separator.clone().or_else(found);
        Splitter { separator: separator.filter(|separator| separator != " ") }
    }

    fn labels(&self, field: &str) -> Vec<String> {
        let trimmed = |label: &str| label.trim().to_string();
        let labels: Vec<String> = match &self.separator {
            Some(separator) => field.split(separator.as_str()).map(trimmed).collect(),
            None => field.split_whitespace().map(trimmed).collect(),
        };
        labels.into_iter().filter(|label| !label.is_empty()).collect()
    }
}

/// Lines of a path and labels, with a tab or spaces between them.
fn list(text: &str, rules: &LabelRules) -> Result<LabelRows, String> {
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let parts: Vec<(usize, &str, &str)> = lines
        .map(|(number, line)| {
            let (path, labels) = match line.split_once('\t') {
                Some(parts) => parts,
                None => line.trim().split_once(char::is_whitespace).unwrap_or((line.trim(), "")),
            };
            (number + 1, path.trim(), labels.trim())
        })
        .collect();
    let split = Splitter::of(parts.iter().map(|(_, _, labels)| *labels), rules);
    let row = |&(line, path, labels): &(usize, &str, &str)| LabelRow {
        line,
        path: path.into(),
        labels: split.labels(labels),
    };
    Ok(LabelRows { rows: parts.iter().map(row).collect(), columns: None })
}

fn json_lines(text: &str) -> Result<LabelRows, String> {
    let mut rows = Vec::new();
    for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let value = serde_json::from_str(line).map_err(|error| format!("line {}: no JSON ({error})", number + 1))?;
        rows.push(json_entry(number + 1, &value)?);
    }
    Ok(LabelRows { rows, columns: None })
}

/// An object of paths with their labels, or a list of objects with both.
fn json(value: Value) -> Result<LabelRows, String> {
    let rows = match &value {
        Value::Object(images) => images
            .iter()
            .enumerate()
            .map(|(number, (path, labels))| {
                Ok(LabelRow { line: number + 1, path: path.clone(), labels: names(path, labels)? })
            })
            .collect::<Result<_, String>>()?,
        Value::Array(entries) => {
            entries.iter().enumerate().map(|(number, entry)| json_entry(number + 1, entry)).collect::<Result<_, _>>()?
        }
        _ => return Err("it is neither an object of paths and labels nor a list of objects".into()),
    };
    Ok(LabelRows { rows, columns: None })
}

fn json_entry(number: usize, entry: &Value) -> Result<LabelRow, String> {
    let object = entry.as_object().ok_or_else(|| format!("entry {number} is no object with a path and labels"))?;
    let of = |wanted: &[&str]| wanted.iter().find_map(|name| object.get(*name));
    let keys = || object.keys().cloned().collect::<Vec<_>>().join(", ");
    let path = of(&PATH_NAMES).and_then(Value::as_str);
    let path = path.ok_or_else(|| format!("entry {number} has no `path`; it has {}", keys()))?;
    let labels = of(&LABEL_NAMES).ok_or_else(|| format!("entry {number} has no `labels`; it has {}", keys()))?;
    Ok(LabelRow { line: number, path: path.into(), labels: names(path, labels)? })
}

/// A name, a number, or a list of them.
fn names(path: &str, value: &Value) -> Result<Vec<String>, String> {
    match value {
        Value::String(name) => Ok(vec![name.trim().to_string()]),
        Value::Number(number) => Ok(vec![number.to_string()]),
        Value::Array(list) => Ok(list.iter().map(|value| names(path, value)).collect::<Result<Vec<_>, _>>()?.concat()),
        Value::Null => Ok(Vec::new()),
        Value::Bool(_) | Value::Object(_) => Err(format!("{path}: {value} is no label")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(text: &str, ending: &str) -> Vec<String> {
        let rows = parse(text, ending, &LabelRules::default()).unwrap().rows;
        rows.iter().map(|row| format!("{}:{}", row.path, row.labels.join("+"))).collect()
    }

    #[test]
    fn every_form_lists_the_same() {
        let wanted = ["a.png:cat+red dog", "b.png:", "c.png:cat"];
        assert_eq!(labels("image,labels\na.png,cat|red dog\nb.png,\nc.png,cat\n", "csv"), wanted);
        assert_eq!(labels("image,tags\na.png,\"cat, red dog\"\r\nb.png,\nc.png,cat\n", "csv"), wanted);
        assert_eq!(labels("cat\timage\tred dog\n1\ta.png\tTRUE\n0\tb.png\t0.0\nyes\tc.png\tno\n", "tsv"), wanted);
        assert_eq!(labels("{\"a.png\": [\"cat\", \"red dog\"], \"b.png\": [], \"c.png\": \"cat\"}", "json"), wanted);
        assert_eq!(
            labels(
                "{\"path\":\"a.png\",\"labels\":[\"cat\",\"red dog\"]}\n{\"path\":\"b.png\",\"tags\":null}\n\n{\"image\":\"c.png\",\"label\":\"cat\"}",
                "jsonl"
            ),
            wanted
        );
        assert_eq!(labels("a.png cat;red dog\nb.png\nc.png\tcat", "txt"), wanted);
        assert_eq!(labels("a.png 3 5\n", "txt"), ["a.png:3+5"]);
    }

    #[test]
    fn what_cannot_be_meant_is_refused_with_its_line() {
        let refused = |text: &str, ending: &str| parse(text, ending, &LabelRules::default()).unwrap_err();
        assert_eq!(refused("image,cat,dog\na,1,0\nb,1,2\n", "csv"), "line 3: \"2\" is neither 0 nor 1 (dog)");
        assert_eq!(
            refused("image,cat,dog\na,1,0\nb,,1\n", "csv"),
            "line 3 does not say whether it is cat; write 0 or 1"
        );
        assert!(refused("image,cat\na,1,0\n", "csv").contains("line 2 has 3 fields"));
        assert!(refused("image,age,size\na,1.5,3\n", "csv").contains("age, size not all are 0 and 1"));
        assert!(refused("[{\"labels\": [\"cat\"]}]", "json").contains("entry 1 has no `path`; it has labels"));
        assert!(refused("{\"a\": {\"cat\": 1}}", "json").contains("is no label"));
        assert!(refused("", "txt").contains("lists no images"));
        let rules = LabelRules { separator: Some("|".into()), ..LabelRules::default() };
        assert!(parse("image,cat,dog\na,1,0\n", "csv", &rules).unwrap_err().contains("remove `data.separator`"));
    }
}
