//! The real TPU compiler on a machine that needs no TPU: a sharded step with a donated argument compiles for boards of
//! several generations, and the compiler reports what it needs and costs.
//!
//! Runs when libtpu is found (`OCTANT_TEST_LIBTPU`, else the usual positions) and prints it when not. It has a `main` of its
//! own because libtpu's environment has to be prepared before any thread starts.

use octant_graph::{Convolution, DType, Shape, Trace};
use octant_pjrt::backend::{plan, plan_quickly};
use octant_pjrt::boards::{BOARDS, Board};
use octant_pjrt::discover::{self, PluginKind};
use octant_pjrt::{Client, NamedValues, PjrtError, Plugin, Profiler, Topology, XlaCompileOptions, environment};
use octant_runtime::{Axis, Mesh, Program, Sharding};
use octant_testing::oracle;
use std::path::PathBuf;
use std::time::Instant;

const PROGRAM: &str = include_str!("programs/train_step.mlir");

fn main() {
    environment::prepare();
    let Some(path) = libtpu() else { return };
    let plugin = Plugin::load(&path).expect("libtpu loads");
    println!("{plugin:?} {:?}", plugin.attributes());
    assert!(plugin.attributes().contains_key("stablehlo_current_version"));

    every_board_has_the_devices_and_memory_of_our_table(&plugin);
    the_step_compiles_for_boards_of_every_generation(&plugin);
    a_traced_program_is_planned_for_a_board(&plugin);
    a_quick_plan_has_the_same_buffers_and_estimates_and_shorter_code(&plugin);
    what_the_compiler_says_is_needed_is_what_it_refuses(&plugin);
    a_program_that_does_not_fit_says_by_how_much(&plugin);
    a_broken_program_is_an_error_and_not_a_crash(&plugin);
    a_board_that_does_not_exist_is_an_error(&plugin);
    a_client_without_a_tpu_is_a_sentence(&plugin);
    a_recording_of_a_compilation_can_be_made(&plugin);
    println!("libtpu: all checks passed");
}

fn libtpu() -> Option<PathBuf> {
    let named = std::env::var_os("OCTANT_TEST_LIBTPU").map(PathBuf::from);
    let found = named.or_else(|| discover::plugin(&[PluginKind::Tpu]).ok().map(|found| found.path));
    found.or_else(|| oracle::find("OCTANT_TEST_LIBTPU", "libtpu compiling for boards").map(PathBuf::from))
}

fn every_board_has_the_devices_and_memory_of_our_table(plugin: &Plugin) {
    for board in BOARDS {
        let topology = Topology::for_board(plugin, &board).expect(board.name);
        let devices = topology.devices().expect("devices");
        assert_eq!(devices.len(), board.devices, "{}", board.name);
        assert!(devices.iter().all(|device| device.coords().is_some()));
        // A board is one machine; libtpu would otherwise make two of eight v5e or v6e chips.
        assert!(devices.iter().all(|device| device.host == Some(0)), "{}: {devices:?}", board.name);
        let limit = topology.memory_limit().expect("attributes").expect("libtpu states the limit");
        // Programs get a little less than what is sold: the runtime keeps some for itself.
        let share = limit as f64 / board.memory as f64;
        assert!((0.9..=1.01).contains(&share), "{}: {limit} of {}", board.name, board.memory);
    }
}

fn the_step_compiles_for_boards_of_every_generation(plugin: &Plugin) {
    for name in ["v2-8", "v3-8", "v4-8", "v5e-8", "v6e-8"] {
        let board = Board::named(name).expect("a known board");
        let topology = Topology::for_board(plugin, &board).expect("topology");
        let start = Instant::now();
        let executable = topology.compile(&program_for(board.devices), &options(&board)).expect("compiles");
        let seconds = start.elapsed().as_secs_f64();
        let (memory, cost) = (executable.memory().expect("memory"), executable.cost().expect("cost"));
        println!("{name}: compiled in {seconds:.2} s, {memory:?}");
        println!("{name}: {:?} flops, {:?} bytes, {:?} s", cost.flops, cost.bytes_accessed, cost.optimal_seconds);

        assert_eq!(executable.name().expect("name"), "tiny_step");
        assert_eq!(executable.outputs().expect("outputs"), 2);
        assert_eq!(executable.partitions().expect("partitions"), board.devices);
        // The images are sharded, the rest is replicated: with everything on one device this would be far more.
        let images = 64 * 16 * 16 * 3 * 4;
        assert!(memory.arguments >= images / board.devices as u64);
        assert!(memory.aliased >= 64 * 10 * 4, "the donated weights are reused: {memory:?}");
        assert!(cost.flops.expect("flops") > 1e6 && cost.optimal_seconds.expect("seconds") > 0.0);
        assert!(!executable.fingerprint().expect("fingerprint").is_empty());
        assert!(!executable.serialize().expect("bytes").is_empty());
        assert!(!executable.optimized_program().expect("program").code.is_empty());
    }
}

