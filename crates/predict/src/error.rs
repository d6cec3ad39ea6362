//! What can go wrong between weights and a prediction.

use octant_archive::ArchiveError;
use octant_data::DataError;
use octant_fetch::FetchError;
use octant_recipe::RecipeError;
use octant_runtime::RuntimeError;
use octant_train::TrainError;
use octant_zoo::ZooError;
use std::path::Path;

/// A failure in one sentence.
#[derive(Debug, thiserror::Error)]
pub enum PredictError {
    /// What was given cannot be used as it is.
    #[error("{0}")]
    Refused(String),
    /// The caller cancelled the prediction, or its deadline passed.
    #[error("the prediction was cancelled, or its deadline passed")]
    Cancelled,
    /// A file could not be written or read.
    #[error("{what}: {source}")]
    Io {
        /// What was tried, with the path.
        what: String,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// The recipe of the network cannot be used.
    #[error(transparent)]
    Recipe(#[from] RecipeError),
    /// The model is unknown.
    #[error(transparent)]
    Model(#[from] ZooError),
    /// An image or a data set cannot be read.
    #[error(transparent)]
    Data(#[from] DataError),
    /// The program cannot be built, or an evaluation failed.
    #[error(transparent)]
    Train(#[from] TrainError),
    /// A file of weights cannot be used.
    #[error(transparent)]
    Weights(#[from] ArchiveError),
    /// The device refused.
    #[error(transparent)]
    Device(#[from] RuntimeError),
    /// The network cannot be exported.
    #[error(transparent)]
    Export(#[from] octant_export::ExportError),
    /// A download failed.
    #[error(transparent)]
    Fetch(#[from] FetchError),
}

impl PredictError {
    /// The sentence, with the file that it is about.
    pub fn about(&self, path: &Path) -> String {
        let text = self.to_string();
        if text.contains(&*path.to_string_lossy()) { text } else { format!("{}: {text}", path.display()) }
    }
}

impl From<octant_graph::GraphError> for PredictError {
    fn from(error: octant_graph::GraphError) -> PredictError {
        PredictError::Train(error.into())
    }
}

impl From<octant_tensor::TensorError> for PredictError {
    fn from(error: octant_tensor::TensorError) -> PredictError {
        PredictError::Refused(error.to_string())
    }
}

impl From<octant_imaging::ImageError> for PredictError {
    fn from(error: octant_imaging::ImageError) -> PredictError {
        PredictError::Refused(error.to_string())
    }
}

/// The result of everything here.
pub type Result<T, E = PredictError> = std::result::Result<T, E>;

/// An error of the operating system with what was tried.
pub(crate) fn io(what: &str, path: &Path) -> impl FnOnce(std::io::Error) -> PredictError {
    let what = format!("cannot {what} {}", path.display());
    move |source| PredictError::Io { what, source }
}

/// Ends a function with a refusal.
macro_rules! refuse {
    ($($text:tt)*) => { return Err($crate::PredictError::Refused(format!($($text)*))) };
}

/// The refusal itself.
macro_rules! refusal {
    ($($text:tt)*) => { $crate::PredictError::Refused(format!($($text)*)) };
}

pub(crate) use {refusal, refuse};
