//! The options of the loop.

use crate::options::defaults;
use octant_data::{Corrupt, LastBatch};

crate::options! {
    /// What the loop does around the steps.
    pub struct RunOptions {
        /// The seed of weights, order and augmentation.
        seed: u64 = 0, flag();
        /// Steps of one epoch.
        steps_per_epoch: Option<u64>, within(1..), unset("a pass over the data"), flag();
        /// Threads that prepare batches.
        workers: usize = 0, unset("one per core"), flag();
        /// The images that do not fill an epoch's last batch: they are dropped, or rows that do not count are added.
        last_batch: LastBatch = LastBatch::Drop, flag();
        /// An image that cannot be read: the run ends, or it is named and left out.
        on_corrupt: Corrupt = Corrupt::Fatal, flag();
        /// Epochs between validations; the end of a phase is always validated.
        validate_every: u64 = 1, within(1..), flag();
        /// Epochs without a better one after which the run ends.
        patience: Option<u64>, within(1..), unset("never"), flag();
        /// Steps between checkpoints within an epoch.
        checkpoint_every: Option<u64>, within(1..), unset("after epochs only"), flag();
        /// Epochs between histograms of all weights and gradients in the event file.
        histograms: Option<u64>, within(1..), unset("none"), flag(), value("EPOCHS");
    }
}

impl Default for RunOptions {
    fn default() -> RunOptions {
        defaults()
    }
}
