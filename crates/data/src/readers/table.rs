//! A table of image paths and numbers: CSV or TSV with a header line, for regression.

use super::{Split, listing};
use crate::decode::{ChooseWindow, DecodeOptions, read_image, read_window};
use crate::{DataError, Dataset, Sample, Target};
use std::path::{Path, PathBuf};

pub(super) const PATH_NAMES: [&str; 7] = ["path", "image", "file", "filename", "file_name", "image_path", "picture"];

/// Images with one or more numbers each.
pub struct TableDataset {
    samples: Vec<(PathBuf, Vec<f32>)>,
    columns: Vec<String>,
    options: DecodeOptions,
}

impl TableDataset {
    /// Reads the table. Paths are relative to it; the path column is named `path`, `image` or `file`, or is the first.
    /// `targets` names the columns to predict; when empty, all other columns are.
    pub fn open(path: impl AsRef<Path>, targets: &[String], options: DecodeOptions) -> Result<TableDataset, DataError> {
        let path = path.as_ref();
        let text = std::fs::read_to_string(path).map_err(|error| DataError::io(path, error))?;
        let problem = |problem: String| DataError::malformed(path, problem);
        let folder = path.parent().unwrap_or(Path::new("."));
        let (samples, columns) = parse(&text, targets).map_err(problem)?;
        let samples = samples.into_iter().map(|(name, values)| (folder.join(name), values)).collect();
        Ok(TableDataset { samples, columns, options })
    }

    /// The table of a split in a folder, or the only table there is.
    pub fn open_split(
        folder: impl AsRef<Path>,
        split: Split,
        targets: &[String],
        options: DecodeOptions,
    ) -> Result<TableDataset, DataError> {
        let folder = folder.as_ref();
        let table = table_of(folder, split).unwrap_or_else(|| folder.join("train.csv"));
        TableDataset::open(table, targets, options)
    }

    /// Whether all numbers are 0 or 1.
    pub fn is_all_flags(&self) -> bool {
        self.samples.iter().flat_map(|(_, values)| values).all(|&value| value == 0.0 || value == 1.0)
    }

    /// The images in a folder and below it, with nothing to predict about them.
    pub fn unlabeled(root: &Path, options: DecodeOptions) -> Result<TableDataset, DataError> {
        let images = super::images_below(root)?;
        if images.is_empty() {
            return Err(DataError::malformed(root, "there are no images in it"));
        }
        let samples = images.into_iter().map(|path| (path, Vec::new())).collect();
        Ok(TableDataset { samples, columns: Vec::new(), options })
    }
}

/// True for files that are read as tables.
pub(super) fn is_table(path: &Path) -> bool {
    path.is_file() && path.extension().is_some_and(|ending| ending == "csv" || ending == "tsv")
}

/// The table of a split, such as `train.csv`; the only table where none has the name of a split.
pub(super) fn table_of(folder: &Path, split: Split) -> Option<PathBuf> {
    let tables: Vec<PathBuf> = listing::entries(folder).ok()?.into_iter().filter(|path| is_table(path)).collect();
    let of_name = |name: &&str| {
        tables.iter().find(|path| path.file_stem().is_some_and(|stem| stem.eq_ignore_ascii_case(name))).cloned()
    };
    let only = || tables.first().filter(|_| tables.len() == 1).cloned();
    split.names().iter().find_map(of_name).or_else(only)
}

/// Rows as (path, numbers).
type Rows = Vec<(String, Vec<f32>)>;

