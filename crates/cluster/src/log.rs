//! The log of every process of a run: `logs/rank-00003.txt` in the run directory.
//!
//! Lines of ours begin with the time, so that [`merged`] can put the files of all processes together. What libraries print on
//! their own has no time and belongs to the line before.

mod merge;

pub use merge::{LogError, merged};

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const FOLDER: &str = "logs";

/// The log of a process.
fn path(run: &Path, rank: usize) -> PathBuf {
    run.join(FOLDER).join(format!("rank-{rank:05}.txt"))
}

/// The log of this process, which may be written from several threads.
#[derive(Debug)]
pub struct RankLog {
    file: File,
    /// The output of the launcher, once our own goes to the file.
    launcher: Option<File>,
}

impl RankLog {
    /// Opens or continues the log of a rank.
    pub fn open(run: &Path, rank: usize) -> io::Result<RankLog> {
        let path = path(run, rank);
        path.parent().map_or(Ok(()), std::fs::create_dir_all)?;
        let file = OpenOptions::new().create(true).append(true).open(path)?;
        Ok(RankLog { file, launcher: None })
    }

    /// A line with the time before it.
    pub fn line(&self, text: &str) {
        // One write each: several threads and libraries share the file. A log on a full disk must not end the run.
        let _ = (&self.file).write_all(format!("{} {text}\n", stamp(SystemTime::now())).as_bytes());
    }

    /// A line for the launcher, where our own standard error goes to the file.
    pub fn notify_launcher(&self, text: &str) {
        if let Some(mut launcher) = self.launcher.as_ref() {
            let _ = launcher.write_all(format!("{text}\n").as_bytes());
        }
    }

    /// Sends standard output and standard error of this process to the file.
    #[cfg(unix)]
    pub fn redirect(&mut self) -> io::Result<()> {
        use std::os::fd::{AsFd, AsRawFd};
        let launcher = io::stderr().as_fd().try_clone_to_owned()?;
        for descriptor in [libc::STDOUT_FILENO, libc::STDERR_FILENO] {
            // SAFETY: both descriptors are open, and the standard streams continue to use theirs.
            if unsafe { libc::dup2(self.file.as_raw_fd(), descriptor) } < 0 {
                return Err(io::Error::last_os_error());
            }
        }
        self.launcher = Some(launcher.into());
        Ok(())
    }

    /// Elsewhere the output stays where the launcher has it.
    #[cfg(not(unix))]
    pub fn redirect(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// As [`stamp`] writes it.
fn is_stamp(word: &str) -> bool {
    const FORM: &[u8] = b"0000-00-00T00:00:00.000Z";
    let fits = |(byte, form): (u8, &u8)| if *form == b'0' { byte.is_ascii_digit() } else { byte == *form };
    word.len() == FORM.len() && word.bytes().zip(FORM).all(fits)
}

/// A time in UTC, whose alphabetical order is that of time.
fn stamp(time: SystemTime) -> String {
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
}
