//! How far a run has come: everything a checkpoint needs besides tensors.

use octant_data::Position;
use octant_events::Lengths;
use octant_nn::schedule::Plateau;
use serde::{Deserialize, Serialize};

/// The best metric so far.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Best {
    /// Its value.
    pub value: f64,
    /// The epoch, from 1, in which it was reached.
    pub epoch: u64,
}

/// How far a run has come.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct RunProgress {
    /// Steps since the run began.
    pub step: u64,
    /// Whole epochs since the run began.
    pub epoch: u64,
    /// The phase that runs, from 0.
    pub phase: usize,
    /// Whole epochs of this phase.
    pub phase_epoch: u64,
    /// Steps of this phase.
    pub phase_step: u64,
    /// Steps of this epoch.
    pub epoch_step: u64,
    /// Batches that the current optimizer has seen.
    pub optimizer_batches: u64,
    /// Batches that went into running statistics; all steps in checkpoints that do not say.
    pub tracked_batches: Option<u64>,
    /// The batch that comes next.
    pub position: Position,
    /// The best metric so far.
    pub best: Option<Best>,
    /// The rate, best value, bad epochs and cooldown of a plateau schedule.
    pub plateau: Option<PlateauState>,
    /// The run came to its end; there is nothing left to do.
    pub finished: bool,
    /// The values of the last finished epoch, by name.
    pub metrics: Vec<(String, f64)>,
    /// The thresholds of labels that the last validation decided by or chose; none for other tasks.
    #[serde(default)]
    pub thresholds: Vec<f64>,
    /// Lengths of `metrics.csv`, `timing.csv` and the event file.
    pub lengths: [u64; 3],
}

/// What a [`Plateau`] remembers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlateauState {
    rate: f64,
    best: Option<f64>,
    bad: u64,
    cooling: u64,
}

impl PlateauState {
    /// What it remembers now.
    pub fn of(plateau: &Plateau) -> PlateauState {
        PlateauState { rate: plateau.rate, best: plateau.best, bad: plateau.bad, cooling: plateau.cooling }
    }

    /// Puts it back.
    pub fn restore(&self, plateau: &mut Plateau) {
        (plateau.rate, plateau.best, plateau.bad, plateau.cooling) = (self.rate, self.best, self.bad, self.cooling);
    }
}

impl RunProgress {
    /// The lengths of the run's files.
    pub fn file_lengths(&self) -> Lengths {
        let [metrics, timing, events] = self.lengths;
        Lengths { metrics, timing, events }
    }

    /// Remembers the lengths of the run's files.
    pub fn set_file_lengths(&mut self, lengths: Lengths) {
        self.lengths = [lengths.metrics, lengths.timing, lengths.events];
    }
}
