//! Reading event files, ours and others'.

use crate::EventsError;
use crate::message::Event;
use crate::record::read_record;
use crate::writer::event_files;
use std::path::Path;

/// All events of a file. A last record that is cut short is left out; a damaged one is an error.
pub fn read_events(path: &Path) -> Result<Vec<Event>, EventsError> {
    let bytes = std::fs::read(path).map_err(EventsError::read(path))?;
    let malformed = |problem: String| EventsError::Malformed { path: path.to_path_buf(), problem };
    let mut rest = &bytes[..];
    let mut events = Vec::new();
    while let Some((record, after)) = read_record(rest).map_err(malformed)? {
        let event = Event::decode(record);
        events.push(event.ok_or_else(|| malformed(format!("record {} is not an event", events.len())))?);
        rest = after;
    }
    Ok(events)
}

/// All events of a run directory's event files, oldest file first, or of the one file that `path` is.
pub fn read_run(path: &Path) -> Result<Vec<Event>, EventsError> {
    if path.is_file() {
        return read_events(path);
    }
    let files = event_files(path);
    if files.is_empty() {
        let problem = "there are no event files (events.out.tfevents.*) in it".to_string();
        return Err(EventsError::Malformed { path: path.to_path_buf(), problem });
    }
    let mut events = Vec::new();
    for file in files {
        events.extend(read_events(&file)?);
    }
    Ok(events)
}
