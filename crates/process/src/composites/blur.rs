//! Gaussian blur: shifted copies of the image, weighted and added up.

use super::{Rounding, are_levels, round, to_float};
use octant_graph::{DType, Tensor};
use octant_imaging::blur::{GaussianBlur, Passes, passes};
use octant_imaging::geometry::Border;
use octant_imaging::{Semantics, Unsupported};

/// Blurs the images of a batch, as [`blur_f32`](octant_imaging::blur::blur_f32) and
/// [`blur_u8`](octant_imaging::blur::blur_u8) do on the host.
pub fn blur(images: &Tensor, blur: GaussianBlur) -> Result<Tensor, Unsupported> {
    let levels = are_levels(images);
    let Passes { kernel, times, border } = passes(blur, levels)?;
    let dtype = images.dtype();
    let mut values = to_float(images);
    // Pillow approximates a Gaussian by several boxes and stores bytes after each of them.
    let stores_bytes = blur.semantics == Semantics::Pil;
    for axis in [2, 1] {
        for _ in 0..times {
            values = convolve(&values, axis, &kernel, border);
            if stores_bytes {
                values = round(&values, Rounding::HalfUp, dtype);
            }
        }
    }
    if !levels {
        return Ok(values);
    }
    let rounding = if blur.semantics == Semantics::OpenCv { Rounding::HalfUp } else { Rounding::HalfEven };
    Ok(round(&values, rounding, dtype).convert(dtype))
}

fn convolve(values: &Tensor, axis: usize, kernel: &[f64], border: Border<f32>) -> Tensor {
    let length = values.dim(axis as isize);
    let padded = extend(values, axis, kernel.len() / 2, border);
    // Summed in f32 whatever the images are: rounding after every tap would add up.
    let taps = kernel
        .iter()
        .enumerate()
        .map(|(tap, &weight)| padded.slice_axis(axis, tap, tap + length).convert(DType::F32) * weight);
    taps.reduce(|sum, part| sum + part).map_or_else(|| values.clone(), |sum| sum.convert(values.dtype()))
}

/// The images, padded on both sides of one axis.
fn extend(values: &Tensor, axis: usize, reach: usize, border: Border<f32>) -> Tensor {
    let mut extended = values.clone();
    let mut left = reach;
    while left > 0 {
        let length = extended.dim(axis as isize);
        let first = extended.slice_axis(axis, 0, 1);
        let last = extended.slice_axis(axis, length - 1, length);
        let step = match border {
            // Reflecting at the far edge continues the reflection at the near one.
            Border::Reflect if values.dim(axis as isize) > 1 => left.min(values.dim(axis as isize) - 1),
            _ => left,
        };
        let [low, high] = match border {
            Border::Reflect if values.dim(axis as isize) > 1 => [
                extended.slice_axis(axis, 1, 1 + step).reverse(&[axis]),
                extended.slice_axis(axis, length - 1 - step, length - 1).reverse(&[axis]),
            ],
            Border::Constant(value) => {
                let side = repeated(&first, axis, step).full_like(value as f64);
                [side.clone(), side]
            }
            _ => [repeated(&first, axis, step), repeated(&last, axis, step)],
        };
        extended = Tensor::concatenate(&[low, extended, high], axis);
        left -= step;
    }
    extended
}

/// One entry of an axis, several times.
fn repeated(entry: &Tensor, axis: usize, times: usize) -> Tensor {
    let mut dims = entry.dims().to_vec();
    dims[axis] = times;
    entry.broadcast_to(&dims)
}
