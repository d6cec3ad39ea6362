//! Errors of backends.

use octant_tensor::Shape;

/// A failure of a backend, in a sentence that says what to do.
#[derive(Debug, Clone, thiserror::Error)]
pub enum RuntimeError {
    /// The backend does not know how to do this.
    #[error("the {backend} backend does not support {what}")]
    Unsupported {
        /// The backend's name.
        backend: String,
        /// The operation.
        what: String,
    },
    /// A program was given inputs it was not compiled for.
    #[error("input {index} ({name}) should be {expected}, it is {given}")]
    Argument {
        /// Which input.
        index: usize,
        /// Its name in the program.
        name: String,
        /// The shape the program was compiled for.
        expected: Shape,
        /// The shape that came.
        given: Shape,
    },
    /// A program was given another number of inputs.
    #[error("the program takes {expected} inputs, it was given {given}")]
    ArgumentCount {
        /// How many it takes.
        expected: usize,
        /// How many came.
        given: usize,
    },
    /// A buffer was used after it had been handed over to a program for updating in place.
    #[error("this buffer was donated to a program and holds nothing any more; use the program's output instead")]
    Donated,
    /// The device has not enough memory.
    #[error("{message}")]
    OutOfMemory {
        /// What was requested, what there is, and what would fit.
        message: String,
        /// Bytes requested, where known.
        requested: Option<u64>,
        /// Bytes there are, where known.
        available: Option<u64>,
    },
    /// The compiler refused the program.
    #[error("{backend} could not compile the program: {message}")]
    Compile {
        /// The backend's name.
        backend: String,
        /// The compiler's reason.
        message: String,
    },
    /// The device is gone, or no longer responds.
    #[error("the device no longer responds ({reason}); `octant devices` shows what is left")]
    Lost {
        /// The plugin's message, in one line.
        reason: String,
    },
    /// The device failed.
    #[error("{0}")]
    Device(String),
}
