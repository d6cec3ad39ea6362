//! Masks of one foreground class.

use crate::{Metric, ratio, vector};
use octant_graph::{DType, Tensor};

/// The positions of the sums of [`overlap`].
pub const SUMS: usize = 4;

/// Of a batch of logits `[n, h, w, 1]` and masks of 0 and 1: pixels in both, pixels in either, the sum of every image's
/// own ratio of the two, and the number of images. A pixel is marked where its logit is above 0.
pub fn overlap(logits: &Tensor, masks: &Tensor, weights: &Tensor) -> Tensor {
    let axes: Vec<usize> = (1..logits.rank()).collect();
    let logits = logits.convert(DType::F32);
    let marked = logits.greater(&logits.scalar_like(0.0)).convert(DType::F32);
    let masks = masks.convert(DType::F32);
    let both = (&marked * &masks).sum(&axes) * weights;
    let either = (&marked + &masks - &marked * &masks).sum(&axes) * weights;
    // An image without target and without prediction is right; the reference divides by the smallest number instead.
    let empty = either.less_equal(&either.scalar_like(0.0));
    let own = empty.select(&either.full_like(1.0), &(&both / either.max(&either.scalar_like(1.0)))) * weights;
    vector(&[both.sum_all(), either.sum_all(), own.sum_all(), weights.sum_all()])
}

/// Intersection over union over all pixels (`iou`, which papers on small targets call mIoU) and as the mean over
/// images (`niou`).
pub fn metrics(sums: &[f64]) -> Vec<Metric> {
    vec![("iou".into(), ratio(sums[0], sums[1])), ("niou".into(), ratio(sums[2], sums[3]))]
}
