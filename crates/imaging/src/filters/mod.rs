//! Filter weights: which input pixels make up an output pixel, and how much of each.
//!
//! Every resize here is separable, so a resize is two small sparse matrices, one per axis. They are computed by
//! [`plan`] alone, in the arithmetic of the library that is followed (float where it uses float, because a coordinate
//! rounded differently is a weight rounded differently), and used by the host kernels and by device programs alike.

pub(crate) mod area;
mod convolution;
pub(crate) mod interpolation;

use crate::{Filter, Semantics, Unsupported};

/// One axis of a resize: row `o` says that output `o` is the weighted sum of `taps` inputs from `start(o)` on.
#[derive(Debug, Clone, PartialEq)]
pub struct Rows {
    input: usize,
    taps: usize,
    starts: Vec<usize>,
    weights: Vec<f64>,
}

impl Rows {
    /// Rows of differing lengths, given as (first input, weights); shorter rows are filled with zeros.
    /// Weights on inputs outside of the axis are added to the nearest input inside.
    fn new(input: usize, rows: impl Iterator<Item = (isize, Vec<f64>)>) -> Rows {
        let rows: Vec<(usize, Vec<f64>)> = rows.map(|(start, weights)| fold_inside(input, start, weights)).collect();
        let taps = rows.iter().map(|(_, weights)| weights.len()).max().unwrap_or(1).min(input);
        let mut padded = Rows { input, taps, starts: Vec::new(), weights: Vec::new() };
        for (start, weights) in rows {
            // A row at the end moves left so that all its taps lie inside; zeros make up for it.
            let moved = start.min(input - taps);
            padded.starts.push(moved);
            padded.weights.extend(std::iter::repeat_n(0.0, start - moved));
            padded.weights.extend(&weights);
            padded.weights.extend(std::iter::repeat_n(0.0, taps - (start - moved) - weights.len()));
        }
        padded
    }

    /// Inputs along this axis.
    pub fn input(&self) -> usize {
        self.input
    }

    /// Outputs along this axis.
    pub fn output(&self) -> usize {
        self.starts.len()
    }

    /// Weights per output, the same for all.
    pub fn taps(&self) -> usize {
        self.taps
    }

    /// The first input of an output.
    pub fn start(&self, output: usize) -> usize {
        self.starts[output]
    }

    /// The weights of an output.
    pub fn weights(&self, output: usize) -> &[f64] {
        &self.weights[output * self.taps..][..self.taps]
    }

    /// The rows as a dense matrix, `[output, input]` row-major: what a device multiplies with.
    pub fn to_matrix(&self) -> Vec<f32> {
        let mut matrix = vec![0.0; self.output() * self.input];
        for output in 0..self.output() {
            let row = &mut matrix[output * self.input + self.starts[output]..][..self.taps];
            row.iter_mut().zip(self.weights(output)).for_each(|(slot, &weight)| *slot = weight as f32);
        }
        matrix
    }

    /// True when every output is the input of the same number.
    pub fn is_identity(&self) -> bool {
        self.input == self.output() && (0..self.input).all(|position| self.picks(position, position))
    }

    /// True when an output is exactly one input.
    fn picks(&self, output: usize, input: usize) -> bool {
        let weights = self.weights(output).iter().enumerate();
        weights.into_iter().all(|(tap, &weight)| {
            let wanted = if self.starts[output] + tap == input { 1.0 } else { 0.0 };
            weight == wanted
        })
    }
}

/// Adds the weights of inputs before the first and after the last to those.
fn fold_inside(input: usize, start: isize, weights: Vec<f64>) -> (usize, Vec<f64>) {
    let last = input as isize - 1;
    let (low, high) = (start.clamp(0, last), (start + weights.len() as isize - 1).clamp(0, last));
    let mut inside = vec![0.0; (high - low + 1) as usize];
    for (tap, weight) in weights.into_iter().enumerate() {
        inside[((start + tap as isize).clamp(0, last) - low) as usize] += weight;
    }
    (low as usize, inside)
}

