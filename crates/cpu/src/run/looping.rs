//! Running fused loops: blocks of rows × columns through registers that stay in the first-level cache.

use super::instructions::{self, Operands, Run};
use super::memory::Memory;
use crate::kernels::Machine;
use crate::plan::LoopStep;
use crate::plan::kernel::{Lane, Load, Loop, Operand, Register, Source};
use crate::plan::nest::{BLOCK, FoldKind, Nest};
use crate::simd::Simd;
use octant_graph::DType;

/// Loops with fewer elements run on the calling thread: waking another costs more.
const WORTH_A_THREAD: usize = 16 * 1024;

/// A loop with its instructions compiled and its registers placed.
pub(crate) struct PreparedLoop {
    body: Loop,
    nest: Nest,
    partials: Option<usize>,
    instructions: Vec<(Run, Register, [Register; 3])>,
    loads: Vec<PreparedLoad>,
    stores: Vec<PreparedStore>,
    folds: Vec<PreparedFold>,
    /// The slot of every register in the working memory of a task; registers that are memory themselves have none.
    slots: Vec<usize>,
    slot_bytes: usize,
    slot_count: usize,
}

struct PreparedLoad {
    way: Way,
    /// Turns 16-bit floats into lanes.
    widen: Option<Run>,
}

/// How a register gets its elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// It is the memory itself: a block lies there in order, in the lane's own type.
    InPlace,
    /// The same in every block of a task: filled once.
    Once,
    /// Row by row in every block.
    EachBlock,
}

struct PreparedStore {
    narrow: Option<Run>,
    /// The register is the memory itself.
    in_place: bool,
}

struct PreparedFold {
    combine: Run,
    lane: Lane,
    identity: [u8; 8],
    narrow: Option<Run>,
}

impl PreparedLoop {
    pub fn new(step: LoopStep, simd: Simd) -> PreparedLoop {
        let LoopStep { body, nest, partials } = step;
        let half = |dtype: DType| matches!(dtype, DType::BF16 | DType::F16);
        let loads: Vec<PreparedLoad> = body
            .loads
            .iter()
            .map(|load| PreparedLoad {
                way: way(load, &nest, &half),
                widen: match &load.source {
                    Source::Memory(operand) if half(operand.dtype) => Some(instructions::widen(simd, operand.dtype)),
                    _ => None,
                },
            })
            .collect();
        let mut taken: Vec<Register> = Vec::new();
        let stores = body
            .stores
            .iter()
            .map(|store| {
                let computed = body.instructions.iter().any(|instruction| instruction.to == store.from);
                let in_place = computed
                    && !half(store.to.dtype)
                    && lies_in_order(&store.to, &nest)
                    && !body.loads_from(store.to.buffer)
                    && !taken.contains(&store.from);
                taken.extend(in_place.then_some(store.from));
                PreparedStore {
                    narrow: half(store.to.dtype).then(|| instructions::narrow(simd, store.to.dtype)),
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
        let (slots, slot_count) = place_registers(&body, &loads);
        let widest = body.registers.iter().map(|lane| lane.size()).max().unwrap_or(4);
        PreparedLoop {
            partials: partials.map(|buffer| buffer.0 as usize),
            slot_bytes: widest * BLOCK,
            body,
            nest,
            instructions,
            loads,
            stores,
            folds,
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
            });
        });
        if self.nest.partials() > 0 {
            self.combine_partials(memory);
        }
    }

    /// Runs the loop over a range of its elements, which lie in the order of memory. Only loops that a convolution may
    /// run are cut so: without outer dimensions, and over whole rows unless there is only one.
    pub fn run_range(&self, memory: &Memory, first: usize, count: usize) {
        WORKSPACE.with_borrow_mut(|workspace| {
            let nest = &self.nest;
            let mut block = Block::new(self, memory, workspace);
            let mut is_first = true;
            let (mut at, end) = (first, first + count);
            while at < end {
                let (row, column) = (at / nest.columns, at % nest.columns);
                let rows = if column == 0 { nest.rows_per_block.min((end - at) / nest.columns).max(1) } else { 1 };
                let columns = nest.columns_per_block.min(nest.columns - column).min(end - at);
                block.block(&BlockPlace { outer: 0, middle: 0, row, column, rows, columns }, is_first);
                is_first = false;
                at += rows * columns;
            }
        });
    }

