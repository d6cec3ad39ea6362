//! The `models` command.

use crate::Ending;
use crate::output::Json;
use anyhow::Result;
use octant_zoo::registry::ENTRIES;
use serde_json::json;

/// List the models that can be trained
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Only names that contain this
    pattern: Option<String>,
    /// Print one JSON object per model
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: Arguments) -> Result<Ending> {
    let pattern = arguments.pattern.unwrap_or_default().to_lowercase();
    for entry in ENTRIES.iter().filter(|entry| entry.name.contains(&pattern)) {
        match arguments.json {
            true => Json::line(
                json!({ "event": "model", "name": entry.name, "classes": entry.classes, "licence": entry.licence }),
            ),
            false => println!("{:<32} {:>6} classes  weights: {}", entry.name, entry.classes, entry.licence),
        }
    }
    Ok(Ending::Done)
}
