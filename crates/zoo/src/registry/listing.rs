//! Models in lists: those like a pattern, the smallest ones, and one as an object.

use super::{ENTRIES, ModelEntry, Preprocessing, ZooError, find};
use crate::describe;
use octant_graph::GraphError;
use serde_json::{Value, json};

/// The models whose name, alias or family contains the pattern; else the one that [`find`] knows by it.
pub fn matching(pattern: &str) -> Result<Vec<&'static ModelEntry>, ZooError> {
    let normal = |name: &str| name.to_lowercase().replace('-', "_");
    let wanted = normal(pattern);
    let is_wanted =
        |entry: &&ModelEntry| entry.names().chain([entry.family]).any(|name| normal(name).contains(&wanted));
    let found: Vec<&ModelEntry> = ENTRIES.iter().filter(is_wanted).collect();
    match found.is_empty() {
        // An alias with a tag, or an error that names near ones.
        true => Ok(vec![find(pattern)?]),
        false => Ok(found),
    }
}

/// The network of every family that computes least, of those that are used for more than tests.
pub fn smallest_of_families() -> Result<Vec<&'static ModelEntry>, GraphError> {
    let mut smallest: Vec<(u64, &'static ModelEntry)> = Vec::new();
    let is_used = |entry: &&ModelEntry| !["-tiny", "-test", "-demo"].iter().any(|end| entry.name.ends_with(end));
    for entry in ENTRIES.iter().filter(is_used) {
        let (_, work) = describe(&*(entry.build)(entry.classes), entry.preprocessing.input)?;
        match smallest.iter_mut().find(|(_, known)| known.family == entry.family) {
            Some(known) if work < known.0 => *known = (work, entry),
            Some(_) => {}
            None => smallest.push((work, entry)),
        }
    }
    Ok(smallest.into_iter().map(|(_, entry)| entry).collect())
}

impl ModelEntry {
    /// What is known of the model without building it, as an object whose `event` is `model`.
    pub fn json(&self) -> Value {
        let preprocessing = &self.preprocessing;
        json!({
            "event": "model", "name": self.name, "aliases": self.aliases, "family": self.family, "task": self.task.name(),
            "classes": self.classes, "input": preprocessing.input, "range": preprocessing.range,
            "mean": preprocessing.mean, "deviation": preprocessing.deviation,
            "interpolation": preprocessing.interpolation.name(), "crop": preprocessing.crop, "license": self.license,
            "weights": self.published().map(|published| published.url),
        })
    }
}

impl Preprocessing {
    /// The size of an image: `224×224×3`.
    pub fn size(&self) -> String {
        self.input.map(|side| side.to_string()).join("×")
    }

    /// What is done to images before the network sees them.
    pub fn text(&self) -> String {
        let triple = |values: [f64; 3]| match values {
            [first, second, third] if first == second && second == third => format!("{first}"),
            _ => values.map(|value| value.to_string()).join(" "),
        };
        if self.range == 255.0 {
            return "values 0 to 255 as they are".to_string();
        }
        let (interpolation, crop) = (self.interpolation.name(), self.crop);
        format!("{interpolation}, crop {crop:.3}, mean {}, deviation {}", triple(self.mean), triple(self.deviation))
    }
}
