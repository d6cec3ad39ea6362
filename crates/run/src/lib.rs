//! One run, from a recipe to its directory: the same for the command line and for any other program.
//!
//! A [`TrainJob`] is a recipe and where its run should live. [`TrainJob::train`] opens the data, chooses what the recipe
//! leaves open (batch size, optimizer), warns about likely mistakes, begins or resumes the run directory, trains, and leaves
//! plots, a gallery of predictions and a summary behind. What happens on the way is reported to an [`Observer`] as
//! [`RunEvent`]s; text on a terminal, JSON lines and the mirrors of metrics are observers. The observer cannot change the
//! run, so the same recipe leaves the same directory with any observer, byte for byte but for times.
//!
//! ```no_run
//! use octant_recipe::{LocalFiles, check, set_text, table};
//! use octant_run::{RunEvent, TrainJob};
//! # fn device() -> std::sync::Arc<dyn octant_runtime::Backend> { unimplemented!() }
//! let mut recipe = table("classify")?;
//! set_text(&mut recipe, "data.dir='flowers'")?;
//! let mut show = |event: &RunEvent| {
//!     if let RunEvent::Epoch(report) = event {
//!         println!("epoch {} of {}: {:?}", report.epoch, report.epochs, report.metrics);
//!     }
//! };
//! let files = LocalFiles { cache: "cache".into() };
//! let outcome = TrainJob::new(check(recipe)?).train(&device(), &files, &mut show)?;
//! println!("{}", outcome.weights.display());
//! # Ok::<(), octant_run::RunError>(())
//! ```
//!
//! Start reading at `job.rs`.

mod advice;
mod batch;
mod driver;
mod error;
mod event_json;
mod event_text;
mod gallery;
mod history;
mod introduction;
mod job;
mod mirror;
mod network;
mod observer;
mod outcome;
mod pace;
mod packed;
pub mod plots;
pub mod search;
mod stored;
mod together;
mod trace;

pub use advice::{NextStep, next_steps};
pub use error::{Result, RunError};
pub use event_text::leading_metrics;
pub use history::{SettingChange, changes};
pub use introduction::DeviceFacts;
pub use job::{PreparedRun, TrainJob};
pub use observer::{Observer, PhaseStart, Resumed, RunEvent, RunStart, Stop};
pub use outcome::{BestEpoch, RunOutcome, saved_step};
pub use pace::Pace;
pub use packed::{pack_run, unpack_run};
pub use stored::{restore, store};
pub use trace::{trace_json, write_trace};
