//! Why a device cannot be opened, each as one sentence that says what to do.

use octant_pjrt::PjrtError;
use octant_runtime::RuntimeError;

/// The result of opening a device.
pub type Result<T, E = DeviceError> = std::result::Result<T, E>;

/// More threads than this help no engine, and a system may not give them.
pub(crate) const MOST_THREADS: usize = 1024;

/// A device cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum DeviceError {
    /// No device has that name.
    #[error(
        "there is no device \"{0}\"; use `device` auto, cpu, cuda, cuda:0, cuda:0,1, cuda:idle, tpu or the path of a PJRT \
         plugin"
    )]
    Unknown(String),
    /// The machine has no such device, or it cannot be reached.
    #[error("{0}; use `device = \"cpu\"`")]
    Missing(String),
    /// The processor's engine cannot run without a thread, nor with more than a machine can have.
    #[error("the number of threads must lie within 1 and {MOST_THREADS}, not {0}")]
    Threads(usize),
    /// A GPU that was named is not there, or none can be chosen.
    #[error("{0}")]
    Gpu(String),
    /// An option or a variable has a value that means nothing.
    #[error("{0}")]
    Option(String),
    /// The processor's engine was to work together with other processes.
    #[error(
        "several processes train together on GPUs and TPUs only: the processor's engine uses all cores of its own machine; give \
         `device = \"cuda\"` or \"tpu\", or train without `--nodes`"
    )]
    Alone,
    /// The plugin refused.
    #[error(transparent)]
    Plugin(#[from] PjrtError),
    /// The engine refused.
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
}
