//! Pix2Pix (Isola et al., 2017): a generator that is to match its target and to fool a discriminator, which sees the input
//! together with what was made of it.

use super::{Adversary, GanUpdates, ImageFormat, compared};
use crate::{Inputs, Metric, Objective, Outcome, Task};
use octant_graph::{DType, Tensor};
use octant_metrics::vector;
use octant_nn::loss::{self, gradient_penalty};
use octant_nn::{Context, Mode};
use octant_zoo::Model;
use octant_zoo::families::gan::Discriminator;

/// The task. A step makes the images once, then moves the discriminator on them, detached, and the generator against the
/// discriminator that has moved.
pub struct Pix2Pix {
    /// The generator: the model.
    pub generator: Box<dyn Model>,
    /// The discriminator, a companion called `netD`.
    pub discriminator: Discriminator,
    /// Sizes and ranges.
    pub format: ImageFormat,
    /// The adversarial loss.
    pub adversary: Adversary,
    /// What the absolute difference from the target counts.
    pub l1: f64,
    /// Evaluation and prediction normalize with the statistics of every image by itself, as the published networks do.
    pub image_statistics: bool,
    /// How often each network is updated per step.
    pub updates: GanUpdates,
}

/// The discriminator's path.
const NET_D: &str = "netD";
/// What the gradient penalty counts, where there is one.
const PENALTY: f64 = 10.0;
const LOSSES: [&str; 4] = ["loss", "gan_loss", "l1_loss", "d_loss"];

impl Pix2Pix {
    fn made(&self, cx: &Context, images: &Tensor) -> Tensor {
        if self.image_statistics {
            cx.use_image_statistics();
        }
        let images = self.format.normalized(images).convert(cx.precision().dtype());
        self.generator.forward(&cx.root(), &images)
    }

    /// The discriminator as it is now.
    fn discriminate(&self, cx: &Context, input: &Tensor, output: &Tensor) -> Tensor {
        let output = output.convert(input.dtype());
        self.discriminator.apply(&cx.companion(NET_D), &Tensor::concatenate(&[input.clone(), output], 3))
    }

    /// The discriminator's loss per sample.
    fn discriminator_loss(&self, cx: &Context, input: &Tensor, made: &Tensor, wanted: &Tensor) -> Tensor {
        let (adversary, made) = (self.adversary.loss(), made.stop_gradient());
        let of_made = adversary.discriminator_loss(&self.discriminate(cx, input, &made), false);
        let of_real = adversary.discriminator_loss(&self.discriminate(cx, input, wanted), true);
        if self.adversary != Adversary::Wasserstein {
            return (of_made + of_real) * 0.5;
        }
        let share = random_share(cx, input.dim(0));
        let critic = |output: &Tensor| self.discriminate(cx, input, output);
        of_made + of_real + gradient_penalty(critic, wanted, &made, &share) * PENALTY
    }
}

/// A number of [0, 1) per sample, `[n, 1, 1, 1]`; a half where nothing is random.
fn random_share(cx: &Context, batch: usize) -> Tensor {
    let dims = [batch, 1, 1, 1];
    match cx.companion(NET_D).at("penalty").random_key() {
        Some(key) => {
            let bits = key.random_bits(&dims);
            bits.shift_right(&bits.full_like(8.0)).convert(DType::F32) / f64::from(1 << 24)
        }
        None => cx.trace().full(&octant_graph::Shape::new(DType::F32, dims), 0.5),
    }
}

impl Task for Pix2Pix {
    fn inputs(&self, batch_size: usize) -> Inputs {
        self.format.inputs(batch_size)
    }

    fn outcome(&self, cx: &Context, batch: &[Tensor]) -> Outcome {
        let [images, targets, mask] = batch else { unreachable!("a batch has the tensors of `inputs`") };
        let made = self.made(cx, images);
        let wanted = self.format.normalized(targets);
        let l1 = loss::absolute_error(&made, &wanted);
        let sum = |losses: &Tensor| (losses * mask).sum_all();
        if matches!(cx.mode(), Mode::Evaluate) {
            let sums = vector(&[sum(&l1), mask.sum_all()]);
            let sums = Tensor::concatenate(&[sums, self.format.similarity(&made, targets, mask)], 0);
            return Outcome::new(loss::mean(&l1, Some(mask)), sums);
        }
        let input = self.format.normalized(images).convert(made.dtype());
        let of_discriminator = self.updates.of_discriminator(|turn, _| {
            let losses = self.discriminator_loss(cx, &input, &made, &wanted);
            cx.minimize(&[Objective { turn, ..Objective::of(NET_D, loss::mean(&losses, Some(mask))) }]);
            losses
        });
        self.updates.of_generator(|turn, is_last| {
            // The first update is of the images that the discriminator saw; later ones of those that the new weights make.
            let (made, l1) = match turn.0 {
                0 => (made.clone(), l1.clone()),
                _ => {
                    let made = self.made(cx, images);
                    let l1 = loss::absolute_error(&made, &wanted);
                    (made, l1)
                }
            };
            let gan = self.adversary.loss().generator_loss(&self.discriminate(cx, &input, &made));
            let total = &gan + &l1 * self.l1;
            let objective = Objective { turn, ..Objective::of("", loss::mean(&total, Some(mask))) };
            if !is_last {
                cx.minimize(std::slice::from_ref(&objective));
            }
            let sums = vector(&[sum(&total), sum(&gan), sum(&l1), sum(&of_discriminator), mask.sum_all()]);
            let shown = objective.loss.clone();
            Outcome { objectives: vec![objective], ..Outcome::new(shown, sums) }
        })
    }

    fn metrics(&self, sums: &[f64], training: bool) -> Vec<Metric> {
        self.format.metrics(sums, training, &LOSSES)
    }

    fn predict(&self, cx: &Context, images: &Tensor) -> Tensor {
        self.format.bytes(&self.made(cx, images))
    }

    fn samples(&self, cx: &Context, batch: &[Tensor]) -> Vec<(&'static str, Tensor)> {
        compared(batch, self.predict(cx, &batch[0]))
    }

    fn head_paths(&self) -> Vec<String> {
        self.generator.head_paths()
    }
}
