//! What can go wrong between a recipe and its run.

use octant_archive::ArchiveError;
use octant_data::DataError;
use octant_events::EventsError;
use octant_train::TrainError;
use octant_train::options::OptionError;
use octant_zoo::ZooError;

/// A failure in one sentence. Sentences name keys of the recipe in backquotes; a program that has flags for them may
/// name those instead.
#[derive(Debug, thiserror::Error)]
pub enum RecipeError {
    /// The recipe cannot be used as it is.
    #[error("{0}")]
    Refused(String),
    /// A key has a value that cannot be used.
    #[error(transparent)]
    Option(#[from] OptionError),
    /// The model is unknown.
    #[error(transparent)]
    Model(#[from] ZooError),
    /// The data cannot be read.
    #[error(transparent)]
    Data(#[from] DataError),
    /// The run cannot be built.
    #[error(transparent)]
    Train(#[from] TrainError),
    /// A file of weights cannot be used.
    #[error(transparent)]
    Weights(#[from] ArchiveError),
    /// The run directory cannot be used.
    #[error(transparent)]
    Events(#[from] EventsError),
}

impl From<octant_graph::GraphError> for RecipeError {
    fn from(error: octant_graph::GraphError) -> RecipeError {
        RecipeError::Train(error.into())
    }
}

/// The result of everything here.
pub type Result<T, E = RecipeError> = std::result::Result<T, E>;

/// Ends a function with a refusal, as `return Err(format!(…))` would.
macro_rules! refuse {
    ($($text:tt)*) => { return Err($crate::RecipeError::Refused(format!($($text)*))) };
}

/// The refusal itself.
macro_rules! refusal {
    ($($text:tt)*) => { $crate::RecipeError::Refused(format!($($text)*)) };
}

pub(crate) use {refusal, refuse};
