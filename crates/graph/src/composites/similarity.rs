//! The structural similarity of NHWC images.

use crate::composites::{PaddingCounts, Pool};
use crate::{Convolution, DType, HostTensor, Tensor};

/// The side of the window, its deviation, and the constants of Wang et al. (2004).
const WINDOW: usize = 11;
const DEVIATION: f64 = 1.5;
const CONSTANTS: [f64; 2] = [0.01, 0.03];
/// What the scales count in the multi-scale similarity (Wang et al., 2003), fine to coarse.
const SCALES: [f64; 5] = [0.0448, 0.2856, 0.3001, 0.2363, 0.1333];

impl Tensor {
    /// The structural similarity (SSIM) of every pair of images whose values span `range`: f32 `[n]`, 1 for equal ones. The
    /// window is 11 × 11 with a Gaussian of deviation 1.5, and the mean goes over all positions where it fits and all channels,
    /// as in the publication and in `tf.image.ssim`.
    ///
    /// ```
    /// # use octant_graph::{DType, Shape, Trace};
    /// let trace = Trace::new();
    /// let [x, y] = ["x", "y"].map(|name| trace.input(name, Shape::new(DType::F32, [8, 32, 32, 3])));
    /// assert_eq!(x.ssim(&y, 1.0).dims(), [8]);
    /// ```
    pub fn ssim(&self, other: &Tensor, range: f64) -> Tensor {
        let (luminance, structure) = similarity(self, other, range);
        (luminance * structure).mean(&[1, 2, 3])
    }

    /// The multi-scale structural similarity (MS-SSIM) over five scales: f32 `[n]`. Images must have 176 pixels at least in
    /// both directions.
    pub fn ms_ssim(&self, other: &Tensor, range: f64) -> Tensor {
        let (mut left, mut right) = (self.convert(DType::F32), other.convert(DType::F32));
        let mut product: Option<Tensor> = None;
        for (scale, weight) in SCALES.into_iter().enumerate() {
            let (luminance, structure) = similarity(&left, &right, range);
            let is_last = scale + 1 == SCALES.len();
            let alike = if is_last { luminance * structure } else { structure };
            // Per channel; negative similarities have no powers.
            let alike = alike.mean(&[1, 2]).relu();
            let power = alike.pow(&alike.scalar_like(weight));
            product = Some(product.map_or(power.clone(), |product| product * &power));
            if !is_last {
                let halved = |image: &Tensor| image.avg_pool(Pool::square(2, 2), PaddingCounts::Yes);
                (left, right) = (halved(&left), halved(&right));
            }
        }
        product.expect("there are scales").mean(&[1])
    }
}

/// Similarity of the means and of the structures, at every pixel where the window fits.
fn similarity(left: &Tensor, right: &Tensor, range: f64) -> (Tensor, Tensor) {
    let (left, right) = (left.convert(DType::F32), right.convert(DType::F32));
    let [c1, c2] = CONSTANTS.map(|constant| (constant * range).powi(2));
    let (mean_left, mean_right) = (blurred(&left), blurred(&right));
    let means = &mean_left * &mean_right;
    let squares = mean_left.square() + mean_right.square();
    let luminance = (&means * 2.0 + c1) / (&squares + c1);
    let covariance = blurred(&(&left * &right)) - means;
    let variances = blurred(&(left.square() + right.square())) - squares;
    (luminance, (covariance * 2.0 + c2) / (variances + c2))
}

/// Weighted means over windows, first along columns, then along rows.
fn blurred(x: &Tensor) -> Tensor {
    let distance = |position: usize| position as f64 - (WINDOW / 2) as f64;
    let weights: Vec<f64> =
        (0..WINDOW).map(|position| (-distance(position).powi(2) / (2.0 * DEVIATION * DEVIATION)).exp()).collect();
    let total: f64 = weights.iter().sum();
    let channels = x.channels();
    let values: Vec<f32> =
        weights.iter().flat_map(|weight| std::iter::repeat_n((weight / total) as f32, channels)).collect();
    [[WINDOW, 1], [1, WINDOW]].into_iter().fold(x.clone(), |x, [height, width]| {
        let kernel = HostTensor::new([height, width, 1, channels], &values).expect("a weight per tap and channel");
        let mut conv = Convolution::nhwc(2, DType::F32);
        conv.feature_groups = channels;
        x.convolution(&x.trace().constant(kernel), conv)
    })
}
