//! What can go wrong while training.

use octant_graph::GraphError;
use octant_runtime::RuntimeError;

/// A failure of training in one sentence.
#[derive(Debug, thiserror::Error)]
pub enum TrainError {
    /// The model or the task cannot be traced.
    #[error("the training step cannot be built: {0}")]
    Trace(#[from] GraphError),
    /// The device failed.
    #[error(transparent)]
    Device(#[from] RuntimeError),
    /// The data does not fit the task.
    #[error("{0}")]
    Data(String),
}
