//! The options that steps of all phases share.

use crate::options::defaults;
use octant_nn::Precision;

crate::choice! {
    /// What happens at a step whose loss is not finite.
    pub enum OnNan {
        /// The run ends and says where.
        Stop = "stop",
        /// The step changes nothing, and the run goes on.
        Skip = "skip",
    }
}

crate::options! {
    /// What is the same in the steps of all phases of a run.
    pub struct StepOptions {
        /// Images per step, over all devices; `octant train` also takes `auto`, the largest number that fits.
        batch_size: usize = 32, within(1..), flag(), value("N|auto");
        /// What layers compute in; parameters and sums stay in f32.
        precision: Precision = Precision::F32, flag();
        /// Parts of a batch that batch norms take their statistics over; 1 is synchronized.
        batch_groups: usize = 1, within(1..);
        /// Compute blocks of the network again in the backward pass instead of keeping their activations: less memory,
        /// more time.
        recompute: bool = false, flag();
        /// Every device keeps only its part of the optimizer's state.
        shard_optimizer: bool = false, flag();
        /// What happens when the loss is not finite: the run stops, or the step is skipped.
        on_nan: OnNan = OnNan::Stop, flag();
    }
}

impl Default for StepOptions {
    fn default() -> StepOptions {
        defaults()
    }
}
