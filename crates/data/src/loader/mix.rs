//! Mixup and cutmix over finished batches.

use super::pool::Block;
use crate::{Position, SampleRng};
use octant_imaging::mix::{cutmix_window, mixup_bytes, paste_window};

/// How images of a batch are mixed with each other.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Mix {
    /// Mixup's alpha: shares are sampled from Beta(alpha, alpha). Zero switches mixup off.
    pub mixup: f64,
    /// Cutmix's alpha. Zero switches cutmix off. With both on, each batch uses one of them.
    pub cutmix: f64,
    /// The probability that a batch is mixed at all.
    pub p: f32,
}

impl Default for Mix {
    fn default() -> Mix {
        Mix { mixup: 0.0, cutmix: 0.0, p: 1.0 }
    }
}

/// Mixes every row with the row as far from the end as it is from the beginning, and returns the share that each row
/// keeps of itself. What happens depends on (seed, position) only.
pub(super) fn mix_rows(
    mix: &Mix,
    seed: u64,
    position: Position,
    images: &mut Block,
    rows: usize,
    dims: [usize; 3],
) -> Vec<f32> {
    // The order of an epoch uses the last stream; batches fork from the one before.
    let mut rng = SampleRng::new(seed, position.epoch, u64::MAX - 1).fork(position.batch);
    let both = mix.mixup > 0.0 && mix.cutmix > 0.0;
    let paste = if both { rng.chance(0.5) } else { mix.cutmix > 0.0 };
    let alpha = if paste { mix.cutmix } else { mix.mixup };
    if alpha <= 0.0 || !rng.chance(mix.p) {
        return vec![1.0; rows];
    }
    let [height, width, channels] = dims;
    let share = rng.beta(alpha, alpha);
    let size = height * width * channels;
    let originals = images.to_vec();
    let partner = |row: usize| &originals[(rows - 1 - row) * size..][..size];
    if paste {
        let (window, kept) = cutmix_window(height, width, share, (rng.below(height), rng.below(width)));
        for row in 0..rows {
            paste_window(&mut images[row * size..][..size], partner(row), width, channels, window);
        }
        return vec![kept; rows];
    }
    for row in 0..rows {
        mixup_bytes(&mut images[row * size..][..size], partner(row), share);
    }
    vec![share; rows]
}
