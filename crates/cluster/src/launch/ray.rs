//! A Python program that starts one process per node through Ray.
//!
//! Ray schedules tasks, not machines: a placement group of one bundle per node reserves them, all on different nodes or none,
//! and the task in each bundle starts `octant train` with its number. The program needs nothing but Ray itself.

use super::{Accelerators, Job};
use std::fmt::Write as _;

const PROGRAM: &str = include_str!("ray.py");

pub(super) fn program(job: &Job) -> Result<String, String> {
    // Python reads the letters, digits and escapes of JSON's texts as its own.
    let words: Vec<String> =
        job.knowing_grace(job.with_restarts(job.command.clone())).iter().map(|word| text(word)).collect();
    let mut bundle = vec!["\"CPU\": 1".to_string()];
    match &job.accelerators {
        Accelerators::None => {}
        Accelerators::Gpus { kind, count } => {
            bundle.push(format!("\"GPU\": {count}"));
            // Nodes with such GPUs have that resource by themselves; memory is no part of the name.
            let kind = kind.as_ref().and_then(|kind| kind.split('-').next()).map(str::to_uppercase);
            bundle.extend(kind.map(|kind| format!("{}: 0.001", text(&format!("accelerator_type:{kind}")))));
        }
        Accelerators::Tpus { .. } => {
            return Err(
                "Ray numbers the hosts of a TPU slice in an order of its own: use jobset, kubernetes or skypilot"
                    .into(),
            );
        }
    }
    let mut settings = String::new();
    for (name, value) in [
        ("NAME", text(&job.name)),
        ("COMMAND", format!("[{}]", words.join(", "))),
        ("NODES", job.nodes.to_string()),
        ("BUNDLE", format!("{{{}}}", bundle.join(", "))),
        ("GRACE", job.grace.as_secs().to_string()),
    ] {
        let _ = writeln!(settings, "{name} = {value}");
    }
    Ok(PROGRAM.replace("SETTINGS\n", &settings))
}

/// A text in double quotes, as Python reads it.
fn text(text: &str) -> String {
    super::yaml(text)
}
