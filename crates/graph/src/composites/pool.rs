//! Pooling of NHWC images.

use crate::{DType, HostTensor, Reduction, Shape, Tensor, Window};

/// A pooling window over height and width.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pool {
    /// Height and width of the window.
    pub size: [usize; 2],
    /// Step between windows.
    pub stride: [usize; 2],
    /// Rows and columns added `(before, after)`.
    pub padding: [(usize, usize); 2],
}

/// Whether an average divides by positions of padding too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PaddingCounts {
    /// Every window is divided by its full size (PyTorch's default).
    Yes,
    /// Every window is divided by the number of positions inside the image (TensorFlow's rule).
    No,
}

impl Pool {
    /// A square window that moves by `stride`, without padding.
    pub fn square(size: usize, stride: usize) -> Pool {
        Pool { size: [size; 2], stride: [stride; 2], padding: [(0, 0); 2] }
    }

    /// The same window with that many rows and columns added on every side.
    pub fn padded(self, padding: usize) -> Pool {
        Pool { padding: [(padding, padding); 2], ..self }
    }

    fn window(&self) -> Window {
        let [(top, bottom), (left, right)] = self.padding.map(|(low, high)| (low as i64, high as i64));
        Window {
            size: vec![1, self.size[0], self.size[1], 1],
            strides: vec![1, self.stride[0], self.stride[1], 1],
            padding: vec![(0, 0), (top, bottom), (left, right), (0, 0)],
            base_dilation: vec![1; 4],
            window_dilation: vec![1; 4],
        }
    }

    /// One over the number of positions inside the image, per window: `[1, windows, windows, 1]`.
    fn reciprocal_counts(&self, image: [usize; 2]) -> HostTensor {
        let along = [0, 1].map(|axis| {
            let (before, after) = self.padding[axis];
            let windows =
                (image[axis] + before + after + 1).saturating_sub(self.size[axis]).div_ceil(self.stride[axis]);
            let inside = |window: usize| {
                let start = window * self.stride[axis];
                let end = (start + self.size[axis]).min(before + image[axis]);
                end.saturating_sub(start.max(before)) as f64
            };
            (0..windows).map(inside).collect::<Vec<f64>>()
        });
        let values: Vec<f64> = along[0].iter().flat_map(|h| along[1].iter().map(move |w| 1.0 / (h * w))).collect();
        let shape = Shape::new(DType::F32, [1, along[0].len(), along[1].len(), 1]);
        HostTensor::from_f64s(shape, &values).expect("one value per window")
    }
}

impl Tensor {
    /// The largest element of each window.
    ///
    /// ```
    /// # use octant_graph::{DType, Shape, Trace, composites::Pool};
    /// let x = Trace::new().input("x", Shape::new(DType::F32, [8, 112, 112, 64]));
    /// assert_eq!(x.max_pool(Pool::square(3, 2).padded(1)).dims(), [8, 56, 56, 64]);
    /// ```
    pub fn max_pool(&self, pool: Pool) -> Tensor {
        self.reduce_window(Reduction::Max, pool.window())
    }

    /// The mean of each window.
    pub fn avg_pool(&self, pool: Pool, padding_counts: PaddingCounts) -> Tensor {
        let sums = self.reduce_window(Reduction::Sum, pool.window());
        let padded = pool.padding != [(0, 0); 2];
        if !padded || padding_counts == PaddingCounts::Yes {
            return sums / (pool.size[0] * pool.size[1]) as f64;
        }
        let counts = pool.reciprocal_counts([self.dim(1), self.dim(2)]);
        sums * self.trace().constant(counts).convert(self.dtype())
    }

    /// The mean over all positions: `[n, h, w, c]` becomes `[n, c]`. Summed in f32.
    pub fn global_avg_pool(&self) -> Tensor {
        self.convert(DType::F32).mean(&[1, 2]).convert(self.dtype())
    }

    /// The largest element over all positions: `[n, h, w, c]` becomes `[n, c]`.
    pub fn global_max_pool(&self) -> Tensor {
        self.reduce_max(&[1, 2])
    }

    /// Averages so that `height` × `width` positions remain; they must divide the image's.
    pub fn adaptive_avg_pool(&self, height: usize, width: usize) -> Tensor {
        let (from_height, from_width) = (self.dim(1), self.dim(2));
        let divides = |to: usize, from: usize| to > 0 && from.is_multiple_of(to);
        if !divides(height, from_height) || !divides(width, from_width) {
            let message =
                format!("adaptive_avg_pool: {height}×{width} does not divide the height and width of {}", self.shape());
            return self.trace().fail(message, self.shape().clone());
        }
        let pool = Pool { size: [from_height / height, from_width / width], ..Pool::square(1, 1) };
        self.avg_pool(Pool { stride: pool.size, ..pool }, PaddingCounts::Yes)
    }
}
