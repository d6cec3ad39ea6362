//! Losses of two networks that learn against each other. Judgments are logits of any shape `[n, …]`; each loss is the mean
//! over everything but the first axis.

use super::sample_axes;
use octant_graph::{DType, Tensor};

/// What a judgment costs the discriminator and the generator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum GanLoss {
    /// Binary cross-entropy (Goodfellow et al., 2014), the generator's without saturation.
    Vanilla,
    /// Squared distance from 1 and 0 (Mao et al., 2017).
    LeastSquares,
    /// A margin of 1 on both sides (Lim and Ye, 2017).
    Hinge,
    /// The difference of means (Arjovsky et al., 2017); wants a [`gradient_penalty`].
    Wasserstein,
}

impl GanLoss {
    /// What the discriminator pays for its judgment of real, or of made images.
    pub fn judged(self, logits: &Tensor, real: bool) -> Tensor {
        let logits = logits.convert(DType::F32);
        let losses = match (self, real) {
            (GanLoss::Vanilla, true) => (-&logits).softplus(),
            (GanLoss::Vanilla, false) => logits.softplus(),
            (GanLoss::LeastSquares, true) => (&logits - 1.0).square(),
            (GanLoss::LeastSquares, false) => logits.square(),
            (GanLoss::Hinge, true) => (1.0 - &logits).relu(),
            (GanLoss::Hinge, false) => (1.0 + &logits).relu(),
            (GanLoss::Wasserstein, true) => -&logits,
            (GanLoss::Wasserstein, false) => logits,
        };
        losses.mean(&sample_axes(&losses))
    }

    /// What the generator pays for the judgment of what it made.
    pub fn fooled(self, logits: &Tensor) -> Tensor {
        match self {
            GanLoss::Vanilla | GanLoss::LeastSquares => self.judged(logits, true),
            GanLoss::Hinge | GanLoss::Wasserstein => GanLoss::Wasserstein.judged(logits, true),
        }
    }
}

/// How far the critic's slope is from 1 between real and made images (Gulrajani et al., 2017): `(‖∇‖ − 1)²` per sample. The
/// positions in between are `share · real + (1 − share) · made`, with shares of `[n, 1, 1, 1]`. It is a function of the
/// critic's gradient, so minimizing it takes a gradient of a gradient.
pub fn gradient_penalty(critic: impl Fn(&Tensor) -> Tensor, real: &Tensor, made: &Tensor, share: &Tensor) -> Tensor {
    let (real, made) = (real.convert(DType::F32), made.convert(DType::F32));
    let between = (share * real + (1.0 - share) * made).stop_gradient();
    let judged = critic(&between).convert(DType::F32).sum_all();
    let slope = between.trace().gradients(&judged, std::slice::from_ref(&between)).swap_remove(0);
    // A slope of exactly 0 would have no gradient.
    let norm = (slope.square().sum(&sample_axes(&slope)) + 1e-16).sqrt();
    (norm - 1.0).square()
}
