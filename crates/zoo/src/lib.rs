//! The model zoo: networks with the parameter names, the results and the preprocessing of timm and torchvision.
//!
//! One file per family in [`families`], all with the same surface, [`Model`]. The [`registry`] is an explicit list: a
//! name, its aliases in timm and torchvision, what its weights expect of an image, and how to build it.
//! [`weights`] converts variables between the reference's layout and Octant's; [`identity`] identifies the model of an
//! archive.
//!
//! ```
//! use octant_graph::{DType, Shape, Trace};
//! use octant_nn::{Context, Mode, Precision};
//!
//! let model = octant_zoo::build("fashion-cnn", None)?;
//! let trace = Trace::new();
//! let images = trace.input("images", Shape::new(DType::F32, [8, 28, 28, 1]));
//! let cx = Context::new(&trace, Mode::Evaluate, Precision::F32);
//! let logits = model.forward(&cx.root(), &images);
//! assert_eq!(logits.dims(), [8, 10]);
//! # Ok::<(), octant_zoo::ZooError>(())
//! ```
//!
//! Start reading at [`Model`], then at [`families::resnet`] for what a family looks like.

pub mod adapted;
mod converted;
pub mod families;
pub mod identity;
mod model;
pub mod registry;
pub mod weights;

pub use adapted::Adapted;
pub use model::{
    BoxCode, BoxDistribution, CellDetail, DetectorHead, Model, ModelTask, SetObjects, SetPrediction, SetPredictions,
    describe, leaves_pixels, total_stride,
};
pub use registry::{Interpolation, ModelEntry, ModelSize, Preprocessing, ZooError, build, find, published};
