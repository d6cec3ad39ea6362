//! Training: a [`Task`] defines what is learned, a [`Session`] holds the compiled step and the state on the device, and
//! [`run`] is the loop around them that survives being stopped.
//!
//! A step is one program, `(state, batch, scalars) → state`. The state is everything that lives between steps: the
//! model's variables, the optimizer's slots, averages, and running sums of statistics. Its buffers are donated, so it
//! exists once on the device. The learning rate, the step number and the seed are inputs, never constants. The host
//! feeds batches and reads the sums when somebody wants to see them.
//!
//! A run is a list of [`Phase`]s. Between any two steps, all there is to know is the [`Session`]'s state and a small
//! [`RunProgress`]; a [`checkpoint`] is both, so a run resumes from it as if nothing had happened, bit for bit.
//!
//! Start reading at [`Task`], then [`step`], then [`run`].

mod accumulation;
pub mod checkpoint;
mod classify;
mod detect;
mod error;
mod evaluate;
mod in_flight;
mod inputs;
mod memory;
mod multilabel;
pub mod network;
pub mod options;
mod phase;
mod progress;
mod regress;
pub mod run;
mod segment;
mod session;
mod spread;
mod state;
pub mod step;
mod task;
mod translate;
mod values;

pub use classify::Classify;
pub use detect::{Detect, DetectedRows, FoundObject, PlacedOriginal, mask_of_logits};
pub use error::TrainError;
pub use evaluate::{Evaluator, Predictor};
pub use in_flight::InFlight;
pub use inputs::Inputs;
pub use inputs::{Normalize, normalized, of_model as normalize_of};
pub use multilabel::{LabelLoss, MultiLabel};
pub use phase::{Pace, Phase, Rate};
pub use progress::{Best, RunProgress};
pub use regress::{Regress, ValueLoss};
pub use segment::{MaskLoss, Segment, SegmentLoss};
pub use session::{Session, Usage};
pub use state::{State, import};
pub use step::{Group, MixOptions, PhaseOptions, Role, StateEntry, Trainable, WarmupOptions};
pub use task::{CountedObjects, Findings, Metric, Objective, Observer, Outcome, Task};
pub use translate::{Adversary, CycleGan, GanUpdates, ImageFormat, ImageLoss, ImagePool, Pix2Pix, Restore};
pub use values::Values;
