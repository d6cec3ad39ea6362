//! What a run directory says beside its event files: settings, tables, notes; and how the run is doing.

use crate::notes::Notes;
use serde_json::{Map, Value};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;
use std::time::{Duration, SystemTime};

/// Larger files are not read whole.
const LARGEST: u64 = 16 << 20;

/// The files of a run directory, as far as the board shows them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Facts {
    stamps: Vec<Option<(u64, SystemTime)>>,
    /// `config.toml`, as it is.
    pub config: Option<String>,
    /// Its settings, nested ones with dots.
    pub settings: Map<String, Value>,
    /// `metrics.csv`.
    pub metrics: Table,
    /// `timing.csv`.
    pub timing: Table,
    /// `notes.md`, which people may put beside a run.
    pub notes: Notes,
}

/// Columns of numbers.
#[derive(Debug, Clone, Default)]
pub(crate) struct Table {
    pub columns: Vec<String>,
    pub rows: Vec<Vec<f64>>,
}

impl Table {
    fn parse(text: &str) -> Table {
        // A last line without its end is still being written.
        let text = text.rfind('\n').map_or("", |end| &text[..end]);
        let mut lines = text.lines();
        let columns: Vec<String> = lines.next().unwrap_or_default().split(',').map(str::to_string).collect();
        let number = |cell: &str| cell.parse().unwrap_or(f64::NAN);
        Table { columns, rows: lines.map(|line| line.split(',').map(number).collect()).collect() }
    }

    /// A column by its name.
    pub fn column(&self, name: &str) -> Option<impl DoubleEndedIterator<Item = f64> + Clone + '_> {
        let position = self.columns.iter().position(|column| column == name)?;
        Some(self.rows.iter().map(move |row| row.get(position).copied().unwrap_or(f64::NAN)))
    }
}

/// How a run is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Status {
    Running,
    Finished,
    Failed,
    Stalled,
    Stopped,
}

impl Status {
    pub fn name(self) -> &'static str {
        match self {
            Status::Running => "running",
            Status::Finished => "finished",
            Status::Failed => "failed",
            Status::Stalled => "stalled",
            Status::Stopped => "stopped",
        }
    }
}

const FILES: [&str; 4] = ["config.toml", "metrics.csv", "timing.csv", "notes.md"];

impl Facts {
    /// The facts of that directory, if its files changed since these were read.
    pub fn changed(&self, folder: &Path) -> Option<Facts> {
        let stamps: Vec<_> = FILES.iter().map(|name| stamp(&folder.join(name))).collect();
        if stamps == self.stamps {
            return None;
        }
        let read = |name: &str| read_plain(&folder.join(name));
        let config = read("config.toml");
        let parsed = config.as_deref().and_then(|text| text.parse::<toml::Table>().ok());
        let mut settings = Map::new();
        if let Some(Ok(value)) = parsed.map(serde_json::to_value) {
            flatten("", value, &mut settings);
        }
        let table = |name: &str| read(name).map(|text| Table::parse(&text)).unwrap_or_default();
        let (metrics, timing) = (table("metrics.csv"), table("timing.csv"));
        Some(Facts {
            stamps,
            config,
            settings,
            metrics,
            timing,
            notes: Notes::parse(&read("notes.md").unwrap_or_default()),
        })
    }

    /// True for a directory that Octant trained in: the steps of its events are epochs.
    pub fn is_octant(&self) -> bool {
        self.config.is_some() && self.metrics.columns.iter().any(|column| column == "epoch")
    }

    /// Epochs that are done, and of how many.
    pub fn epochs(&self) -> Option<(f64, Option<f64>)> {
        let done = self.metrics.column("epoch")?.next_back()?;
        let of_phases = self.settings.iter().filter(|(name, _)| is_length_of_phase(name));
        let all: f64 = of_phases.filter_map(|(_, value)| value.as_f64()).sum();
        let all = if all > 0.0 { Some(all) } else { self.settings.get("epochs").and_then(Value::as_f64) };
        Some((done, all))
    }

    /// The mean time of an epoch.
    pub fn epoch_seconds(&self) -> Option<f64> {
        let seconds: Vec<f64> = self.timing.column("seconds")?.filter(|value| value.is_finite()).collect();
        let recent = &seconds[seconds.len().saturating_sub(5)..];
        (!recent.is_empty()).then(|| recent.iter().sum::<f64>() / recent.len() as f64)
    }

