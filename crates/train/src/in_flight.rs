//! Host and device at the same time: batches that are copied ahead of their steps, steps that are queued, and predictions
//! that are looked at while the next batch is computed.

use crate::{Observer, Task, TrainError};
use octant_data::Batch;
use octant_runtime::Buffer;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Batches that are copied to the devices before the step that is queued next. XLA's plugins copy a batch in the background,
/// but executing a step waits for its own: 20 to 40 ms for 64 images of 640².
const COPIED_AHEAD: usize = 2;

/// Batches that are made, and copied, before they are needed.
pub(crate) struct Ahead<T>(VecDeque<Result<T, TrainError>>);

impl<T> Default for Ahead<T> {
    fn default() -> Self {
        Ahead(VecDeque::new())
    }
}

impl<T> Ahead<T> {
    /// The next batch, an error in its turn; `None` when `make` has no more. The first call makes two, so that the first step
    /// need not wait for all that follow.
    pub fn next(&mut self, mut make: impl FnMut() -> Option<Result<T, TrainError>>) -> Option<Result<T, TrainError>> {
        for _ in 0..2 {
            let may_continue = self.0.len() <= COPIED_AHEAD && !matches!(self.0.back(), Some(Err(_)));
            self.0.extend(may_continue.then(&mut make).flatten());
        }
        self.0.pop_front()
    }
}

/// An observer of predictions that is one batch late: the device computes the next one while the host looks at this.
pub(crate) struct Observation {
    observer: Option<Box<dyn Observer>>,
    last: Option<(Batch, Buffer)>,
}

impl Observation {
    pub fn of(task: &dyn Task) -> Observation {
        Observation { observer: task.observer(), last: None }
    }

    /// Takes the predictions of a batch, which need not be computed yet, and shows those of the batch before.
    pub fn push(&mut self, batch: Batch, predictions: Option<Buffer>) -> Result<(), TrainError> {
        let next = predictions.filter(|_| self.observer.is_some()).map(|predictions| (batch, predictions));
        match (std::mem::replace(&mut self.last, next), &mut self.observer) {
            (Some((batch, predictions)), Some(observer)) => observer.observe(&batch, &predictions.to_host()?),
            _ => Ok(()),
        }
    }

    /// The observer, which has seen everything.
    pub fn finish(mut self) -> Result<Option<Box<dyn Observer>>, TrainError> {
        if let (Some((batch, predictions)), Some(observer)) = (self.last.take(), &mut self.observer) {
            observer.observe(&batch, &predictions.to_host()?)?;
        }
        Ok(self.observer)
    }
}

/// Steps that may be queued at a time. Enough that the device never waits for the host; few, because each holds its
/// batch in memory, and because a run that is to stop waits for all of them.
const MOST: usize = 4;
/// Steps that take this long are queued one at a time: the host needs no lead over them, and a run that is to stop waits for
/// one of them only.
const LONG: Duration = Duration::from_millis(300);

/// The steps that were queued last, each by an output that is not donated: the step is done when its output is ready.
#[derive(Default)]
pub struct InFlight {
    outputs: VecDeque<(Option<u64>, Buffer)>,
    /// Outputs of finished steps that have a number.
    finished: Vec<(u64, Buffer)>,
    /// The last step that was waited for took long.
    is_slow: bool,
}

impl InFlight {
    /// Adds a step, and waits until no more than a few are left to do.
    pub fn push(&mut self, output: Buffer) -> Result<(), TrainError> {
        self.add(None, output)
    }

    /// The same for a step whose output is wanted; [`finished`](InFlight::finished) returns it.
    pub fn push_numbered(&mut self, step: u64, output: Buffer) -> Result<(), TrainError> {
        self.add(Some(step), output)
    }

    fn add(&mut self, step: Option<u64>, output: Buffer) -> Result<(), TrainError> {
        self.outputs.push_back((step, output));
        while self.outputs.len() > if self.is_slow { 1 } else { MOST } {
            let begun = Instant::now();
            self.finish_oldest()?;
            self.is_slow = begun.elapsed() >= LONG;
        }
        Ok(())
    }

    fn finish_oldest(&mut self) -> Result<(), TrainError> {
        let Some((step, output)) = self.outputs.pop_front() else { return Ok(()) };
        output.wait()?;
        self.finished.extend(step.map(|step| (step, output)));
        Ok(())
    }

    /// Waits for all of them.
    pub fn wait(&mut self) -> Result<(), TrainError> {
        while !self.outputs.is_empty() {
            self.finish_oldest()?;
        }
        Ok(())
    }

    /// The outputs of steps that finished since the last call, with their numbers.
    pub fn finished(&mut self) -> Vec<(u64, Buffer)> {
        std::mem::take(&mut self.finished)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_are_made_ahead_and_errors_come_in_their_turn() {
        let (mut ahead, mut made) = (Ahead::default(), 0);
        let mut next = |ahead: &mut Ahead<u32>| {
            let next = ahead.next(|| {
                made += 1;
                match made {
                    1..=4 => Some(Ok(made)),
                    5 => Some(Err(TrainError::Data("the fifth is damaged".into()))),
                    _ => None,
                }
            });
            (next.map(|result| result.ok()), made)
        };
        assert_eq!(next(&mut ahead), (Some(Some(1)), 2));
        assert_eq!(next(&mut ahead), (Some(Some(2)), 4));
        assert_eq!(next(&mut ahead), (Some(Some(3)), 5));
        assert_eq!(next(&mut ahead), (Some(Some(4)), 5), "nothing is made behind an error that is not returned yet");
        assert_eq!(next(&mut ahead), (Some(None), 5));
        assert_eq!(next(&mut ahead), (None, 7));
    }
}
