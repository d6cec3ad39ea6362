//! f32 products in bf16 tiles: every number is the exact sum of three bf16 parts, and six of the nine products of parts are
//! summed. What is left out is below the rounding of f32.
//!
//! Packed A and B have the same form: panels of 32 rows of A (or columns of B), and of each panel, for every 32 steps of the
//! reduced axis, the three parts, most significant first, of two tiles each.

use super::Tiles;
use std::arch::asm;

/// Numbers of one part of a panel for a block of steps: two tiles.
pub(in crate::kernels) const PART_LEN: usize = 2 * 16 * 32;
/// Numbers of a panel for a block of steps.
pub(in crate::kernels) const SPLIT_LEN: usize = 3 * PART_LEN;

/// What is multiplied, and where the sums go.
#[repr(C)]
pub(in crate::kernels) struct SplitProducts {
    /// Where each tile of C lies, as [`super::quarters`] has them.
    pub c: [*mut f32; 4],
    /// A panel of A, [`SPLIT_LEN`] numbers per block of steps.
    pub a: *const u16,
    /// A panel of B in the same form.
    pub b: *const u16,
    /// Distance between the rows of C in bytes.
    pub c_stride: usize,
    /// Blocks of steps; at least one.
    pub blocks: usize,
    /// 1 to add to what C holds, 0 to overwrite it.
    pub accumulate: usize,
    /// Memory that will be needed next: 1 KiB of it is fetched with each block of steps. Any address will do.
    pub next: *const u16,
}

