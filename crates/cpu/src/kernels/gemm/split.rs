//! f32 products on AMX: both operands are split into three bf16 parts, whose products are summed in f32.
//!
//! The smaller operand is packed once. Jobs are panels of the other one, which each packs for itself, some steps of the
//! reduced axis at a time, so that its part stays in the second-level cache. An element's sum is added up in the same order
//! however the work is cut.

mod pack;

#[cfg(test)]
mod tests;

use super::super::amx::split::{SPLIT_LEN, SplitProducts};
use super::super::amx::{MAX_STEPS, Tiles, quarters};
use super::super::conv::Finished;
use super::super::{Machine, Shared, scratch};
use super::product::Product;
use super::{Gemm, MatrixStrides};
use crate::simd::{Bf16Unit, Simd};
use pack::{Operand, PANEL, STEPS, Side};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Blocks of steps that are swept at once, at most.
const SWEEP: usize = 14;
/// Panels of a job at most: with a sweep's steps they stay in the second-level cache.
const JOB_PANELS: usize = 7;
/// Below this many products the parts cost more than they save.
const FEW_PRODUCTS: usize = 1 << 18;

/// Numbers that a product fetches with each block of steps.
const FETCHED: usize = 512;

/// One product whose C has contiguous rows; the pointers were checked against the slices.
pub(super) struct SplitGemm<'a> {
    pub machine: &'a Machine,
    pub shape: &'a Gemm,
    pub a: Shared<f32>,
    pub b: Shared<f32>,
    pub c: Shared<f32>,
}

/// Whether the product is computed in parts.
pub(crate) fn is_split(simd: Simd, shape: &Gemm) -> bool {
    let Gemm { m, n, k, .. } = *shape;
    let long = m.min(n) >= PANEL && k >= STEPS && m * n * k >= FEW_PRODUCTS;
    // A long reduced axis under few sums makes too few jobs.
    simd.bf16() == Bf16Unit::Amx && long && k <= 8 * m.max(n)
}

/// Sweeps of equal length over so many blocks of steps.
fn sweeps(blocks: usize) -> impl ExactSizeIterator<Item = Range<usize>> {
    let count = blocks.div_ceil(SWEEP);
    (0..count).map(move |sweep| sweep * blocks / count..(sweep + 1) * blocks / count)
}

/// Numbers of a packed operand, and one that says whether it may be used.
fn packed_len(length: usize, depth: usize) -> usize {
    length.div_ceil(PANEL) * depth.div_ceil(STEPS) * SPLIT_LEN + 1
}

impl SplitGemm<'_> {
    /// Computes it.
    pub fn run(&self) {
        let Gemm { m, n, k, .. } = *self.shape;
        let shared = if n <= m { self.b() } else { self.a() };
        scratch::borrow(packed_len(shared.length, k), |packed: &mut [u16]| {
            self.pack(&shared, packed);
            self.run_packed(&shared, packed, None);
        });
    }

    fn a(&self) -> Operand {
        let Gemm { m, k, a: MatrixStrides { row, column, .. }, .. } = *self.shape;
        Operand { side: Side::A, data: self.a.at(0), length: m, depth: k, across: row, along: column }
    }

    fn b(&self) -> Operand {
        let Gemm { n, k, b: MatrixStrides { row, column, .. }, .. } = *self.shape;
        Operand { side: Side::B, data: self.b.at(0), length: n, depth: k, across: column, along: row }
    }

    /// Packs all of an operand; false when a number of it was not finite.
    fn pack(&self, operand: &Operand, packed: &mut [u16]) -> bool {
        let blocks = operand.depth.div_ceil(STEPS);
        let parts = sweeps(blocks).len();
        let finite = AtomicBool::new(true);
        let target = Shared(packed.as_mut_ptr());
        let operand = SharedOperand(*operand);
        self.machine.pool.run(operand.get().length.div_ceil(PANEL) * parts, &|job| {
            let (panel, Some(steps)) = (job / parts, sweeps(blocks).nth(job % parts)) else { return };
            let to = target.at((panel * blocks + steps.start) * SPLIT_LEN);
            // SAFETY: the operand was checked; every job fills its own part; AMX implies AVX-512.
            if !unsafe { operand.get().pack(panel, steps, to) } {
                finite.store(false, Relaxed);
            }
        });
        let finite = finite.into_inner();
        if let Some(last) = packed.last_mut() {
            *last = u16::from(finite);
        }
        finite
    }

    /// Multiplies with the packed operand.
    fn run_packed(&self, shared: &Operand, packed: &[u16], finished: Option<&Finished<'_>>) {
        let own = if shared.side == Side::B { self.a() } else { self.b() };
        let (own, side) = (SharedOperand(own), shared.side);
        let panels = own.get().length.div_ceil(PANEL);
        let jobs = panels.div_ceil(JOB_PANELS).max(2 * self.machine.pool.threads()).next_multiple_of(2).min(panels);
        self.machine.pool.run(jobs, &|job| {
            let own_panels = job * panels / jobs..(job + 1) * panels / jobs;
            let job = Job { product: self, own: own.get(), panels: own_panels, packed, packed_side: side };
            if !job.is_usable() || !job.run() {
                job.run_whole();
            }
            if let Some(finished) = finished {
                let (n, rows) = (self.shape.n, job.elements());
                finished(rows.start * n, rows.len() * n);
            }
        });
    }
}