    /// A fold of nothing is the identity.
    fn write_identities(&self, memory: &Memory) {
        for (fold, prepared) in self.body.folds.iter().zip(&self.folds) {
            let kept = self.body.dims.iter().zip(&fold.to.strides).filter(|&(_, &stride)| stride != 0);
            let count: usize = kept.map(|(&dim, _)| dim).product();
            for element in 0..count {
                self.write_folded(memory, fold.to.offset + element as isize, prepared, &fold.to, &prepared.identity, 1);
            }
        }
    }

    /// Writes folded lanes to memory, converting where the type there is narrower.
    fn write_folded(
        &self,
        memory: &Memory,
        position: isize,
        fold: &PreparedFold,
        to: &Operand,
        lanes: &[u8],
        count: usize,
    ) {
        let target = memory.at(to.buffer.0 as usize).wrapping_offset(position * to.dtype.size() as isize);
        // SAFETY: the position lies inside of the fold's buffer by the loop's construction; `lanes` holds `count` lanes.
        unsafe {
            match fold.narrow {
                Some(narrow) => narrow(Operands { to: target, from: [lanes.as_ptr(); 3], count }),
                None => std::ptr::copy_nonoverlapping(lanes.as_ptr(), target, count * fold.lane.size()),
            }
        }
    }

    /// The bytes of one fold's partial results.
    fn partial_bytes(&self) -> usize {
        let widest = self.folds.iter().map(|fold| fold.lane.size()).max().unwrap_or(0);
        self.nest.partials() * widest
    }

    /// Adds up what tasks left, always in the same order.
    fn combine_partials(&self, memory: &Memory) {
        let Some(buffer) = self.partials else { return };
        let (chunks, columns) = (self.nest.chunks(), self.nest.columns);
        let width = if self.nest.fold == FoldKind::Columns { self.nest.columns_per_block } else { 1 };
        for (index, (fold, prepared)) in self.body.folds.iter().zip(&self.folds).enumerate() {
            let base = memory.at(buffer).wrapping_add(index * self.partial_bytes());
            let stride = width * prepared.lane.size();
            for group in 0..self.nest.tasks() / chunks {
                let first = base.wrapping_add(group * chunks * stride);
                let (outer, column_block) = match self.nest.fold {
                    FoldKind::Columns => (group / self.nest.column_blocks, group % self.nest.column_blocks),
                    _ => (group, 0),
                };
                let begin = column_block * width;
                let count = if self.nest.fold == FoldKind::Columns { width.min(columns - begin) } else { 1 };
                for chunk in 1..chunks {
                    let other = first.wrapping_add(chunk * stride).cast_const();
                    let operands = Operands { to: first, from: [first.cast_const(), other, other], count };
                    // SAFETY: both partial results lie in the buffer that the plan made for them.
                    unsafe { (prepared.combine)(operands) };
                }
                let position = fold.to.offset
                    + offset_of(outer, &self.nest.outer, &fold.to.strides)
                    + begin as isize * fold.to.strides.last().copied().unwrap_or(0);
                // SAFETY: the partial result was written by the tasks, `count` lanes of it.
                let lanes = unsafe { std::slice::from_raw_parts(first, count * prepared.lane.size()) };
                self.write_folded(memory, position, prepared, &fold.to, lanes, count);
            }
        }
    }
}

/// Whether a block of the operand lies in memory exactly as in a register.
fn lies_in_order(operand: &Operand, nest: &Nest) -> bool {
    let rank = operand.strides.len();
    let (row, column) = (operand.strides[rank - 2], operand.strides[rank - 1]);
    let column_in_order = column == 1 || nest.columns == 1;
    column_in_order && (nest.rows_per_block == 1 || row == nest.columns as isize)
}

