//! Where operations run: the host's kernels, or a program on a device. Timed, the first run apart.

use super::on_device::Device;
use super::operation::{Operation, Precision};
use crate::device;
use crate::output::{Json, duration};
use anyhow::{Result, bail};
use octant_data::AnyImage;
use serde_json::json;
use std::time::{Duration, Instant};

/// How and where an operation runs.
#[derive(clap::Args, Clone)]
pub(super) struct Place {
    /// Where: host (one image at a time), or a device (batches): auto, cpu, cuda, tpu or the path of a PJRT plugin
    #[arg(long, default_value = "host")]
    pub device: String,
    /// What is computed in
    #[arg(long, value_enum, default_value_t = Precision::Stored)]
    pub precision: Precision,
    /// Images per call of a device
    #[arg(long, default_value_t = 16)]
    pub batch: usize,
    /// Devices that share the images of a batch
    #[arg(long, default_value_t = 1)]
    pub cores: usize,
    /// Repeat this often and print the first run apart from the others
    #[arg(long, default_value_t = 1)]
    pub runs: usize,
}

/// What runs operations.
pub(super) enum Engine {
    Host,
    Device(Device),
}

/// The times of several runs over the same images.
pub(super) struct Times {
    /// Making the program for a device; nothing on the host.
    pub preparation: Duration,
    pub runs: Vec<Duration>,
}

impl Engine {
    pub fn open(place: &Place) -> Result<Engine> {
        if place.batch == 0 || place.cores == 0 || place.runs == 0 {
            bail!("--batch, --cores and --runs must be at least 1");
        }
        Ok(match place.device.as_str() {
            "host" => Engine::Host,
            name => Engine::Device(Device::new(device::open_exact(name, None)?, place.batch, place.cores)?),
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
        place: &Place,
    ) -> Result<(Vec<AnyImage>, Times)> {
        match self {
            Engine::Host => {
                let mut times = Times { preparation: Duration::ZERO, runs: Vec::new() };
                let mut results = Vec::new();
                for _ in 0..place.runs {
                    let begun = Instant::now();
                    results = images
                        .iter()
                        .zip(operations)
                        .map(|(image, operation)| operation.on_host(image, place.precision))
                        .collect::<Result<_>>()?;
                    times.runs.push(begun.elapsed());
                }
                Ok((results, times))
            }
            Engine::Device(device) => device.run(images, operations, place),
        }
    }
}

impl Times {
    /// The first run with everything that happens once, and the median of the others.
    pub fn print(&self, what: &str, images: usize, as_json: bool) {
        let first = self.preparation + self.runs.first().copied().unwrap_or_default();
        let mut others: Vec<Duration> = self.runs.iter().skip(1).copied().collect();
        others.sort();
        let median = others.get(others.len() / 2);
        if as_json {
            return Json::line(json!({
                "event": "times", "what": what, "images": images, "first_run_s": first.as_secs_f64(),
                "trace_and_compile_s": self.preparation.as_secs_f64(),
                "other_runs_s": self.runs.iter().skip(1).map(Duration::as_secs_f64).collect::<Vec<_>>(),
                "median_s": median.map(Duration::as_secs_f64),
            }));
        }
        println!("{what}: {images} image(s)");
        match self.preparation.is_zero() {
            true => println!("  first run   {}", duration(first)),
            false => {
                println!("  first run   {} ({} of it trace and compile)", duration(first), duration(self.preparation))
            }
        }
        if let (Some(median), Some(least)) = (median, others.first()) {
            println!("  {} others    median {}, least {}", others.len(), duration(*median), duration(*least));
        }
    }
}
