//! Code, comments, messages and documents use the field's words: a reader who knows PyTorch and XLA should understand each
//! sentence at first reading.

use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};

/// What to avoid, and what to write instead. `*` stands for any ending.
const WORDS: [(&str, &str); 31] = [
    ("answer*", "prediction, response or result"),
    ("ask for", "request, require or prefetch"),
    ("asked", "requested, required or called"),
    ("asks", "requests, requires or calls"),
    ("boards that are not attached", "ahead-of-time topologies"),
    ("dear", "expensive"),
    ("found box*", "predicted box"),
    ("foundbox*", "PredictedBox"),
    ("goes on", "resumes or continues"),
    ("gone on", "resumed or continued"),
    ("in vain", "without effect"),
    ("judg*", "evaluate or score; ground truth"),
    ("likeness", "similarity"),
    ("made up", "synthetic or generated"),
    ("meanwhile", "concurrently, or until when"),
    ("said", "printed, logged or reported"),
    ("slope", "gradient"),
    ("slopes", "gradients"),
    ("surer", "higher-scoring or more confident"),
    ("surest", "highest-scoring or most confident"),
    ("taken over", "donated"),
    ("told", "logged, reported or distinguished"),
    ("true box*", "ground-truth box"),
    ("truebox*", "GroundTruthBox"),
    ("truth value*", "bool"),
    ("unanswered", "pending"),
    ("unjudged", "without ground truth"),
    ("verdict", "result or summary"),
    ("went on", "resumed or continued"),
    ("whoever", "the caller or the consumer"),
    ("wishes", "optional compiler flags"),
];

/// Uses that are meant: names that others have given, and keys of `--json` that scripts read.
const MEANT: [&str; 5] = ["made up of", "known answers", "negative slope", "\"event\": \"judged\"", "\"verdict\""];

pub fn check() -> Result<()> {
    let mut paths: Vec<PathBuf> = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"].map(PathBuf::from).into();
    for folder in ["crates", "docs"] {
        collect(Path::new(folder), &mut paths).context("run from the root of the repository")?;
    }
    paths.sort();
    let mut problems = Vec::new();
    for path in paths {
        let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        for (line, (word, instead)) in
            text.lines().zip(1..).flat_map(|(text, line)| found(text).map(move |at| (line, at)))
        {
            problems.push(format!("{}:{line}: \"{word}\": write {instead}", path.display()));
        }
    }
    if problems.is_empty() { Ok(()) } else { bail!("{}", problems.join("\n       ")) }
}

/// The texts below a folder, but for this file.
fn collect(folder: &Path, paths: &mut Vec<PathBuf>) -> Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
        if path.is_dir() {
            collect(&path, paths)?;
        } else if ["rs", "md", "toml", "js"].contains(&ending) && !path.ends_with("xtask/src/words.rs") {
            paths.push(path);
        }
    }
    Ok(())
}

/// The entries of [`WORDS`] that a line of text has. Identifiers count as the words that they are made of.
fn found(line: &str) -> impl Iterator<Item = (&'static str, &'static str)> + use<> {
    let line = MEANT.iter().fold(line.to_lowercase().replace(['_', '-'], " "), |line, meant| line.replace(meant, ""));
    WORDS.into_iter().filter(move |(word, _)| has(&line, word))
}

fn has(line: &str, word: &str) -> bool {
    let (word, is_whole) = word.strip_suffix('*').map_or((word, true), |stem| (stem, false));
    line.match_indices(word).any(|(start, _)| {
        let begins = !line[..start].ends_with(char::is_alphanumeric);
        let ends = !line[start + word.len()..].starts_with(char::is_alphanumeric);
        begins && (ends || !is_whole)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<&'static str> {
        found(line).map(|(word, _)| word).collect()
    }

    #[test]
    fn words_of_the_dialect_are_found_in_prose_and_in_identifiers() {
        assert_eq!(words("/// Judges the epoch."), ["judg*"]);
        assert_eq!(words("let scores: Vec<JudgedImage> = made_up();"), ["judg*", "made up"]);
        assert_eq!(words("fn a_run_goes_on_where_it_stopped() {"), ["goes on"]);
        assert_eq!(words("on made-up scenes, Meanwhile"), ["made up", "meanwhile"]);
    }

    #[test]
    fn the_fields_words_and_names_of_others_are_left_alone() {
        for line in
            ["masked_crc(bytes)", "a batch is made up of rows", "leaky_relu(NEGATIVE_SLOPE)", "adjudge", "deary"]
        {
            assert_eq!(words(line), [""; 0], "{line}");
        }
        assert_eq!(words("json!({ \"event\": \"judged\" })"), [""; 0]);
    }

    #[test]
    fn every_word_is_listed_once_in_order() {
        assert!(WORDS.is_sorted_by(|one, next| one.0 < next.0));
    }
}
