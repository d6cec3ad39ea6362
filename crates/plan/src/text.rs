//! A plan as text: a table with a row per machine, what a compiler adds to it, and what its figures are worth.

use crate::{BOARD_FACTOR, ImageCount, Machine, PlanRequest, PlanRow, PlannedSharding};
use octant_events::units::{bytes, duration, grouped};
use std::time::Duration;

/// How many images an epoch has, and where the number comes from.
pub fn epoch(row: &PlanRow) -> Option<String> {
    let count = grouped(row.images_per_epoch? as u64);
    Some(match row.images_from.as_ref()? {
        ImageCount::Given => format!("{count} images, as --images says"),
        ImageCount::Counted => format!("the {count} training images of the data"),
        ImageCount::Known(name) => format!("the {count} training images of {name}; --data or --images for others"),
        ImageCount::Assumed => format!("{count} images, which is assumed: give --data or --images"),
    })
}

/// The names of the columns; with the cost of a run where there are prices.
pub fn columns(priced: bool) -> String {
    let cost = if priced { format!(" {:>9}", "cost") } else { String::new() };
    format!(
        "{:<7} {:>6} {:>10} {:>10} {:>8} {:>9} {:>11} {:>12}{cost} {:>11}  source",
        "machine", "batch", "per core", "limit", "largest", "step", "epoch", "run", "compiled in"
    )
}

fn memory(count: Option<u64>) -> String {
    count.map_or_else(|| "unknown".into(), bytes)
}

fn time(seconds: Option<f64>) -> String {
    seconds.map_or_else(|| "unknown".into(), |seconds| duration(Duration::from_secs_f64(seconds)))
}

/// The row of one machine, and where its figures come from.
pub fn line(row: &PlanRow, source: &str, priced: bool) -> String {
    let target = &row.target;
    if let Some(error) = &row.error {
        return format!("{target:<7} no: {error}");
    }
    let count = |count: Option<usize>| count.map_or_else(|| "unknown".into(), |count| count.to_string());
    let cost = row.price_estimate.map_or_else(|| "-".into(), |price| format!("{price:.2}"));
    let cost = if priced { format!(" {cost:>9}") } else { String::new() };
    format!(
        "{target:<7} {:>6} {:>10} {:>10} {:>8} {:>9} {:>11} {:>12}{cost} {:>11}  {source}{}",
        count(row.batch_size),
        memory(row.hbm_bytes_per_core),
        memory(row.hbm_limit_bytes),
        count(row.largest_batch),
        time(row.step_seconds_estimate),
        time(row.epoch_seconds_estimate),
        time(row.recipe_seconds_estimate),
        if row.estimate { "-".into() } else { time(row.compile_seconds) },
        if row.fits { "" } else { "; does not fit" },
    )
}

/// What is known of a machine once its compiler is done, to be shown below its row; compared with our own estimate.
pub fn details(row: &PlanRow, estimate: Option<&PlanRow>) -> Vec<String> {
    if row.error.is_some() {
        return Vec::new();
    }
    let mut lines = vec![format!(
        "        evaluation needs {}; {:.1} TFLOP and {} per step",
        memory(row.evaluation_hbm_bytes_per_core),
        row.flops_per_step.unwrap_or(0.0) / 1e12,
        row.bytes_per_step.map_or_else(|| "an unknown traffic".into(), |count| bytes(count as u64)),
    )];
    if let Some(seconds) = row.exchange_seconds_estimate.filter(|_| !row.exchanged_bytes_per_step.is_empty()) {
        let of = |(kind, count): (&String, &u64)| format!("{kind} {}", bytes(*count));
        let exchanged: Vec<String> = row.exchanged_bytes_per_step.iter().map(of).collect();
        let share =
            row.step_seconds_estimate.map(|step| format!(", {:.0} % of the step's time", 100.0 * seconds / step));
        lines.push(format!(
            "        devices exchange {} per step in {}{}",
            exchanged.join(", "),
            time(Some(seconds)),
            share.unwrap_or_default()
        ));
    }
    let estimate = estimate.filter(|estimate| estimate.batch_size == row.batch_size);
    let estimated = estimate.and_then(|estimate| estimate.step_seconds_estimate);
    if let (Some(compiled), Some(estimated)) = (row.step_seconds_estimate, estimated) {
        lines.push(format!(
            "        the estimate was {} and {} per step: {:.1} × the compiler's time",
            memory(estimate.and_then(|estimate| estimate.hbm_bytes_per_core)),
            time(Some(estimated)),
            estimated / compiled
        ));
    }
    lines
}

