//! Changing event files without touching what is kept.
//!
//! A record of which everything is kept is copied byte by byte, whatever it holds. Where values are left out or renamed,
//! the other bytes of the record stay what they were, unknown fields included.

use crate::message::{Field, event_field, fields, value_field};
use crate::wire::{Content, Fields, Slice, Span};
use crate::{EventsError, RawRecords, framed};
use std::fmt;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

/// What becomes of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Edit {
    /// It stays.
    Keep,
    /// It is left out.
    Drop,
    /// It stays under another tag.
    Rename(String),
}

/// What becomes of records and values.
pub trait Editor {
    /// Whether the version record at the beginning of a file stays.
    fn version(&mut self) -> bool;
    /// Whether a record without values stays, such as a graph.
    fn record(&mut self, step: i64) -> bool;
    /// What becomes of a value.
    fn value(&mut self, step: i64, tag: &str) -> Edit;
}

/// How much was kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Edited {
    /// Records that were copied as they are.
    pub copied: u64,
    /// Records of which some values were left out or renamed.
    pub changed: u64,
    /// Records that were left out.
    pub dropped: u64,
    /// Damaged records, which cannot be copied.
    pub damaged: u64,
}

impl fmt::Display for Edited {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{} records kept as they are", self.copied)?;
        let others = [(self.changed, "changed"), (self.dropped, "left out"), (self.damaged, "damaged")];
        others.iter().filter(|(count, _)| *count > 0).try_for_each(|(count, what)| write!(f, ", {count} {what}"))
    }
}

/// Copies the records of event files, one file after the other, into a new file. The new file appears whole or not at
/// all; a file that exists is never touched.
pub fn edit_files(sources: &[&Path], target: &Path, editor: &mut dyn Editor) -> Result<Edited, EventsError> {
    create_whole(target, |out| {
        let mut edited = Edited::default();
        for source in sources {
            edit_file(source, out, editor, &mut edited)?;
        }
        Ok(edited)
    })
}

/// Writes a new file that appears whole or not at all.
pub fn create_whole<T>(
    target: &Path,
    write: impl FnOnce(&mut dyn Write) -> Result<T, EventsError>,
) -> Result<T, EventsError> {
    let failed = EventsError::write(target);
    if let Some(folder) = target.parent() {
        std::fs::create_dir_all(folder).map_err(&failed)?;
    }
    if target.symlink_metadata().is_ok() {
        return Err(failed(std::io::Error::new(std::io::ErrorKind::AlreadyExists, "it exists; choose a new name")));
    }
    let mut name = target.file_name().unwrap_or_default().to_os_string();
    name.push(format!(".{}.tmp", std::process::id()));
    let temporary = target.with_file_name(name);
    let result = (|| {
        let mut out = BufWriter::with_capacity(1 << 20, File::create_new(&temporary).map_err(&failed)?);
        let result = write(&mut out)?;
        let file = out.into_inner().map_err(|error| failed(error.into_error()))?;
        file.sync_all().map_err(&failed)?;
        // A link fails where a rename would replace what appeared in between.
        match std::fs::hard_link(&temporary, target) {
            Ok(()) => std::fs::remove_file(&temporary).map_err(&failed)?,
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => return Err(failed(error)),
            Err(_) => std::fs::rename(&temporary, target).map_err(&failed)?,
        }
        Ok(result)
    })();
    if result.is_err() {
        let _ = std::fs::remove_file(&temporary);
    }
    result
}

fn edit_file(
    source: &Path,
    out: &mut dyn Write,
    editor: &mut dyn Editor,
    edited: &mut Edited,
) -> Result<(), EventsError> {
    let mut records = RawRecords::open(source)?;
    while let Some(record) = records.read()? {
        let Ok(record) = record else {
            edited.damaged += 1;
            continue;
        };
        let (count, bytes) = match edit_record(record.content(), editor) {
            Changed::Same => (&mut edited.copied, record.framed().to_vec()),
            Changed::Bytes(bytes) => (&mut edited.changed, framed(&bytes)),
            Changed::Gone => (&mut edited.dropped, Vec::new()),
        };
        *count += 1;
        out.write_all(&bytes).map_err(EventsError::write(source))?;
    }
    Ok(())
}

#[derive(Debug, PartialEq)]
enum Changed {
    Same,
    Bytes(Vec<u8>),
    Gone,
}

/// What becomes of one event. One that cannot be understood stays.
fn edit_record(event: &[u8], editor: &mut dyn Editor) -> Changed {
    let (mut step, mut has_summary, mut is_version) = (0, false, false);
    for field in fields(event) {
        match field {
            Some((event_field::STEP, Field::Varint(value))) => step = value as i64,
            Some((event_field::FILE_VERSION, Field::Bytes(_))) => is_version = true,
            Some((event_field::SUMMARY, Field::Bytes(_))) => has_summary = true,
            Some(_) => {}
            None => return Changed::Same,
        }
    }
    if is_version || !has_summary {
        let stays = if is_version { editor.version() } else { editor.record(step) };
        return if stays { Changed::Same } else { Changed::Gone };
    }
    let mut left = 0;
    let changed = replace(event, event_field::SUMMARY, &mut |summary| {
        replace(summary, event_field::SUMMARY_VALUE, &mut |value| {
            let edit = edit_value(value, step, editor);
            left += usize::from(edit != Changed::Gone);
            edit
        })
    });
    if left == 0 { Changed::Gone } else { changed }
}

fn edit_value(value: &[u8], step: i64, editor: &mut dyn Editor) -> Changed {
    let tag = fields(value).find_map(|field| match field {
        Some((value_field::TAG, Field::Bytes(tag))) => Some(String::from_utf8_lossy(tag).into_owned()),
        _ => None,
    });
    match editor.value(step, &tag.unwrap_or_default()) {
        Edit::Keep => Changed::Same,
        Edit::Drop => Changed::Gone,
        Edit::Rename(tag) => replace(value, value_field::TAG, &mut |_| Changed::Bytes(tag.clone().into_bytes())),
    }
}

/// Changes the fields of that number; all other bytes stay.
fn replace(message: &[u8], number: u32, change: &mut dyn FnMut(&[u8]) -> Changed) -> Changed {
    let mut source = Slice { base: 0, bytes: message };
    let mut walk = Fields::of(Span { start: 0, end: message.len() as u64 });
    let (mut result, mut is_same, mut before) = (Vec::new(), true, 0);
    while let Some(Some((found, content))) = walk.next(&mut source) {
        let after = walk.offset() as usize;
        let whole = &message[before..after];
        before = after;
        let Content::Bytes(span) = content else {
            result.extend(whole);
            continue;
        };
        let inner = &message[span.start as usize..span.end as usize];
        match if found == number { change(inner) } else { Changed::Same } {
            Changed::Same => result.extend(whole),
            Changed::Gone => is_same = false,
            Changed::Bytes(bytes) => {
                is_same = false;
                result.extend(crate::message::Message::default().bytes(number, &bytes).0);
            }
        }
    }
    if is_same { Changed::Same } else { Changed::Bytes(result) }
}
