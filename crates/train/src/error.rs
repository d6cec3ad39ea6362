//! What can go wrong while training.

use octant_archive::ArchiveError;
use octant_data::DataError;
use octant_events::EventsError;
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
    /// A sample could not be read.
    #[error(transparent)]
    Sample(#[from] DataError),
    /// The run directory could not be written.
    #[error(transparent)]
    Events(#[from] EventsError),
    /// A file of weights does not fit.
    #[error(transparent)]
    Weights(#[from] ArchiveError),
    /// A checkpoint could not be written or read.
    #[error("{0}")]
    Checkpoint(String),
    /// The devices have not enough memory.
    #[error("{0}")]
    OutOfMemory(String),
    /// Other processes of the run are missing.
    #[error(transparent)]
    Cluster(#[from] octant_cluster::ClusterError),
    /// The loss is no longer a number.
    #[error("{0}")]
    NotFinite(String),
}