fn way(load: &Load, nest: &Nest, half: &impl Fn(DType) -> bool) -> Way {
    match &load.source {
        Source::Immediate(_) => Way::Once,
        Source::Memory(operand) if !half(operand.dtype) && lies_in_order(operand, nest) => Way::InPlace,
        Source::Memory(Operand { strides, .. }) | Source::Count { strides, .. } => {
            let inner = &strides[nest.outer.len()..];
            let (column, others) = inner.split_last().expect("a loop has columns");
            let same_in_every_row = others.iter().all(|&stride| stride == 0);
            let same_in_every_block = same_in_every_row && (*column == 0 || nest.column_blocks == 1);
            if same_in_every_block { Way::Once } else { Way::EachBlock }
        }
    }
}

/// Gives registers slots, one for several whose lifetimes do not meet.
fn place_registers(body: &Loop, loads: &[PreparedLoad]) -> (Vec<usize>, usize) {
    const FOREVER: usize = usize::MAX;
    let mut last = vec![0; body.registers.len()];
    for (at, instruction) in body.instructions.iter().enumerate() {
        instruction.from.iter().for_each(|&register| last[register] = at);
        last[instruction.to] = last[instruction.to].max(at);
    }
    body.stores.iter().for_each(|store| last[store.from] = FOREVER);
    body.folds.iter().for_each(|fold| last[fold.from] = FOREVER);
    for (load, prepared) in body.loads.iter().zip(loads) {
        if prepared.way == Way::Once {
            last[load.to] = FOREVER;
        }
    }
    let mut slots = vec![0; body.registers.len()];
    let mut busy_until: Vec<usize> = Vec::new();
    let mut take = |register: Register, begin: usize| {
        let free = busy_until.iter().position(|&end| end != FOREVER && end < begin);
        let slot = free.unwrap_or(busy_until.len());
        if slot == busy_until.len() {
            busy_until.push(0);
        }
        busy_until[slot] = last[register];
        slots[register] = slot;
    };
    for (load, prepared) in body.loads.iter().zip(loads) {
        if prepared.way != Way::InPlace {
            take(load.to, 0);
        }
    }
    for (at, instruction) in body.instructions.iter().enumerate() {
        take(instruction.to, at);
    }
    (slots, busy_until.len())
}

/// The distance in elements of a flattened index over `dims`, whose strides come first in `strides`.
fn offset_of(mut index: usize, dims: &[usize], strides: &[isize]) -> isize {
    let mut offset = 0;
    for (&dim, &stride) in dims.iter().zip(strides).rev() {
        offset += (index % dim) as isize * stride;
        index /= dim;
    }
    offset
}

thread_local! {
    /// Registers and accumulators of this thread; grown once, then reused by every loop.
    static WORKSPACE: std::cell::RefCell<Vec<u64>> = const { std::cell::RefCell::new(Vec::new()) };
}

/// The state of one thread inside of a loop.
struct Block<'a> {
    prepared: &'a PreparedLoop,
    memory: &'a Memory,
    /// Where every register lies for the current block.
    registers: Vec<*mut u8>,
    accumulators: Vec<*mut u8>,
    /// Elements of the accumulators that were used in this task.
    folded: usize,
}