fn a_traced_program_is_planned_for_a_board(plugin: &Plugin) {
    let board = Board::named("v3-8").expect("a known board");
    let topology = Topology::for_board(plugin, &board).expect("topology");
    let trace = Trace::new();
    let state = trace.input("state", Shape::new(DType::F32, [128, 256]));
    let batch = trace.input("batch", Shape::new(DType::F32, [64, 512]));
    let graph = trace.finish(&[&state + &state, &batch * &batch]).expect("a graph");
    let spread = vec![Sharding::REPLICATED, Sharding::split(0, [Axis::Data])];
    let program = Program {
        donated: vec![(0, 0)],
        mesh: Mesh::new(board.devices),
        inputs: spread.clone(),
        outputs: spread,
        ..Program::new("doubling", graph)
    };
    let planned = plan(&topology, &program).expect("compiles");
    println!("{:?} {:?}", planned.memory, planned.cost);
    let (state, part_of_batch) = (128 * 256 * 4, 64 / 8 * 512 * 4);
    assert_eq!(planned.memory.inputs, state + part_of_batch);
    assert!(planned.memory.outputs < state, "the state is updated in place: {:?}", planned.memory);
    assert!(planned.cost.flops > 0.0 && planned.cost.seconds.is_some());
}

fn a_quick_plan_has_the_same_buffers_and_estimates_and_shorter_code(plugin: &Plugin) {
    let board = Board::named("v6e-8").expect("a known board");
    let topology = Topology::for_board(plugin, &board).expect("topology");
    let trace = Trace::new();
    let images = trace.input("images", Shape::new(DType::BF16, [64, 40, 40, 64]));
    let kernel = trace.input("kernel", Shape::new(DType::BF16, [3, 3, 64, 96]));
    let same = Convolution { padding: vec![(1, 1), (1, 1)], ..Convolution::nhwc(2, DType::BF16) };
    let graph = trace.finish(&[images.convolution(&kernel, same).tanh()]).expect("a graph");
    let split = Sharding::split(0, [Axis::Data]);
    let program = Program {
        mesh: Mesh::new(board.devices),
        inputs: vec![split.clone(), Sharding::REPLICATED],
        outputs: vec![split],
        ..Program::new("convolution", graph)
    };
    let (full, quick) = (plan(&topology, &program).expect("compiles"), plan_quickly(&topology, &program).expect("too"));
    println!("full {:?} {:?}, quick {:?} {:?}", full.memory, full.cost, quick.memory, quick.cost);
    assert!(quick.memory.code * 2 < full.memory.code);
    assert_eq!((quick.memory.temporary, quick.cost.seconds), (full.memory.temporary, full.cost.seconds));
    assert_eq!((quick.cost.flops, quick.cost.bytes), (full.cost.flops, full.cost.bytes));
}

/// Copies a tensor of that many GiB into another order: argument and output, hardly anything else.
fn transpose_of(gib: f64) -> String {
    let rows = (gib * 256.0) as usize;
    let (from, to) = (format!("tensor<{rows}x1024x1024xf32>"), format!("tensor<1024x{rows}x1024xf32>"));
    format!(
        "module @large {{ func.func public @main(%x: {from}) -> {to} {{
        %y = stablehlo.transpose %x, dims = [1, 0, 2] : ({from}) -> {to}
        return %y : {to} }} }}"
    )
}

