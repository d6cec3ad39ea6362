//! Benchmarks as values.
//!
//! A [`Subject`] is a model under the usual settings of its kind, or the step of a recipe, on a batch of noise; [`measure_step`]
//! times its training steps or predictions. [`Operations`] are single layers, compared with the [`Peaks`] of the same device.
//! [`PeerRun`] lets another library take turns with us, so that whatever disturbs the machine happens to both. Nothing is printed:
//! what takes long reports to an observer.

mod error;
mod int8;
mod operations;
mod peaks;
mod peers;
mod sample;
mod step;
mod subject;

pub use error::{MeasureError, Result};
pub use operations::{OperationEvent, OperationSpeed, Operations};
pub use peaks::Peaks;
pub use peers::{Comparison, Figures, PeerEvent, PeerPrograms, PeerRun, Ratio, Side};
pub use sample::Sample;
pub use step::{StepFigures, StepMode, StepRequest, measure_step};
pub use subject::{Subject, SubjectOptions};
