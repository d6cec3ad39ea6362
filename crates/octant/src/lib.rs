//! Octant as a library: train, fine-tune and evaluate vision models on a CPU, a GPU or all cores of a TPU board.
//!
//! # One idea
//!
//! A training step is one program. A model is ordinary Rust that builds a graph: it runs once, while the step is traced,
//! and never again. Gradients, the optimizer and the statistics are appended to the same graph, the whole is verified and
//! compiled for the device, and afterwards the host only feeds batches and reads sums.
//!
//! Four things are four types: [`Shape`](tensor::Shape) (metadata), [`HostTensor`](tensor::HostTensor) (bytes here),
//! [`Buffer`](runtime::Buffer) (bytes on a device), and [`Tensor`](graph::Tensor) (a value in a graph that has not run).
//!
//! # A first graph
//!
//! Shapes are inferred while tracing; a mistake is recorded with both shapes and comes out of `finish`.
//!
//! ```
//! use octant::prelude::*;
//!
//! let trace = Trace::new();
//! let x = trace.input("x", Shape::new(DType::F32, [2, 3]));
//! let y = (&x * 2.0).relu().sum_all();
//! let gradient = trace.gradients(&y, &[x.clone()]);
//! let graph = trace.finish(&[y, gradient[0].clone()])?;
//! assert_eq!(graph.input_shapes().len(), 1);
//! # Ok::<(), octant::graph::GraphError>(())
//! ```
//!
//! # A model
//!
//! Variables are declared where they are used, under a scope whose path is the key in the reference's state dict:
//!
//! ```
//! use octant::prelude::*;
//!
//! fn tiny(cx: &Context, images: &Tensor) -> Tensor {
//!     let root = cx.root();
//!     let x = Conv2d::new(8, 3).apply(&root.at("conv"), images).relu();
//!     Dense::new(10).apply(&root.at("fc"), &x.mean(&[1, 2]))
//! }
//! ```
//!
//! # Training
//!
//! A [`Task`](train::Task) defines what is learned: its inputs, its loss and sums, its metrics, and what it predicts. A
//! [`Session`](train::Session) holds the compiled step and the state on the device. [`train::run`] is the loop around them
//! with phases, validation, checkpoints and bit-exact resumption. `examples/own_step.rs` is a model with a task of its own;
//! `gan.rs`, `distill.rs` and `contrastive.rs` have steps with several networks.
//!
//! # Recipes
//!
//! A [`Recipe`](recipe::Recipe) is everything a run needs to know, as TOML, and a [`TrainJob`](run::TrainJob) runs one: the same
//! orchestration as `octant train`, with the same run directory. `examples/fine_tune.rs` fine-tunes a model of the [`zoo`] on a
//! folder of images; `examples/whole_run.rs` trains, resumes, evaluates and predicts.
//!
//! # Prediction
//!
//! A [`Predictor`] is a network with its weights, its preprocessing and its decoder, made from a run or from a file of weights;
//! threads share it. Its [`Prediction`](predict::Prediction)s are typed, in pixels of the original image.
//!
//! # Devices
//!
//! [`device::open`] makes a backend out of a name: `auto` takes a TPU, a GPU or the processor, whichever is there. GPUs and TPUs
//! are reached through PJRT plugins that are loaded at run time, so nothing is needed to build for them.

pub use octant_archive as archive;
pub use octant_cluster as cluster;
pub use octant_cpu as cpu;
pub use octant_data as data;
pub use octant_device as device;
pub use octant_events as events;
pub use octant_graph as graph;
pub use octant_imaging as imaging;
pub use octant_measure as measure;
pub use octant_metrics as metrics;
pub use octant_nn as nn;
pub use octant_pjrt as pjrt;
pub use octant_plan as plan;
pub use octant_predict as predict;
pub use octant_predict::Predictor;
pub use octant_process as process;
pub use octant_recipe as recipe;
pub use octant_run as run;
pub use octant_runtime as runtime;
pub use octant_tensor as tensor;
pub use octant_train as train;
pub use octant_zoo as zoo;

/// What most programs need.
pub mod prelude {
    pub use octant_cpu::CpuBackend;
    pub use octant_data::{Dataset, Glyphs, Loader, LoaderConfig, Pipeline, Sample, Target, Transform};
    pub use octant_device as device;
    pub use octant_graph::{DType, HostTensor, Shape, Tensor, Trace};
    pub use octant_metrics::vector;
    pub use octant_nn::layers::{BatchNorm, Conv2d, ConvTranspose2d, Dense};
    pub use octant_nn::{Context, Mode, Objective, Optimizer, Precision, loss};
    pub use octant_predict::{Output, Prediction, Predictor};
    pub use octant_recipe::{LocalFiles, Recipe};
    pub use octant_run::{Observer, RunEvent, RunOutcome, TrainJob};
    pub use octant_runtime::{Backend, CompileOptions, Mesh};
    pub use octant_train::run::{EpochReport, Watcher};
    pub use octant_train::step::StepPlan;
    pub use octant_train::{Inputs, Metric, Outcome, Session, Task};
}
