//! Changing the size of NHWC images inside the graph.
//!
//! Enlarging by a whole factor, which is what decoders do, is written as shifted copies times constant weights: no
//! gather, no matrix product, and a gradient that is again shifts and small sums. Anything else multiplies with the
//! (small) matrix of interpolation weights.

use crate::{DType, DotGeneral, HostTensor, Shape, Tensor};

impl Tensor {
    /// Each element repeated `factor` times along height and width.
    ///
    /// ```
    /// # use octant_graph::{DType, Shape, Trace};
    /// let x = Trace::new().input("x", Shape::new(DType::F32, [1, 8, 8, 3]));
    /// assert_eq!(x.upsample_nearest(2).dims(), [1, 16, 16, 3]);
    /// ```
    pub fn upsample_nearest(&self, factor: usize) -> Tensor {
        let [n, h, w, c] = [0, 1, 2, 3].map(|axis| self.dim(axis));
        let repeated = self.broadcast_in_dim(&[n, h, factor, w, factor, c], &[0, 1, 3, 5]);
        repeated.reshape(&[n, h * factor, w * factor, c])
    }

    /// Bilinear interpolation to another height and width, as PyTorch's `interpolate(mode="bilinear")`. With
    /// `align_corners` the corner elements keep their positions, otherwise the image's edges do.
    ///
    /// ```
    /// # use octant_graph::{DType, Shape, Trace};
    /// let x = Trace::new().input("x", Shape::new(DType::F32, [1, 8, 8, 3]));
    /// assert_eq!(x.resize_bilinear(16, 20, true).dims(), [1, 16, 20, 3]);
    /// ```
    pub fn resize_bilinear(&self, height: usize, width: usize, align_corners: bool) -> Tensor {
        self.resize_axis(1, height, align_corners).resize_axis(2, width, align_corners)
    }

    fn resize_axis(&self, axis: usize, length: usize, align_corners: bool) -> Tensor {
        let from = self.dim(axis as isize);
        if from == length {
            return self.clone();
        }
        let taps = taps(from, length, align_corners);
        match length.is_multiple_of(from) {
            true => self.enlarge_axis(axis, length / from, &taps),
            false => self.multiply_axis(axis, length, &taps),
        }
    }

    /// Output `factor · k + p` reads only the inputs `k - 1`, `k` and `k + 1`: three shifted copies, each weighted by
    /// `(k, p)`, on a new axis of length `factor` behind `axis`.
    fn enlarge_axis(&self, axis: usize, factor: usize, taps: &[(usize, f64)]) -> Tensor {
        let from = self.dim(axis as isize);
        let mut spread = self.dims().to_vec();
        spread.insert(axis + 1, factor);
        let mut total: Option<Tensor> = None;
        for offset in [0, -1, 1] {
            let weights: Vec<f64> = (0..from * factor)
                .map(|output| tap_weight(taps[output], (output / factor) as i64 + offset, from))
                .collect();
            if weights.iter().all(|&weight| weight == 0.0) {
                continue;
            }
            let mut weight_dims = vec![1; spread.len()];
            (weight_dims[axis], weight_dims[axis + 1]) = (from, factor);
            let weights = self.constant_like(&weight_dims, &weights);
            let part = self.shifted(axis, -offset).unsqueeze(axis + 1) * weights;
            total = Some(total.map_or(part.clone(), |total| total + part));
        }
        let mut dims = self.dims().to_vec();
        dims[axis] = from * factor;
        total.map_or_else(|| self.clone(), |total| total.reshape(&dims))
    }

    /// The general case: a product with the matrix of weights, then a transpose that moves the axis back.
    fn multiply_axis(&self, axis: usize, length: usize, taps: &[(usize, f64)]) -> Tensor {
        let from = self.dim(axis as isize);
        let weights: Vec<f64> =
            taps.iter().flat_map(|&tap| (0..from as i64).map(move |input| tap_weight(tap, input, from))).collect();
        let matrix = self.constant_like(&[length, from], &weights);
        let dot = DotGeneral {
            left_batch: vec![],
            right_batch: vec![],
            left_contract: vec![axis],
            right_contract: vec![1],
            dtype: self.dtype(),
        };
        // The new axis comes last.
        let product = self.dot_general(&matrix, dot);
        let last = self.rank() - 1;
        let order: Vec<usize> = (0..=last)
            .map(|to| match to.cmp(&axis) {
                std::cmp::Ordering::Less => to,
                std::cmp::Ordering::Equal => last,
                std::cmp::Ordering::Greater => to - 1,
            })
            .collect();
        product.transpose(&order)
    }

    fn constant_like(&self, dims: &[usize], values: &[f64]) -> Tensor {
        let shape = Shape::new(DType::F32, dims);
        let constant = HostTensor::from_f64s(shape, values).expect("one value per element");
        self.trace().constant(constant).convert(self.dtype())
    }
}

/// For every output the lower of the two inputs it lies between, and how far it lies towards the upper one. Computed in
/// f32, as the references do.
fn taps(from: usize, to: usize, align_corners: bool) -> Vec<(usize, f64)> {
    let position = |output: usize| match align_corners {
        true if to > 1 => output as f32 * ((from - 1) as f32 / (to - 1) as f32),
        true => 0.0,
        false => ((output as f32 + 0.5) * (from as f32 / to as f32) - 0.5).max(0.0),
    };
    (0..to)
        .map(|output| {
            let lower = (position(output) as usize).min(from.max(1) - 1);
            (lower, (position(output) - lower as f32) as f64)
        })
        .collect()
}

/// The weight of one input for an output between `lower` and the next; past the edge the last input counts twice.
fn tap_weight((lower, fraction): (usize, f64), input: i64, from: usize) -> f64 {
    let upper = (lower + 1).min(from - 1);
    let of_lower = if input == lower as i64 { 1.0 - fraction } else { 0.0 };
    let of_upper = if input == upper as i64 { fraction } else { 0.0 };
    of_lower + of_upper
}
