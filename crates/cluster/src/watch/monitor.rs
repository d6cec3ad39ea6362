//! What the beats of all processes mean.

use super::beat::{SeenActivity, SeenBeat};
use super::{Found, Limits};
use std::time::{Duration, Instant};

/// How many of a process's longest steps it may begin none before it is stuck.
const LONGEST_STEPS: u32 = 10;
/// Steps that may take as long as compiling: kernels are loaded and measured, buffers allocated.
const FIRST_STEPS: u64 = 3;

/// What is known of each process.
pub(super) struct Monitor {
    limits: Limits,
    seen: Vec<Seen>,
}

struct Seen {
    count: u64,
    steps: u64,
    activity: SeenActivity,
    /// When the last beat came.
    beat: Instant,
    /// When the last step began, or the activity changed.
    moved: Instant,
    longest_step: Duration,
}

impl Monitor {
    pub fn new(ranks: usize, limits: Limits) -> Monitor {
        let now = Instant::now();
        let seen = |_| Seen {
            count: 0,
            steps: 0,
            activity: SeenActivity::Busy("starting".into()),
            beat: now,
            moved: now,
            longest_step: Duration::ZERO,
        };
        Monitor { limits, seen: (0..ranks).map(seen).collect() }
    }

    /// A beat was read; the same one again changes nothing.
    pub fn note(&mut self, rank: usize, beat: SeenBeat) {
        let Some(seen) = self.seen.get_mut(rank).filter(|seen| seen.count != beat.count) else { return };
        let now = Instant::now();
        (seen.count, seen.beat) = (beat.count, now);
        if seen.steps != beat.steps {
            if seen.steps >= FIRST_STEPS && seen.activity == SeenActivity::Stepping {
                let steps = u32::try_from(beat.steps.saturating_sub(seen.steps)).unwrap_or(u32::MAX).max(1);
                seen.longest_step = seen.longest_step.max((now - seen.moved) / steps);
            }
            (seen.steps, seen.moved) = (beat.steps, now);
        }
        if seen.activity != beat.activity {
            (seen.activity, seen.moved) = (beat.activity, now);
        }
    }

    /// Whether all processes are done or have failed.
    pub fn all_over(&self) -> bool {
        self.seen.iter().all(Seen::is_over)
    }

    /// Whether one process is lost or has failed.
    pub fn failure_of(&self, rank: usize) -> Option<Found> {
        let seen = &self.seen[rank];
        match &seen.activity {
            SeenActivity::Failed(message) => Some(Found::Ended { rank, message: message.clone() }),
            SeenActivity::Done => None,
            _ => (seen.beat.elapsed() >= self.limits.lost).then(|| Found::Lost { rank, silent: seen.beat.elapsed() }),
        }
    }

    /// What is wrong with any process but the one that reads.
    pub fn failure(&self, reader: usize) -> Option<Found> {
        let mut others = (0..self.seen.len()).filter(|&rank| rank != reader);
        others.find_map(|rank| self.failure_of(rank)).or_else(|| self.stuck())
    }

    /// Steps need all processes, so all stand still when one does. It is the one that is at something else for too long, or
    /// that began fewer steps than others.
    fn stuck(&self) -> Option<Found> {
        let running: Vec<(usize, &Seen)> = self.seen.iter().enumerate().filter(|(_, seen)| !seen.is_over()).collect();
        for (rank, seen) in &running {
            let time = seen.moved.elapsed();
            match &seen.activity {
                SeenActivity::Busy(activity) if time >= self.limits.busy => {
                    return Some(Found::Busy { rank: *rank, activity: activity.clone(), time });
                }
                SeenActivity::Busy(_) => return None,
                _ => {}
            }
        }
        let idle = running.iter().map(|(_, seen)| seen.moved.elapsed()).min()?;
        let longest = running.iter().map(|(_, seen)| seen.longest_step).max()?;
        let fewest = running.iter().map(|(_, seen)| seen.steps).min()?;
        let most = running.iter().map(|(_, seen)| seen.steps).max()?;
        let limit = match fewest <= FIRST_STEPS {
            true => self.limits.busy,
            false => self.limits.stuck.max(longest * LONGEST_STEPS),
        };
        if idle < limit {
            return None;
        }
        if fewest == most {
            return Some(Found::AllStuck { steps: most, idle });
        }
        let slowest = running.iter().filter(|(_, seen)| seen.steps == fewest).map(|(rank, _)| *rank).collect();
        Some(Found::Stuck { slowest, steps: fewest, idle })
    }
}

impl Seen {
    fn is_over(&self) -> bool {
        matches!(self.activity, SeenActivity::Done | SeenActivity::Failed(_))
    }
}
