//! Steps in flight: how far the host may run ahead of the device.

use crate::TrainError;
use octant_runtime::Buffer;
use std::collections::VecDeque;

/// Steps that may be queued at a time. Enough that the device never waits for the host; few, because each holds its
/// batch in memory, and because a run that is to stop waits for all of them.
const MOST: usize = 4;

/// The steps that were queued last, each by an output that is not donated: the step is done when its output is ready.
#[derive(Default)]
pub struct InFlight {
    outputs: VecDeque<(Option<u64>, Buffer)>,
    /// Outputs of finished steps that have a number.
    finished: Vec<(u64, Buffer)>,
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
        if self.outputs.len() > MOST { self.finish_oldest() } else { Ok(()) }
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
