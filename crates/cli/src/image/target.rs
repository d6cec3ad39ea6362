//! The flags of where and how often operations run, and how long that took.

use crate::device;
use crate::output::{Json, duration};
use anyhow::{Result, bail};
use octant_process::{Engine, Precision, Times};
use serde_json::json;
use std::time::Duration;

/// How and where an operation runs.
#[derive(clap::Args, Clone)]
pub(super) struct Target {
    /// Where: host (one image at a time), or a device (batches): auto, cpu, cuda, tpu or the path of a PJRT plugin
    #[arg(long, default_value = "host")]
    device: String,
    /// What is computed in: stored (the type that images are stored in, with the fixed-point arithmetic that the libraries use for
    /// bytes), f32 (rounded once at the end) or bf16 (for accelerators; only with --device)
    #[arg(long, default_value = "stored")]
    pub precision: Precision,
    /// Images per call of a device; 16 if not given
    #[arg(long)]
    batch: Option<usize>,
    /// Devices that share the images of a batch; 1 if not given
    #[arg(long)]
    cores: Option<usize>,
    /// Repeat this often and print the first run separately
    #[arg(long, default_value_t = 1)]
    pub runs: usize,
}

impl Target {
    pub fn open(&self) -> Result<Engine> {
        let (batch, cores) = (self.batch.unwrap_or(16), self.cores.unwrap_or(1));
        if batch == 0 || cores == 0 || self.runs == 0 {
            bail!("--batch, --cores and --runs must be at least 1");
        }
        if self.device == "host" && self.batch.or(self.cores).is_some() {
            bail!("--batch and --cores are for devices; the host takes one image at a time, --device cpu batches");
        }
        engine(&self.device, batch, cores)
    }
}

/// The host, or a device of that name.
pub(super) fn engine(name: &str, batch: usize, cores: usize) -> Result<Engine> {
    match name {
        "host" => Ok(Engine::Host),
        name => Ok(Engine::on(device::open_exact(name)?, batch, cores)?),
    }
}

/// The first run with everything that happens once, and the median of the others.
pub(super) fn print(times: &Times, what: &str, images: usize, as_json: bool) {
    let (first, others) = (times.first(), times.others());
    let median = others.get(others.len() / 2);
    if as_json {
        return Json::line(json!({
            "event": "times", "what": what, "images": images, "first_run_s": first.as_secs_f64(),
            "trace_and_compile_s": times.preparation.as_secs_f64(),
            "other_runs_s": times.runs.iter().skip(1).map(Duration::as_secs_f64).collect::<Vec<_>>(),
            "median_s": median.map(Duration::as_secs_f64),
        }));
    }
    println!("{what}: {images} image(s)");
    match times.preparation.is_zero() {
        true => println!("  first run   {}", duration(first)),
        false => {
            println!("  first run   {} ({} of it trace and compile)", duration(first), duration(times.preparation))
        }
    }
    if let (Some(median), Some(least)) = (median, others.first()) {
        println!("  {} others    median {}, least {}", others.len(), duration(*median), duration(*least));
    }
}
