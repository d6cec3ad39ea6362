//! Where operations run: the host's kernels, or a program on a device. Timed, the first run separately.

use super::on_device::Device;
use super::operation::Operation;
use super::times::{Target, Times};
use crate::device;
use anyhow::{Result, bail};
use octant_data::AnyImage;
use std::time::{Duration, Instant};

/// What runs operations.
pub(super) enum Engine {
    Host,
    Device(Device),
}

impl Engine {
    pub fn open(target: &Target) -> Result<Engine> {
        if target.batch == 0 || target.cores == 0 || target.runs == 0 {
            bail!("--batch, --cores and --runs must be at least 1");
        }
        Ok(match target.device.as_str() {
            "host" => Engine::Host,
            name => Engine::Device(Device::new(device::open_exact(name)?, target.batch, target.cores)?),
        })
    }

    pub fn name(&self) -> &str {
        match self {
            Engine::Host => "host",
            Engine::Device(device) => device.name(),
        }
    }

    /// The results of one operation per image, run `runs` times.
    pub fn run(
        &mut self,
        images: &[AnyImage],
        operations: &[Operation],
        target: &Target,
    ) -> Result<(Vec<AnyImage>, Times)> {
        match self {
            Engine::Host => {
                let mut times = Times { preparation: Duration::ZERO, runs: Vec::new() };
                let mut results = Vec::new();
                for _ in 0..target.runs {
                    let begun = Instant::now();
                    results = images
                        .iter()
                        .zip(operations)
                        .map(|(image, operation)| operation.on_host(image, target.precision))
                        .collect::<Result<_>>()?;
                    times.runs.push(begun.elapsed());
                }
                Ok((results, times))
            }
            Engine::Device(device) => device.run(images, operations, target),
        }
    }
}