fn parse(text: &str, targets: &[String]) -> Result<(Rows, Vec<String>), String> {
    let mut lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let header = lines.next().map(|(_, line)| line).ok_or("the table is empty")?;
    let separator = if header.contains('\t') { '\t' } else { ',' };
    let header = fields(header.trim_start_matches('\u{feff}'), separator)?;
    let path_column = header.iter().position(|name| PATH_NAMES.contains(&name.to_lowercase().as_str())).unwrap_or(0);
    let wanted: Vec<usize> = match targets {
        [] => (0..header.len()).filter(|&column| column != path_column).collect(),
        names => names.iter().map(|name| column(&header, name)).collect::<Result<_, _>>()?,
    };
    if wanted.is_empty() {
        return Err("it has no column of numbers besides the paths".to_string());
    }
    let mut rows = Vec::new();
    for (number, line) in lines {
        let row = fields(line, separator).map_err(|problem| format!("line {}: {problem}", number + 1))?;
        if row.len() != header.len() {
            return Err(format!("line {} has {} fields, the header {}", number + 1, row.len(), header.len()));
        }
        let values = wanted.iter().map(|&column| {
            let value: Option<f32> = row[column].trim().parse().ok().filter(|value: &f32| value.is_finite());
            let hint = "; names of labels are learned by `octant train multilabel`";
            let line = number + 1;
            value.ok_or_else(|| format!("line {line}: {:?} is not a number ({}){hint}", row[column], header[column]))
        });
        rows.push((row[path_column].clone(), values.collect::<Result<_, _>>()?));
    }
    if rows.is_empty() {
        return Err("it has a header but no rows".to_string());
    }
    Ok((rows, wanted.iter().map(|&column| header[column].clone()).collect()))
}

fn column(header: &[String], name: &str) -> Result<usize, String> {
    let found = header.iter().position(|column| column == name);
    found.ok_or_else(|| format!("it has no column {name:?}; there are {}", header.join(", ")))
}

/// Splits a line. Fields may be quoted; a doubled quote inside quotes is a quote.
pub(super) fn fields(line: &str, separator: char) -> Result<Vec<String>, String> {
    let mut fields = vec![String::new()];
    let mut quoted = false;
    let mut characters = line.trim_end_matches('\r').chars().peekable();
    while let Some(character) = characters.next() {
        let field = fields.last_mut().expect("there is always one field");
        match character {
            '"' if quoted && characters.peek() == Some(&'"') => {
                characters.next();
                field.push('"');
            }
            '"' => quoted = !quoted,
            other if other == separator && !quoted => fields.push(String::new()),
            other => field.push(other),
        }
    }
    if quoted {
        return Err("a quote is not closed".to_string());
    }
    Ok(fields.into_iter().map(|field| field.trim().to_string()).collect())
}

impl Dataset for TableDataset {
    fn len(&self) -> usize {
        self.samples.len()
    }

    fn get(&self, index: usize) -> Result<Sample, DataError> {
        let (path, values) = &self.samples[index];
        Ok(Sample { image: read_image(path, &self.options)?, target: Target::Values(values.clone()) })
    }

    fn window(&self, index: usize, choose: &mut ChooseWindow) -> Option<Result<Sample, DataError>> {
        let (path, values) = &self.samples[index];
        let image = read_window(path, &self.options, choose);
        Some(image.map(|image| Sample { image, target: Target::Values(values.clone()) }))
    }

    fn class_names(&self) -> &[String] {
        &self.columns
    }

    fn location(&self, index: usize) -> String {
        self.samples[index].0.display().to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_read_and_mistakes_are_located() {
        let (rows, columns) = parse("image,age,\"size, cm\"\n\"a,b.png\",3,4.5\r\nc.png,1e2,-1\n", &[]).unwrap();
        assert_eq!(columns, ["age", "size, cm"]);
        assert_eq!(rows, [("a,b.png".to_string(), vec![3.0, 4.5]), ("c.png".to_string(), vec![100.0, -1.0])]);
        let (rows, _) = parse("x\tpath\ty\n1\ta\t2\n", &["y".to_string()]).unwrap();
        assert_eq!(rows, [("a".to_string(), vec![2.0])]);
        assert!(parse("path,x\na,1\nb,one\n", &[]).unwrap_err().starts_with("line 3: \"one\" is not a number"));
        assert!(parse("path,x\na,1,2\n", &[]).unwrap_err().contains("line 2 has 3 fields"));
        assert!(parse("path,x\n\"a,1\n", &[]).unwrap_err().contains("not closed"));
        assert!(parse("path,x\na,1\n", &["z".to_string()]).unwrap_err().contains("there are path, x"));
        assert!(parse("", &[]).unwrap_err().contains("empty"));
    }
}
