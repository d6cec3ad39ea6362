//! The training step of a tiny variant of every family compiles for ahead-of-time topologies.
//!
//! Runs when libtpu is found, as `libtpu.rs` does, and has a `main` of its own for the same reason.

#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use octant_pjrt::backend::{plan, plan_quickly};
use octant_pjrt::boards::Board;
use octant_pjrt::discover::{self, PluginKind};
use octant_pjrt::{Plugin, Topology, environment};
use octant_testing::oracle;
use octant_testing::tiny_steps::{MODELS, tiny_step};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Every family is compiled for the first board as training needs it, and for one of the others in turn with short code, which
/// differs in the last of the compiler's passes alone and takes a tenth of the time on v6e.
const FIRST: &str = "v3-8";
const OTHERS: [&str; 3] = ["v5e-8", "v6e-8", "v2-8"];

fn main() {
    environment::prepare();
    let named = std::env::var_os("OCTANT_TEST_LIBTPU").map(PathBuf::from);
    let found = named.or_else(|| discover::plugin(&[PluginKind::Tpu]).ok().map(|found| found.path));
    let found = found.or_else(|| oracle::find("OCTANT_TEST_LIBTPU", "libtpu compiling for boards").map(PathBuf::from));
    let Some(path) = found else { return };
    let plugin = Plugin::load(&path).unwrap();
    let boards = |number: usize| [FIRST, OTHERS[number % OTHERS.len()]];
    let jobs: Vec<(&str, &str)> =
        MODELS.iter().enumerate().flat_map(|(number, model)| boards(number).map(|board| (*model, board))).collect();
    // The compiler works on one core most of the time.
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, |count| count.get()) {
            scope.spawn(|| {
                while let Some((model, board)) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    compiles(&plugin, model, board);
                }
            });
        }
    });
    println!("boards: {} steps compiled", jobs.len());
}

fn compiles(plugin: &Plugin, model: &'static str, board: &str) {
    let board = Board::named(board).unwrap();
    let topology = Topology::for_board(plugin, &board).unwrap();
    let (program, _) = tiny_step(model, 2 * board.devices, board.devices);
    let compile = if board.name == FIRST { plan } else { plan_quickly };
    let planned = compile(&topology, &program).unwrap_or_else(|error| {
        panic!("{model} on {}: {error}", board.name);
    });
    let limit = topology.memory_limit().unwrap().unwrap_or(board.memory);
    let (memory, seconds) = (planned.memory.peak(), planned.cost.compile_time.as_secs_f64());
    println!("{model} on {}: {seconds:.1} s, {memory} bytes per core", board.name);
    assert!(memory > 0 && memory < limit, "{model} on {}: {memory} of {limit}", board.name);
    assert!(planned.cost.flops > 0.0, "{model} on {}", board.name);
}
