//! Saves a model with the weights of the golden figures, for `golden/load_saved.py` to read with the reference.
//!
//!     cargo run -p octant-zoo --example save_deterministic -- resnet50 resnet50.safetensors

#[path = "../tests/golden/deterministic.rs"]
#[allow(dead_code, reason = "the tests need the rest of it")]
#[allow(clippy::unwrap_used, reason = "shared with the tests")]
mod deterministic;

use std::path::Path;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [name, path] = &arguments[..] else { return Err("usage: save_deterministic MODEL FILE.safetensors".into()) };
    let entry = octant_zoo::find(name)?;
    let model = (entry.build)(entry.classes);
    let (specs, _) = octant_zoo::describe(&*model, entry.preprocessing.input)?;
    let values: Vec<_> = specs.iter().map(deterministic::weight).collect();
    octant_zoo::weights::save(Path::new(path), entry, entry.classes, &specs, &values, 0)?;
    println!("{} tensors of {} in {path}", specs.len(), entry.name);
    Ok(())
}
