//! Training: a [`Task`] says what is learned, a [`Session`] holds the compiled step and the state on the device.
//!
//! A step is one program, `(state, batch, scalars) → state`. The state is everything that lives between steps: the
//! model's variables, the optimizer's slots, and running sums of statistics. Its buffers are donated, so it exists once
//! on the device. The learning rate, the step number and the seed are inputs, never constants. The host feeds batches
//! and reads the sums when somebody wants to see them.
//!
//! Start reading at [`Task`], then [`step`].

mod classify;
mod error;
mod session;
mod state;
pub mod step;
mod task;

pub use classify::Classify;
pub use error::TrainError;
pub use session::Session;
pub use state::{State, export, import};
pub use task::{Metric, Outcome, Task};
