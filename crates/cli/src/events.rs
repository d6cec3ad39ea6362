//! The `events` command: what is in event files, filtered, merged, rewritten.

use crate::Ending;
use crate::output::Json;
use anyhow::{Context, Result};
use octant_events::{Event, Value, What, read_run, write_record};
use serde_json::json;
use std::fs::File;
use std::path::PathBuf;

/// Show, filter, merge and rewrite event files
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  octant events runs/fashion-mnist-1 --tag val_\n  octant events RUN --after 80 --up-to 100 \
                        --write events.out.tfevents.part\n  octant events FIRST SECOND --write events.out.tfevents.merged"
)]
pub(crate) struct Arguments {
    /// Event files or run directories
    #[arg(required = true)]
    paths: Vec<PathBuf>,
    /// Only tags that contain this
    #[arg(long)]
    tag: Option<String>,
    /// Only steps greater than this
    #[arg(long)]
    after: Option<i64>,
    /// Only steps up to this
    #[arg(long)]
    up_to: Option<i64>,
    /// Write what is left into this event file, in the order of steps
    #[arg(long, value_name = "FILE")]
    write: Option<PathBuf>,
    /// Print one JSON object per value
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: Arguments) -> Result<Ending> {
    let mut events = Vec::new();
    for path in &arguments.paths {
        events.extend(read_run(path)?);
    }
    let in_range = |event: &Event| {
        arguments.after.is_none_or(|after| event.step > after)
            && arguments.up_to.is_none_or(|limit| event.step <= limit)
    };
    let wanted = |tag: &str| arguments.tag.as_ref().is_none_or(|part| tag.contains(part.as_str()));
    let mut kept = Vec::new();
    for event in events.into_iter().filter(in_range) {
        // Every file begins with a version record; merged files need it once only.
        let What::Values(mut values) = event.what else { continue };
        values.retain(|(tag, _)| wanted(tag));
        if !values.is_empty() {
            kept.push(Event { what: What::Values(values), ..event });
        }
    }
    kept.sort_by_key(|event| event.step);
    if let Some(path) = &arguments.write {
        let failed = || format!("cannot write {}", path.display());
        let mut file = File::create(path).with_context(failed)?;
        let time = kept.first().map_or(0.0, |event| event.wall_time);
        let version = Event { wall_time: time, step: 0, what: What::Version("brain.Event:2".into()) };
        for event in std::iter::once(&version).chain(&kept) {
            write_record(&mut file, &event.encode()).with_context(failed)?;
        }
    }
    for event in &kept {
        let What::Values(values) = &event.what else { continue };
        for (tag, value) in values {
            let text = describe(value);
            match arguments.json {
                true => Json::line(match value {
                    Value::Scalar(number) => {
                        json!({ "step": event.step, "tag": tag, "value": number, "wall_time": event.wall_time })
                    }
                    _ => json!({ "step": event.step, "tag": tag, "text": text, "wall_time": event.wall_time }),
                }),
                false => println!("{:>8}  {tag:<24} {text}", event.step),
            }
        }
    }
    Ok(Ending::Done)
}

fn describe(value: &Value) -> String {
    match value {
        Value::Scalar(number) => number.to_string(),
        Value::Image { height, width, png } => format!("image of {height}×{width}, {} bytes", png.len()),
        Value::Text(text) => format!("text of {} lines", text.lines().count()),
        Value::Histogram(histogram) => format!("histogram from {} to {}", histogram.least, histogram.greatest),
        Value::Settings(settings) => format!("{} settings", settings.len()),
        Value::Metrics(metrics) => format!("metrics {}", metrics.join(", ")),
        Value::Finished => "finished".into(),
        Value::Other => "something else".into(),
    }
}
