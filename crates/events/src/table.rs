//! Tables of numbers as CSV, one row per epoch.

use crate::EventsError;
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

    /// Goes on with a table, cut back to `length` bytes.
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

    /// Adds a row. Columns that it lacks stay empty, so an epoch without validation needs no other table; columns that
    /// the first row did not have are an error of the caller and are left out.
    pub fn row(&mut self, row: &[(String, f64)]) -> Result<(), EventsError> {
        let mut text = String::new();
        if self.columns.is_empty() {
            self.columns = row.iter().map(|(name, _)| name.clone()).collect();
            text += &format!("{}\n", self.columns.join(","));
        }
        let cell = |column: &String| match row.iter().find(|(name, _)| name == column) {
            Some((_, value)) if value.is_nan() => String::new(),
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

/// The columns and rows of a table; empty cells are NaN.
pub fn read_table(path: &Path) -> Result<(Vec<String>, Vec<Vec<f64>>), EventsError> {
    let text = std::fs::read_to_string(path).map_err(EventsError::read(path))?;
    let mut lines = text.lines();
    let columns: Vec<String> = lines.next().unwrap_or_default().split(',').map(str::to_string).collect();
    let number = |cell: &str| cell.parse().unwrap_or(f64::NAN);
    Ok((columns, lines.map(|line| line.split(',').map(number).collect()).collect()))
}
