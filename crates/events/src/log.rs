//! One event file that may still grow: read as far as it goes, then from there.

use crate::record::{Damage, Next, Scanner};
use crate::series::{Location, NOT_AN_EVENT, Series, SeriesTable};
use crate::window::Window;
use crate::wire::{Slice, Span};
use crate::{EventsError, RawRecords};
use std::fs::{File, Metadata};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Records up to this size are read and verified at once. Longer ones (images) are found by their headers; their
/// contents are read, and verified, when somebody wants to see them.
const EAGER: u64 = 1 << 16;
/// Damage is counted without limit, and described as far as this.
const DESCRIBED: usize = 100;
/// The end of what was read is remembered to notice that the file became another one.
const SEAM: usize = 16;

/// One event file, as far as it was read.
///
/// Reading again continues where the last one ended. A last record that is cut short waits for its writer. Damaged
/// records are reported and skipped. A file that was cut back, or replaced, is read anew.
#[derive(Debug)]
pub struct EventLog {
    path: PathBuf,
    table: SeriesTable,
    read_to: u64,
    is_lost: bool,
    seam: Vec<u8>,
    seen: Option<Seen>,
    damage: Vec<Damage>,
    damaged: u64,
    restarts: u64,
}

/// The file system's error when the file was last read to its end.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Seen {
    length: u64,
    modified: Option<SystemTime>,
    identity: u64,
}

impl Seen {
    fn of(metadata: &Metadata) -> Seen {
        #[cfg(unix)]
        let identity = std::os::unix::fs::MetadataExt::ino(metadata);
        #[cfg(not(unix))]
        let identity = 0;
        Seen { length: metadata.len(), modified: metadata.modified().ok(), identity }
    }
}

/// What reading again brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// Nothing new.
    Same,
    /// Something new, up to the end of the file.
    Grown,
    /// Something new; the limit was reached before the end of the file.
    More,
}

impl EventLog {
    /// A file of which nothing was read yet.
    pub fn new(path: &Path) -> EventLog {
        EventLog {
            path: path.to_path_buf(),
            table: SeriesTable::default(),
            read_to: 0,
            is_lost: false,
            seam: Vec::new(),
            seen: None,
            damage: Vec::new(),
            damaged: 0,
            restarts: 0,
        }
    }

    /// Reads on, at most about `limit` bytes.
    pub fn read(&mut self, limit: u64) -> Result<Progress, EventsError> {
        let path = self.path.clone();
        let failed = EventsError::read(&path);
        let now = Seen::of(&std::fs::metadata(&self.path).map_err(&failed)?);
        if self.seen == Some(now) {
            return Ok(Progress::Same);
        }
        let file = File::open(&self.path).map_err(&failed)?;
        let now = Seen::of(&file.metadata().map_err(&failed)?);
        let mut window = Window::new(file, now.length);
        if self.is_another(now, &mut window).map_err(&failed)? {
            *self = EventLog { restarts: self.restarts + 1, ..EventLog::new(&path) };
        }
        let mut scanner = Scanner::new(window, self.read_to, self.is_lost);
        let progress = self.scan(&mut scanner, limit);
        (self.read_to, self.is_lost) = (scanner.offset, scanner.is_lost());
        let start = self.read_to.saturating_sub(SEAM as u64);
        let seam = scanner.window.at(start, (self.read_to - start) as usize);
        self.seam = seam.ok().flatten().map(<[u8]>::to_vec).unwrap_or_default();
        let progress = progress.map_err(&failed)?;
        self.seen = (progress != Progress::More).then_some(now);
        Ok(progress)
    }

    fn scan(&mut self, scanner: &mut Scanner, limit: u64) -> std::io::Result<Progress> {
        let (mut taken, mut progress) = (0, Progress::Same);
        while taken < limit {
            match scanner.next(EAGER)? {
                Next::End => return Ok(progress),
                Next::Damaged(damage) => self.report(damage),
                Next::Record { content, length, verified } => {
                    let record = Span { start: content, end: content + length };
                    let added = if verified && length <= EAGER {
                        let Some(bytes) = scanner.window.at(content, length as usize)? else { return Ok(progress) };
                        self.table.add(&mut Slice { base: content, bytes }, record)
                    } else {
                        self.table.add(&mut scanner.window, record)
                    };
                    if let Err(problem) = added {
                        self.report(Damage { offset: content, problem });
                    }
                    taken += length.min(EAGER) + 16;
                }
            }
            progress = Progress::Grown;
        }
        Ok(Progress::More)
    }

    fn report(&mut self, damage: Damage) {
        self.damaged += 1;
        if self.damage.len() < DESCRIBED {
            self.damage.push(damage);
        }
    }

    /// Whether this is no longer the file that was read: replaced, cut back, or cut back and grown again.
    fn is_another(&self, now: Seen, window: &mut Window) -> std::io::Result<bool> {
        if self.read_to == 0 {
            return Ok(false);
        }
        let replaced = self.seen.is_some_and(|seen| seen.identity != now.identity);
        if replaced || now.length < self.read_to {
            return Ok(true);
        }
        let start = self.read_to - self.seam.len() as u64;
        Ok(window.at(start, self.seam.len())?.is_none_or(|bytes| bytes != self.seam))
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What was read, by tag.
    pub fn series(&self) -> &[Series] {
        &self.table.series
    }

    /// When its first record was written, in seconds since 1970.
    pub fn began(&self) -> Option<f64> {
        self.table.began
    }

    /// Records that were skipped, the first hundred of them.
    pub fn damage(&self) -> &[Damage] {
        &self.damage
    }

    /// How many records were skipped.
    pub fn damaged(&self) -> u64 {
        self.damaged
    }

    /// How often it was read anew because it had been cut back or replaced.
    pub fn restarts(&self) -> u64 {
        self.restarts
    }

    /// How many bytes were read and understood; the rest waits for its writer.
    pub fn read_to(&self) -> u64 {
        self.read_to
    }

    /// When the file was last written to.
    pub fn modified(&self) -> Option<SystemTime> {
        self.seen.and_then(|seen| seen.modified)
    }

    /// The bytes of a value: a `Summary.Value`, or a graph. The checksum of its record is compared.
    pub fn value(path: &Path, location: Location) -> Result<Vec<u8>, EventsError> {
        let record = RawRecords::one(path, location.record)?;
        let part = |offset: u64| offset.checked_sub(location.record.start).and_then(|at| usize::try_from(at).ok());
        let range = part(location.value.start).zip(part(location.value.end));
        let value = range.and_then(|(start, end)| record.get(start..end)).map(<[u8]>::to_vec);
        value.ok_or_else(|| EventsError::Malformed { path: path.to_path_buf(), problem: NOT_AN_EVENT.into() })
    }
}
