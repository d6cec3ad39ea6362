//! Watching the devices for a few steps.

use super::Runner;
use crate::{Session, TrainError};
use octant_runtime::{PartTiming, Recording, RuntimeError, Timeline};
use std::ops::Range;

/// Steps before a recording: the first ones fill caches and queues that all others find filled.
const WARM_UP: u64 = 3;

/// A recording that was requested.
pub(super) struct Recorder {
    steps: Range<u64>,
    done: u64,
    under_way: Option<UnderWay>,
}

enum UnderWay {
    /// The devices are watched from outside.
    Watched(Box<dyn Recording>),
    /// The program measures itself; this is what it had measured before.
    Measured(Vec<PartTiming>),
}

impl Recorder {
    pub fn new(steps: u64) -> Recorder {
        Recorder { steps: WARM_UP..WARM_UP + steps.max(1), done: 0, under_way: None }
    }
}

impl Runner<'_, '_> {
    /// Called before every step.
    pub(super) fn begin_recording(&mut self, session: &Session) -> Result<(), TrainError> {
        let Some(recorder) = self.recorder.as_mut().filter(|recorder| recorder.done == recorder.steps.start) else {
            return Ok(());
        };
        if recorder.under_way.is_none() {
            session.wait()?;
            recorder.under_way = Some(match self.plan.backend.record() {
                Ok(recording) => UnderWay::Watched(recording),
                Err(error) => {
                    if !matches!(error, RuntimeError::Unsupported { .. }) {
                        self.watcher.message(&format!("devices are not watched ({error}); steps are measured instead"));
                    }
                    UnderWay::Measured(session.profile())
                }
            });
        }
        Ok(())
    }

    /// Called after every step, and with `is_last` when no more will follow in this session.
    pub(super) fn end_recording(&mut self, session: &Session, is_last: bool) -> Result<(), TrainError> {
        let Some(recorder) = &mut self.recorder else { return Ok(()) };
        recorder.done += u64::from(!is_last);
        if !is_last && recorder.done < recorder.steps.end {
            return Ok(());
        }
        let Some(under_way) = recorder.under_way.take() else { return Ok(()) };
        session.wait()?;
        let timeline = match under_way {
            UnderWay::Watched(recording) => recording.finish()?,
            UnderWay::Measured(before) => {
                Timeline::of_parts(self.plan.backend.name(), &difference(session.profile(), &before))
            }
        };
        self.recorder = None;
        self.watcher.recorded(&timeline);
        Ok(())
    }
}

/// What was measured since.
fn difference(mut after: Vec<PartTiming>, before: &[PartTiming]) -> Vec<PartTiming> {
    for (part, before) in after.iter_mut().zip(before) {
        part.time = part.time.saturating_sub(before.time);
    }
    after
}
