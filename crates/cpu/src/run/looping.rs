//! Running fused loops: blocks of rows × columns through registers that stay in the first-level cache.
//!
//! A loop is prepared once ([`PreparedLoop`]): `registers` decides where every register lies, `sequence` takes a task through
//! its blocks, `address` knows where those lie, `block` runs one through the registers, `native` without leaving the vector
//! registers, `ahead` fetches what the next block reads, `transfer` moves operands that do not lie in order, `fold` sums and
//! returns what is summed.

mod address;
mod ahead;
mod block;
mod fold;
mod native;
mod registers;
mod sequence;
mod transfer;

use super::instructions::{self, MoveRows, Run, Stream};
use super::memory::Memory;
use crate::kernels::Machine;
use crate::plan::LoopStep;
use crate::plan::kernel::{Lane, Loop, Operand, Register, Source};
use crate::plan::nest::{BLOCK, Nest};
use crate::simd::Simd;
use ahead::Fetched;
use block::BlockRange;
use block::{Block, Workspace};
use fold::PreparedFold;
use native::{Native, Outline};
use octant_graph::DType;
use registers::{RegisterFill, fill, lies_in_order, place_registers};

/// Loops with fewer elements run on the calling thread: waking another costs more.
const WORTH_A_THREAD: usize = 16 * 1024;

/// Results of at least this many bytes are stored past the caches: they would not find room there until they are read, and
/// memory need not be read before it is written.
const STREAMED: usize = 8 << 20;

/// A loop with its instructions compiled and its registers placed.
pub(crate) struct PreparedLoop {
    body: Loop,
    nest: Nest,
    partials: Option<usize>,
    instructions: Vec<(Run, Register, [Register; 3])>,
    loads: Vec<PreparedLoad>,
    stores: Vec<PreparedStore>,
    folds: Vec<PreparedFold>,
    /// What is fetched ahead.
    fetched: Vec<Fetched>,
    /// Bytes from outer row to outer row, from row to row and from column to column, of the loads, then of the stores.
    steps: Vec<[isize; 3]>,
    /// The slot of every register in the working memory of a task; registers that are memory themselves have none.
    slots: Vec<usize>,
    slot_bytes: usize,
    slot_count: usize,
    /// The loop as machine code, where there is such.
    native: Option<Native>,
}

struct PreparedLoad {
    fill: RegisterFill,
    /// Turns 16-bit floats into lanes.
    widen: Option<Run>,
    /// Moves rows that do not lie in order.
    rows: Option<MoveRows>,
}

struct PreparedStore {
    narrow: Option<Run>,
    /// Moves rows that do not lie in order.
    rows: Option<MoveRows>,
    /// Streaming stores past the caches: for results that are too large to be found in them later.
    stream: Option<Stream>,
    /// The register is the memory itself.
    in_place: bool,
}

impl PreparedLoop {
    pub fn new(step: LoopStep, simd: Simd) -> PreparedLoop {
        let LoopStep { body, nest, partials } = step;
        let half = |dtype: DType| matches!(dtype, DType::BF16 | DType::F16);
        let loads: Vec<PreparedLoad> = body
            .loads
            .iter()
            .map(|load| PreparedLoad {
                fill: fill(load, &nest, &half),
                widen: match &load.source {
                    Source::Memory(operand) if half(operand.dtype) => Some(instructions::widen(simd, operand.dtype)),
                    _ => None,
                },
                rows: match &load.source {
                    Source::Memory(operand) => instructions::load_rows(simd, operand.dtype),
                    _ => None,
                },
            })
            .collect();
        let mut taken: Vec<Register> = Vec::new();
        let stores: Vec<PreparedStore> = body
            .stores
            .iter()
            .map(|store| {
                let computed = body.instructions.iter().any(|instruction| instruction.to == store.from);
                let stream = !body.loads_from(store.to.buffer)
                    && matches!(store.to.dtype, DType::F32 | DType::BF16)
                    && lies_in_order(&store.to, &nest)
                    && body.elements() * store.to.dtype.size() >= STREAMED;
                let in_place = computed
                    && !stream
                    && !half(store.to.dtype)
                    && lies_in_order(&store.to, &nest)
                    && !body.loads_from(store.to.buffer)
                    && !taken.contains(&store.from);
                taken.extend(in_place.then_some(store.from));
                PreparedStore {
                    narrow: half(store.to.dtype).then(|| instructions::narrow(simd, store.to.dtype)),
                    rows: instructions::store_rows(simd, store.to.dtype),
                    stream: stream.then(|| instructions::stream(simd)),
                    in_place,
                }
            })
            .collect();
        let folds = body
            .folds
            .iter()
            .map(|fold| {
                let lane = Lane::of(fold.to.dtype);
                PreparedFold {
                    combine: instructions::combine(simd, fold.kind, lane),
                    products: fold.factor.map(|_| [instructions::multiply_add(simd), instructions::multiply(simd)]),
                    rows: instructions::fold_rows(simd, fold.kind, lane),
                    lane,
                    identity: instructions::identity(fold.kind, lane),
                    narrow: half(fold.to.dtype).then(|| instructions::narrow(simd, fold.to.dtype)),
                }
            })
            .collect();
        let instructions: Vec<(Run, Register, [Register; 3])> = body
            .instructions
            .iter()
            .map(|instruction| {
                let from = |index: usize| instruction.from.get(index).copied().unwrap_or(instruction.from[0]);
                let run = instructions::select(simd, instruction.code, instruction.lane);
                (run, instruction.to, [from(0), from(1), from(2)])
            })
            .collect();
        let fetched = Fetched::of(&body, &nest, &stores);
        let steps = steps(&body);
        let (slots, slot_count) = place_registers(&body, &loads);
        let widest = body.registers.iter().map(|lane| lane.size()).max().unwrap_or(4);
        let slot_bytes = widest * BLOCK;
        let outline =
            Outline { body: &body, nest: &nest, loads: &loads, stores: &stores, slots: &slots, slot_count, slot_bytes };
        let native = Native::new(&outline, simd);
        PreparedLoop {
            partials: partials.map(|buffer| buffer.0 as usize),
            slot_bytes,
            native,
            body,
            nest,
            instructions,
            loads,
            stores,
            folds,
            fetched,
            steps,
            slots,
            slot_count,
        }
    }