impl<'a> Block<'a> {
    fn new(prepared: &'a PreparedLoop, memory: &'a Memory, workspace: &mut Vec<u64>) -> Block<'a> {
        let blocks = prepared.slot_count + prepared.folds.len() + 1;
        // Registers begin at cache lines.
        let words = (blocks * prepared.slot_bytes + 64).div_ceil(8);
        if workspace.len() < words {
            workspace.resize(words, 0);
        }
        let start = workspace.as_mut_ptr().cast::<u8>();
        let start = start.wrapping_add(start.align_offset(64));
        let slot = |index: usize| start.wrapping_add(index * prepared.slot_bytes);
        Block {
            prepared,
            memory,
            registers: prepared.slots.iter().map(|&index| slot(index)).collect(),
            accumulators: (0..=prepared.folds.len()).map(|fold| slot(prepared.slot_count + fold)).collect(),
            folded: 0,
        }
    }

    fn task(&mut self, task: usize) {
        let nest = &self.prepared.nest;
        let chunks = nest.chunks();
        let (group, chunk) = (task / chunks, task % chunks);
        let (outer, column_task) = match nest.fold {
            FoldKind::Columns => (group / nest.column_blocks, group % nest.column_blocks),
            _ => (group, 0),
        };
        let steps = chunk * nest.steps_per_task..((chunk + 1) * nest.steps_per_task).min(nest.steps());
        let row_blocks = nest.rows.div_ceil(nest.rows_per_block);
        let column_steps = if nest.fold == FoldKind::Columns { 1 } else { nest.column_blocks };
        self.folded = 0;
        let mut first = true;
        for step in steps {
            let column_block = if nest.fold == FoldKind::Columns { column_task } else { step % column_steps };
            let row_block = step / column_steps % row_blocks;
            let place = BlockPlace {
                outer,
                middle: step / column_steps / row_blocks,
                row: row_block * nest.rows_per_block,
                column: column_block * nest.columns_per_block,
                rows: nest.rows_per_block.min(nest.rows - row_block * nest.rows_per_block),
                columns: nest.columns_per_block.min(nest.columns - column_block * nest.columns_per_block),
            };
            self.block(&place, first);
            first = false;
        }
        match nest.fold {
            FoldKind::Columns => self.finish_columns(task, outer, column_task),
            FoldKind::Whole => self.finish_whole(task, outer),
            FoldKind::None | FoldKind::Rows => {}
        }
    }

    /// The distance in elements from an operand's start to the first element of a block.
    fn position(&self, place: &BlockPlace, offset: isize, strides: &[isize]) -> isize {
        let nest = &self.prepared.nest;
        let rank = strides.len();
        offset
            + offset_of(place.outer, &nest.outer, strides)
            + offset_of(place.middle, &nest.middle, &strides[nest.outer.len()..])
            + place.row as isize * strides[rank - 2]
            + place.column as isize * strides[rank - 1]
    }

    fn address(&self, place: &BlockPlace, operand: &Operand) -> *mut u8 {
        let position = self.position(place, operand.offset, &operand.strides);
        self.memory.at(operand.buffer.0 as usize).wrapping_offset(position * operand.dtype.size() as isize)
    }

    fn block(&mut self, place: &BlockPlace, first: bool) {
        let prepared = self.prepared;
        for (load, how) in prepared.body.loads.iter().zip(&prepared.loads) {
            match (&load.source, how.way) {
                (Source::Memory(operand), Way::InPlace) => self.registers[load.to] = self.address(place, operand),
                (_, Way::Once) if !first => {}
                (Source::Memory(operand), _) => self.fill_from_memory(place, load, operand, how.widen),
                (Source::Immediate(value), _) => self.fill_with(load, instructions::immediate(*value, load.lane)),
                (Source::Count { offset, strides }, _) => self.fill_counting(place, load, *offset, strides),
            }
        }
        let count = place.rows * place.columns;
        for (store, how) in prepared.body.stores.iter().zip(&prepared.stores) {
            if how.in_place {
                self.registers[store.from] = self.address(place, &store.to);
            }
        }
        for (run, to, from) in &prepared.instructions {
            let operands = Operands {
                to: self.registers[*to],
                from: from.map(|register| self.registers[register].cast_const()),
                count,
            };
            // SAFETY: registers hold a block of the lane type, or are memory where a block of it lies in order.
            unsafe { run(operands) };
        }
        // Folds come before stores: a store may overwrite an operand that a fold reads where it lies.
        match prepared.nest.fold {
            FoldKind::None => {}
            FoldKind::Rows => self.fold_rows(place),
            FoldKind::Columns | FoldKind::Whole => self.accumulate(count),
        }
        for (store, how) in prepared.body.stores.iter().zip(&prepared.stores) {
            if !how.in_place {
                self.store(place, store.from, &store.to, how.narrow);
            }
        }
    }

    /// Registers that are filled once must be whole, since later blocks may be larger than the first.
    fn rows_to_fill(&self, place: &BlockPlace, load: &Load) -> usize {
        let nest = &self.prepared.nest;
        let at = self.prepared.body.loads.iter().position(|other| other.to == load.to);
        match at.map(|at| self.prepared.loads[at].way) {
            Some(Way::Once) => nest.rows_per_block,
            _ => place.rows,
        }
    }

    fn fill_with(&mut self, load: &Load, bits: [u8; 8]) {
        let count = self.prepared.nest.rows_per_block * self.prepared.nest.columns_per_block;
        let (to, word) = (self.registers[load.to], u64::from_ne_bytes(bits));
        // SAFETY: the register holds a whole block of lanes and begins at a cache line.
        unsafe {
            match load.lane.size() {
                1 => std::slice::from_raw_parts_mut(to, count).fill(word as u8),
                2 => std::slice::from_raw_parts_mut(to.cast(), count).fill(word as u16),
                4 => std::slice::from_raw_parts_mut(to.cast(), count).fill(word as u32),
                _ => std::slice::from_raw_parts_mut(to.cast(), count).fill(word),
            }
        }
    }

    fn fill_counting(&mut self, place: &BlockPlace, load: &Load, offset: isize, strides: &[isize]) {
        let rank = strides.len();
        let start = self.position(place, offset, strides);
        let (row_stride, column_stride) = (strides[rank - 2], strides[rank - 1]);
        let (size, to) = (load.lane.size(), self.registers[load.to]);
        for row in 0..self.rows_to_fill(place, load) {
            for column in 0..place.columns {
                let value = start + row as isize * row_stride + column as isize * column_stride;
                let bits = instructions::counted(value as i64, load.lane);
                let element = row * place.columns + column;
                // SAFETY: the register holds a whole block of lanes.
                unsafe { std::ptr::copy_nonoverlapping(bits.as_ptr(), to.add(element * size), size) };
            }
        }
    }

    fn fill_from_memory(&mut self, place: &BlockPlace, load: &Load, operand: &Operand, widen: Option<Run>) {
        let rank = operand.strides.len();
        let (row_stride, column_stride) = (operand.strides[rank - 2], operand.strides[rank - 1]);
        let size = operand.dtype.size();
        let (start, to) = (self.address(place, operand), self.registers[load.to]);
        let rows = self.rows_to_fill(place, load);
        let in_order = lies_in_order(operand, &self.prepared.nest);
        // 16-bit floats that do not lie in order are first put in order in the spare block.
        let gathered = match widen {
            Some(_) if !in_order => self.accumulators[self.prepared.folds.len()],
            _ => to,
        };
        // SAFETY: every place of the loop lies inside of the operand's buffer; registers hold a whole block.
        unsafe {
            if let (Some(widen), true) = (widen, in_order) {
                return widen(Operands { to, from: [start.cast_const(); 3], count: rows * place.columns });
            }
            for row in 0..rows {
                let from = start.wrapping_offset(row as isize * row_stride * size as isize);
                let target = gathered.add(row * place.columns * size);
                gather(from, target, column_stride, place.columns, size);
            }
            if let Some(widen) = widen {
                widen(Operands { to, from: [gathered.cast_const(); 3], count: rows * place.columns });
            }
        }
    }

    fn store(&mut self, place: &BlockPlace, from: Register, operand: &Operand, narrow: Option<Run>) {
        let rank = operand.strides.len();
        let (row_stride, column_stride) = (operand.strides[rank - 2], operand.strides[rank - 1]);
        let size = operand.dtype.size();
        let target = self.address(place, operand);
        let count = place.rows * place.columns;
        let mut source = self.registers[from];
        // SAFETY: every place of the loop lies inside of the operand's buffer; the register holds `count` lanes.
        unsafe {
            if let Some(narrow) = narrow {
                let in_order = lies_in_order(operand, &self.prepared.nest);
                let narrowed = if in_order { target } else { self.accumulators[self.prepared.folds.len()] };
                narrow(Operands { to: narrowed, from: [source.cast_const(); 3], count });
                if in_order {
                    return;
                }
                source = narrowed;
            }
            if source == target {
                // The value took over the memory of an operand that is handed through unchanged.
                return;
            }
            for row in 0..place.rows {
                let to = target.wrapping_offset(row as isize * row_stride * size as isize);
                scatter(source.add(row * place.columns * size), to, column_stride, place.columns, size);
            }
        }
    }

    /// Combines a block into the accumulators, element by element; what a task has not touched yet is copied.
    fn accumulate(&mut self, count: usize) {
        for (index, (fold, how)) in self.prepared.body.folds.iter().zip(&self.prepared.folds).enumerate() {
            let (accumulator, block) = (self.accumulators[index], self.registers[fold.from]);
            let size = how.lane.size();
            let known = self.folded.min(count);
            // SAFETY: accumulators and registers hold a whole block of lanes.
            unsafe {
                (how.combine)(Operands {
                    to: accumulator,
                    from: [accumulator, block, block].map(|p| p.cast_const()),
                    count: known,
                });
                if count > known {
                    std::ptr::copy_nonoverlapping(
                        block.add(known * size),
                        accumulator.add(known * size),
                        (count - known) * size,
                    );
                }
            }
        }
        self.folded = self.folded.max(count);
    }

    /// Folds the accumulator's rows into its first row and hands that out.
    fn finish_columns(&mut self, task: usize, outer: usize, column_block: usize) {
        let nest = &self.prepared.nest;
        let begin = column_block * nest.columns_per_block;
        let columns = nest.columns_per_block.min(nest.columns - begin);
        for (index, (fold, how)) in self.prepared.body.folds.iter().zip(&self.prepared.folds).enumerate() {
            let (accumulator, size) = (self.accumulators[index], how.lane.size());
            for row in 1..self.folded / columns {
                let other = accumulator.wrapping_add(row * columns * size).cast_const();
                let operands =
                    Operands { to: accumulator, from: [accumulator.cast_const(), other, other], count: columns };
                // SAFETY: both rows lie in the accumulator.
                unsafe { (how.combine)(operands) };
            }
            let position = fold.to.offset
                + offset_of(outer, &nest.outer, &fold.to.strides)
                + begin as isize * fold.to.strides.last().copied().unwrap_or(0);
            self.hand_out(task, index, position, columns, nest.columns_per_block);
        }
    }

    fn finish_whole(&mut self, task: usize, outer: usize) {
        let nest = &self.prepared.nest;
        for (index, (fold, how)) in self.prepared.body.folds.iter().zip(&self.prepared.folds).enumerate() {
            fold_all(self.accumulators[index], self.folded, how);
            let position = fold.to.offset + offset_of(outer, &nest.outer, &fold.to.strides);
            self.hand_out(task, index, position, 1, 1);
        }
    }

    /// Writes folded lanes to their place, or to the partial results when other tasks fold the same value.
    fn hand_out(&self, task: usize, index: usize, position: isize, count: usize, width: usize) {
        let (prepared, how) = (self.prepared, &self.prepared.folds[index]);
        let accumulator = self.accumulators[index];
        // SAFETY: the accumulator holds at least `count` folded lanes.
        let lanes = unsafe { std::slice::from_raw_parts(accumulator, count * how.lane.size()) };
        match prepared.partials {
            Some(buffer) => {
                let start = index * prepared.partial_bytes() + task * width * how.lane.size();
                let target = self.memory.at(buffer).wrapping_add(start);
                // SAFETY: the plan made room for `width` lanes of every task and fold.
                unsafe { std::ptr::copy_nonoverlapping(lanes.as_ptr(), target, lanes.len()) };
            }
            None => prepared.write_folded(self.memory, position, how, &prepared.body.folds[index].to, lanes, count),
        }
    }

    fn fold_rows(&mut self, place: &BlockPlace) {
        let prepared = self.prepared;
        for (index, (fold, how)) in prepared.body.folds.iter().zip(&prepared.folds).enumerate() {
            let size = how.lane.size();
            let row_stride = fold.to.strides[fold.to.strides.len() - 2];
            let position = self.position(place, fold.to.offset, &fold.to.strides);
            for row in 0..place.rows {
                let source = self.registers[fold.from].wrapping_add(row * place.columns * size);
                let spare = self.accumulators[index];
                // SAFETY: a row of the register and the accumulator hold at least `columns` lanes.
                unsafe { std::ptr::copy_nonoverlapping(source, spare, place.columns * size) };
                fold_all(spare, place.columns, how);
                // SAFETY: the first lane was just folded.
                let lane = unsafe { std::slice::from_raw_parts(spare, size) };
                prepared.write_folded(self.memory, position + row as isize * row_stride, how, &fold.to, lane, 1);
            }
        }
    }
}

