//! How far a run is, and how long the rest will take.

use std::time::{Duration, Instant};

/// The pace of a run in this process: epochs that it did, and those that are left. Observers that show it keep one.
#[derive(Debug, Clone, Default)]
pub struct Pace {
    /// When the first epoch of this process began, and where it stood then.
    begun: Option<(Instant, f64)>,
    epoch: u64,
    epochs: u64,
    steps: u64,
}

impl Pace {
    /// An epoch begins, or continues after `done` of its steps; the fields of [`RunEvent::EpochBegins`](crate::RunEvent).
    pub fn epoch_begins(&mut self, epoch: u64, epochs: u64, steps: u64, done: u64) {
        (self.epoch, self.epochs, self.steps) = (epoch, epochs, steps);
        let at = self.at(done);
        self.begun.get_or_insert((Instant::now(), at));
    }

    /// How long this process has trained.
    pub fn elapsed(&self) -> Duration {
        self.begun.map_or(Duration::ZERO, |(begun, _)| begun.elapsed())
    }

    /// What is left when `done` steps of this epoch are done, by the time that this process took so far. Unknown at first.
    pub fn left(&self, done: u64) -> Option<Duration> {
        let (begun, first) = self.begun?;
        let (did, rest) = (self.at(done) - first, self.epochs as f64 - self.at(done));
        (did > 0.0 && rest >= 0.0).then(|| begun.elapsed().mul_f64((rest / did).min(1e6)))
    }

    /// Epochs since the run began.
    fn at(&self, done: u64) -> f64 {
        self.epoch.saturating_sub(1) as f64 + done as f64 / self.steps.max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn epochs_of_an_earlier_process_do_not_count_as_this_one_s() {
        let mut pace = Pace::default();
        assert_eq!((pace.left(0), pace.elapsed()), (None, Duration::ZERO));
        pace.epoch_begins(3, 4, 10, 5);
        std::thread::sleep(Duration::from_millis(2));
        assert_eq!(pace.left(5), None, "nothing was done yet");
        let (left, taken) = (pace.left(10).unwrap(), pace.elapsed());
        // Half an epoch is done and a whole one left.
        assert!(left >= Duration::from_millis(4) && left <= 2 * taken, "{left:?} of {taken:?}");
    }
}
