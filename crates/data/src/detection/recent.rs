//! The images that mosaics are made of, each decoded once for all mosaics that it appears in.
//!
//! Partners of a sample come from its block: [`BLOCK`] neighbors in the epoch's order. Every epoch has another order, so any
//! two images meet sooner or later, and a sample still depends on (seed, epoch, index) alone. What is kept only saves time:
//! an image that is not there any more is decoded again.

use super::letterbox::{Boxed, at_side, parts};
use crate::{DataError, Dataset, KeypointLayout, Permutation, SampleRng};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Samples whose partners come from each other.
const BLOCK: u64 = 128;
/// Images that are kept: workers that are ahead are in the next block. At most 315 MB at 640².
const KEPT: usize = 2 * BLOCK as usize;

/// One image. The first consumer decodes it while the others wait.
type Slot = Arc<Mutex<Option<Arc<Boxed>>>>;

/// A data set of boxes whose images have a longer side of that length, and of which the latest are kept.
pub struct RecentImages {
    dataset: Arc<dyn Dataset>,
    side: usize,
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    slots: HashMap<usize, (u64, Slot)>,
    clock: u64,
}

impl Kept {
    /// The slot of an image; the least recently used one makes room.
    fn slot(&mut self, index: usize) -> Slot {
        self.clock += 1;
        if self.slots.len() >= KEPT && !self.slots.contains_key(&index) {
            let oldest = self.slots.iter().min_by_key(|(_, (used, _))| *used).map(|(&index, _)| index);
            oldest.map(|oldest| self.slots.remove(&oldest));
        }
        let (used, slot) = self.slots.entry(index).or_default();
        *used = self.clock;
        slot.clone()
    }
}

impl RecentImages {
    /// Nothing kept yet.
    pub fn new(dataset: Arc<dyn Dataset>, side: usize) -> RecentImages {
        RecentImages { dataset, side, kept: Mutex::default() }
    }

    /// The image of that number with its boxes.
    pub fn get(&self, index: usize) -> Result<Arc<Boxed>, DataError> {
        let slot = self.kept.lock().unwrap_or_else(PoisonError::into_inner).slot(index);
        let mut slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(boxed) = &*slot {
            return Ok(boxed.clone());
        }
        let boxed = Arc::new(at_side(parts(self.dataset.get(index)?)?, self.side)?);
        *slot = Some(boxed.clone());
        Ok(boxed)
    }

    /// The keypoints that every object has.
    pub(super) fn keypoints(&self) -> Option<KeypointLayout> {
        self.dataset.keypoints()
    }

    /// A random image of the sample's block.
    pub(super) fn partner(&self, rng: &mut SampleRng) -> usize {
        let count = self.dataset.len() as u64;
        let order = Permutation::new(count, rng.seed(), rng.epoch());
        // The last block is as large as the others: it reaches back.
        let first = (order.position(rng.index()) / BLOCK * BLOCK).min(count.saturating_sub(BLOCK));
        order.at(first + rng.below(BLOCK.min(count) as usize) as u64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AnyImage, LabeledBox, Sample, Target};
    use octant_imaging::Image;
    use std::sync::atomic::{AtomicUsize, Ordering};

    struct Counting(AtomicUsize);

    impl Dataset for Counting {
        fn len(&self) -> usize {
            1000
        }

        fn get(&self, index: usize) -> Result<Sample, DataError> {
            self.0.fetch_add(1, Ordering::Relaxed);
            let object = LabeledBox::new(index as u32, [2.0, 4.0, 6.0, 8.0]);
            Ok(Sample { image: AnyImage::U8(Image::filled(8, 16, 3, 7)), target: Target::Boxes(vec![object]) })
        }
    }

    #[test]
    fn mosaics_in_the_order_of_an_epoch_decode_every_image_about_once() {
        let dataset = Arc::new(Counting(AtomicUsize::new(0)));
        let images = RecentImages::new(dataset.clone(), 8);
        let order = Permutation::new(1000, 5, 3);
        for position in 0..1000 {
            let index = order.at(position);
            let mut rng = SampleRng::new(5, 3, index);
            images.get(index as usize).unwrap();
            for _ in 0..3 {
                images.get(images.partner(&mut rng)).unwrap();
            }
        }
        let decoded = dataset.0.load(Ordering::Relaxed);
        assert!((1000..=1030).contains(&decoded), "{decoded} images were decoded");
    }

    #[test]
    fn what_is_kept_is_what_would_be_read() {
        let images = RecentImages::new(Arc::new(Counting(AtomicUsize::new(0))), 8);
        let first = images.get(3).unwrap();
        assert_eq!(first, images.get(3).unwrap());
        assert_eq!(first.0.dims(), [4, 8, 3]);
        assert_eq!(first.1, [LabeledBox::new(3, [1.0, 2.0, 3.0, 4.0])]);
    }
}