/// Where a block lies in its loop.
struct BlockPlace {
    outer: usize,
    middle: usize,
    row: usize,
    column: usize,
    rows: usize,
    columns: usize,
}

/// Folds `count` lanes into the first one by halves.
fn fold_all(lanes: *mut u8, count: usize, how: &PreparedFold) {
    let size = how.lane.size();
    let mut left = count;
    while left > 1 {
        let half = left / 2;
        let other = lanes.wrapping_add((left - half) * size).cast_const();
        // SAFETY: both halves lie among the `count` lanes and do not overlap.
        unsafe { (how.combine)(Operands { to: lanes, from: [lanes.cast_const(), other, other], count: half }) };
        left -= half;
    }
}

/// Copies elements `stride` apart into a row.
///
/// # Safety
/// `from` is valid for `count` elements of `size` bytes that far apart, `to` for as many in a row.
unsafe fn gather(from: *const u8, to: *mut u8, stride: isize, count: usize, size: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        match (stride, size) {
            (1, _) => std::ptr::copy_nonoverlapping(from, to, count * size),
            (_, 1) => gather_as::<u8>(from, to, stride, count),
            (_, 2) => gather_as::<u16>(from, to, stride, count),
            (_, 4) => gather_as::<u32>(from, to, stride, count),
            _ => gather_as::<u64>(from, to, stride, count),
        }
    }
}

