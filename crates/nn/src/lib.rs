//! Building blocks of models: variables with the names of the reference implementation, layers, losses, optimizers,
//! schedules.
//!
//! A model is a function that builds a graph. It receives a [`Scope`], which knows the path of the layer being built,
//! and declares its variables where it uses them; the path of a variable is its key in the reference's state dict.
//! Everything declared is collected in the [`Context`], from which the trainer reads the list of [`Variable`]s: what to
//! feed, what to differentiate, how to initialize, and how the reference lays it out in files ([`WeightLayout`]).
//!
//! ```
//! use octant_graph::{DType, Shape, Trace};
//! use octant_nn::{Context, Mode, Precision, layers::{Conv2d, Dense}};
//!
//! let trace = Trace::new();
//! let images = trace.input("images", Shape::new(DType::F32, [8, 28, 28, 1]));
//! let cx = Context::new(&trace, Mode::Evaluate, Precision::F32);
//! let root = cx.root();
//! let y = Conv2d::new(16, 3).apply(&root.at("conv"), &images).relu();
//! let logits = Dense::new(10).apply(&root.at("fc"), &y.global_avg_pool());
//!
//! let paths: Vec<String> = cx.variables().iter().map(|variable| variable.spec.path.clone()).collect();
//! assert_eq!(paths, ["conv.weight", "conv.bias", "fc.weight", "fc.bias"]);
//! assert_eq!(logits.dims(), [8, 10]);
//! ```
//!
//! Start reading at [`Context`] and [`Scope`], then at any file of [`layers`].

mod adapter;
mod context;
pub mod init;
pub mod layers;
pub mod loss;
mod objective;
pub mod optimizer;
pub mod random;
pub mod schedule;
mod scope;
mod variable;
mod weight_layout;

pub use adapter::Adapters;
pub use context::{Context, Mode, Precision, Training, is_under};
pub use init::{Fans, Init};
pub use objective::Objective;
pub use optimizer::Optimizer;
pub use schedule::Schedule;
pub use scope::Scope;
pub use variable::{Variable, VariableKind, VariableSpec};
pub use weight_layout::WeightLayout;
