//! The figures of single operations: how near kernels come to what the device can do.

use super::Arguments;
use crate::output::{Json, duration};
use anyhow::Result;
use octant_measure::{OperationEvent, OperationSpeed, Operations, Peaks};
use serde_json::json;
use std::time::Duration;

pub(super) fn run(arguments: &Arguments) -> Result<()> {
    let operations = Operations::matching(arguments.model.as_deref().unwrap_or_default())?;
    let backend = arguments.device.open()?;
    let mut best = None;
    operations.measure(&*backend, &arguments.precision, &mut |event| match event {
        OperationEvent::Peaks(peaks) => {
            best = Some(*peaks);
            show_peaks(peaks, backend.name(), arguments);
        }
        OperationEvent::Speed(speed) => best.iter().for_each(|peaks| show(speed, peaks, arguments.json)),
    })?;
    Ok(())
}

fn show_peaks(peaks: &Peaks, device: &str, arguments: &Arguments) {
    match arguments.json {
        true => Json::line(json!({
            "event": "peaks", "device": device, "precision": arguments.precision,
            "gemm_gflop_per_second": peaks.gflops, "sweep_gb_per_second": peaks.gigabytes,
        })),
        false => println!(
            "peaks on {}: {:.0} GFLOP/s in a large matrix product, {:.1} GB/s in a sweep over memory\n{:<34} {:<16} {:>9} {:>6} {:>8} {:>6} {:>7} {:>6}",
            device,
            peaks.gflops,
            peaks.gigabytes,
            "operation",
            "direction",
            "time",
            "±",
            "GFLOP/s",
            "share",
            "GB/s",
            "share"
        ),
    }
}

fn show(speed: &OperationSpeed, peaks: &Peaks, as_json: bool) {
    if as_json {
        return Json::line(speed.json(peaks));
    }
    let OperationSpeed { name, direction, time, flops, .. } = speed;
    let (gflops, gigabytes) = (speed.gflops(), speed.gigabytes());
    // Only convolutions and products are counted in operations; the rest is a matter of memory.
    let arithmetic = match *flops > 0.0 {
        true => format!("{gflops:>8.1} {:>4.0} %", 100.0 * gflops / peaks.gflops),
        false => format!("{:>8} {:>6}", "–", "–"),
    };
    println!(
        "{name:<34} {direction:<16} {:>9} {:>4.1} % {arithmetic} {gigabytes:>7.1} {:>4.0} %",
        duration(Duration::from_secs_f64(time.median())),
        100.0 * time.spread(),
        100.0 * gigabytes / peaks.gigabytes
    );
}