fn what_the_compiler_says_is_needed_is_what_it_refuses(plugin: &Plugin) {
    let board = Board::named("v2-8").expect("a known board");
    let topology = Topology::for_board(plugin, &board).expect("topology");
    let limit = topology.memory_limit().expect("attributes").expect("a limit");
    let compile = |gib| topology.compile(&transpose_of(gib), &XlaCompileOptions::default());
    let fits = compile(3.5).expect("7 GiB fit").memory().expect("memory");
    println!("7 GiB: {fits:?}, needed {} of {limit}", fits.needed());
    assert!((7 << 30..7 << 30 | 1 << 28).contains(&fits.needed()) && fits.needed() < limit, "{fits:?}");
    match compile(3.9) {
        Err(PjrtError::OutOfMemory(error)) => {
            println!("7.8 GiB: {error}");
            assert!(error.needed.expect("needed") > limit && error.at_compile_time);
        }
        Err(error) => panic!("expected out of memory, got {error:?}"),
        Ok(_) => panic!("7.8 GiB do not fit into {limit} bytes"),
    }
}

fn a_program_that_does_not_fit_says_by_how_much(plugin: &Plugin) {
    let board = Board::named("v2-8").expect("a known board");
    let topology = Topology::for_board(plugin, &board).expect("topology");
    match topology.compile(&transpose_of(16.0), &XlaCompileOptions::default()) {
        Err(PjrtError::OutOfMemory(error)) => {
            println!("32 GiB: {error}");
            assert!(error.at_compile_time);
            let (needed, available) = (error.needed.expect("needed"), error.available.expect("available"));
            assert!(needed >= 32 << 30, "two buffers of 16 GiB: {needed}");
            assert!((7 << 30..=8 << 30).contains(&available), "{available}");
        }
        Err(error) => panic!("expected out of memory, got {error:?}"),
        Ok(_) => panic!("32 GiB do not fit into 8"),
    }
}

fn a_broken_program_is_an_error_and_not_a_crash(plugin: &Plugin) {
    let board = Board::named("v3-8").expect("a known board");
    let topology = Topology::for_board(plugin, &board).expect("topology");
    let error =
        topology.compile("module { this is no program }", &XlaCompileOptions::default()).err().expect("refused");
    println!("{error}");
    assert!(matches!(error, PjrtError::Status { .. }), "{error:?}");
}

fn a_board_that_does_not_exist_is_an_error(plugin: &Plugin) {
    let error = Topology::new(plugin, "v3:7x7x7x7", &NamedValues::new()).err().expect("refused");
    println!("{error}");
}

fn a_client_without_a_tpu_is_a_sentence(plugin: &Plugin) {
    if environment::has_tpu() {
        return;
    }
    let error = Client::new(plugin, &NamedValues::new()).err().expect("there is no TPU");
    assert!(matches!(error, PjrtError::NoTpu { .. }), "{error:?}");
}

fn a_recording_of_a_compilation_can_be_made(plugin: &Plugin) {
    let profiler = Profiler::start(plugin).expect("libtpu has a profiler");
    let board = Board::named("v5e-1").expect("a known board");
    let topology = Topology::for_board(plugin, &board).expect("topology");
    topology.compile(&program_for(1), &options(&board)).expect("compiles");
    let recording = profiler.finish().expect("a recording");
    println!("recorded {} bytes", recording.len());
    assert!(is_a_list_of_messages(&recording), "an XSpace is whole planes and names, with nothing behind the last one");
}

/// Whether the bytes are nothing but length-delimited protobuf fields.
fn is_a_list_of_messages(mut bytes: &[u8]) -> bool {
    fn varint(bytes: &mut &[u8]) -> Option<u64> {
        let length = bytes.iter().position(|byte| byte & 0x80 == 0)? + 1;
        let (number, rest) = bytes.split_at(length);
        *bytes = rest;
        Some(number.iter().rev().fold(0, |value, byte| value << 7 | (byte & 0x7f) as u64))
    }
    while !bytes.is_empty() {
        let tag = varint(&mut bytes);
        let length = varint(&mut bytes);
        let (Some(tag), Some(length)) = (tag, length) else { return false };
        if tag & 7 != 2 || length as usize > bytes.len() {
            return false;
        }
        bytes = &bytes[length as usize..];
    }
    true
}

/// The step is written for eight devices; some boards have fewer.
fn program_for(devices: usize) -> String {
    PROGRAM
        .replace("num_partitions = 8 ", &format!("num_partitions = {devices} "))
        .replace("\"batch\"=8", &format!("\"batch\"={devices}"))
}

fn options(board: &Board) -> XlaCompileOptions {
    XlaCompileOptions::spmd(board.devices)
}
