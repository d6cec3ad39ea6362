//! Where the time of steps went: a table for the terminal, a trace for a viewer.

use crate::output::{Json, duration, line};
use octant_runtime::{Occupation, PartTiming, Timeline};
use std::path::Path;

/// Prints what took the most time, and where the trace lies.
pub(crate) fn report(timeline: &Timeline, path: &Path, as_json: bool) {
    match as_json {
        true => Json::line(octant_run::trace_json(path, timeline)),
        false => {
            show(&timeline.parts());
            if let Some(Occupation { busy, waiting }) = timeline.occupation() {
                let [busy, waiting] = [busy, waiting].map(|share| 100.0 * share);
                line(format_args!("the device worked {busy:.1} % of the time and waited {waiting:.1} % for the host"));
            }
            line(format_args!("{} holds the same on a line of time; https://ui.perfetto.dev opens it", path.display()));
        }
    }
}

/// Prints the parts that take the most time, with their share.
fn show(parts: &[PartTiming]) {
    const SHOWN: usize = 40;
    let total: f64 = parts.iter().map(|part| part.time.as_secs_f64()).sum();
    let mut order: Vec<&PartTiming> = parts.iter().collect();
    order.sort_by_key(|part| std::cmp::Reverse(part.time));
    for part in order.iter().take(SHOWN) {
        let share = part.time.as_secs_f64() / total.max(f64::MIN_POSITIVE);
        line(format_args!("{:>5.1} % {:>9}  {} {}", share * 100.0, duration(part.time), part.what, part.path));
    }
    line(format_args!("{} parts in all", parts.len()));
}
