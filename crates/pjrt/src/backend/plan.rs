//! Programs compiled ahead of time, for topologies that need not be attached.

use super::lowering::{LoweringTarget, lower};
use super::{PjrtOptions, TPU, failed, refused, whole_cost};
use crate::cache::Key;
use crate::compile_options::{CompilerFlag, XlaCompileOptions};
use crate::error::{PjrtError, Result};
use crate::executable::CompiledExecutable;
use crate::topology::Topology;
use octant_runtime as runtime;
use octant_runtime::Program;
use std::time::Instant;

/// A program compiled ahead of time.
pub struct Planned {
    /// What the compiler made; it can be stored and loaded on such a board.
    pub executable: CompiledExecutable,
    /// The memory that every device of the board needs.
    pub memory: runtime::MemoryPlan,
    /// The compiler's estimate of the work.
    pub cost: runtime::Cost,
}

/// Compiles a program for a topology that need not be attached, as a backend on the board would. The program's mesh should be as
/// large as the board.
pub fn plan(topology: &Topology, program: &Program) -> runtime::Result<Planned> {
    planned(topology, program, |text, options| topology.compile(text, options))
}

/// As [`plan`], faster, for a program that will not be run: its buffers and the compiler's estimate are the
/// same, its code is short and slow.
///
/// libtpu optimizes a whole program in seconds; nearly all of its time goes to scheduling the unrolled code of each kernel,
/// which is as long as the window that the kernel keeps in on-chip memory. Small windows give short code.
pub fn plan_quickly(topology: &Topology, program: &Program) -> runtime::Result<Planned> {
    planned(topology, program, |text, options| {
        for kib in SMALL_WINDOWS_KIB {
            let compiled = topology.compile(text, &with_small_windows(options, kib));
            if !matches!(&compiled, Err(error) if is_window_too_small(error)) {
                return compiled;
            }
        }
        topology.compile(text, options)
    })
}

/// On-chip memory of one kernel in programs that will not be run, the smallest first; libtpu's own limit is 16 MiB or more.
/// Kernels that move whole rows of large images need more than the first.
const SMALL_WINDOWS_KIB: [i64; 2] = [6 << 10, 12 << 10];

fn with_small_windows(options: &XlaCompileOptions, kib: i64) -> XlaCompileOptions {
    let options = options.clone().with_optional_flag("xla_tpu_scoped_vmem_limit_kib", CompilerFlag::Int(kib));
    options.with_optional_flag("xla_tpu_enable_emitter_rolling", CompilerFlag::Bool(true))
}

/// Whether a kernel did not get along with the on-chip memory that it was allowed.
fn is_window_too_small(error: &PjrtError) -> bool {
    matches!(error, PjrtError::OutOfMemory(memory) if memory.message.contains("ScopedVmemOom"))
}

fn planned(
    topology: &Topology,
    program: &Program,
    compile: impl FnOnce(&str, &XlaCompileOptions) -> Result<CompiledExecutable>,
) -> runtime::Result<Planned> {
    let text = lowering_for_boards(topology, program)?;
    let devices = program.mesh.devices();
    let start = Instant::now();
    let compiled = compile(&text, &XlaCompileOptions::spmd(devices));
    let executable = compiled.map_err(|error| refused("the board's compiler", error))?;
    let memory = executable.memory().map_err(failed)?.into();
    let cost = whole_cost(&executable.cost().map_err(failed)?, devices, start.elapsed(), false);
    Ok(Planned { executable, memory, cost })
}

/// Where a backend on such a board looks for a program in its cache.
pub fn key_of(topology: &Topology, program: &Program) -> runtime::Result<Key> {
    let text = lowering_for_boards(topology, program)?;
    let devices = topology.devices().map_err(failed)?;
    let kinds: Vec<_> = devices.iter().map(|device| device.kind.as_str()).collect();
    let version = topology.platform_version().map_err(failed)?;
    Ok(Key::of(&text, &XlaCompileOptions::spmd(program.mesh.devices()), topology.plugin(), &version, &kinds))
}

/// As a backend on a TPU board lowers it.
fn lowering_for_boards(topology: &Topology, program: &Program) -> runtime::Result<String> {
    Ok(lower(program, &LoweringTarget::of(TPU, topology.plugin(), PjrtOptions::default()).0)?.text)
}
