//! What compilers are at work on, followed by the notices of backends.

use octant_pjrt::backend::{Notice, PastCompileTime};
use std::time::{Duration, Instant};

/// What is being compiled, the oldest first.
#[derive(Debug, Clone, Default)]
pub struct Compilations {
    running: Vec<Compilation>,
}

#[derive(Debug, Clone)]
struct Compilation {
    program: String,
    begun: Instant,
    before: Option<PastCompileTime>,
}

/// How far the compilations are: that of the oldest.
#[derive(Debug, Clone, PartialEq)]
pub struct CompileProgress<'a> {
    /// The program's name.
    pub program: &'a str,
    /// How many others are being compiled beside it.
    pub others: usize,
    /// How long it has taken so far.
    pub elapsed: Duration,
    /// What is left if it takes as long as before; none if it takes longer, or was never compiled.
    pub left: Option<Duration>,
    /// How long it took before, where that is worth a word.
    pub before: Option<PastCompileTime>,
}

/// What took at least a second before; less is not worth a word.
pub fn noticeable(before: Option<PastCompileTime>) -> Option<PastCompileTime> {
    before.filter(|before| time_of(*before) >= Duration::from_secs(1))
}

fn time_of(before: PastCompileTime) -> Duration {
    let (PastCompileTime::SameProgram(time) | PastCompileTime::SameName(time)) = before;
    time
}

impl Compilations {
    /// Nothing is being compiled.
    pub const fn new() -> Compilations {
        Compilations { running: Vec::new() }
    }

    /// Follows a notice.
    pub fn note(&mut self, notice: &Notice) {
        match *notice {
            Notice::Message(_) => {}
            Notice::Compiling { program, before, .. } => {
                self.running.push(Compilation { program: program.to_string(), begun: Instant::now(), before });
            }
            Notice::Compiled { program, .. } => {
                if let Some(ended) = self.running.iter().position(|running| running.program == program) {
                    self.running.remove(ended);
                }
            }
        }
    }

    /// How far they are; none if nothing is being compiled.
    pub fn progress(&self) -> Option<CompileProgress<'_>> {
        let oldest = self.running.first()?;
        let (elapsed, before) = (oldest.begun.elapsed(), noticeable(oldest.before));
        let left = before.and_then(|before| time_of(before).checked_sub(elapsed)).filter(|left| !left.is_zero());
        Some(CompileProgress { program: &oldest.program, others: self.running.len() - 1, elapsed, left, before })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_is_that_of_the_oldest_compilation() {
        let mut all = Compilations::new();
        assert_eq!(all.progress(), None);
        let before = |seconds| Some(PastCompileTime::SameName(Duration::from_secs(seconds)));
        all.note(&Notice::Compiling { program: "training step", reason: "it is new", before: before(3600) });
        all.note(&Notice::Compiling { program: "evaluation step", reason: "it is new", before: before(0) });
        let progress = all.progress().unwrap();
        assert_eq!((progress.program, progress.others, progress.before), ("training step", 1, before(3600)));
        assert!(progress.left.is_some_and(|left| left > Duration::from_secs(3500)));
        all.note(&Notice::Compiled { program: "training step", time: Duration::ZERO });
        let progress = all.progress().unwrap();
        assert_eq!((progress.program, progress.others), ("evaluation step", 0));
        assert_eq!((progress.left, progress.before), (None, None), "what takes no time is not worth a word");
    }
}
