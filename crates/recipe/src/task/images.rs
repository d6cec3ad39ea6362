//! Tasks whose prediction is an image: with discriminators, or compared with the undamaged image.

use super::{Parts, TaskEntry, TaskOutput};
use crate::{GanOptions, NormKind};
use octant_train::options::defaults;
use octant_train::{Adversary, CycleGan, GanUpdates, ImageFormat, ImageLoss, ImagePool, Pix2Pix, Restore, Task};
use octant_zoo::families::gan::{Discriminator, GanNorm};
use std::sync::Arc;

pub(super) const PIX2PIX: TaskEntry = TaskEntry {
    name: "pix2pix",
    about: "an image of every image, from pairs, with a discriminator",
    best: "val_mae",
    losses: Adversary::NAMES,
    keys: &["gan"],
    output: TaskOutput::Image,
    unpaired: false,
    build: |parts| {
        let adversary = Adversary::ALL[parts.loss];
        let usual = if adversary == Adversary::Wasserstein { GanNorm::Instance } else { GanNorm::Batch };
        let GanOptions { l1, image_statistics, .. } = parts.gan();
        let (discriminator, format, updates) = (parts.discriminator(usual), parts.format(), parts.updates());
        Arc::new(Pix2Pix { generator: parts.model, discriminator, format, adversary, l1, image_statistics, updates })
    },
};

pub(super) const CYCLEGAN: TaskEntry = TaskEntry {
    name: "cyclegan",
    about: "images of one domain into another, without pairs",
    best: "val_loss",
    losses: &["lsgan", "vanilla", "hinge"],
    keys: &["gan"],
    output: TaskOutput::Image,
    unpaired: true,
    build: |parts| {
        let GanOptions { cycle, identity, pool, .. } = parts.gan();
        let (discriminator, format) = (parts.discriminator(GanNorm::Instance), parts.format());
        let (adversary, pool, updates) = (CYCLE_LOSSES[parts.loss], ImagePool { size: pool }, parts.updates());
        let generator = parts.model;
        Arc::new(CycleGan { generator, discriminator, format, adversary, cycle, identity, pool, updates })
    },
};

pub(super) const RESTORE: TaskEntry = TaskEntry {
    name: "restore",
    about: "images without noise, larger, or whole again",
    best: "val_psnr",
    losses: ImageLoss::NAMES,
    keys: &["degrade"],
    output: TaskOutput::Image,
    unpaired: false,
    build: restore,
};

pub(super) const AUTOENCODE: TaskEntry = TaskEntry {
    name: "autoencode",
    about: "images through a narrow code and back",
    best: "val_psnr",
    losses: ImageLoss::NAMES,
    keys: &[],
    output: TaskOutput::Image,
    unpaired: false,
    build: restore,
};

/// The losses of CycleGAN, the usual one first: a critic's penalty is for pairs.
const CYCLE_LOSSES: [Adversary; 3] = [Adversary::LeastSquares, Adversary::Vanilla, Adversary::Hinge];

/// The task of networks that are compared with the undamaged image.
fn restore(parts: Parts) -> Arc<dyn Task> {
    let (format, loss) = (parts.format(), ImageLoss::ALL[parts.loss]);
    Arc::new(Restore { model: parts.model, format, loss })
}

impl Parts<'_> {
    /// The images of both sides.
    fn format(&self) -> ImageFormat {
        let ([height, width, _], factor) = (self.image, self.model.enlarges());
        let target = [height * factor, width * factor, self.outputs];
        ImageFormat { image: self.image, target, normalize: self.normalize.clone() }
    }

    fn gan(&self) -> GanOptions {
        self.recipe.gan.clone().unwrap_or_else(defaults)
    }

    fn updates(&self) -> GanUpdates {
        let GanOptions { generator_updates, discriminator_updates, .. } = self.gan();
        GanUpdates { generator: generator_updates, discriminator: discriminator_updates }
    }

    fn discriminator(&self, usual: GanNorm) -> Discriminator {
        let GanOptions { layers, width, norm, .. } = self.gan();
        let norm = norm.map_or(usual, |norm| match norm {
            NormKind::Batch => GanNorm::Batch,
            NormKind::Instance => GanNorm::Instance,
        });
        Discriminator { layers, width, norm }
    }
}
