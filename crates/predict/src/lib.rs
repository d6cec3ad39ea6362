//! Predictors: a network, its weights, its preprocessing and its decoder as one owned value.
//!
//! A [`Predictor`] is made from a run, from a file of weights that names its network, or from a model with weights. Its weights
//! are uploaded once, its programs are compiled once per shape of their input, and any number of threads may use it at once. A
//! [`Prediction`] is typed by what people do with it, is in pixels of the original image, and knows how to draw and to write
//! itself. What lies around a prediction is here too: [`Sources`] finds files, folders, lists and addresses,
//! [`Predictor::run_job`] runs them with [`ResultWriter`], [`Predictor::evaluate`] computes metrics over a data set,
//! [`Predictor::features`] returns what a layer computes, [`Network::to_onnx`] makes a file that other runtimes execute, and
//! [`Downloads`] fetches published weights.
//!
//! ```no_run
//! use octant_predict::Predictor;
//! # fn device() -> std::sync::Arc<dyn octant_runtime::Backend> { unimplemented!() }
//! let predictor = Predictor::open("runs/classify-1", &device())?;
//! for prediction in predictor.predict(["cat.jpg", "dog.jpg"])? {
//!     println!("{prediction}");
//! }
//! # Ok::<(), octant_predict::PredictError>(())
//! ```
//!
//! The command line, a server and other programs use the same calls, so that they cannot differ. Start reading at
//! [`Predictor`], then `decode.rs`.

mod cancel;
mod check;
mod choice;
mod decode;
mod description;
mod downloads;
pub mod draw;
mod error;
mod eval_source;
mod evaluate;
mod export;
mod features;
mod int8;
mod job;
mod network;
mod opening;
mod own_size;
mod prediction;
mod predictor;
mod programs;
mod raw;
pub mod similarity;
mod sources;
mod tiled_objects;
mod tiles;
pub mod track;
mod video;
pub mod weights;
mod writer;

pub use cancel::Cancel;
pub use check::{BatchCheck, check_model};
pub use choice::{BoxChoice, refuse_box_rules};
pub use decode::PreparedImage;
pub use downloads::{Downloads, PRETRAINED, Progress, fetch_data};
pub use error::{PredictError, Result};
pub use eval_source::EvalSource;
pub use evaluate::{EvalOptions, Evaluation};
pub use export::{
    Calibrated, CalibrationData, CalibrationOptions, CalibrationReport, ExportBatch, ExportCheck, ExportFormat,
    ExportOptions, ExportTarget, ExportedFacts, ExportedFile, ExportedProgram, OnnxExport, PeerChoice, PeerRuntime,
    StablehloExport, check_export, exported_network,
};
pub use features::{Distances, Extractor, separation, write_features};
pub use int8::Arithmetic;
pub use job::JobEvent;
pub use network::{ModelChoice, Network, NetworkFile, WeightSource};
pub use octant_export::int8::RangeRule;
pub use octant_export::onnx::OnnxModel;
pub use octant_export::stablehlo::{StablehloContainer, StablehloModel};
pub use octant_export::{Port, WrittenFiles};
pub use octant_metrics::boxes::Suppression;
pub use opening::{Opening, RANDOM, is_channels_first};
pub use own_size::{OwnSize, SlidingWindows};
pub use prediction::{Boxes, Classes, Labels, Mask, Names, Output, Prediction, Values, csv_field};
pub use predictor::{Input, PredictOptions, Predictor, PredictorMemory};
pub use programs::{Layer, RowShape};
pub use raw::read_images;
pub use sources::{Source, Sources};
pub use writer::{CocoResults, ResultTable, ResultWriter, Written};
