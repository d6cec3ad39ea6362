//! What can go wrong with a run.

use octant_archive::ArchiveError;
use octant_data::DataError;
use octant_events::EventsError;
use octant_fetch::FetchError;
use octant_imaging::{ImageError, Unsupported};
use octant_recipe::RecipeError;
use octant_runtime::RuntimeError;
use octant_tensor::TensorError;
use octant_train::TrainError;
use octant_zoo::ZooError;
use std::path::{Path, PathBuf};

/// A failure of a run in one sentence. Sentences name keys of the recipe in backquotes, as those of [`octant_recipe`] do.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The run cannot be begun or resumed as requested.
    #[error("{0}")]
    Refused(String),
    /// Stopped before the first step.
    #[error("stopped before the first step; nothing was changed")]
    Stopped,
    /// The recipe cannot be used.
    #[error(transparent)]
    Recipe(#[from] RecipeError),
    /// Training failed.
    #[error(transparent)]
    Train(#[from] TrainError),
    /// The device failed.
    #[error(transparent)]
    Device(#[from] RuntimeError),
    /// A sample cannot be read.
    #[error(transparent)]
    Data(#[from] DataError),
    /// The run directory cannot be used.
    #[error(transparent)]
    Events(#[from] EventsError),
    /// A file of weights cannot be used.
    #[error(transparent)]
    Weights(#[from] ArchiveError),
    /// The model is unknown.
    #[error(transparent)]
    Model(#[from] ZooError),
    /// An image cannot be drawn.
    #[error(transparent)]
    Image(#[from] ImageError),
    /// An image cannot be resized.
    #[error(transparent)]
    Resize(#[from] Unsupported),
    /// A tensor does not have the shape that it should have.
    #[error(transparent)]
    Tensor(#[from] TensorError),
    /// A server cannot be reached.
    #[error(transparent)]
    Fetch(#[from] FetchError),
    /// Processes that should train together do not.
    #[error(transparent)]
    Cluster(#[from] octant_cluster::ClusterError),
    /// A file cannot be written.
    #[error("cannot write {}: {source}", path.display())]
    File {
        /// Which one.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
}

/// The result of everything here.
pub type Result<T, E = RunError> = std::result::Result<T, E>;

/// Writes a file whole.
pub(crate) fn write(path: &Path, content: impl AsRef<[u8]>) -> Result<()> {
    std::fs::write(path, content).map_err(|source| RunError::File { path: path.into(), source })
}

/// Makes a folder and those above it.
pub(crate) fn make_folder(path: &Path) -> Result<()> {
    std::fs::create_dir_all(path).map_err(|source| RunError::File { path: path.into(), source })
}

impl From<octant_graph::GraphError> for RunError {
    fn from(error: octant_graph::GraphError) -> RunError {
        RunError::Train(error.into())
    }
}
