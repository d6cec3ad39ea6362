//! Why something cannot be measured.

use octant_graph::GraphError;
use octant_recipe::RecipeError;
use octant_runtime::RuntimeError;
use octant_train::TrainError;
use octant_zoo::ZooError;

/// The result of a measurement.
pub type Result<T, E = MeasureError> = std::result::Result<T, E>;

/// A failure in one sentence.
#[derive(Debug, thiserror::Error)]
pub enum MeasureError {
    /// There is nothing of that name, or it cannot be measured like that.
    #[error("{0}")]
    Refused(String),
    /// The recipe cannot be used.
    #[error(transparent)]
    Recipe(#[from] RecipeError),
    /// The model is unknown.
    #[error(transparent)]
    Model(#[from] ZooError),
    /// The step cannot be built or run.
    #[error(transparent)]
    Train(#[from] TrainError),
    /// A program cannot be traced.
    #[error(transparent)]
    Graph(#[from] GraphError),
    /// The device refused.
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
    /// A process cannot be started or waited for.
    #[error("{0}: {1}")]
    Process(String, std::io::Error),
}

/// A refusal as a result.
macro_rules! refuse {
    ($($text:tt)*) => { return Err($crate::MeasureError::Refused(format!($($text)*))) };
}

/// The refusal itself.
macro_rules! refusal {
    ($($text:tt)*) => { $crate::MeasureError::Refused(format!($($text)*)) };
}

pub(crate) use {refusal, refuse};