/// The ways in which the devices could divide the step, to be shown below the estimate of a machine.
pub fn shardings(row: &PlanRow) -> Vec<String> {
    let line = |way: &PlannedSharding| {
        let exchanged: Vec<String> =
            way.exchanged_bytes_per_step.iter().map(|(kind, count)| format!("{kind} {}", bytes(*count))).collect();
        format!(
            "        {:<25} {:>10} per core, step {:>8}, exchanged {}{}{}",
            way,
            bytes(way.hbm_bytes_per_core),
            time(Some(way.step_seconds)),
            if exchanged.is_empty() { "nothing".into() } else { exchanged.join(", ") },
            if way.fits { "" } else { "; does not fit" },
            if way.recommended { "; recommended" } else { "" },
        )
    };
    row.shardings.iter().map(line).collect()
}

/// What the figures are worth. `both`: a machine has an estimate and a compiled row.
pub fn notes(rows: &[&PlanRow], both: bool, request: &PlanRequest) -> Vec<String> {
    let mut notes = Vec::new();
    let machines: Vec<Machine> = rows.iter().filter_map(|row| Machine::named(&row.target).ok()).collect();
    let compiled = rows.iter().any(|row| !row.estimate && row.error.is_none());
    if machines.iter().any(|machine| matches!(machine, Machine::Board(_))) {
        notes.push(format!(
            "The time of a step on a board is its compiler's estimate, or what arithmetic and memory allow at best, times \
             {BOARD_FACTOR}: that is how much longer a ResNet-50 took on a v2-8 than its compiler had estimated."
        ));
    }
    if compiled && both {
        notes.push(
            "Where there is a compiler's row, trust it: a compiler decides what is fused, which values share memory and how \
             kernels are scheduled. The estimate counts every stored value once and every operation at the speed of memory or \
             arithmetic; the two differ by up to a factor of 2.5."
                .into(),
        );
    }
    if machines.iter().any(|machine| matches!(machine, Machine::Gpu(_) | Machine::Cluster { .. })) {
        notes.push(
            "GPUs are estimated: memory from the lifetimes of the program's values, times from what steps reached on an H200, \
             scaled by the published arithmetic and bandwidth. --on cuda compiles on the GPU of this machine."
                .into(),
        );
    }
    if machines.iter().any(|machine| machine.devices() > 1) {
        notes.push(
            "Below the estimates are the ways to divide the step among the devices: by the batch alone, with the parameters and the \
             optimizer's state (`fsdp`), and with the height of images (`spatial`), which are keys of the recipe. Recommended is the \
             fastest that fits."
                .into(),
        );
    }
    if rows.iter().any(|row| row.exchange_seconds_estimate.is_some_and(|seconds| seconds > 0.0)) {
        notes.push(
            "What devices exchange takes the published time of their links; two thirds of a step, in which gradients are \
             computed, hide it. Between machines with GPUs 400 Gbit/s per GPU are assumed, between slices of TPUs 200 Gbit/s per \
             host."
                .into(),
        );
    }
    if compiled && request.compiles_quickly() {
        notes.push(
            "--quick compiles short, slow code: the compiler needs longer for training itself, whose code takes more memory."
                .into(),
        );
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_without_a_plan_has_its_reason_in_the_row() {
        let row = PlanRow::failed("v3-8", "no memory".into());
        assert_eq!(line(&row, "compiler", true), "v3-8    no: no memory");
        assert!(details(&row, None).is_empty() && epoch(&row).is_none());
    }

    #[test]
    fn a_row_has_a_column_for_the_cost_where_there_are_prices() {
        let row = PlanRow {
            error: None,
            batch_size: Some(64),
            price_estimate: Some(1.5),
            ..PlanRow::failed("t4", String::new())
        };
        assert!(line(&row, "estimate", true).contains(" 1.50 ") && line(&row, "estimate", false).contains("    64 "));
        assert!(line(&row, "estimate", false).ends_with("estimate; does not fit"));
        assert_eq!(columns(true).matches("cost").count(), 1);
    }
}
