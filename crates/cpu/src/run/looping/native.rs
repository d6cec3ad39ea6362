//! Loops as machine code: for AVX-512, where a block's numbers go through all instructions of a loop without leaving the
//! vector registers.
//!
//! Run one by one over whole blocks, instructions read and write the first-level cache, which takes longer than their
//! arithmetic. [`Native`] does the same work sixteen numbers at a time: `frame` makes the loop, `instructions` and
//! `functions` what happens in it, `registers` decides where values are, `assembler` knows the bytes of `operations`, [`Pages`]
//! makes them callable. Results are the same to the bit. Loops with instructions that it does not know, and blocks whose
//! length is no multiple of sixteen, are run one instruction at a time.

mod assembler;
mod compiler;
mod frame;
mod functions;
mod instructions;
mod operations;
mod registers;
#[cfg(test)]
mod tests;

use super::registers::RegisterFill;
use super::{PreparedLoad, PreparedStore};
use crate::plan::kernel::{Loop, Operand, Source};
use crate::plan::nest::{FoldKind, Nest};
use crate::simd::{Level, Simd};
use compiler::Compiler;
use octant_graph::DType;

/// Numbers that are computed at a time.
const LANES: usize = 16;

/// What is known of a loop when its code is made.
pub(super) struct Outline<'a> {
    pub body: &'a Loop,
    pub nest: &'a Nest,
    pub loads: &'a [PreparedLoad],
    pub stores: &'a [PreparedStore],
    /// The slot of every register, of how many, of how many bytes each. Accumulators follow them.
    pub slots: &'a [usize],
    pub slot_count: usize,
    pub slot_bytes: usize,
}

/// A loop's code: where operands begin, which it may change, where slots begin, how many numbers a block has, how many inner
/// rows there are until the outer ones move on, how many blocks.
#[cfg(target_arch = "x86_64")]
type Code = unsafe extern "sysv64" fn(*mut *mut u8, *mut u8, usize, usize, usize);
/// Never called: other machines have no code.
#[cfg(not(target_arch = "x86_64"))]
type Code = unsafe extern "C" fn(*mut *mut u8, *mut u8, usize, usize, usize);

/// How the code walks through an operand in memory.
#[derive(Clone, Copy, PartialEq)]
pub(super) struct Walk {
    /// A row is one number over and over.
    pub everywhere: bool,
    /// Bytes to jump over at the end of a row, and at the end of the last of the inner rows; none if the operand lies in order.
    pub turns: Option<[i32; 2]>,
}

/// What the code of a loop does itself; the rest happens in working memory before and after it.
pub(super) struct Share {
    /// Of the loads: those that it reads where they lie.
    pub reads: Vec<Option<Walk>>,
    /// Of the stores.
    pub writes: Vec<Option<Walk>>,
    /// Whether it folds over blocks; what it folds into must have begun.
    pub folds: bool,
    /// Bytes from a block to the one below it, of the loads, then of the stores; none if something besides the code has to
    /// happen in between.
    pub steps: Option<Vec<i32>>,
}

/// A loop's code.
pub(super) struct Native {
    pages: Pages,
    /// Where the code begins that streams results past the caches, which works if they begin at cache lines.
    streaming: Option<usize>,
    pub share: Share,
}

impl Native {
    /// The code of a loop; none if it has instructions that have no code here, or the machine is another.
    pub fn new(outline: &Outline, simd: Simd) -> Option<Native> {
        let body = outline.body;
        let share = Share::of(outline);
        // A fold of rows reads its operand after the stores, one of which may lie over it.
        let folds_loads = body.folds.iter().any(|fold| body.loads.iter().any(|load| load.to == fold.from));
        if simd.level() != Level::Avx512 || body.instructions.is_empty() || (!share.folds && folds_loads) {
            return None;
        }
        let mut code = Compiler::new(outline, &share, false).code()?;
        let streams = outline.stores.iter().any(|store| store.stream.is_some());
        let streaming = streams.then(|| code.len().next_multiple_of(64));
        if let Some(start) = streaming {
            code.resize(start, 0);
            code.extend(Compiler::new(outline, &share, true).code()?);
        }
        Some(Native { pages: Pages::holding(&code)?, streaming, share })
    }

    /// Runs blocks of a length that [fits](Native::fits), one below the other, the first of which has its operands at `here`.
    ///
    /// # Safety
    /// As for the instructions of the loop, over all operands and slots.
    pub unsafe fn run(&self, here: &mut [*mut u8], slots: *mut u8, count: usize, inner_rows: usize, blocks: usize) {
        let stores = self.share.reads.len()..;
        let aligned = || {
            let mut steps = self.share.steps.iter().flat_map(|steps| &steps[stores.clone()]);
            here[stores.clone()].iter().all(|target| target.addr().is_multiple_of(64))
                && (blocks == 1 || steps.all(|step| step % 64 == 0))
        };
        let start = match self.streaming {
            Some(streaming) if aligned() => streaming,
            _ => 0,
        };
        // SAFETY: a function begins there; it does what the loop's instructions do.
        unsafe {
            let code = std::mem::transmute::<*const u8, Code>(self.pages.start().add(start));
            code(here.as_mut_ptr(), slots, count, inner_rows, blocks);
        }
    }

    /// Whether a block has as many numbers as the code can compute.
    pub fn fits(&self, count: usize) -> bool {
        count > 0 && count.is_multiple_of(LANES)
    }
}

