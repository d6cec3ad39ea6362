//! Runs the conformance suite on the devices of a plugin:
//! `cargo run --release -p octant-pjrt --example conformance [PLUGIN|auto] [GROUP...]`.
//!
//! `auto`, or nothing, takes the best plugin that it finds; without groups everything is run.

use octant_conformance::Suite;
use octant_pjrt::discover::{self, PluginKind};
use octant_pjrt::{Client, MatmulPrecision, NamedValues, PjrtBackend, PjrtOptions, Plugin, environment};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    environment::prepare();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let wanted = arguments.get(1..).unwrap_or_default();
    let path = match arguments.first().filter(|path| *path != "auto") {
        Some(path) => path.into(),
        None => discover::plugin(&PluginKind::KNOWN)?.path,
    };
    let client = Client::new(&Plugin::load(&path)?, &NamedValues::default())?;
    let options = PjrtOptions { precision: MatmulPrecision::Highest, ..PjrtOptions::default() };
    let backend = PjrtBackend::with_options(client, options)?;
    let suite = Suite::new(backend).with_random_graphs(40);
    for (group, _) in octant_conformance::cases::GROUPS {
        if wanted.is_empty() || wanted.iter().any(|name| name == group) {
            println!("{group}: {}", suite.run_group(group));
        }
    }
    if !wanted.is_empty() {
        return Ok(());
    }
    println!("behavior: {}", suite.run_behavior());
    println!("random graphs: {}", suite.run_random());
    Ok(())
}
