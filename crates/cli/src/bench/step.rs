//! The figures of one model or recipe.

use super::Arguments;
use crate::output::{Json, bytes, duration};
use crate::timeline;
use anyhow::Result;
use octant_measure::{StepFigures, StepRequest, Subject, measure_step};
use std::path::Path;
use std::time::{Duration, Instant};

pub(super) fn run(subject: &Subject, arguments: &Arguments, started: Instant) -> Result<()> {
    let Arguments { precision, cores, profile, latency, .. } = arguments;
    let request = StepRequest {
        mode: arguments.mode.parse()?,
        precision: precision.clone(),
        cores: *cores,
        steps: arguments.steps(),
        latency: *latency,
        profile: *profile,
        started,
    };
    let backend = arguments.device.open()?;
    let figures = measure_step(subject, &backend, &request)?;
    if let Some(recorded) = &figures.timeline {
        let path = Path::new("trace.json");
        octant_run::write_trace(path, recorded)?;
        timeline::report(recorded, path, arguments.json);
    }
    match (arguments.json, arguments.latency) {
        (true, _) => Json::line(figures.json(subject, backend.name(), &request)),
        (false, true) => show_latency(subject, backend.name(), &figures, arguments),
        (false, false) => show(subject, backend.name(), &figures, arguments),
    }
    Ok(())
}

fn show(subject: &Subject, device: &str, figures: &StepFigures, arguments: &Arguments) {
    let Subject { name, batch_size, size, .. } = subject;
    let optimizer = subject.phase.optimizer.name();
    let StepFigures { step, first, start_to_first, peak_bytes, memory, gemm_gflops, .. } = figures;
    let (median, gflops) = (step.median(), figures.gflops());
    let (per_second, share) = (figures.images_per_second(subject), gflops / gemm_gflops);
    let with = if arguments.mode == "train" { format!(" with {optimizer}") } else { String::new() };
    println!(
        "{name} {} in {}{with}: {batch_size} images of {size}×{size} per step on {}",
        arguments.mode, arguments.precision, device
    );
    let time = |seconds: f64| duration(Duration::from_secs_f64(seconds));
    println!("  {:<14} {per_second:.1} images/s", "speed");
    println!(
        "  {:<14} {} (median of {}, ± {:.1} %; least {}, 90 % below {})",
        "step",
        time(median),
        step.count(),
        100.0 * step.spread(),
        time(step.least()),
        time(step.at(0.9))
    );
    println!("  {:<14} {} after {} of preparation", "first step", time(*first), time(start_to_first - first));
    println!("  {:<14} {} (planned {})", "peak memory", bytes(*peak_bytes), bytes(memory.peak()));
    let of = if arguments.precision == "int8" { " in f32" } else { "" };
    println!(
        "  {:<14} {gflops:.0} GFLOP/s, {:.0} % of the {gemm_gflops:.0} of a large matrix product{of}",
        "work",
        100.0 * share
    );
}

/// The percentiles of single calls.
fn show_latency(subject: &Subject, device: &str, figures: &StepFigures, arguments: &Arguments) {
    let Subject { name, batch_size, size, .. } = subject;
    let step = &figures.step;
    let time = |seconds: f64| duration(Duration::from_secs_f64(seconds));
    println!("{name} infer in {}: {batch_size} of {size}×{size} per call on {device}", arguments.precision);
    let shares = [("p50", 0.5), ("p95", 0.95), ("p99", 0.99)];
    let shown = shares.map(|(name, share)| format!("{name} {}", time(step.at(share)))).join(", ");
    println!("  {:<14} {shown} (of {} calls, one at a time; least {})", "latency", step.count(), time(step.least()));
    println!("  {:<14} {}", "peak memory", bytes(figures.peak_bytes));
}