unsafe fn gather_as<T: Copy>(from: *const u8, to: *mut u8, stride: isize, count: usize) {
    let (from, to) = (from.cast::<T>(), to.cast::<T>());
    for element in 0..count {
        // SAFETY: the caller's promise.
        unsafe { *to.add(element) = *from.offset(element as isize * stride) };
    }
}

/// Copies a row to elements `stride` apart.
///
/// # Safety
/// As for [`gather`], with the roles exchanged.
unsafe fn scatter(from: *const u8, to: *mut u8, stride: isize, count: usize, size: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        match (stride, size) {
            (1, _) => std::ptr::copy_nonoverlapping(from, to, count * size),
            (_, 1) => scatter_as::<u8>(from, to, stride, count),
            (_, 2) => scatter_as::<u16>(from, to, stride, count),
            (_, 4) => scatter_as::<u32>(from, to, stride, count),
            _ => scatter_as::<u64>(from, to, stride, count),
        }
    }
}

unsafe fn scatter_as<T: Copy>(from: *const u8, to: *mut u8, stride: isize, count: usize) {
    let (from, to) = (from.cast::<T>(), to.cast::<T>());
    for element in 0..count {
        // SAFETY: the caller's promise.
        unsafe { *to.offset(element as isize * stride) = *from.add(element) };
    }
}
