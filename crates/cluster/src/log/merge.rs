//! The logs of all processes as one, by time.

use super::{FOLDER, is_stamp, path};
use std::io;
use std::path::{Path, PathBuf};

/// Why logs cannot be shown.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// It is a run of one process, or none.
    #[error(
        "{} has no logs of processes: runs of one process have log.txt, and those of several have a folder `{FOLDER}`",
        .0.display()
    )]
    None(PathBuf),
    /// The process has none.
    #[error("there is no log of rank {rank} in {}; there are {}", .run.display(), listed(.ranks))]
    NoRank {
        /// The process.
        rank: usize,
        /// The run.
        run: PathBuf,
        /// Those that have one.
        ranks: Vec<usize>,
    },
    /// A file cannot be read.
    #[error("cannot read {}: {source}", .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

fn listed(ranks: &[usize]) -> String {
    ranks.iter().map(usize::to_string).collect::<Vec<_>>().join(", ")
}

/// The lines of all processes of a run, or of one, by time; each behind the number of its process.
pub fn merged(run: &Path, rank: Option<usize>) -> Result<Vec<String>, LogError> {
    let ranks = ranks(run)?;
    let wanted = match rank {
        Some(rank) if !ranks.contains(&rank) => {
            return Err(LogError::NoRank { rank, run: run.into(), ranks });
        }
        Some(rank) => vec![rank],
        None => ranks,
    };
    let mut entries = Vec::new();
    for rank in wanted {
        let path = path(run, rank);
        let text = std::fs::read(&path).map_err(|source| LogError::Read { path, source })?;
        entries.extend(self::entries(rank, &String::from_utf8_lossy(&text)));
    }
    Ok(in_order(entries))
}

/// The processes that have a log.
fn ranks(run: &Path) -> Result<Vec<usize>, LogError> {
    let names = std::fs::read_dir(run.join(FOLDER)).into_iter().flatten().flatten().map(|entry| entry.file_name());
    let rank = |name: std::ffi::OsString| name.to_str()?.strip_prefix("rank-")?.strip_suffix(".txt")?.parse().ok();
    let mut ranks: Vec<usize> = names.filter_map(rank).collect();
    ranks.sort_unstable();
    if ranks.is_empty() { Err(LogError::None(run.into())) } else { Ok(ranks) }
}

/// A line with a time, and those without one that follow it.
#[derive(Debug, PartialEq)]
struct Entry {
    time: String,
    rank: usize,
    texts: Vec<String>,
}

impl Entry {
    fn lines(&self) -> Vec<String> {
        let Entry { time, rank, texts } = self;
        texts.iter().map(|text| format!("[{rank}] {time} {text}")).collect()
    }
}

fn entries(rank: usize, text: &str) -> Vec<Entry> {
    let mut entries: Vec<Entry> = Vec::new();
    for line in text.lines() {
        match line.split_once(' ').filter(|(time, _)| is_stamp(time)) {
            Some((time, text)) => entries.push(Entry { time: time.into(), rank, texts: vec![text.into()] }),
            None => match entries.last_mut() {
                Some(entry) => entry.texts.push(line.into()),
                None => entries.push(Entry { time: String::new(), rank, texts: vec![line.into()] }),
            },
        }
    }
    entries
}

fn in_order(mut entries: Vec<Entry>) -> Vec<String> {
    entries.sort_by(|a, b| (&a.time, a.rank).cmp(&(&b.time, b.rank)));
    entries.iter().flat_map(Entry::lines).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_without_a_time_stay_behind_the_line_before() {
        let text = "1970-01-01T00:00:01.000Z one\nNCCL WARN\n1970-01-01T00:00:03.000Z two\n";
        let other = "1970-01-01T00:00:02.000Z other\n";
        let mut all = entries(0, text);
        all.extend(entries(1, other));
        let lines = in_order(all);
        let words: Vec<&str> = lines.iter().map(|line| line.rsplit(' ').next().unwrap_or_default()).collect();
        assert_eq!(words, ["one", "WARN", "other", "two"]);
        assert!(lines[1].starts_with("[0] ") && lines[2].starts_with("[1] "));
    }
}