    pub fn run(&self, memory: &Memory, machine: &Machine) {
        let tasks = self.nest.tasks();
        if self.body.elements() == 0 || tasks == 0 {
            return self.write_identities(memory);
        }
        let elements_per_task = (self.body.elements() / tasks).max(1);
        let tasks_per_chunk = WORTH_A_THREAD.div_ceil(elements_per_task).min(tasks);
        let chunks = tasks.div_ceil(tasks_per_chunk);
        machine.pool.run(chunks, &|chunk| {
            WORKSPACE.with_borrow_mut(|workspace| {
                let mut block = Block::new(self, memory, workspace);
                for task in chunk * tasks_per_chunk..((chunk + 1) * tasks_per_chunk).min(tasks) {
                    block.task(task);
                }
                self.finish_streams();
            });
        });
        if self.nest.partials() > 0 {
            self.combine_partials(memory);
        }
    }

    /// Runs the loop over a range of its elements, which lie in the order of memory. Only loops that a convolution may
    /// run are cut so: without outer dimensions, and over whole rows unless there is only one.
    pub fn run_range(&self, memory: &Memory, first: usize, count: usize) {
        self.run_range_over(memory, first, count, None);
    }

    /// The same, with one buffer that lies elsewhere during this call.
    pub fn run_range_over(&self, memory: &Memory, first: usize, count: usize, lent: Option<Lent>) {
        WORKSPACE.with_borrow_mut(|workspace| {
            let nest = &self.nest;
            let (mut at, end) = (first, first + count);
            let ranges = std::iter::from_fn(|| {
                let (row, column) = (at / nest.columns, at % nest.columns);
                let rows = if column == 0 { nest.rows_per_block.min((end - at) / nest.columns).max(1) } else { 1 };
                let columns = nest.columns_per_block.min(nest.columns - column).min(end - at);
                at += rows * columns;
                (columns > 0).then_some(BlockRange { outer: 0, middle: 0, row, column, rows, columns })
            });
            let mut block = Block::new(self, memory, workspace);
            block.lent = lent;
            block.blocks(ranges);
            self.finish_streams();
        });
    }

    /// Other threads may read what this one has streamed.
    fn finish_streams(&self) {
        if self.stores.iter().any(|store| store.stream.is_some()) {
            crate::simd::finish_streams();
        }
    }
}

/// Where a buffer would begin of which only a part exists.
#[derive(Clone, Copy)]
pub(crate) struct Lent {
    pub buffer: usize,
    pub start: *mut u8,
}

/// Bytes from outer row to outer row, from row to row and from column to column, of every load, then of every store.
fn steps(body: &Loop) -> Vec<[isize; 3]> {
    let of = |operand: &Operand| {
        let [.., outer, row, column] = operand.strides[..] else { unreachable!("a loop has rows and columns") };
        [outer, row, column].map(|stride| stride * operand.dtype.size() as isize)
    };
    let loads = body.loads.iter().map(|load| match &load.source {
        Source::Memory(operand) => of(operand),
        Source::Immediate(_) | Source::Count { .. } => [0; 3],
    });
    loads.chain(body.stores.iter().map(|store| of(&store.to))).collect()
}

thread_local! {
    /// What this thread needs inside of loops; grown once, then reused by every loop.
    static WORKSPACE: std::cell::RefCell<Workspace> = std::cell::RefCell::default();
}
