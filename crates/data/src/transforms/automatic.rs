//! RandAugment, TrivialAugment and AutoAugment: which operation, how strongly.

use super::{Policy, TransformStep, joint};
use crate::{Sample, SampleRng};
use octant_imaging::Filter;
use octant_imaging::augment::{self, Operation, Space};

impl Policy {
    fn table(self) -> &'static [[augment::PolicyStep; 2]; 25] {
        match self {
            Policy::Imagenet => &augment::IMAGENET,
            Policy::Cifar10 => &augment::CIFAR10,
            Policy::Svhn => &augment::SVHN,
        }
    }
}

/// AutoAugment's tables give levels out of ten.
const POLICY_LEVELS: usize = 10;

pub(super) fn apply(step: &TransformStep, sample: &mut Sample, rng: &mut SampleRng) -> Result<(), String> {
    match *step {
        TransformStep::RandAugment { count, magnitude, levels } => {
            for _ in 0..count {
                let operation = Operation::SAMPLED[rng.below(Operation::SAMPLED.len())];
                perform(sample, operation, Space::Standard, magnitude.min(levels - 1), levels, rng)?;
            }
        }
        TransformStep::TrivialAugment { levels } => {
            let operation = Operation::SAMPLED[rng.below(Operation::SAMPLED.len())];
            let level = rng.below(levels);
            perform(sample, operation, Space::Wide, level, levels, rng)?;
        }
        TransformStep::AutoAugment { policy } => {
            let pair = policy.table()[rng.below(policy.table().len())];
            for (operation, probability, level) in pair {
                if rng.chance(probability) {
                    perform(sample, operation, Space::Standard, level, POLICY_LEVELS, rng)?;
                }
            }
        }
        _ => unreachable!("the caller sends only automatic augmentations"),
    }
    Ok(())
}

fn perform(
    sample: &mut Sample,
    operation: Operation,
    space: Space,
    level: usize,
    levels: usize,
    rng: &mut SampleRng,
) -> Result<(), String> {
    let (height, width) = joint::size(sample);
    let magnitude = space.magnitude(operation, level, levels, height, width);
    let magnitude = if operation.is_signed() && rng.chance(0.5) { -magnitude } else { magnitude };
    match operation.motion(magnitude, height, width) {
        Some((motion, center)) => joint::affine(sample, &motion.inverse_around(center), Filter::Nearest, 0),
        None => {
            operation.apply(super::eight_bit(sample)?, magnitude, 0);
            Ok(())
        }
    }
}