impl Share {
    fn of(outline: &Outline) -> Share {
        let Outline { body, nest, .. } = outline;
        // Only a pointer of its own can jump from row to row.
        let mut pointers = assembler::POINTERS.len();
        let mut affordable = |walk: &Walk| {
            let jumps = walk.turns.is_some();
            let afforded = !jumps || pointers > 0;
            pointers -= (jumps && afforded) as usize;
            afforded
        };
        let stores = body.stores.iter().map(|store| walk(&store.to, nest).filter(|walk| !walk.everywhere));
        let writes: Vec<Option<Walk>> = stores.map(|walk| walk.filter(&mut affordable)).collect();
        let loads = body.loads.iter().zip(outline.loads).map(|(load, how)| {
            let mut stores = body.stores.iter().zip(&writes);
            let needs_slot = stores.any(|(store, walk)| store.from == load.to && walk.is_none());
            let found = match (&load.source, how.fill) {
                (Source::Memory(operand), RegisterFill::InPlace) => walk(operand, nest),
                (Source::Memory(operand), RegisterFill::EachBlock) if !needs_slot => walk(operand, nest),
                _ => None,
            };
            found.filter(&mut affordable)
        });
        let reads: Vec<Option<Walk>> = loads.collect();
        let folds = matches!(nest.fold, FoldKind::Columns | FoldKind::Whole);
        let stays =
            |(load, read): (&PreparedLoad, &Option<Walk>)| read.is_some() || load.fill != RegisterFill::EachBlock;
        let alone = outline.loads.iter().zip(&reads).all(stays)
            && writes.iter().all(Option::is_some)
            && (folds || nest.fold == FoldKind::None)
            && nest.row_inner == nest.rows;
        let steps = if alone { steps(outline) } else { None };
        Share { reads, writes, folds, steps }
    }

    /// How an operand is walked through: one of the loads, then of the stores.
    fn walk(&self, operand: usize) -> Option<Walk> {
        self.reads.iter().chain(&self.writes).nth(operand).copied().flatten()
    }

    /// The operands that the code reads or writes itself; first those that need a pointer of their own.
    fn pointers(&self) -> Vec<usize> {
        let operands = 0..self.reads.len() + self.writes.len();
        let mut own: Vec<usize> = operands.filter(|&operand| self.walk(operand).is_some()).collect();
        own.sort_by_key(|&operand| self.walk(operand).is_some_and(|walk| walk.turns.is_none()));
        own
    }
}

/// Bytes from a block to the one below it.
fn steps(outline: &Outline) -> Option<Vec<i32>> {
    let rows = outline.nest.rows_per_block as isize;
    super::steps(outline.body).into_iter().map(|[_, row, _]| i32::try_from(rows * row).ok()).collect()
}

/// How an operand is walked through; none if it has to be put in order first.
fn walk(operand: &Operand, nest: &Nest) -> Option<Walk> {
    if !matches!(operand.dtype, DType::F32 | DType::BF16 | DType::I32 | DType::U8 | DType::Bool) {
        return None;
    }
    if super::lies_in_order(operand, nest) {
        return Some(Walk { everywhere: false, turns: None });
    }
    let [.., outer, inner, column] = operand.strides[..] else { return None };
    let walks = match operand.dtype {
        DType::Bool => false,
        DType::U8 => column == 1,
        _ => (0..=1).contains(&column),
    };
    if !nest.columns_per_block.is_multiple_of(LANES) || !walks {
        return None;
    }
    let behind = column * nest.columns_per_block as isize;
    let jump = outer - (nest.row_inner as isize - 1) * inner;
    let bytes = |elements: isize| i32::try_from((elements - behind) * operand.dtype.size() as isize).ok();
    Some(Walk { everywhere: column == 0, turns: Some([bytes(inner)?, bytes(jump)?]) })
}

/// Code that can be called, and never changes.
struct Pages {
    start: *mut std::ffi::c_void,
    #[cfg_attr(not(unix), expect(dead_code, reason = "there are no pages"))]
    bytes: usize,
}

// SAFETY: the pages are only read and run once they exist.
unsafe impl Send for Pages {}
// SAFETY: as above.
unsafe impl Sync for Pages {}

impl Pages {
    /// None where systems are unknown to us.
    #[cfg(not(unix))]
    pub fn holding(_: &[u8]) -> Option<Pages> {
        None
    }

    /// Copies code into pages of its own; none where the system does not allow it.
    #[cfg(unix)]
    pub fn holding(code: &[u8]) -> Option<Pages> {
        let (readable, private) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: new memory is requested, wherever there is room.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), code.len(), readable, private, -1, 0) };
        if start == libc::MAP_FAILED {
            return None;
        }
        let pages = Pages { start, bytes: code.len() };
        // SAFETY: the pages are new, at least as long as the code, and writable until they become executable.
        let executable = unsafe {
            std::ptr::copy_nonoverlapping(code.as_ptr(), start.cast(), code.len());
            libc::mprotect(start, code.len(), libc::PROT_READ | libc::PROT_EXEC) == 0
        };
        executable.then_some(pages)
    }

    /// The code's first byte.
    pub fn start(&self) -> *const u8 {
        self.start.cast::<u8>().cast_const()
    }
}

#[cfg(unix)]
impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: they were mapped with this length, and nothing runs in them any more.
        unsafe { libc::munmap(self.start, self.bytes) };
    }
}
