//! Where operations run: the host's kernels, or a program on a device. Timed, the first run separately.

mod on_device;

use crate::error::{Result, refuse};
use crate::operation::{Operation, Precision};
use octant_data::AnyImage;
use octant_runtime::Backend;
pub use on_device::DeviceEngine;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What runs operations.
pub enum Engine {
    /// The host's kernels, one image after the other.
    Host,
    /// A program on a device, one batch after the other.
    Device(DeviceEngine),
}

impl Engine {
    /// Operations on a device, with that many images per call on that many of its devices.
    pub fn on(backend: Arc<dyn Backend>, batch: usize, cores: usize) -> Result<Engine> {
        if batch == 0 || cores == 0 {
            refuse!("a batch and the number of cores must be at least 1");
        }
        Ok(Engine::Device(DeviceEngine::new(backend, batch, cores)?))
    }

    /// The name of the device, or `host`.
    pub fn name(&self) -> &str {
        match self {
            Engine::Host => "host",
            Engine::Device(device) => device.name(),
        }
    }

    /// The results of one operation per image, computed `runs` times.
    pub fn run(
        &self,
        images: &[AnyImage],
        operations: &[Operation],
        precision: Precision,
        runs: usize,
    ) -> Result<(Vec<AnyImage>, Times)> {
        if let Engine::Device(device) = self {
            return device.run(images, operations, precision, runs);
        }
        let mut times = Times::default();
        let mut results = Vec::new();
        for _ in 0..runs {
            let begun = Instant::now();
            let pairs = images.iter().zip(operations);
            results = pairs.map(|(image, operation)| operation.on_host(image, precision)).collect::<Result<_>>()?;
            times.runs.push(begun.elapsed());
        }
        Ok((results, times))
    }
}

/// The times of several runs over the same images.
#[derive(Debug, Clone, Default)]
pub struct Times {
    /// Making the program for a device; nothing on the host.
    pub preparation: Duration,
    /// Each run.
    pub runs: Vec<Duration>,
}

impl Times {
    /// The first run with everything that happens once.
    pub fn first(&self) -> Duration {
        self.preparation + self.runs.first().copied().unwrap_or_default()
    }

    /// The other runs, the shortest first.
    pub fn others(&self) -> Vec<Duration> {
        let mut others: Vec<Duration> = self.runs.iter().skip(1).copied().collect();
        others.sort();
        others
    }
}
