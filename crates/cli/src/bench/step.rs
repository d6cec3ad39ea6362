//! The figures of one model or recipe.

use super::Arguments;
use crate::output::{Json, bytes, duration};
use crate::timeline;
use anyhow::Result;
use octant_measure::{StepFigures, StepRequest, Subject, measure_step};
use serde_json::json;
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
    show(subject, backend.name(), &figures, arguments);
    Ok(())
}

fn show(subject: &Subject, device: &str, figures: &StepFigures, arguments: &Arguments) {
    let Subject { name, batch_size, size, .. } = subject;
    let optimizer = subject.phase.optimizer.name();
    let StepFigures { step, first, start_to_first, peak_bytes, memory, cost, gemm_gflops, .. } = figures;
    let median = step.median();
    let per_second = *batch_size as f64 / median;
    let gflops = cost.flops / median / 1e9;
    let share = gflops / gemm_gflops;
    if arguments.latency {
        return show_latency(subject, device, figures, arguments);
    }
    if arguments.json {
        return Json::line(json!({
            "event": "done", "model": name, "mode": arguments.mode, "batch_size": batch_size, "size": size,
            "precision": arguments.precision, "device": device, "optimizer": optimizer,
            "images_per_second": per_second, "steps": step.count(), "step_ms_median": median * 1e3,
            "step_ms_least": step.least() * 1e3, "step_ms_p90": step.at(0.9) * 1e3, "step_spread": step.spread(),
            "first_step_s": first, "start_to_first_step_s": start_to_first,
            "compile_s": cost.compile_time.as_secs_f64(), "peak_rss_bytes": peak_bytes, "planned_bytes": memory.peak(),
            "gflop_per_second": gflops, "gemm_gflop_per_second": gemm_gflops, "gemm_share": share,
        }));
    }
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
    println!(
        "  {:<14} {gflops:.0} GFLOP/s, {:.0} % of the {gemm_gflops:.0} of a large matrix product",
        "work",
        100.0 * share
    );
}

/// The percentiles of single calls.
fn show_latency(subject: &Subject, device: &str, figures: &StepFigures, arguments: &Arguments) {
    let Subject { name, batch_size, size, .. } = subject;
    let step = &figures.step;
    if arguments.json {
        let ms = |seconds: f64| seconds * 1e3;
        return Json::line(json!({
            "event": "done", "model": name, "mode": arguments.mode, "batch_size": batch_size, "size": size,
            "precision": arguments.precision, "device": device, "calls": step.count(),
            "latency_ms_p50": ms(step.at(0.5)), "latency_ms_p95": ms(step.at(0.95)), "latency_ms_p99": ms(step.at(0.99)),
            "latency_ms_least": ms(step.least()), "latency_ms_most": ms(step.at(1.0)), "peak_rss_bytes": figures.peak_bytes,
        }));
    }
    let time = |seconds: f64| duration(Duration::from_secs_f64(seconds));
    println!("{name} infer in {}: {batch_size} of {size}×{size} per call on {device}", arguments.precision);
    let shares = [("p50", 0.5), ("p95", 0.95), ("p99", 0.99)];
    let shown = shares.map(|(name, share)| format!("{name} {}", time(step.at(share)))).join(", ");
    println!("  {:<14} {shown} (of {} calls, one at a time; least {})", "latency", step.count(), time(step.least()));
    println!("  {:<14} {}", "peak memory", bytes(figures.peak_bytes));
}