/// A product whose B can be packed beforehand, and whose rows are finished one block after the other.
pub(crate) struct RowsGemm<'a>(SplitGemm<'a>);

impl<'a> RowsGemm<'a> {
    /// Numbers of packed B, if the product is computed in parts.
    pub fn packed_len(simd: Simd, shape: &Gemm) -> Option<usize> {
        let dense = shape.batch == 1 && shape.c == MatrixStrides::row_major(shape.m, shape.n);
        (dense && is_split(simd, shape)).then(|| packed_len(shape.n, shape.k))
    }

    /// The product of two slices. B is not read if its packed form is there and finite.
    ///
    /// # Panics
    /// When a slice ends before the last element its strides reach.
    pub fn new(machine: &'a Machine, shape: &'a Gemm, a: &[f32], b: &[f32], c: &mut [f32]) -> RowsGemm<'a> {
        shape.check(a.len(), b.len(), c.len());
        let [a, b] = [a, b].map(|operand| Shared(operand.as_ptr().cast_mut()));
        RowsGemm(SplitGemm { machine, shape, a, b, c: Shared(c.as_mut_ptr()) })
    }

    /// Packs B; false when a number of it is not finite.
    pub fn pack(&self, packed: &mut [u16]) -> bool {
        self.0.pack(&self.0.b(), packed)
    }

    /// Multiplies with packed B; `finished` is called with the first element and the length of every finished block of rows.
    pub fn run(&self, packed: &[u16], finished: &Finished<'_>) {
        self.0.run_packed(&self.0.b(), packed, Some(finished));
    }
}

/// An operand that jobs share: they only read it.
#[derive(Clone, Copy)]
struct SharedOperand(Operand);
// SAFETY: the operand is read only, and the caller of the kernel holds its slice until all jobs end.
unsafe impl Sync for SharedOperand {}

impl SharedOperand {
    fn get(&self) -> Operand {
        self.0
    }
}

/// Some panels of the operand that is not packed, against all of the packed one.
struct Job<'a> {
    product: &'a SplitGemm<'a>,
    own: Operand,
    panels: Range<usize>,
    packed: &'a [u16],
    packed_side: Side,
}

/// Sums of a block that reaches over the result's edge.
#[repr(align(64))]
struct Sums([f32; PANEL * PANEL]);

