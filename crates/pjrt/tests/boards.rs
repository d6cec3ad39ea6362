//! The training step of a tiny variant of every family compiles for ahead-of-time topologies.
//!
//! Runs when libtpu is found, as `libtpu.rs` does, and has a `main` of its own for the same reason.

#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use octant_pjrt::backend::{Planned, plan, plan_quickly};
use octant_pjrt::boards::Board;
use octant_pjrt::discover::{self, PluginKind};
use octant_pjrt::{Plugin, Topology, environment};
use octant_runtime::Program;
use octant_testing::oracle;
use octant_testing::tiny_steps::{MODELS, tiny_step};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Every family is compiled for one of these in turn with short code, which differs from what training needs in the last of the
/// compiler's passes alone and takes a tenth of the time.
const BOARDS: [&str; 4] = ["v3-8", "v5e-8", "v6e-8", "v2-8"];

/// One network of each kind is compiled as training needs it, too.
const WHOLE: [(&str, &str); 4] =
    [("resnet-tiny", "v3-8"), ("mobilenet_v3-tiny", "v3-8"), ("vit-test", "v5e-8"), ("unet-tiny", "v2-8")];

fn main() {
    environment::prepare();
    let named = std::env::var_os("OCTANT_TEST_LIBTPU").map(PathBuf::from);
    let found = named.or_else(|| discover::plugin(&[PluginKind::Tpu]).ok().map(|found| found.path));
    let found = found.or_else(|| oracle::find("OCTANT_TEST_LIBTPU", "libtpu compiling for boards").map(PathBuf::from));
    let Some(path) = found else { return };
    let plugin = Plugin::load(&path).unwrap();
    // What takes longest begins first.
    let whole = WHOLE.map(|(model, board)| (model, board, true));
    let quickly = MODELS.iter().zip(BOARDS.iter().cycle()).map(|(model, board)| (*model, *board, false));
    let jobs: Vec<(&str, &str, bool)> = whole.into_iter().chain(quickly).collect();
    // The compiler works on one core most of the time.
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, |count| count.get()) {
            scope.spawn(|| {
                while let Some((model, board, is_whole)) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    compiles(&plugin, model, board, if *is_whole { plan } else { plan_quickly });
                }
            });
        }
    });
    println!("boards: {} steps compiled", jobs.len());
}

type Compile = fn(&Topology, &Program) -> octant_runtime::Result<Planned>;

fn compiles(plugin: &Plugin, model: &'static str, board: &str, compile: Compile) {
    let board = Board::named(board).unwrap();
    let topology = Topology::for_board(plugin, &board).unwrap();
    let (program, _) = tiny_step(model, 2 * board.devices, board.devices);
    let planned = compile(&topology, &program).unwrap_or_else(|error| {
        panic!("{model} on {}: {error}", board.name);
    });
    let limit = topology.memory_limit().unwrap().unwrap_or(board.memory);
    let (memory, seconds) = (planned.memory.peak(), planned.cost.compile_time.as_secs_f64());
    println!("{model} on {}: {seconds:.1} s, {memory} bytes per core", board.name);
    assert!(memory > 0 && memory < limit, "{model} on {}: {memory} of {limit}", board.name);
    assert!(planned.cost.flops > 0.0, "{model} on {}", board.name);
}
