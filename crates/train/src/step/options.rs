//! The options that steps of all phases share.

use super::BatchSchedule;
use crate::options::defaults;
use octant_nn::{Adapters, Precision};

crate::choice! {
    /// What happens at a step whose loss is not finite.
    pub enum OnNan {
        /// The run ends and reports where.
        Stop = "stop",
        /// The step changes nothing, and the run continues.
        Skip = "skip",
    }
}

crate::options! {
    /// What is the same in the steps of all phases of a run.
    pub struct StepOptions {
        /// Images per step, over all devices; `octant train` also takes `auto`, the largest number that fits into 60 % of the
        /// free memory, or another share of it such as `70%`.
        batch_size: usize = 32, within(1..), flag(), value("N|auto|70%");
        /// Other numbers of images per step from some epochs of the run on: `[[5, 64], [20, 128]]`. `batch_size` holds until
        /// the first of them. Every size has a compiled step of its own.
        batch_schedule: BatchSchedule = BatchSchedule::default(), unset("`batch_size` throughout"), flag();
        /// What layers compute in; parameters and sums stay in f32.
        precision: Precision = Precision::F32, flag();
        /// Parts of a batch that batch norms take their statistics over; 1 is synchronized.
        batch_groups: usize = 1, within(1..);
        /// Compute blocks of the network again in the backward pass instead of keeping their activations: less memory,
        /// more time.
        recompute: bool = false, flag();
        /// Every device keeps only its part of the optimizer's state.
        shard_optimizer: bool = false, flag();
        /// Devices that share the parameters and the optimizer's state (FSDP): each keeps its part and collects the rest layer by
        /// layer. It must divide the number of devices; the others hold copies.
        fsdp: usize = 1, within(1..), flag();
        /// Parameters of fewer KiB stay whole on every device.
        fsdp_from: usize = 1024;
        /// Devices that divide the height of every image: for images that are too large for one device. Convolutions exchange the
        /// rows at the borders. It must divide the number of devices and the height.
        spatial: usize = 1, within(1..);
        /// Low-rank adapters (LoRA) beside the linear layers. Phases that train everything then train the adapters and the
        /// head; the other weights stay as they are.
        adapters: Option<AdapterOptions>, unset("none");
        /// What happens when the loss is not finite: the run stops, or the step is skipped.
        on_nan: OnNan = OnNan::Stop, flag();
    }
}

crate::options! {
    /// Low-rank adapters.
    pub struct AdapterOptions {
        /// The rank: how thin the two factors are.
        rank: usize = 8, within(1..), flag_named("lora-rank");
        /// What the factors' product is multiplied by, times the rank.
        alpha: f64 = 16.0, within(0.0..), flag_named("lora-alpha");
        /// The linear layers, by the last steps of their paths, such as `qkv`; `all-linear` is every one but the head.
        targets: Vec<String> = vec![Adapters::ALL.into()], unset("[\"all-linear\"]");
    }
}

impl AdapterOptions {
    /// As the network wants them.
    pub fn adapters(&self) -> Adapters {
        Adapters { rank: self.rank, alpha: self.alpha, targets: self.targets.clone(), except: Vec::new() }
    }
}

impl Default for StepOptions {
    fn default() -> StepOptions {
        defaults()
    }
}
