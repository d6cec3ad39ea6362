//! W&B's offline files, which `wandb sync` uploads: a log of protobuf records in LevelDB's framing.
//!
//! The file begins with `:W&B`, a magic number and a version. Records follow in blocks of 32 KiB: a record that does not fit
//! into the rest of its block is split into a first, some middle and a last fragment; every fragment has a CRC-32 over its
//! kind and content, its length and its kind.

use crate::EventsError;
use crate::message::Message;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

const HEADER: [u8; 7] = [b':', b'W', b'&', b'B', 0xe1, 0xbe, 0];
const BLOCK: usize = 32 << 10;
const FRAGMENT_HEADER: usize = 7;

/// Which part of its record a fragment is, as LevelDB numbers them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fragment {
    Full = 1,
    First = 2,
    Middle = 3,
    Last = 4,
}

/// The kinds of records: field numbers of W&B's `Record`.
mod record {
    pub const HISTORY: u32 = 2;
    pub const SUMMARY: u32 = 3;
    pub const METRIC: u32 = 12;
    pub const RUN: u32 = 17;
    pub const EXIT: u32 = 18;
    pub const HEADER: u32 = 21;
    pub const FOOTER: u32 = 22;
}

/// What a run is called in W&B.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WandbRun {
    /// Letters and digits; runs with the same one are the same run.
    pub id: String,
    /// The project that it belongs to.
    pub project: String,
    /// Its name for people.
    pub name: String,
    /// Seconds since 1970 when it began.
    pub began: u64,
}

/// An offline file that grows.
pub struct WandbWriter {
    file: File,
    path: PathBuf,
    position: usize,
    number: i64,
}

impl WandbWriter {
    /// Begins a file: the run with its settings, as names with values in JSON; `step_metrics` are patterns of metrics with
    /// the metric that they are drawn over.
    pub fn create(
        path: &Path,
        run: &WandbRun,
        settings: &[(String, String)],
        step_metrics: &[(&str, &str)],
    ) -> Result<WandbWriter, EventsError> {
        let failed = EventsError::write(path);
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(&failed)?;
        }
        let mut file = File::create_new(path).map_err(&failed)?;
        file.write_all(&HEADER).map_err(&failed)?;
        let mut writer = WandbWriter { file, path: path.into(), position: HEADER.len(), number: 0 };
        let version = Message::default().text(1, "0.16.6").text(2, "0.13.0");
        writer.record(record::HEADER, Message::default().message(1, version))?;
        let config = in_items(settings.iter());
        let began = Message::default().int(1, run.began as i64);
        let described = Message::default().text(1, &run.id).text(3, &run.project).message(4, config);
        writer.record(record::RUN, described.text(8, &run.name).message(17, began))?;
        for (pattern, over) in step_metrics {
            let kind = if pattern.contains('*') { 2 } else { 1 };
            let defined = Message::default().int(3, 1);
            writer.record(record::METRIC, Message::default().text(kind, pattern).text(4, over).message(6, defined))?;
        }
        Ok(writer)
    }

    /// A row of the history: names with values in JSON, under a number that grows from row to row.
    pub fn row(&mut self, step: u64, items: &[(String, String)]) -> Result<(), EventsError> {
        let step_item = [("_step".to_string(), step.to_string())];
        let row = in_items(items.iter().chain(&step_item));
        self.record(record::HISTORY, row.message(2, Message::default().int(1, step as i64)))
    }

    /// What the run came to, how it ended, and after how many seconds.
    pub fn finish(&mut self, summary: &[(String, String)], is_good: bool, seconds: u64) -> Result<(), EventsError> {
        self.record(record::SUMMARY, in_items(summary.iter()))?;
        self.record(record::EXIT, Message::default().int(1, i64::from(!is_good)).int(2, seconds as i64))?;
        self.record(record::FOOTER, Message::default())?;
        self.file.sync_all().map_err(EventsError::write(&self.path))
    }

    fn record(&mut self, kind: u32, content: Message) -> Result<(), EventsError> {
        self.number += 1;
        let bytes = Message::default().int(1, self.number).message(kind, content).0;
        let framed = framed(&bytes, self.position);
        self.position += framed.len();
        // One write per record: what a reader finds is whole but for the last one.
        self.file.write_all(&framed).map_err(EventsError::write(&self.path))
    }
}

/// A message of names with values in JSON: settings, a row of the history, or a summary.
fn in_items<'a>(items: impl Iterator<Item = &'a (String, String)>) -> Message {
    items.fold(Message::default(), |all, (name, json)| all.message(1, Message::default().text(1, name).text(16, json)))
}

/// A record as it stands in a file from that position on.
fn framed(mut rest: &[u8], position: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut is_first = true;
    loop {
        let left = BLOCK - (position + bytes.len()) % BLOCK;
        if left < FRAGMENT_HEADER {
            bytes.resize(bytes.len() + left, 0);
            continue;
        }
        let (fragment, after) = rest.split_at(rest.len().min(left - FRAGMENT_HEADER));
        let kind = match (is_first, after.is_empty()) {
            (true, true) => Fragment::Full,
            (true, false) => Fragment::First,
            (false, false) => Fragment::Middle,
            (false, true) => Fragment::Last,
        };
        let mut checksum = flate2::Crc::new();
        checksum.update(&[kind as u8]);
        checksum.update(fragment);
        bytes.extend(checksum.sum().to_le_bytes());
        bytes.extend((fragment.len() as u16).to_le_bytes());
        bytes.push(kind as u8);
        bytes.extend(fragment);
        (rest, is_first) = (after, false);
        if rest.is_empty() {
            return bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_split_at_blocks_and_never_leave_a_header_across_two() {
        let content: Vec<u8> = (0..100_000u32).map(|index| index as u8).collect();
        for position in [7, BLOCK - 6, BLOCK - 7, BLOCK - 8, BLOCK] {
            let bytes = framed(&content, position);
            let (mut at, mut found, mut kinds) = (0, Vec::<u8>::new(), Vec::new());
            while at < bytes.len() {
                let left = BLOCK - (position + at) % BLOCK;
                if left < FRAGMENT_HEADER {
                    at += left;
                    continue;
                }
                let length = usize::from(u16::from_le_bytes([bytes[at + 4], bytes[at + 5]]));
                assert!(length + FRAGMENT_HEADER <= left);
                kinds.push(bytes[at + 6]);
                found.extend(&bytes[at + 7..at + 7 + length]);
                at += FRAGMENT_HEADER + length;
            }
            assert_eq!(found, content);
            assert_eq!((kinds[0], kinds.last()), (Fragment::First as u8, Some(&(Fragment::Last as u8))));
        }
        assert_eq!(framed(b"", 7).len(), FRAGMENT_HEADER);
    }
}
