//! A pool of images made earlier, from which discriminators learn (Shrivastava et al., 2017).

use octant_graph::{DType, Shape, Tensor, Trace};
use octant_nn::Scope;
use octant_nn::init::ZEROS;

/// Images that were made in earlier steps. They are variables of a companion, so that checkpoints hold them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ImagePool {
    /// How many it holds; 0 returns every image as it is.
    pub size: usize,
}

impl ImagePool {
    /// Puts a batch of images through the pool, one after the other. While it fills, images are kept and returned; later
    /// every second one on average takes the slot of an older one, which is returned instead. The choices come from the
    /// step's key and the scope's path; without a key, every image is returned as it is.
    pub fn query(&self, cx: &Scope, images: &Tensor) -> Tensor {
        let Some(key) = cx.random_key().filter(|_| self.size > 0) else { return images.clone() };
        let images = images.stop_gradient().convert(DType::F32);
        let image_dims = &images.dims()[1..];
        let mut kept = cx.statistic("images", &[&[self.size], image_dims].concat(), ZEROS);
        let mut count = cx.statistic("count", &[], ZEROS);
        let choices = Choices::new(&key, images.dim(0), self.size);
        let mut returned = Vec::new();
        for row in 0..images.dim(0) {
            let image = images.slice_axis(0, row, row + 1);
            let is_full = count.greater_equal(&count.scalar_like(self.size as f64));
            let slot = is_full.select(&choices.slot(row), &count.convert(DType::I32));
            let swaps = is_full.and(&choices.swaps(row));
            let stays_out = is_full.and(&choices.swaps(row).not());
            let none = slot.zeros_like();
            let at: Vec<Tensor> =
                std::iter::once(slot.clone()).chain(image_dims.iter().map(|_| none.clone())).collect();
            let old = kept.dynamic_slice(&at, image.dims());
            let everywhere = |condition: &Tensor| condition.broadcast_to(image.dims());
            returned.push(everywhere(&swaps).select(&old, &image));
            kept = kept.dynamic_update_slice(&everywhere(&stays_out).select(&old, &image), &at);
            count = (&count + 1.0).min(&count.scalar_like(self.size as f64));
        }
        cx.update("images", &kept);
        cx.update("count", &count);
        Tensor::concatenate(&returned, 0)
    }
}

/// Whether each row is swapped, and with which slot.
struct Choices {
    coins: Tensor,
    slots: Tensor,
}

impl Choices {
    fn new(key: &Tensor, rows: usize, size: usize) -> Choices {
        let words = key.random_bits(&[2, rows]);
        let word = |trace: &Trace, value: f64| trace.full(&Shape::new(DType::U32, [1, rows]), value);
        let half = word(words.trace(), f64::from(1u32 << 31));
        let coins = words.slice_axis(0, 0, 1).greater_equal(&half).reshape(&[rows]);
        let slots = words.slice_axis(0, 1, 2).rem(&word(words.trace(), size as f64));
        Choices { coins, slots: slots.convert(DType::I32).reshape(&[rows]) }
    }

    fn swaps(&self, row: usize) -> Tensor {
        self.coins.slice_axis(0, row, row + 1).reshape(&[])
    }

    fn slot(&self, row: usize) -> Tensor {
        self.slots.slice_axis(0, row, row + 1).reshape(&[])
    }
}