/// The vertical and the horizontal rows of a resize from `input` to `output`, both (height, width).
pub fn plan(
    input: (usize, usize),
    output: (usize, usize),
    filter: Filter,
    semantics: Semantics,
    antialias: bool,
) -> Result<(Rows, Rows), Unsupported> {
    if semantics == Semantics::OpenCv && filter == Filter::Area {
        // OpenCV averages areas only when both axes shrink; else it interpolates along both.
        let shrinks = input.0 >= output.0 && input.1 >= output.1;
        let rows = if shrinks { area::opencv_shrink } else { area::opencv_enlarge };
        return Ok((rows(input.0, output.0), rows(input.1, output.1)));
    }
    Ok((
        weights(input.0, output.0, filter, semantics, antialias)?,
        weights(input.1, output.1, filter, semantics, antialias)?,
    ))
}

/// What [`plan`] is for Pillow's nearest neighbors of 16-bit images, which it finds in another way than those of others.
pub fn nearest_pil_16_bit(input: (usize, usize), output: (usize, usize)) -> (Rows, Rows) {
    (interpolation::nearest_pil_16_bit(input.0, output.0), interpolation::nearest_pil_16_bit(input.1, output.1))
}

/// Since version 13 Pillow begins with the vertical pass when it removes more than twice as many rows as columns. That
/// matters because it rounds after each pass.
pub fn pillow_begins_vertically(vertical: &Rows, horizontal: &Rows) -> bool {
    let removed = |rows: &Rows| rows.input() as i64 - rows.output() as i64;
    removed(vertical) > 0 && removed(vertical) > 2 * removed(horizontal)
}

/// The rows of one axis. OpenCV's `area` looks at both axes and is decided in [`plan`]; here it looks at this one only.
pub fn weights(
    input: usize,
    output: usize,
    filter: Filter,
    semantics: Semantics,
    antialias: bool,
) -> Result<Rows, Unsupported> {
    let unsupported = |operation: String, advice| Err(Unsupported { semantics, operation, advice });
    Ok(match (semantics, filter, antialias) {
        (Semantics::Pil, Filter::Nearest, _) => interpolation::nearest_pil(input, output),
        (Semantics::Pil, _, false) => {
            return unsupported(format!("{filter} without antialias"), "leave antialias on or use torchvision");
        }
        (Semantics::Pil, _, true) => convolution::pil(input, output, filter),

        (Semantics::Torchvision, Filter::Nearest, _) => interpolation::nearest_torch(input, output),
        (Semantics::Torchvision, Filter::Area, _) => area::torch(input, output),
        (Semantics::Torchvision, Filter::Lanczos, _) => {
            return unsupported("lanczos on tensors".to_string(), "use pil, as torchvision does for PIL images");
        }
        (Semantics::Torchvision, _, true) => convolution::torch(input, output, filter),
        (Semantics::Torchvision, Filter::Bilinear, false) => interpolation::bilinear_torch(input, output),
        (Semantics::Torchvision, Filter::Bicubic, false) => interpolation::bicubic_torch(input, output),

        (Semantics::OpenCv, Filter::Nearest, _) => interpolation::nearest_opencv(input, output),
        (Semantics::OpenCv, Filter::Area, _) if input >= output => area::opencv_shrink(input, output),
        (Semantics::OpenCv, Filter::Area, _) => area::opencv_enlarge(input, output),
        (Semantics::OpenCv, _, true) => {
            return unsupported(format!("{filter} with antialias"), "use the area filter or switch antialias off");
        }
        (Semantics::OpenCv, Filter::Bilinear, false) => interpolation::bilinear_opencv(input, output),
        (Semantics::OpenCv, Filter::Bicubic, false) => interpolation::bicubic_opencv(input, output),
        (Semantics::OpenCv, Filter::Lanczos, false) => interpolation::lanczos_opencv(input, output),

        (Semantics::TensorFlow, Filter::Nearest, _) => interpolation::nearest_tensorflow(input, output),
        (Semantics::TensorFlow, Filter::Area, _) => area::tensorflow(input, output),
        (Semantics::TensorFlow, Filter::Bilinear, false) => interpolation::bilinear_tensorflow(input, output),
        (Semantics::TensorFlow, Filter::Bicubic, false) => interpolation::bicubic_tensorflow(input, output),
        (Semantics::TensorFlow, _, _) => convolution::tensorflow(input, output, filter, antialias),
    })
}
