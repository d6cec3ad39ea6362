//! Losses. Each returns one value per sample (f32, `[n]`); [`mean`] turns them into the loss of the batch, leaving out
//! samples that only pad it. Those over the classes of pixels (`pixel_…`) return the loss of the batch itself.

mod classification;
pub mod detection;
mod segmentation;
mod semantic;

pub use classification::{GanLoss, gradient_penalty};
pub use classification::{absolute_error, dissimilarity, huber, squared_error};
pub use classification::{asymmetric, binary_cross_entropy, cross_entropy, focal, soft_cross_entropy};
pub use classification::{weighted_binary_cross_entropy, weighted_cross_entropy};
pub use segmentation::{binary_cross_entropy_map, dice, sls_iou, soft_iou};
pub use semantic::{pixel_cross_entropy, pixel_dice, pixel_focal, pixel_lovasz, pixel_ohem, pixel_soft_iou};

use octant_graph::{DType, Tensor};

/// The mean over samples, a scalar. With `weights` (`[n]`, 0 for padding) it is `Σ w·loss / Σ w`.
///
/// ```
/// use octant_graph::{DType, Shape, Trace};
/// use octant_nn::loss;
///
/// let trace = Trace::new();
/// let logits = trace.input("logits", Shape::new(DType::F32, [8, 10]));
/// let labels = trace.input("labels", Shape::new(DType::I32, [8]));
/// let mask = trace.input("mask", Shape::new(DType::F32, [8]));
/// let loss = loss::mean(&loss::cross_entropy(&logits, &labels, 0.1), Some(&mask));
/// assert_eq!(loss.rank(), 0);
/// ```
pub fn mean(losses: &Tensor, weights: Option<&Tensor>) -> Tensor {
    match weights {
        None => losses.mean_all(),
        Some(weights) => {
            let weights = weights.convert(DType::F32);
            // A batch of nothing but padding has the loss 0.
            let total = weights.sum_all().max(&weights.scalar_like(1e-12));
            (losses * &weights).sum_all() / total
        }
    }
}

/// The axes of a sample, all but the first.
fn sample_axes(tensor: &Tensor) -> Vec<usize> {
    (1..tensor.rank()).collect()
}