    /// The step at the end of every epoch.
    pub fn steps_of_epochs(&self) -> Option<Vec<(f64, f64)>> {
        let pairs = self.metrics.column("epoch")?.zip(self.metrics.column("step")?);
        let pairs: Vec<(f64, f64)> = pairs.filter(|pair| pair.0.is_finite() && pair.1.is_finite()).collect();
        (!pairs.is_empty()).then_some(pairs)
    }

    /// How a run is doing. Its lock shows whether a process works on it, where the system reports that; its files when it
    /// last did.
    pub fn status(&self, locked: Option<bool>, quiet: Option<Duration>, ended: Option<bool>) -> Status {
        match ended {
            Some(true) => return Status::Finished,
            Some(false) => return Status::Failed,
            None => {}
        }
        let patience = Duration::from_secs_f64(self.epoch_seconds().unwrap_or(60.0).clamp(12.0, 86_400.0) * 5.0);
        let is_quiet = quiet.is_none_or(|quiet| quiet > patience);
        match (locked, is_quiet) {
            (Some(true), true) => Status::Stalled,
            (Some(true), false) | (None, false) => Status::Running,
            // A run of Octant that no process holds, and that did not say that it is done.
            (Some(false), _) => Status::Stopped,
            (None, true) => Status::Stopped,
        }
    }
}

/// `phases.0.epochs`, but not `phases.0.warmup.epochs`: a warm-up is a part of its phase.
fn is_length_of_phase(setting: &str) -> bool {
    matches!(setting.split('.').collect::<Vec<_>>()[..], ["phases", _, "epochs"])
}

/// The length of a file and when it was changed, if it is a file and no link.
pub(crate) fn stamp(path: &Path) -> Option<(u64, SystemTime)> {
    let metadata = path.symlink_metadata().ok().filter(|metadata| metadata.is_file())?;
    Some((metadata.len(), metadata.modified().ok()?))
}

/// A file as text, if it is one: no link, and not too large.
pub(crate) fn read_plain(path: &Path) -> Option<String> {
    let metadata = path.symlink_metadata().ok().filter(|metadata| metadata.is_file() && metadata.len() <= LARGEST)?;
    let mut bytes = Vec::with_capacity(metadata.len() as usize);
    File::open(path).ok()?.take(LARGEST).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// The end of a text file, from the beginning of a line on.
pub(crate) fn read_end(path: &Path, most: u64) -> Option<String> {
    let metadata = path.symlink_metadata().ok().filter(|metadata| metadata.is_file())?;
    let mut file = File::open(path).ok()?;
    let start = metadata.len().saturating_sub(most);
    file.seek(SeekFrom::Start(start)).ok()?;
    let mut bytes = Vec::new();
    file.take(most).read_to_end(&mut bytes).ok()?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    match start {
        0 => Some(text),
        _ => Some(text.split_once('\n').map_or(String::new(), |(_, rest)| rest.to_string())),
    }
}

fn flatten(prefix: &str, value: Value, into: &mut Map<String, Value>) {
    let name = |key: &str| if prefix.is_empty() { key.to_string() } else { format!("{prefix}.{key}") };
    match value {
        Value::Object(map) => map.into_iter().for_each(|(key, value)| flatten(&name(&key), value, into)),
        Value::Array(list) if list.iter().any(|item| item.is_object()) => {
            list.into_iter().enumerate().for_each(|(index, value)| flatten(&name(&index.to_string()), value, into));
        }
        value => {
            into.insert(prefix.to_string(), value);
        }
    }
}

/// The inodes of files that some process on this machine has locked. `None` where the system does not report it.
pub(crate) fn locked_inodes() -> Option<std::collections::HashSet<u64>> {
    let text = std::fs::read_to_string("/proc/locks").ok()?;
    let inode = |line: &str| line.split_whitespace().nth(5)?.rsplit(':').next()?.parse().ok();
    Some(text.lines().filter(|line| line.contains("FLOCK")).filter_map(inode).collect())
}

/// Whether a process holds the lock of that run directory; `None` where that is unknown.
pub(crate) fn is_locked(folder: &Path, locked: Option<&std::collections::HashSet<u64>>) -> Option<bool> {
    let metadata = folder.join("run.lock").symlink_metadata().ok()?;
    #[cfg(unix)]
    let inode = std::os::unix::fs::MetadataExt::ino(&metadata);
    #[cfg(not(unix))]
    let inode = metadata.len();
    Some(locked?.contains(&inode))
}
