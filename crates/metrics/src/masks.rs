//! Masks: overlap, and their connected components.

use crate::{Metric, defined_ratio, ratio, vector};
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
/// images (`niou`). Without a marked pixel in any mask or prediction, the first is undefined: NaN.
pub fn metrics(sums: &[f64]) -> Vec<Metric> {
    vec![("iou".into(), defined_ratio(sums[0], sums[1])), ("niou".into(), ratio(sums[2], sums[3]))]
}

/// Marked pixels that touch each other, corners included.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Component {
    /// How many pixels.
    pub area: usize,
    /// Their mean row and column.
    pub center: [f64; 2],
}

/// The components of a mask of `width` columns in the order of their first pixels, as scikit-image's `label` with
/// `connectivity=2` numbers them.
pub fn components(mask: &[bool], width: usize) -> Vec<Component> {
    let mut seen = vec![false; mask.len()];
    let mut found = Vec::new();
    let mut open = Vec::new();
    for start in 0..mask.len() {
        if !mask[start] || seen[start] {
            continue;
        }
        seen[start] = true;
        open.push(start);
        let (mut area, mut rows, mut columns) = (0usize, 0usize, 0usize);
        while let Some(position) = open.pop() {
            let (row, column) = (position / width, position % width);
            (area, rows, columns) = (area + 1, rows + row, columns + column);
            for neighbor_row in row.saturating_sub(1)..=row + 1 {
                for neighbor_column in column.saturating_sub(1)..=(column + 1).min(width - 1) {
                    let neighbor = neighbor_row * width + neighbor_column;
                    if neighbor < mask.len() && mask[neighbor] && !seen[neighbor] {
                        seen[neighbor] = true;
                        open.push(neighbor);
                    }
                }
            }
        }
        let center = [rows, columns].map(|sum| sum as f64 / area as f64);
        found.push(Component { area, center });
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn corners_connect_and_borders_do_not_wrap() {
        let mask: Vec<bool> = ["#..#", ".#..", "....", "#..#"].concat().chars().map(|c| c == '#').collect();
        let found = components(&mask, 4);
        assert_eq!(found.iter().map(|component| component.area).collect::<Vec<_>>(), [2, 1, 1, 1]);
        assert_eq!(found[0].center, [0.5, 0.5]);
    }
}
