//! Reading event files record by record, ours and others'.

use crate::record::{Damage, FOOTER, HEADER, Next, Scanner, masked};
use crate::window::Window;
use crate::wire::Span;
use crate::writer::event_files;
use crate::{Event, EventsError};
use std::fs::File;
use std::path::{Path, PathBuf};

/// The records of a file, verified, as they stand in it.
pub struct RawRecords {
    path: PathBuf,
    scanner: Scanner,
}

/// A record with its length and its checksums, as it stands in its file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RawRecord(Vec<u8>);

impl RawRecord {
    /// The record, an encoded event.
    pub fn content(&self) -> &[u8] {
        &self.0[HEADER as usize..self.0.len() - FOOTER as usize]
    }

    /// All bytes of the record.
    pub fn framed(&self) -> &[u8] {
        &self.0
    }
}

impl RawRecords {
    /// Begins with the first record.
    pub fn open(path: &Path) -> Result<RawRecords, EventsError> {
        let (file, length) = open(path)?;
        Ok(RawRecords { path: path.to_path_buf(), scanner: Scanner::new(Window::new(file, length), 0, false) })
    }

    /// The next record, or what was skipped; `None` at the end of the file or before a record that is cut short.
    pub fn read(&mut self) -> Result<Option<Result<RawRecord, Damage>>, EventsError> {
        let failed = EventsError::read(&self.path);
        match self.scanner.next(u64::MAX).map_err(&failed)? {
            Next::End => Ok(None),
            Next::Damaged(damage) => Ok(Some(Err(damage))),
            Next::Record { content, length, .. } => {
                let size = (HEADER + length + FOOTER) as usize;
                let bytes = self.scanner.window.at(content - HEADER, size).map_err(&failed)?;
                Ok(bytes.map(|bytes| Ok(RawRecord(bytes.to_vec()))))
            }
        }
    }

    /// The content of the record that lies there, verified.
    pub(crate) fn one(path: &Path, record: Span) -> Result<Vec<u8>, EventsError> {
        const LONGEST: u64 = 1 << 30;
        let malformed = |problem: &str| EventsError::Malformed { path: path.to_path_buf(), problem: problem.into() };
        let (file, length) = open(path)?;
        if record.end.checked_add(FOOTER).is_none_or(|end| end > length) {
            return Err(malformed("it was cut back while it was read"));
        }
        if record.len() > LONGEST {
            return Err(malformed("a record is longer than 1 GiB"));
        }
        let mut window = Window::new(file, length);
        let bytes = window.at(record.start, (record.len() + FOOTER) as usize).map_err(EventsError::read(path))?;
        let bytes = bytes.ok_or_else(|| malformed("it was cut back while it was read"))?;
        let (content, footer) = bytes.split_at(record.len() as usize);
        if footer != masked(content).to_le_bytes() {
            return Err(malformed("the checksum of a record is wrong"));
        }
        Ok(content.to_vec())
    }
}

fn open(path: &Path) -> Result<(File, u64), EventsError> {
    let file = File::open(path).map_err(EventsError::read(path))?;
    let length = file.metadata().map_err(EventsError::read(path))?.len();
    Ok((file, length))
}

/// All events of a file. A last record that is cut short is left out; a damaged one is an error.
pub fn read_events(path: &Path) -> Result<Vec<Event>, EventsError> {
    let malformed = |problem: String| EventsError::Malformed { path: path.to_path_buf(), problem };
    let mut records = RawRecords::open(path)?;
    let mut events = Vec::new();
    while let Some(record) = records.read()? {
        let record = record.map_err(|damage| malformed(format!("{}; the file is damaged", damage.problem)))?;
        let event = Event::decode(record.content());
        events.push(event.ok_or_else(|| malformed(format!("record {} is not an event", events.len())))?);
    }
    Ok(events)
}

/// All events of a run directory's event files, oldest file first, or of the one file that `path` is.
pub fn read_run(path: &Path) -> Result<Vec<Event>, EventsError> {
    let mut events = Vec::new();
    for file in files_of(path)? {
        events.extend(read_events(&file)?);
    }
    Ok(events)
}

/// The event files of a run directory, oldest first, or the one file that `path` is.
pub fn files_of(path: &Path) -> Result<Vec<PathBuf>, EventsError> {
    if path.is_file() {
        return Ok(vec![path.to_path_buf()]);
    }
    let files = event_files(path);
    if files.is_empty() {
        let problem = "there are no event files (events.out.tfevents.*) in it".to_string();
        return Err(EventsError::Malformed { path: path.to_path_buf(), problem });
    }
    Ok(files)
}
