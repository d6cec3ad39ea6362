//! Losses of classes, of values, and of adversarial networks.

use super::sample_axes;
use octant_graph::{DType, Tensor};

/// Cross-entropy of `logits` `[n, classes]` against integer `labels` `[n]`. With label smoothing the target is
/// `1 - smoothing` on the label plus `smoothing / classes` everywhere.
pub fn cross_entropy(logits: &Tensor, labels: &Tensor, smoothing: f64) -> Tensor {
    let logits = logits.convert(DType::F32);
    let normalizer = logits.logsumexp(1);
    let of_label = &normalizer - logits.pick(labels);
    match smoothing == 0.0 {
        true => of_label,
        false => of_label * (1.0 - smoothing) + (normalizer - logits.mean(&[1])) * smoothing,
    }
}

/// The same, with what every class counts, `weights` of `[1, classes]`: the losses, each times what its label counts, and what
/// each label counts. PyTorch's mean is the quotient of their sums; the smoothed part counts by class there too.
pub fn weighted_cross_entropy(logits: &Tensor, labels: &Tensor, weights: &Tensor, smoothing: f64) -> (Tensor, Tensor) {
    let logits = logits.convert(DType::F32);
    let weights = weights.broadcast_to(logits.dims());
    let counts = weights.pick(labels);
    let normalizer = logits.logsumexp(1);
    let of_label = (&normalizer - logits.pick(labels)) * &counts;
    if smoothing == 0.0 {
        return (of_label, counts);
    }
    let of_all = -((&logits - normalizer.unsqueeze(1)) * weights).mean(&[1]);
    (of_label * (1.0 - smoothing) + of_all * smoothing, counts)
}

/// Cross-entropy against a distribution over classes per sample `[n, classes]`, as mixed labels are.
pub fn soft_cross_entropy(logits: &Tensor, targets: &Tensor) -> Tensor {
    let logarithms = logits.convert(DType::F32).log_softmax(1);
    -(logarithms * targets.convert(DType::F32)).sum(&[1])
}

/// Binary cross-entropy with logits, the mean over everything but the first axis. `targets` are of the same shape.
pub fn binary_cross_entropy(logits: &Tensor, targets: &Tensor) -> Tensor {
    let losses = element_losses(logits, targets);
    losses.mean(&sample_axes(&losses))
}

/// Focal loss (Lin et al., 2017) with logits: easy elements count little. The mean over everything but the first axis.
pub fn focal(logits: &Tensor, targets: &Tensor, alpha: f64, gamma: f64) -> Tensor {
    let (logits, targets) = (logits.convert(DType::F32), targets.convert(DType::F32));
    let probability = logits.logistic();
    let right = &probability * &targets + (1.0 - &probability) * (1.0 - &targets);
    let difficulty = match gamma == 2.0 {
        true => (1.0 - right).square(),
        false => (1.0 - right).pow(&targets.full_like(gamma)),
    };
    let balance = match alpha >= 0.0 {
        true => &targets * alpha + (1.0 - &targets) * (1.0 - alpha),
        false => targets.full_like(1.0),
    };
    let losses = element_losses(&logits, &targets) * difficulty * balance;
    losses.mean(&sample_axes(&losses))
}

/// Binary cross-entropy with logits in which what an element counts where its target is 1 is its `weights`: PyTorch's
/// `pos_weight`. The mean over everything but the first axis.
pub fn weighted_binary_cross_entropy(logits: &Tensor, targets: &Tensor, weights: &Tensor) -> Tensor {
    let targets = targets.convert(DType::F32);
    let counts = &targets * (weights.convert(DType::F32) - 1.0) + 1.0;
    let losses = element_losses(logits, &targets) * counts;
    losses.mean(&sample_axes(&losses))
}

