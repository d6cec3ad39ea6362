//! How long the compiler took before, kept beside the executables for those who wait for it again.

use super::{ExecutableCache, Key};
use std::fs;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

const FILE: &str = "compile-times.txt";
/// The oldest ones are forgotten.
const KEPT: usize = 200;

/// How long the compiler took before.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum PastCompileTime {
    /// For this very program.
    SameProgram(Duration),
    /// For the last program of that name.
    SameName(Duration),
}

/// `program seconds name`, one per line, the newest last.
struct Line<'a> {
    program: &'a str,
    seconds: f64,
    name: &'a str,
}

fn parse(line: &str) -> Option<Line<'_>> {
    let mut words = line.splitn(3, ' ');
    let (program, seconds, name) = (words.next()?, words.next()?.parse().ok()?, words.next()?);
    (f64::is_finite(seconds) && seconds >= 0.0).then_some(Line { program, seconds, name })
}

impl ExecutableCache {
    /// How long the compiler took for this program, or for the last one of that name.
    pub fn time_before(&self, key: &Key, name: &str) -> Option<PastCompileTime> {
        let text = fs::read_to_string(self.folder.join(FILE)).ok()?;
        let program = format!("{:032x}", key.program);
        let newest = |fits: &dyn Fn(&Line) -> bool| text.lines().rev().filter_map(parse).find(|line| fits(line));
        let time = |line: Line| Duration::from_secs_f64(line.seconds);
        let same = newest(&|line| line.program == program).map(|line| PastCompileTime::SameProgram(time(line)));
        same.or_else(|| newest(&|line| line.name == name).map(|line| PastCompileTime::SameName(time(line))))
    }

    /// Stores how long the compiler took. Write errors are ignored.
    pub fn note_time(&self, key: &Key, name: &str, time: Duration) {
        /// The file is read and written as a whole, by several threads.
        static WRITER: Mutex<()> = Mutex::new(());
        let _writer = WRITER.lock().unwrap_or_else(PoisonError::into_inner);
        let path = self.folder.join(FILE);
        let before = fs::read_to_string(&path).unwrap_or_default();
        let program = format!("{:032x}", key.program);
        let others = before.lines().filter(|line| parse(line).is_some_and(|line| line.program != program));
        let mut lines: Vec<String> = others.map(str::to_string).collect();
        lines.push(format!("{program} {:.1} {}", time.as_secs_f64(), name.replace('\n', " ")));
        let forgotten = lines.len().saturating_sub(KEPT);
        let partial = self.folder.join(format!(".{FILE}.{}", std::process::id()));
        let written = fs::create_dir_all(&self.folder)
            .and_then(|()| fs::write(&partial, lines[forgotten..].join("\n") + "\n"))
            .and_then(|()| fs::rename(&partial, &path));
        if written.is_err() {
            let _ = fs::remove_file(&partial);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_the_program_or_of_one_of_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let cache = ExecutableCache::new(folder.path().join("new"));
        let key = |program: &str| Key::new(program, b"", "1", "TPU v3");
        assert_eq!(cache.time_before(&key("a"), "training step"), None);
        let seconds = Duration::from_secs;
        cache.note_time(&key("a"), "training step", seconds(90));
        cache.note_time(&key("b"), "training step", seconds(30));
        cache.note_time(&key("a"), "training step", seconds(80));
        assert_eq!(cache.time_before(&key("b"), "training step"), Some(PastCompileTime::SameProgram(seconds(30))));
        assert_eq!(cache.time_before(&key("c"), "training step"), Some(PastCompileTime::SameName(seconds(80))));
        assert_eq!(cache.time_before(&key("c"), "evaluation step"), None);
        fs::write(folder.path().join("new").join(FILE), "x\n\u{0}\n1 2").unwrap();
        assert_eq!(cache.time_before(&key("a"), "training step"), None, "damage is not fatal");
    }
}
