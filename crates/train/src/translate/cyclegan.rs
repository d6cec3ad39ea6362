//! CycleGAN (Zhu et al., 2017): two generators between two domains without pairs, and a discriminator for each domain.

use super::{Adversary, GanUpdates, ImageFormat, ImagePool, losses};
use crate::{Inputs, Metric, Objective, Outcome, Task};
use octant_graph::Tensor;
use octant_metrics::vector;
use octant_nn::{Context, Mode, loss};
use octant_zoo::Model;
use octant_zoo::families::gan::Discriminator;

/// The task. A step makes all images, moves both generators together, then both discriminators on images from a pool, made
/// before the generators moved.
pub struct CycleGan {
    /// The generator from domain A to domain B: the model. The one back is its companion `netG_B`.
    pub generator: Box<dyn Model>,
    /// Both discriminators, `netD_A` (of what A became) and `netD_B`.
    pub discriminator: Discriminator,
    /// Sizes and ranges; targets are images of domain B.
    pub format: ImageFormat,
    /// The adversarial loss.
    pub adversary: Adversary,
    /// What the way there and back counts.
    pub cycle: f64,
    /// What an image of the right domain that was changed counts, as a share of `cycle`.
    pub identity: f64,
    /// Images made earlier that discriminators learn from.
    pub pool: ImagePool,
    /// How often the generators and the discriminators are updated per step.
    pub updates: GanUpdates,
}

/// What the generators make of a batch, and their losses per sample.
struct Made {
    b: Tensor,
    a: Tensor,
    gan: Tensor,
    cycle: Tensor,
    identity: Tensor,
}

const LOSSES: [&str; 5] = ["loss", "gan_loss", "cycle_loss", "identity_loss", "d_loss"];

impl CycleGan {
    /// The generator to B at the root, the one back as a companion.
    fn to_b(&self, cx: &Context, images: &Tensor) -> Tensor {
        self.generator.forward(&cx.root(), &images.convert(cx.precision().dtype()))
    }

    fn to_a(&self, cx: &Context, images: &Tensor) -> Tensor {
        self.generator.forward(&cx.companion("netG_B"), &images.convert(cx.precision().dtype()))
    }

    /// A discriminator's loss per sample, on an image of its domain and a generated one.
    fn discriminator_loss(&self, cx: &Context, name: &str, real: &Tensor, made: &Tensor) -> Tensor {
        let discriminate = |images: &Tensor| self.discriminate(cx, name, images);
        let adversary = self.adversary.loss();
        (adversary.discriminator_loss(&discriminate(real), true)
            + adversary.discriminator_loss(&discriminate(made), false))
            * 0.5
    }

    /// Images there and back, and the generators' losses.
    fn made(&self, cx: &Context, a: &Tensor, b: &Tensor) -> Made {
        let (made_b, made_a) = (self.to_b(cx, a), self.to_a(cx, b));
        let back = loss::absolute_error(&self.to_a(cx, &made_b), a) + loss::absolute_error(&self.to_b(cx, &made_a), b);
        let cycle = back * self.cycle;
        let changed = match self.identity > 0.0 {
            true => loss::absolute_error(&self.to_b(cx, b), b) + loss::absolute_error(&self.to_a(cx, a), a),
            false => cycle.zeros_like(),
        };
        let identity = changed * (self.identity * self.cycle);
        let adversary = self.adversary.loss();
        let gan = adversary.generator_loss(&self.discriminate(cx, "netD_A", &made_b))
            + adversary.generator_loss(&self.discriminate(cx, "netD_B", &made_a));
        Made { b: made_b, a: made_a, gan, cycle, identity }
    }

    fn discriminate(&self, cx: &Context, name: &str, images: &Tensor) -> Tensor {
        self.discriminator.apply(&cx.companion(name), &images.convert(cx.precision().dtype()))
    }
}

impl Task for CycleGan {
    fn inputs(&self, batch_size: usize) -> Inputs {
        self.format.inputs(batch_size)
    }

    fn outcome(&self, cx: &Context, batch: &[Tensor]) -> Outcome {
        let [images, targets, mask] = batch else { unreachable!("a batch has the tensors of `inputs`") };
        let [a, b] = [images, targets].map(|images| self.format.normalized(images));
        let sum = |losses: &Tensor| (losses * mask).sum_all();
        if matches!(cx.mode(), Mode::Evaluate) {
            // There are no pairs; what can be measured is whether images of domain B stay as they are.
            let changed = loss::absolute_error(&self.to_b(cx, &b), &b);
            return Outcome::new(loss::mean(&changed, Some(mask)), vector(&[sum(&changed), mask.sum_all()]));
        }
        let (made, total, of_generators) = self.updates.of_generator(|turn, _| {
            let made = self.made(cx, &a, &b);
            let total = &made.gan + &made.cycle + &made.identity;
            let of_generators = loss::mean(&total, Some(mask));
            cx.minimize(&[Objective { turn, ..Objective::of_all(["", "netG_B"], of_generators.clone()) }]);
            (made, total, of_generators)
        });
        let old_b = self.pool.query(&cx.companion("pool_B"), &made.b);
        let old_a = self.pool.query(&cx.companion("pool_A"), &made.a);
        self.updates.of_discriminator(|turn, is_last| {
            let of_networks = [("netD_A", &b, &old_b), ("netD_B", &a, &old_a)];
            let [of_a, of_b] = of_networks.map(|(name, real, made)| self.discriminator_loss(cx, name, real, made));
            let of_both = &of_a + &of_b;
            let objectives = [("netD_A", of_a), ("netD_B", of_b)];
            let objective = |(name, losses): (&str, Tensor)| Objective {
                turn,
                ..Objective::of(name, loss::mean(&losses, Some(mask)))
            };
            let objectives: Vec<Objective> = objectives.map(objective).into();
            if !is_last {
                cx.minimize(&objectives);
            }
            let parts = [&total, &made.gan, &made.cycle, &made.identity, &of_both].map(sum);
            let sums = vector(&[&parts[..], &[mask.sum_all()]].concat());
            Outcome { objectives, ..Outcome::new(of_generators.clone(), sums) }
        })
    }

    fn metrics(&self, sums: &[f64], training: bool) -> Vec<Metric> {
        if training { losses(sums, &LOSSES) } else { losses(sums, &["loss"]) }
    }

    fn predict(&self, cx: &Context, images: &Tensor) -> Tensor {
        self.format.bytes(&self.to_b(cx, &self.format.normalized(images)))
    }

    fn samples(&self, cx: &Context, batch: &[Tensor]) -> Vec<(&'static str, Tensor)> {
        let [a, b] = [&batch[0], &batch[1]].map(|images| self.format.normalized(images));
        let (made_b, made_a) = (self.to_b(cx, &a), self.to_a(cx, &b));
        let (back_a, back_b) = (self.to_a(cx, &made_b), self.to_b(cx, &made_a));
        let bytes = |images: &Tensor| self.format.bytes(images);
        vec![
            ("input", batch[0].clone()),
            ("output", bytes(&made_b)),
            ("back", bytes(&back_a)),
            ("input B", batch[1].clone()),
            ("output A", bytes(&made_a)),
            ("back to B", bytes(&back_b)),
        ]
    }

    fn head_paths(&self) -> Vec<String> {
        self.generator.head_paths()
    }
}