impl Tiles {
    /// `c = Σ a · b`, or `c += Σ a · b`, for 32 × 32 sums.
    ///
    /// # Safety
    /// All pointers must be valid as described at [`SplitProducts`], with 16 rows of 16 numbers behind each pointer of C; the
    /// tiles must be configured for blocks of [`super::MAX_STEPS`] steps.
    pub unsafe fn split_square(&self, products: &SplitProducts) {
        // Parts (A, B) are multiplied in the order (2, 0), (0, 0), (1, 0), (1, 1), (0, 1), (0, 2): one pair of tiles
        // is loaded from one product to the next. Four rows of C are fetched with each block of steps.
        // SAFETY: the tiles are configured (`self` exists on this thread); the caller vouches for the pointers.
        unsafe {
            asm!(
                "mov {c0}, [{products}]",
                "mov {c1}, [{products} + 8]",
                "mov {c2}, [{products} + 16]",
                "mov {c3}, [{products} + 24]",
                "cmp qword ptr [{products} + 64], 0",
                "jne 4f",
                "tilezero tmm0",
                "tilezero tmm1",
                "tilezero tmm2",
                "tilezero tmm3",
                "jmp 3f",
                "4:",
                "tileloadd tmm0, [{c0} + {c_stride} * 1]",
                "tileloadd tmm1, [{c1} + {c_stride} * 1]",
                "tileloadd tmm2, [{c2} + {c_stride} * 1]",
                "tileloadd tmm3, [{c3} + {c_stride} * 1]",
                "3:",
                "tileloadd tmm6, [{b} + {row} * 1]",
                "tileloadd tmm4, [{a} + {row} * 1 + 4096]",
                "tileloadd tmm7, [{b} + {row} * 1 + 1024]",
                "tileloadd tmm5, [{a} + {row} * 1 + 5120]",
                "tdpbf16ps tmm0, tmm4, tmm6",
                "prefetcht1 [{next} + 0]",
                "tdpbf16ps tmm1, tmm4, tmm7",
                "prefetcht1 [{next} + 64]",
                "tileloadd tmm4, [{a} + {row} * 1]",
                "tdpbf16ps tmm2, tmm5, tmm6",
                "prefetcht1 [{next} + 128]",
                "tdpbf16ps tmm3, tmm5, tmm7",
                "prefetcht1 [{next} + 192]",
                "tileloadd tmm5, [{a} + {row} * 1 + 1024]",
                "tdpbf16ps tmm0, tmm4, tmm6",
                "prefetcht1 [{next} + 256]",
                "tdpbf16ps tmm1, tmm4, tmm7",
                "prefetcht1 [{next} + 320]",
                "tileloadd tmm4, [{a} + {row} * 1 + 2048]",
                "tdpbf16ps tmm2, tmm5, tmm6",
                "prefetcht1 [{next} + 384]",
                "tdpbf16ps tmm3, tmm5, tmm7",
                "prefetcht1 [{next} + 448]",
                "tileloadd tmm5, [{a} + {row} * 1 + 3072]",
                "tdpbf16ps tmm0, tmm4, tmm6",
                "prefetcht1 [{next} + 512]",
                "tdpbf16ps tmm2, tmm5, tmm6",
                "prefetcht1 [{next} + 576]",
                "tileloadd tmm6, [{b} + {row} * 1 + 2048]",
                "tdpbf16ps tmm1, tmm4, tmm7",
                "prefetcht1 [{next} + 640]",
                "tdpbf16ps tmm3, tmm5, tmm7",
                "prefetcht1 [{next} + 704]",
                "tileloadd tmm7, [{b} + {row} * 1 + 3072]",
                "tdpbf16ps tmm0, tmm4, tmm6",
                "prefetcht1 [{next} + 768]",
                "tdpbf16ps tmm1, tmm4, tmm7",
                "prefetcht1 [{next} + 832]",
                "tileloadd tmm4, [{a} + {row} * 1]",
                "tdpbf16ps tmm2, tmm5, tmm6",
                "prefetcht1 [{next} + 896]",
                "tdpbf16ps tmm3, tmm5, tmm7",
                "prefetcht1 [{next} + 960]",
                "tileloadd tmm5, [{a} + {row} * 1 + 1024]",
                "tdpbf16ps tmm0, tmm4, tmm6",
                "prefetchw [{line}]",
                "tdpbf16ps tmm2, tmm5, tmm6",
                "prefetchw [{line} + 64]",
                "add {line}, {c_stride}",
                "tileloadd tmm6, [{b} + {row} * 1 + 4096]",
                "tdpbf16ps tmm1, tmm4, tmm7",
                "prefetchw [{line}]",
                "tdpbf16ps tmm3, tmm5, tmm7",
                "prefetchw [{line} + 64]",
                "add {line}, {c_stride}",
                "tileloadd tmm7, [{b} + {row} * 1 + 5120]",
                "tdpbf16ps tmm0, tmm4, tmm6",
                "prefetchw [{line}]",
                "tdpbf16ps tmm2, tmm5, tmm6",
                "prefetchw [{line} + 64]",
                "add {line}, {c_stride}",
                "tdpbf16ps tmm1, tmm4, tmm7",
                "prefetchw [{line}]",
                "tdpbf16ps tmm3, tmm5, tmm7",
                "prefetchw [{line} + 64]",
                "add {line}, {c_stride}",
                "add {a}, 6144",
                "add {b}, 6144",
                "add {next}, 1024",
                "dec {blocks}",
                "jnz 3b",
                "tilestored [{c0} + {c_stride} * 1], tmm0",
                "tilestored [{c1} + {c_stride} * 1], tmm1",
                "tilestored [{c2} + {c_stride} * 1], tmm2",
                "tilestored [{c3} + {c_stride} * 1], tmm3",
                products = in(reg) products,
                a = inout(reg) products.a => _,
                b = inout(reg) products.b => _,
                c_stride = in(reg) products.c_stride,
                blocks = inout(reg) products.blocks => _,
                next = inout(reg) products.next => _,
                line = inout(reg) products.c[0] => _,
                row = in(reg) 64usize,
                c0 = out(reg) _,
                c1 = out(reg) _,
                c2 = out(reg) _,
                c3 = out(reg) _,
                out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
                out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
                options(nostack)
            );
        }
    }
}
