//! How far the host may run ahead of the device.

use crate::TrainError;
use octant_runtime::Buffer;
use std::collections::VecDeque;

/// Steps that may be queued at a time. Enough that the device never waits for the host; few, because each holds its
/// batch in memory, and because somebody who says stop waits for all of them.
const MOST: usize = 4;

/// The steps that were queued last, each by an output that nothing takes over: as it becomes known, the step is done.
#[derive(Default)]
pub struct Ahead {
    outputs: VecDeque<Buffer>,
}

impl Ahead {
    /// Adds a step, and waits until no more than a few are left to do.
    pub fn queued(&mut self, output: Buffer) -> Result<(), TrainError> {
        self.outputs.push_back(output);
        match self.outputs.len() > MOST {
            true => Ok(self.outputs.pop_front().map_or(Ok(()), |oldest| oldest.wait())?),
            false => Ok(()),
        }
    }

    /// Waits for all of them.
    pub fn wait(&mut self) -> Result<(), TrainError> {
        Ok(self.outputs.drain(..).try_for_each(|output| output.wait())?)
    }
}
