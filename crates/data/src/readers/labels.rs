//! Images with any number of labels each, listed in a file beside them.

use super::label_rows::{LabelRows, LabelRules, parse};
use super::{Split, listing};
use crate::decode::{DecodeOptions, read_image};
use crate::{DataError, Dataset, NAMES_FILE, Sample, Target, listed};
use std::collections::{BTreeSet, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};

/// The endings of files that list labels, the usual one first.
const ENDINGS: [&str; 5] = ["csv", "tsv", "json", "jsonl", "txt"];

/// Images and their labels. A file lists them: a table with a column of separated labels or with a column of 0 and 1 per label
/// (`.csv`, `.tsv`), JSON (`{"a.jpg": ["cat"]}`, or objects with `path` and `labels`, also one per line), or lines of a path and
/// labels (`.txt`).
pub struct LabeledImages {
    samples: Vec<(PathBuf, Vec<u32>)>,
    names: Vec<String>,
    options: DecodeOptions,
    dropped: Vec<String>,
}

impl LabeledImages {
    /// Reads the file of a split in a folder, such as `train.csv`, or the only one there is; or that file itself. `columns`
    /// names those of a table that hold labels; none: those that look like it.
    pub fn open_split(
        path: impl AsRef<Path>,
        split: Split,
        columns: &[String],
        options: DecodeOptions,
    ) -> Result<LabeledImages, DataError> {
        LabeledImages::open_separated(path, split, (columns, None), options)
    }

    /// The same, with what stands between the labels of one column.
    pub fn open_separated(
        path: impl AsRef<Path>,
        split: Split,
        (columns, separator): (&[String], Option<&str>),
        options: DecodeOptions,
    ) -> Result<LabeledImages, DataError> {
        let path = path.as_ref();
        let rules = LabelRules { columns: columns.to_vec(), separator: separator.map(str::to_string) };
        let file = list_of(path, split).ok_or_else(|| {
            DataError::malformed(
                path,
                "it has no train.csv, .tsv, .json, .jsonl or .txt that lists images and their labels",
            )
        })?;
        let found = read(&file, &rules)?;
        LabeledImages::of_rows(&file, found, options)
    }

    /// Whether the file of a split lists labels: names, or two columns and more that are all 0 and 1.
    pub fn is_meant(path: &Path, split: Split) -> bool {
        let Some(file) = list_of(path, split) else { return false };
        let Ok(found) = read(&file, &LabelRules::default()) else { return false };
        let is_number = |label: &String| label.parse::<f64>().is_ok();
        match &found.columns {
            Some(columns) => columns.len() > 1,
            None => found.rows.iter().flat_map(|row| &row.labels).any(|label| !is_number(label)),
        }
    }

    fn of_rows(file: &Path, found: LabelRows, options: DecodeOptions) -> Result<LabeledImages, DataError> {
        let folder = file.parent().unwrap_or(Path::new("."));
        let LabelRows { rows, columns } = found;
        let has_columns = columns.is_some();
        let names = match names_beside(folder)? {
            Some(names) => names,
            None => columns.unwrap_or_else(|| {
                let all: BTreeSet<&String> = rows.iter().flat_map(|row| &row.labels).collect();
                all.into_iter().cloned().collect()
            }),
        };
        if names.is_empty() {
            return Err(DataError::malformed(file, "no image in it has a label"));
        }
        let numbers: HashMap<&str, u32> = names.iter().map(String::as_str).zip(0..).collect();
        if numbers.len() < names.len() {
            return Err(DataError::malformed(file, format!("a label occurs twice: {}", listed(&names))));
        }
        let place = |name: &str| {
            let beside = folder.join(name);
            let below = folder.join("images").join(name);
            if !beside.exists() && below.exists() { below } else { beside }
        };
        let mut samples: Vec<(PathBuf, Vec<u32>)> = Vec::new();
        let mut known: HashMap<PathBuf, usize> = HashMap::new();
        let mut dropped = Vec::new();
        for row in &rows {
            let mut drop_label = |reason: String| dropped.push(format!("{}:{}: {reason}", file.display(), row.line));
            let path = place(&row.path);
            let at = *known.entry(path.clone()).or_insert(samples.len());
            let is_new = at == samples.len();
            if !is_new && has_columns {
                drop_label(format!("{} is listed already", row.path));
                continue;
            }
            if is_new {
                samples.push((path, Vec::new()));
            }
            let labels = &mut samples[at].1;
            for name in &row.labels {
                match numbers.get(name.as_str()) {
                    None => drop_label(format!("{name:?} is not in {NAMES_FILE}")),
                    Some(label) if labels.contains(label) => drop_label(format!("{name:?} is there twice")),
                    Some(label) => labels.push(*label),
                }
            }
            labels.sort_unstable();
        }
        Ok(LabeledImages { samples, names, options, dropped })
    }
}

fn read(file: &Path, rules: &LabelRules) -> Result<LabelRows, DataError> {
    let text = std::fs::read_to_string(file).map_err(|error| DataError::io(file, error))?;
    parse(&text, &ending(file), rules).map_err(|problem| DataError::malformed(file, problem))
}

fn ending(file: &Path) -> String {
    file.extension().map(|ending| ending.to_string_lossy().to_lowercase()).unwrap_or_default()
}

