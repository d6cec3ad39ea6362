//! Runs the conformance suite on the devices of a plugin: `cargo run --release -p octant-pjrt --example conformance [PLUGIN]`.
//!
//! Without an argument it takes the best plugin that it finds.

use octant_conformance::Suite;
use octant_pjrt::discover::{self, PluginKind};
use octant_pjrt::{Client, NamedValues, PjrtBackend, Plugin, environment};
use octant_stablehlo::{Options, Precision};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    environment::prepare();
    let path = match std::env::args().nth(1) {
        Some(path) => path.into(),
        None => discover::plugin(&PluginKind::KNOWN)?.path,
    };
    let client = Client::new(&Plugin::load(&path)?, &NamedValues::default())?;
    let exact = Options { precision: Precision::Highest, ..Options::default() };
    let backend = PjrtBackend::new(client)?.with_lowering(exact);
    let suite = Suite::new(backend).with_random_graphs(40);
    for (group, _) in octant_conformance::cases::GROUPS {
        println!("{group}: {}", suite.run_group(group));
    }
    println!("behaviour: {}", suite.run_behaviour());
    println!("random graphs: {}", suite.run_random());
    Ok(())
}
