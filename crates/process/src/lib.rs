//! Named image operations over files and batches, and comparisons of their results.
//!
//! An [`Operation`] (resize, crop, blur) is applied to images by an [`Engine`]: the host's kernels, one image after the other, or a
//! program on a device, one batch after the other. Both take the numbers that define an operation from `octant-imaging`.
//! [`Work`] reads files or folders of frames and masks, applies operations and writes the results; a [`ValueRule`] thresholds
//! or rounds values; [`Results`] of libraries, precisions and devices are compared. The operations for whole batches in a
//! graph are [`composites`], which models and tasks may use too.

pub mod composites;
pub mod files;

mod compare;
mod engine;
mod error;
mod operation;
mod values;
mod work;

pub use compare::{Results, Variant};
pub use engine::{DeviceEngine, Engine, Times};
pub use error::{ProcessError, Result};
pub use octant_imaging::blur::GaussianBlur;
pub use octant_imaging::compare::ImageDifference;
pub use octant_imaging::geometry::{Border, PixelWindow};
pub use octant_imaging::mask::{MaskCrop, Rounding, Threshold};
pub use octant_imaging::resize::Method;
pub use octant_imaging::{Filter, Semantics};
pub use operation::{Operation, Precision, Size, blur, method, window};
pub use values::{ValueRule, is_array};
pub use work::{CropBy, Processed, Work, WorkEvent};