/// Asymmetric loss (Ridnik et al., 2021) with logits: labels that an image lacks are many and mostly easy, so they are focused
/// harder than those that it has (`gammas`, positive and negative), and those whose probability is below `margin` do not count.
/// The mean over everything but the first axis.
pub fn asymmetric(logits: &Tensor, targets: &Tensor, gammas: [f64; 2], margin: f64) -> Tensor {
    const SMALLEST: f64 = 1e-8;
    let (logits, targets) = (logits.convert(DType::F32), targets.convert(DType::F32));
    let has = logits.logistic();
    let lacks = (1.0 - &has + margin).min(&has.full_like(1.0));
    let logarithm = |share: &Tensor| share.max(&share.full_like(SMALLEST)).log();
    let power = |base: Tensor, gamma: f64| match gamma {
        0.0 => base.full_like(1.0),
        1.0 => base,
        // Below this the power's gradient would be that of a logarithm of 0.
        _ => base.max(&base.full_like(SMALLEST)).pow(&base.full_like(gamma)),
    };
    let positive = logarithm(&has) * &targets * power(1.0 - &has, gammas[0]);
    let negative = logarithm(&lacks) * (1.0 - &targets) * power(1.0 - &lacks, gammas[1]);
    let losses = -(positive + negative);
    losses.mean(&sample_axes(&losses))
}

/// `softplus(x) - x·t` is `-t·log σ(x) - (1 - t)·log(1 - σ(x))` without overflow.
fn element_losses(logits: &Tensor, targets: &Tensor) -> Tensor {
    let logits = logits.convert(DType::F32);
    logits.softplus() - &logits * targets.convert(DType::F32)
}

/// The squared distance.
pub fn squared_error(values: &Tensor, targets: &Tensor) -> Tensor {
    per_sample(&distance(values, targets).square())
}

/// The absolute distance.
pub fn absolute_error(values: &Tensor, targets: &Tensor) -> Tensor {
    per_sample(&distance(values, targets).abs())
}

/// Huber's loss: half the square up to `delta`, a straight line beyond.
pub fn huber(values: &Tensor, targets: &Tensor, delta: f64) -> Tensor {
    let magnitude = distance(values, targets).abs();
    let near = magnitude.less_equal(&magnitude.scalar_like(delta));
    per_sample(&near.select(&(magnitude.square() * 0.5), &((&magnitude - 0.5 * delta) * delta)))
}

/// 1 − structural similarity of images whose values span `range`.
pub fn dissimilarity(values: &Tensor, targets: &Tensor, range: f64) -> Tensor {
    1.0 - values.ssim(targets, range)
}

fn distance(values: &Tensor, targets: &Tensor) -> Tensor {
    values.convert(DType::F32) - targets.convert(DType::F32)
}

fn per_sample(losses: &Tensor) -> Tensor {
    losses.mean(&sample_axes(losses))
}

/// The adversarial loss of discriminator and generator.
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
    /// The discriminator's loss per sample, on real or on generated images.
    pub fn discriminator_loss(self, logits: &Tensor, real: bool) -> Tensor {
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

    /// The generator's loss per sample, from the discriminator's logits of what it made.
    pub fn generator_loss(self, logits: &Tensor) -> Tensor {
        match self {
            GanLoss::Vanilla | GanLoss::LeastSquares => self.discriminator_loss(logits, true),
            GanLoss::Hinge | GanLoss::Wasserstein => GanLoss::Wasserstein.discriminator_loss(logits, true),
        }
    }
}

/// How far the norm of the critic's gradient is from 1 between real and made images (Gulrajani et al., 2017):
/// `(‖∇‖ − 1)²` per sample. The
/// positions in between are `share · real + (1 − share) · made`, with shares of `[n, 1, 1, 1]`. It is a function of the
/// critic's gradient, so minimizing it takes a gradient of a gradient.
pub fn gradient_penalty(critic: impl Fn(&Tensor) -> Tensor, real: &Tensor, made: &Tensor, share: &Tensor) -> Tensor {
    let (real, made) = (real.convert(DType::F32), made.convert(DType::F32));
    let between = (share * real + (1.0 - share) * made).stop_gradient();
    let score = critic(&between).convert(DType::F32).sum_all();
    let gradient = between.trace().gradients(&score, std::slice::from_ref(&between)).swap_remove(0);
    // The square root has no derivative at 0.
    let norm = (gradient.square().sum(&sample_axes(&gradient)) + 1e-16).sqrt();
    (norm - 1.0).square()
}
