//! Where and how often operations run, and how long that took.

use super::operation::Precision;
use crate::output::{Json, duration};
use serde_json::json;
use std::time::Duration;

/// How and where an operation runs.
#[derive(clap::Args, Clone)]
pub(super) struct Target {
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
    /// Repeat this often and print the first run separately
    #[arg(long, default_value_t = 1)]
    pub runs: usize,
}

/// The times of several runs over the same images.
pub(super) struct Times {
    /// Making the program for a device; nothing on the host.
    pub preparation: Duration,
    pub runs: Vec<Duration>,
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