/// The file that lists the images of a split; the only one where none has the name of a split.
fn list_of(path: &Path, split: Split) -> Option<PathBuf> {
    if path.is_file() {
        return ENDINGS.contains(&ending(path).as_str()).then(|| path.to_path_buf());
    }
    let files: Vec<PathBuf> = listing::entries(path).ok()?.into_iter().filter(|path| path.is_file()).collect();
    let stem = |file: &Path| file.file_stem().map(|stem| stem.to_string_lossy().to_lowercase()).unwrap_or_default();
    // Of one kind: beside a table, a text file is a note.
    ENDINGS.iter().find_map(|wanted| {
        let of_kind: Vec<&PathBuf> =
            files.iter().filter(|file| ending(file) == *wanted && !file.ends_with(NAMES_FILE)).collect();
        let named = |name: &&str| of_kind.iter().find(|file| stem(file) == *name).map(|file| file.to_path_buf());
        let only = || of_kind.first().filter(|_| of_kind.len() == 1).map(|file| file.to_path_buf());
        split.names().iter().find_map(named).or_else(only)
    })
}

/// The names in `classes.txt` beside a list, which fix the labels and their order.
fn names_beside(folder: &Path) -> Result<Option<Vec<String>>, DataError> {
    let path = folder.join(NAMES_FILE);
    if !path.is_file() {
        return Ok(None);
    }
    let names = listing::names_in(&path)?;
    Ok(Some(names))
}

impl Dataset for LabeledImages {
    fn len(&self) -> usize {
        self.samples.len()
    }

    fn get(&self, index: usize) -> Result<Sample, DataError> {
        let (path, found) = &self.samples[index];
        let mut labels = vec![false; self.names.len()];
        found.iter().for_each(|&label| labels[label as usize] = true);
        Ok(Sample { image: read_image(path, &self.options)?, target: Target::Labels(labels) })
    }

    fn classes_of(&self, index: usize) -> Result<Vec<u32>, DataError> {
        Ok(self.samples[index].1.clone())
    }

    fn class_names(&self) -> &[String] {
        &self.names
    }

    fn label_hash(&self, index: usize) -> Option<u64> {
        let mut hash = DefaultHasher::new();
        self.samples[index].1.hash(&mut hash);
        Some(hash.finish())
    }

    fn left_out(&self) -> Vec<String> {
        self.dropped.clone()
    }

    fn location(&self, index: usize) -> String {
        self.samples[index].0.display().to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        folder
    }

    fn open(folder: &tempfile::TempDir, split: Split) -> Result<LabeledImages, DataError> {
        LabeledImages::open_split(folder.path(), split, &[], DecodeOptions::default())
    }

    #[test]
    fn labels_have_the_numbers_of_their_names_whatever_lists_them() {
        let set =
            open(&folder(&[("train.csv", "image,labels\na.png,dog|cat\nb.png,\na.png,eel\n")]), Split::Train).unwrap();
        assert_eq!(set.class_names(), ["cat", "dog", "eel"]);
        assert_eq!((set.len(), set.classes_of(0).unwrap(), set.classes_of(1).unwrap()), (2, vec![0, 1, 2], vec![]));
        let set = open(&folder(&[("labels.csv", "image,dog,cat\na.png,1,0\n")]), Split::Val).unwrap();
        assert_eq!(
            (set.class_names().to_vec(), set.classes_of(0).unwrap()),
            (vec!["dog".into(), "cat".into()], vec![0])
        );
    }

    #[test]
    fn every_label_that_is_dropped_is_named_with_its_line() {
        let files = [
            ("classes.txt", "dog\ncat\n"),
            ("train.json", "{\"a.png\": [\"dog\", \"dgo\"], \"b.png\": [\"cat\", \"cat\"]}"),
        ];
        let set = open(&folder(&files), Split::Train).unwrap();
        let lines = set.left_out();
        assert_eq!(lines.len(), 2);
        assert!(lines[0].ends_with("train.json:1: \"dgo\" is not in classes.txt"), "{lines:?}");
        assert!(lines[1].ends_with("train.json:2: \"cat\" is there twice"), "{lines:?}");
        assert_eq!((set.classes_of(0).unwrap(), set.classes_of(1).unwrap()), (vec![0], vec![1]));
        let set = open(&folder(&[("train.csv", "image,dog,cat\na.png,1,0\na.png,0,1\n")]), Split::Train).unwrap();
        assert!(set.len() == 1 && set.left_out()[0].ends_with("train.csv:3: a.png is listed already"));
    }

    #[test]
    fn tables_of_numbers_and_lists_of_paths_are_no_labels() {
        let is_meant = |name: &str, text: &str| LabeledImages::is_meant(folder(&[(name, text)]).path(), Split::Train);
        assert!(is_meant("train.csv", "image,labels\na.png,cat\n") && is_meant("train.csv", "image,a,b\na.png,1,0\n"));
        assert!(!is_meant("train.csv", "image,age\na.png,1\n") && !is_meant("train.csv", "image,a,b\na.png,1.5,0\n"));
        assert!(!is_meant("train.txt", "a.png\nb.png\n") && !is_meant("classes.txt", "a cat\n"));
    }
}
