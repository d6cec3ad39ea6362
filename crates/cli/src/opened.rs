//! Networks that commands open, and what is printed of them.

use crate::fetching;
use crate::output::Json;
use anyhow::Result;
use octant_predict::{Network, Opening, Sources};
use octant_zoo::ModelEntry;
use serde_json::json;

/// The network that the arguments name.
pub(crate) fn network(opening: &Opening) -> Result<Network> {
    with_remarks(fetching::with_line(|progress| opening.network(&fetching::downloads(), progress)))
}

/// The same for a model of the zoo, whatever lies under its name here.
pub(crate) fn model(entry: &'static ModelEntry, opening: &Opening) -> Result<Network> {
    with_remarks(fetching::with_line(|progress| opening.model(entry, &fetching::downloads(), progress)))
}

/// Prints what should be known of a network.
fn with_remarks(network: octant_predict::Result<Network>) -> Result<Network> {
    let network = network?;
    network.remarks.iter().for_each(|remark| eprintln!("{remark}"));
    Ok(network)
}

/// Names files in the given folders that are not predicted.
pub(crate) fn say_skipped(sources: &Sources, json: bool) {
    if sources.skipped.is_empty() {
        return;
    }
    let names: Vec<String> = sources.skipped.iter().map(|path| path.display().to_string()).collect();
    match json {
        true => Json::line(json!({ "event": "skipped", "files": names })),
        false => {
            eprintln!("skipped {} files that are neither image nor video: {}", names.len(), octant_data::listed(&names))
        }
    }
}
