//! Images into images: what restoration, Pix2Pix and CycleGAN share.

mod cyclegan;
mod pix2pix;
mod pool;
mod restore;

pub use cyclegan::CycleGan;
pub use pix2pix::Pix2Pix;
pub use pool::ImagePool;
pub use restore::{ImageLoss, Restore};

use crate::{Inputs, Metric, Normalize, TrainError, normalized};
use octant_data::Targets;
use octant_graph::{DType, HostTensor, Shape, Tensor};
use octant_metrics::images;
use octant_nn::loss::GanLoss;

crate::choice! {
    /// The adversarial loss of a discriminator and its generator.
    pub enum Adversary {
        /// Binary cross-entropy.
        Vanilla = "vanilla",
        /// Squared distance from 1 and 0.
        LeastSquares = "lsgan",
        /// A margin of 1 on both sides.
        Hinge = "hinge",
        /// The difference of means, with a gradient penalty.
        Wasserstein = "wgan-gp",
    }
}

impl Adversary {
    /// The loss of that name.
    pub fn loss(self) -> GanLoss {
        match self {
            Adversary::Vanilla => GanLoss::Vanilla,
            Adversary::LeastSquares => GanLoss::LeastSquares,
            Adversary::Hinge => GanLoss::Hinge,
            Adversary::Wasserstein => GanLoss::Wasserstein,
        }
    }
}

/// How often the networks are updated in one step. All of a network's updates see the same batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GanUpdates {
    /// Updates of the generator, each on images that it makes anew.
    pub generator: u64,
    /// Updates of the discriminator.
    pub discriminator: u64,
}

impl Default for GanUpdates {
    fn default() -> GanUpdates {
        GanUpdates { generator: 1, discriminator: 1 }
    }
}

impl GanUpdates {
    /// Calls `update` for every update of the generator, with its turn and whether it is the last; the last one's result.
    fn of_generator<T>(self, update: impl FnMut((u64, u64), bool) -> T) -> T {
        repeated(self.generator, update)
    }

    /// The same for the discriminator.
    fn of_discriminator<T>(self, update: impl FnMut((u64, u64), bool) -> T) -> T {
        repeated(self.discriminator, update)
    }
}

fn repeated<T>(count: u64, mut update: impl FnMut((u64, u64), bool) -> T) -> T {
    let last = count.max(1) - 1;
    (0..last).for_each(|turn| drop(update((turn, last + 1), false)));
    update((last, last + 1), true)
}

/// Sizes and ranges of the images of both sides.
#[derive(Debug, Clone)]
pub struct ImageFormat {
    /// `[height, width, channels]` of what the network gets; images travel as u8.
    pub image: [usize; 3],
    /// The same of what it should make.
    pub target: [usize; 3],
    /// As in [`Classify`](crate::Classify); outputs and targets have the same range as images.
    pub normalize: Option<Normalize>,
}

impl ImageFormat {
    /// Images, targets and the mask of a batch.
    fn inputs(&self, batch_size: usize) -> Inputs {
        let [height, width, channels] = self.target;
        let shape = Shape::new(DType::U8, [batch_size, height, width, channels]);
        let inputs = Inputs::images(batch_size, self.image).with("targets", shape, |batch| match &batch.targets {
            Targets::Images(images) => Ok(images.clone()),
            _ => Err(TrainError::Data("the data set has no pairs of images; choose `data.kind = \"pairs\"`".into())),
        });
        inputs.mask()
    }

    /// Images as the network wants them.
    fn normalized(&self, images: &Tensor) -> Tensor {
        normalized(images, &self.normalize)
    }

    /// Values as the network makes them, within 0 and 255.
    fn levels(&self, images: &Tensor) -> Tensor {
        let images = images.convert(DType::F32);
        let Some((mean, deviation)) = &self.normalize else { return images };
        let constant = |values: &[f32]| {
            let values: Vec<f32> = (0..images.channels()).map(|channel| values[channel % values.len()]).collect();
            images.trace().constant(HostTensor::new([values.len()], &values).expect("a value per channel"))
        };
        &images * constant(deviation) + constant(mean)
    }

    /// What the network made, as images of bytes.
    fn bytes(&self, images: &Tensor) -> Tensor {
        let levels = self.levels(images);
        let (low, high) = (levels.scalar_like(0.0), levels.scalar_like(255.0));
        (levels.max(&low).min(&high) + 0.5).floor().convert(DType::U8)
    }

    /// Sums for the similarity of what was generated and the targets (bytes).
    fn similarity(&self, made: &Tensor, targets: &Tensor, mask: &Tensor) -> Tensor {
        let levels = self.levels(made);
        let (low, high) = (levels.scalar_like(0.0), levels.scalar_like(255.0));
        images::similarity(&levels.max(&low).min(&high), targets, mask, 255.0)
    }

    /// The metrics of a step: in training the losses of these names, in validation one loss and the similarity.
    fn metrics(&self, sums: &[f64], training: bool, names: &[&str]) -> Vec<Metric> {
        if training {
            return losses(sums, names);
        }
        let mut metrics = losses(sums, &["loss"]);
        metrics.extend(images::similarity_metrics(&sums[2..], self.target[0].min(self.target[1])));
        metrics
    }
}

/// The columns that show what a network makes of a batch of images and targets.
fn compared(batch: &[Tensor], output: Tensor) -> Vec<(&'static str, Tensor)> {
    vec![("input", batch[0].clone()), ("output", output), ("truth", batch[1].clone())]
}

/// Names and sums of losses, each the sum over samples, then how many samples there were.
fn losses(sums: &[f64], names: &[&str]) -> Vec<Metric> {
    let count = sums[names.len()].max(1.0);
    names.iter().zip(sums).map(|(name, sum)| (name.to_string(), sum / count)).collect()
}
