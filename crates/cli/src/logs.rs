//! The `logs` command: the logs of all processes of a run as one.

use crate::Ending;
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Show the logs of a run's processes, merged by time
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  octant logs runs/imagenet-1            all processes, each line behind the number of its process\n  \
                  octant logs runs/imagenet-1 --rank 3   one process"
)]
pub(crate) struct Arguments {
    /// The run directory
    run: PathBuf,
    /// Only this process
    #[arg(long, value_name = "N")]
    rank: Option<usize>,
    /// Only the last lines
    #[arg(long, value_name = "N")]
    last: Option<usize>,
}

const FOLDER: &str = "logs";

/// The log of a process.
pub(crate) fn path(run: &Path, rank: usize) -> PathBuf {
    run.join(FOLDER).join(format!("rank-{rank:05}.txt"))
}

pub(crate) fn run(arguments: Arguments) -> Result<Ending> {
    let ranks = ranks(&arguments.run)?;
    let wanted = match arguments.rank {
        Some(rank) if !ranks.contains(&rank) => {
            bail!("there is no log of rank {rank} in {}; there are {}", arguments.run.display(), listed(&ranks))
        }
        Some(rank) => vec![rank],
        None => ranks,
    };
    let mut entries = Vec::new();
    for rank in wanted {
        let path = path(&arguments.run, rank);
        let text = std::fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        entries.extend(self::entries(rank, &String::from_utf8_lossy(&text)));
    }
    entries.sort_by(|a, b| (&a.time, a.rank).cmp(&(&b.time, b.rank)));
    let lines: Vec<String> = entries.iter().flat_map(Entry::lines).collect();
    let first = lines.len().saturating_sub(arguments.last.unwrap_or(usize::MAX));
    lines[first..].iter().for_each(|line| println!("{line}"));
    Ok(Ending::Done)
}

fn listed(ranks: &[usize]) -> String {
    ranks.iter().map(usize::to_string).collect::<Vec<_>>().join(", ")
}

/// The processes that have a log.
fn ranks(run: &Path) -> Result<Vec<usize>> {
    let names = std::fs::read_dir(run.join(FOLDER)).into_iter().flatten().flatten().map(|entry| entry.file_name());
    let rank = |name: std::ffi::OsString| name.to_str()?.strip_prefix("rank-")?.strip_suffix(".txt")?.parse().ok();
    let mut ranks: Vec<usize> = names.filter_map(rank).collect();
    ranks.sort_unstable();
    match ranks.is_empty() {
        true => bail!(
            "{} has no logs of processes: runs of one process have log.txt, and those of several have a folder `{FOLDER}`",
            run.display()
        ),
        false => Ok(ranks),
    }
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

/// As [`stamp`] writes it.
fn is_stamp(word: &str) -> bool {
    const FORM: &[u8] = b"0000-00-00T00:00:00.000Z";
    let fits = |(byte, form): (u8, &u8)| if *form == b'0' { byte.is_ascii_digit() } else { byte == *form };
    word.len() == FORM.len() && word.bytes().zip(FORM).all(fits)
}

/// A time in UTC, whose alphabetical order is that of time.
pub(crate) fn stamp(time: SystemTime) -> String {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    let (seconds, of_day) = (since.as_secs(), since.as_secs() % 86_400);
    let (year, month, day) = date(seconds / 86_400);
    let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{:03}Z", since.subsec_millis())
}

/// Year, month and day of a day since 1970, by the calendar's cycle of 400 years.
fn date(days: u64) -> (u64, u64, u64) {
    // Years that begin in March have their leap day at the end.
    let days = days + 719_468;
    let (cycle, of_cycle) = (days / 146_097, days % 146_097);
    let year = (of_cycle - of_cycle / 1460 + of_cycle / 36_524 - of_cycle / 146_096) / 365;
    let of_year = of_cycle - (365 * year + year / 4 - year / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    (400 * cycle + year + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_are_dates_and_sort_as_time_does() {
        let at = |seconds: u64| stamp(UNIX_EPOCH + Duration::from_millis(seconds * 1000 + 7));
        assert_eq!(at(0), "1970-01-01T00:00:00.007Z");
        assert_eq!(at(951_782_400), "2000-02-29T00:00:00.007Z");
        assert_eq!(at(1_794_832_116), "2026-11-16T12:28:36.007Z");
        assert!(is_stamp(&at(5)) && !is_stamp("2026-11-16") && !is_stamp("warning:"));
        assert!((0..4000u64).map(|day| at(day * 86_400 + 86_399)).is_sorted());
    }

    #[test]
    fn lines_without_a_time_stay_behind_the_line_before() {
        let text = "1970-01-01T00:00:01.000Z one\nNCCL WARN\n1970-01-01T00:00:03.000Z two\n";
        let other = "1970-01-01T00:00:02.000Z other\n";
        let mut all = entries(0, text);
        all.extend(entries(1, other));
        all.sort_by(|a, b| (&a.time, a.rank).cmp(&(&b.time, b.rank)));
        let lines: Vec<String> = all.iter().flat_map(Entry::lines).collect();
        let words: Vec<&str> = lines.iter().map(|line| line.rsplit(' ').next().unwrap_or_default()).collect();
        assert_eq!(words, ["one", "WARN", "other", "two"]);
        assert!(lines[1].starts_with("[0] ") && lines[2].starts_with("[1] "));
    }
}
