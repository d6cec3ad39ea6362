//! From images to tokens with positions.
//!
//! Positions are kept for one grid of patches. Images of another size get them interpolated inside the graph, as timm does
//! with `dynamic_img_size`: bicubic with antialiasing. So the variable has the same shape at every size, weights load
//! without conversion, and training at another size still moves the embeddings of the file.

use super::VisionTransformer;
use octant_graph::{DType, HostTensor, Shape, Tensor};
use octant_nn::layers::{Conv2d, Padding};
use octant_nn::{Fans, Init, Scope, WeightLayout, init};

const BELL: Init = Init::Normal { deviation: 0.02 };

impl VisionTransformer {
    /// The tokens: those in front, then one per patch, row by row, with the positions added.
    pub(super) fn embed(&self, cx: &Scope, images: &Tensor) -> Tensor {
        let patches = Conv2d::new(self.width, self.patch).stride(self.patch).padding(Padding::Valid);
        let patches = patches.bias(!self.pre_norm).init(patch_init, init::zeros);
        let patches = patches.apply(&cx.at(self.names.patches), images);
        let [batch, height, width] = [0, 1, 2].map(|axis| patches.dim(axis));
        let patches = patches.reshape(&[batch, height * width, self.width]);
        let mut front = Vec::new();
        for (name, count) in self.prefix() {
            let init = if name == self.names.class_token { init::ZEROS } else { BELL };
            let tokens = cx.param(name, &[1, count, self.width], init, WeightLayout::Same).convert(patches.dtype());
            front.push(tokens.broadcast_to(&[batch, count, self.width]));
        }
        let joined = |patches: Tensor| match front.is_empty() {
            true => patches,
            false => Tensor::concatenate(&front.iter().cloned().chain([patches]).collect::<Vec<_>>(), 1),
        };
        let positions = self.positions(cx, height, width).convert(patches.dtype());
        match self.patch_positions {
            true => joined(patches + positions),
            false => joined(patches) + positions,
        }
    }

    /// Positions for a grid of that size, `[1, tokens, width]`.
    fn positions(&self, cx: &Scope, height: usize, width: usize) -> Tensor {
        let in_front = match self.patch_positions {
            true => 0,
            false => self.prefix().iter().map(|(_, count)| count).sum(),
        };
        let [scope, name] = self.names.positions;
        let kept = [1, in_front + self.grid * self.grid, self.width];
        let positions = cx.at(scope).param(name, &kept, BELL, WeightLayout::Same);
        if (height, width) == (self.grid, self.grid) {
            return positions;
        }
        let of_patches = positions.slice_axis(1, in_front, kept[1]);
        let of_patches = resampled(&of_patches, self.grid, [height, width]);
        match in_front {
            0 => of_patches,
            _ => Tensor::concatenate(&[positions.slice_axis(1, 0, in_front), of_patches], 1),
        }
    }
}

/// Embeddings of a square grid, `[1, grid², features]`, interpolated to another one.
fn resampled(embeddings: &Tensor, grid: usize, [height, width]: [usize; 2]) -> Tensor {
    let features = embeddings.dim(2);
    let matrix = |length: usize| {
        let weights = HostTensor::from_f64s(Shape::new(DType::F32, [length, grid]), &bicubic(grid, length));
        embeddings.trace().constant(weights.expect("one weight per pair of positions"))
    };
    let rows = matrix(height).matmul(&embeddings.reshape(&[grid, grid * features]));
    let by_column = rows.reshape(&[height, grid, features]).transpose(&[1, 0, 2]);
    let columns = matrix(width).matmul(&by_column.reshape(&[grid, height * features]));
    let by_row = columns.reshape(&[width, height, features]).transpose(&[1, 0, 2]);
    by_row.reshape(&[1, height * width, features])
}

/// The weights of PyTorch's antialiased bicubic interpolation along one axis, `[to, from]`: Keys's kernel with a = −1/2,
/// widened where the axis shrinks, and normalized over the elements that exist.
fn bicubic(from: usize, to: usize) -> Vec<f64> {
    let scale = from as f64 / to as f64;
    let (support, sharpness) = (2.0 * scale.max(1.0), 1.0 / scale.max(1.0));
    let row = |output: usize| {
        let center = scale * (output as f64 + 0.5);
        let first = (center - support + 0.5).max(0.0) as usize;
        let limit = ((center + support + 0.5) as usize).min(from);
        let weight = |input: usize| match (first..limit).contains(&input) {
            true => keys((input as f64 - center + 0.5) * sharpness),
            false => 0.0,
        };
        let weights: Vec<f64> = (0..from).map(weight).collect();
        let total: f64 = weights.iter().sum();
        weights.into_iter().map(move |weight| weight / total)
    };
    (0..to).flat_map(row).collect()
}

fn keys(distance: f64) -> f64 {
    const A: f64 = -0.5;
    match distance.abs() {
        x if x < 1.0 => ((A + 2.0) * x - (A + 3.0)) * x * x + 1.0,
        x if x < 2.0 => (((x - 5.0) * x + 8.0) * x - 4.0) * A,
        _ => 0.0,
    }
}

fn patch_init(fans: Fans) -> Init {
    Init::TruncatedNormal { deviation: (1.0 / fans.inputs as f64).sqrt(), bound: 2.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use octant_graph::Trace;
    use octant_graph::evaluate::evaluate;

    /// Against figures of `golden/positions.py`.
    #[test]
    fn interpolated_positions_equal_those_of_timm() {
        const FEATURES: usize = 3;
        let lines: Vec<&str> = include_str!("../../../golden/figures/positions.txt").lines().collect();
        assert_eq!(lines.len(), 5);
        for line in lines {
            let (sizes, expected): (Vec<&str>, Vec<&str>) = {
                let words: Vec<&str> = line.split(' ').collect();
                (words[..3].to_vec(), words[3..].to_vec())
            };
            let sizes: Vec<usize> = sizes.iter().map(|size| size.parse().unwrap()).collect();
            let [grid, height, width] = [0, 1, 2].map(|index| sizes[index]);
            let shape = Shape::new(DType::F32, [1, grid * grid, FEATURES]);
            let given: Vec<f64> = (0..shape.elements()).map(|index| (1.0 + 0.37 * index as f64).sin()).collect();
            let trace = Trace::new();
            let made = resampled(&trace.input("x", shape.clone()), grid, [height, width]);
            let graph = trace.finish(&[made]).unwrap();
            let made = evaluate(&graph, &[HostTensor::from_f64s(shape, &given).unwrap()]).unwrap()[0].to_f64s();
            assert_eq!(made.len(), height * width * FEATURES);
            for (index, (found, expected)) in made.iter().step_by(7).zip(&expected).enumerate() {
                let off = (found - expected.parse::<f64>().unwrap()).abs();
                assert!(off < 1e-5, "{grid} to {height}×{width}, {index}: {off:.1e}");
            }
        }
    }

    #[test]
    fn weights_of_an_interpolation_sum_to_one_and_keep_an_unchanged_axis() {
        for (from, to) in [(37, 7), (7, 37), (4, 6), (16, 14)] {
            let weights = bicubic(from, to);
            weights.chunks(from).for_each(|row| assert!((row.iter().sum::<f64>() - 1.0).abs() < 1e-12));
        }
        let same = bicubic(5, 5);
        (0..25).for_each(|index| assert!((same[index] - f64::from(index % 6 == 0)).abs() < 1e-12));
    }
}