impl Job<'_> {
    /// Rows or columns of the result that are this job's.
    fn elements(&self) -> Range<usize> {
        self.panels.start * PANEL..(self.panels.end * PANEL).min(self.own.length)
    }

    /// False when a number of the operand was not finite; the result is not usable then.
    fn run(&self) -> bool {
        let blocks = self.own.depth.div_ceil(STEPS);
        let others = self.packed.len() / (blocks * SPLIT_LEN);
        scratch::borrow(self.panels.len() * blocks.min(SWEEP) * SPLIT_LEN, |own: &mut [u16]| {
            for steps in sweeps(blocks) {
                let own_len = steps.len() * SPLIT_LEN;
                for (panel, own) in self.panels.clone().zip(own.chunks_exact_mut(own_len)) {
                    // SAFETY: the operand was checked, and a chunk has room for the blocks; AMX implies AVX-512.
                    if !unsafe { self.own.pack(panel, steps.clone(), own.as_mut_ptr()) } {
                        return false;
                    }
                }
                // SAFETY: the product suits AMX only where it was granted.
                let tiles = unsafe { Tiles::configure(MAX_STEPS) };
                for other in 0..others {
                    let packed = &self.packed[(other * blocks + steps.start) * SPLIT_LEN..];
                    for (index, own) in own.chunks_exact(own_len).take(self.panels.len()).enumerate() {
                        let panel = self.panels.start + index;
                        // Each product fetches its part of the packed operand's next panel.
                        let next = packed.as_ptr().wrapping_add(blocks * SPLIT_LEN + index * steps.len() * FETCHED);
                        match self.packed_side {
                            Side::B => self.multiply(&tiles, [panel, other], [own, packed], &steps, next),
                            Side::A => self.multiply(&tiles, [other, panel], [packed, own], &steps, next),
                        }
                    }
                }
            }
            true
        })
    }

    /// One block of the result: `position` are its panels of A and of B.
    fn multiply(
        &self,
        tiles: &Tiles,
        position: [usize; 2],
        [a, b]: [&[u16]; 2],
        steps: &Range<usize>,
        next: *const u16,
    ) {
        let Gemm { m, n, c, .. } = *self.product.shape;
        let [row, column] = position.map(|panel| panel * PANEL);
        let live = [PANEL.min(m - row), PANEL.min(n - column)];
        let to = self.product.c.at(row * c.row + column);
        let accumulate = steps.start > 0;
        let products = |to: *mut f32, stride: usize, accumulate: bool| SplitProducts {
            c: quarters(to, stride),
            a: a.as_ptr(),
            b: b.as_ptr(),
            c_stride: 4 * stride,
            blocks: steps.len(),
            accumulate: usize::from(accumulate),
            next,
        };
        if live == [PANEL, PANEL] {
            // SAFETY: both panels have the blocks; the block of C has 32 rows of 32 numbers, which are this job's alone.
            return unsafe { tiles.split_square(&products(to, c.row, accumulate)) };
        }
        let mut sums = Sums([0.0; PANEL * PANEL]);
        // SAFETY: both panels have the blocks, and there are 32 rows of 32 sums.
        unsafe { tiles.split_square(&products(sums.0.as_mut_ptr(), PANEL, false)) };
        for (row, sums) in sums.0.chunks_exact(PANEL).enumerate().take(live[0]) {
            for (column, &sum) in sums.iter().enumerate().take(live[1]) {
                let to = to.wrapping_add(row * c.row + column);
                // SAFETY: the element is one of the result's, and of this job alone.
                unsafe { *to = if accumulate { *to + sum } else { sum } };
            }
        }
    }

    /// Whether the packed operand is finite.
    fn is_usable(&self) -> bool {
        self.packed.last() == Some(&1)
    }

    /// The same in f32, for numbers that are not finite.
    fn run_whole(&self) {
        let SplitGemm { machine, shape, a, b, c } = *self.product;
        let own = self.elements();
        if self.own.side == Side::B {
            let part = Gemm { n: own.len(), ..*shape };
            let (b, c) = (Shared(b.at(own.start * shape.b.column)), Shared(c.at(own.start)));
            return Product { machine, shape: &part, a, b, c }.run();
        }
        let (a, c) = (Shared(a.at(own.start * shape.a.row)), Shared(c.at(own.start * shape.c.row)));
        let part = Gemm { m: own.len(), ..*shape };
        if !self.is_usable() {
            return Product { machine, shape: &part, a, b, c }.run();
        }
        // Weights that are kept from run to run may no longer exist in another form.
        scratch::borrow(shape.k * shape.n, |b: &mut [f32]| {
            pack::unpack(self.packed, shape.k, shape.n, b);
            let part = Gemm { b: MatrixStrides::row_major(shape.k, shape.n), ..part };
            Product { machine, shape: &part, a, b: Shared(b.as_mut_ptr()), c }.run();
        });
    }
}
