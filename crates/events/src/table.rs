//! Tables of numbers as CSV, one row per epoch.

use crate::EventsError;
use serde_json::Map;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

/// A CSV file that grows by rows. Its columns are those of the first row.
pub struct Table {
    path: PathBuf,
    file: File,
    columns: Vec<String>,
    length: u64,
}

impl Table {
    /// Begins an empty table.
    pub fn create(path: &Path) -> Result<Table, EventsError> {
        let file = File::create(path).map_err(EventsError::write(path))?;
        Ok(Table { path: path.to_path_buf(), file, columns: Vec::new(), length: 0 })
    }

    /// A table whose rows nobody reads.
    pub(crate) fn discarded(file: File) -> Table {
        Table { path: PathBuf::new(), file, columns: Vec::new(), length: 0 }
    }

    /// Continues a table, cut back to `length` bytes.
    pub fn resume(path: &Path, length: u64) -> Result<Table, EventsError> {
        let found = std::fs::metadata(path).map_or(0, |metadata| metadata.len());
        if length == 0 || found < length {
            return Table::create(path);
        }
        let file = OpenOptions::new().append(true).open(path).map_err(EventsError::write(path))?;
        file.set_len(length).map_err(EventsError::write(path))?;
        let columns = read_table(path)?.0;
        Ok(Table { path: path.to_path_buf(), file, columns, length })
    }

    /// Adds a row. The columns of the table are those of its first row and those that are `also` named there; a row that
    /// lacks some leaves them empty, and what the first row did not name is left out.
    pub fn row(&mut self, row: &[(String, f64)], also: &[String]) -> Result<(), EventsError> {
        let mut text = String::new();
        if self.columns.is_empty() {
            let own = row.iter().map(|(name, _)| name);
            self.columns =
                own.clone().chain(also.iter().filter(|name| !own.clone().any(|own| own == *name))).cloned().collect();
            let quoted: Vec<String> = self.columns.iter().map(|name| quoted(name)).collect();
            text += &format!("{}\n", quoted.join(","));
        }
        let cell = |column: &String| match row.iter().find(|(name, _)| name == column) {
            Some((_, value)) => value.to_string(),
            None => String::new(),
        };
        text += &format!("{}\n", self.columns.iter().map(cell).collect::<Vec<_>>().join(","));
        self.file.write_all(text.as_bytes()).map_err(EventsError::write(&self.path))?;
        self.length += text.len() as u64;
        Ok(())
    }

    /// How long the file is.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Another handle to the file, for a thread that syncs it.
    pub fn handle(&self) -> Result<File, EventsError> {
        self.file.try_clone().map_err(EventsError::write(&self.path))
    }
}

/// A cell as CSV has it: in quotes where it would not be one cell otherwise.
pub fn quoted(cell: &str) -> String {
    match cell.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", cell.replace('"', "\"\"")),
        false => cell.to_string(),
    }
}

/// Metrics as an object; what is not a number is null.
pub fn metrics_json(metrics: &[(String, f64)]) -> Map<String, serde_json::Value> {
    metrics.iter().map(|(name, value)| (name.clone(), (*value).into())).collect()
}

/// JSON of a number; one that is not finite is a word, as in every table: `null` would hide which it was.
pub fn number_json(value: f64) -> serde_json::Value {
    non_finite(value).map_or_else(|| value.into(), Into::into)
}

/// How numbers that are not finite are written in every table and every JSON line; the same words are read back. JSON itself
/// has none, and `null` would hide which it was. `None` for finite numbers.
pub fn non_finite(number: f64) -> Option<&'static str> {
    match number {
        number if number.is_finite() => None,
        number if number.is_nan() => Some("NaN"),
        number if number > 0.0 => Some("inf"),
        _ => Some("-inf"),
    }
}

/// The cells of a line of a CSV file, without their quotes.
pub fn cells(line: &str) -> Vec<String> {
    let mut cells = vec![String::new()];
    let mut is_quoted = false;
    let mut letters = line.chars().peekable();
    while let Some(letter) = letters.next() {
        let cell = cells.last_mut().expect("there is always one");
        match letter {
            // Two quotes inside of a quoted cell stand for one.
            '"' if is_quoted && letters.peek() == Some(&'"') => cell.extend(letters.next()),
            '"' => is_quoted = !is_quoted,
            ',' if !is_quoted => cells.push(String::new()),
            other => cell.push(other),
        }
    }
    cells
}

/// The columns and rows of a table; empty cells are NaN.
pub fn read_table(path: &Path) -> Result<(Vec<String>, Vec<Vec<f64>>), EventsError> {
    let text = std::fs::read_to_string(path).map_err(EventsError::read(path))?;
    let mut lines = text.lines();
    let columns = cells(lines.next().unwrap_or_default());
    let number = |cell: &str| cell.parse().unwrap_or(f64::NAN);
    Ok((columns, lines.map(|line| line.split(',').map(number).collect()).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_commas_and_quotes_stay_one_column() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("table.csv");
        let mut table = Table::create(&path).expect("a table");
        let row = [("iou, mean".to_string(), 0.5), ("the \"best\"".to_string(), f64::NAN)];
        table.row(&row, &["val_loss".into()]).expect("a row");
        let text = std::fs::read_to_string(&path).expect("text");
        assert_eq!(text, "\"iou, mean\",\"the \"\"best\"\"\",val_loss\n0.5,NaN,\n");
        let (columns, rows) = read_table(&path).expect("columns");
        assert_eq!(columns, ["iou, mean", "the \"best\"", "val_loss"]);
        assert!(rows[0][0] == 0.5 && rows[0][1].is_nan() && rows[0][2].is_nan());
    }
}
