//! Why a recipe cannot be planned, each as one sentence.

use octant_device::DeviceError;
use octant_pjrt::PjrtError;
use octant_recipe::RecipeError;
use octant_runtime::RuntimeError;
use octant_train::TrainError;
use octant_zoo::ZooError;

/// The result of planning.
pub type Result<T, E = PlanError> = std::result::Result<T, E>;

/// A failure in one sentence.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// The request cannot be planned like that.
    #[error("{0}")]
    Refused(String),
    /// The recipe or its data cannot be used.
    #[error(transparent)]
    Recipe(#[from] RecipeError),
    /// The model is unknown.
    #[error(transparent)]
    Model(#[from] ZooError),
    /// The step cannot be built.
    #[error(transparent)]
    Train(#[from] TrainError),
    /// The compiler failed.
    #[error(transparent)]
    Compile(#[from] RuntimeError),
    /// The plugin that compiles for boards cannot be used.
    #[error(transparent)]
    Plugin(#[from] PjrtError),
    /// There is no compiler for TPU boards on this machine.
    #[error("plans need the TPU's compiler; `octant plugin install tpu` fetches it: {0}")]
    NoCompiler(PjrtError),
    /// There is no GPU in this machine.
    #[error("XLA chooses a GPU's kernels by measuring them, so this target needs one in this machine: {0}")]
    NoGpu(DeviceError),
    /// A process cannot be started or waited for, or a file cannot be written.
    #[error("{0}: {1}")]
    System(String, std::io::Error),
}

/// A refusal as a result.
macro_rules! refuse {
    ($($text:tt)*) => { return Err($crate::PlanError::Refused(format!($($text)*))) };
}

pub(crate) use refuse;
