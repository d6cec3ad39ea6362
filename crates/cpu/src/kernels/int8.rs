//! Convolutions and products of 8-bit numbers: activations without a sign, weights with one, exact sums of 32 bits.
//!
//! Windows are laid out as rows of a matrix, 32 at a time (`unfold`), unless the image already is that matrix; a panel of 32
//! output channels is multiplied with them by the machine's unit (`tile`): AMX, AVX512-VNNI or plain loops. As sums of integers
//! are exact, all units and any cut into jobs give the same bits. The sums of a chunk stay in the cache, in f32, for the caller
//! that takes them. Depthwise convolutions have instructions of VNNI, too (`depthwise`); without them the same integers are
//! multiplied in f32 (`super::conv`), which holds their sums exactly.

#[cfg(target_arch = "x86_64")]
mod depthwise;
mod pack;
mod tile;
mod unfold;

#[cfg(test)]
mod tests;

use super::conv::{ConvGeometry, Epilogue, ForwardConv, Weights};
use super::{Machine, Shared, scratch};
#[cfg(target_arch = "x86_64")]
use crate::simd::Int8Unit;
use crate::simd::second_level_bytes;
use std::ops::Range;
use tile::{COLUMNS, ROWS, SQUARE, Unit};

/// Steps of the reduced axis in a block at most.
const MAX_STEPS: usize = 64;

/// Bytes of a panel of packed weights per block of steps.
const BLOCK_LEN: usize = COLUMNS * MAX_STEPS;

/// Terms of a sum that 32 bits hold, whatever they are.
const MOST_TERMS: usize = (i32::MAX / (255 * 128)) as usize;

/// Terms of a sum that f32 holds exactly.
const MOST_EXACT_TERMS: usize = (1 << 24) / (255 * 128);

/// A convolution of 8-bit images that is ready to run. A product of matrices is one with single pixels as windows.
pub struct Int8Conv {
    conv: ConvGeometry,
    /// The number that stands for 0 among the activations, also around the images.
    zero: u8,
    /// Set where every channel has a kernel of its own: its form in f32, and that of the machine's own instructions.
    depthwise: Option<ForwardConv>,
    #[cfg(target_arch = "x86_64")]
    columns: Option<depthwise::Columns>,
    /// Steps of a block, and blocks of a window.
    steps: usize,
    blocks: usize,
    /// The images are the matrix of windows already.
    is_matrix: bool,
}

impl Int8Conv {
    /// Whether a convolution can be computed so: not several groups that are not single channels, nor dilated images, nor sums
    /// that could overflow.
    pub fn fits(conv: &ConvGeometry) -> bool {
        let is_plain = conv.input_dilation == [1; 2] && !conv.reversed && (conv.is_depthwise() || conv.groups == 1);
        let most = if conv.is_depthwise() { MOST_EXACT_TERMS } else { MOST_TERMS };
        is_plain && (1..=most).contains(&terms(conv))
    }

    /// Plans the convolution.
    ///
    /// # Panics
    /// When it does not [fit](Int8Conv::fits).
    pub fn new(conv: &ConvGeometry, zero: u8) -> Int8Conv {
        assert!(Int8Conv::fits(conv), "there is no integer kernel for {conv:?}");
        let terms = terms(conv);
        // Blocks that divide a window need no copies of images that are the matrix of windows already.
        let least = terms.div_ceil(MAX_STEPS);
        let blocks = (least..=least + least / 2).find(|blocks| terms.is_multiple_of(4 * blocks)).unwrap_or(least);
        let steps = terms.div_ceil(blocks).next_multiple_of(4);
        let single = conv.kernel == [1; 2] && conv.stride == [1; 2] && conv.pad_low == [0; 2];
        Int8Conv {
            zero,
            depthwise: conv.is_depthwise().then(|| ForwardConv::new(conv)),
            #[cfg(target_arch = "x86_64")]
            columns: depthwise::Columns::new(conv).filter(|_| conv.is_depthwise()),
            steps,
            blocks,
            is_matrix: single && conv.input == conv.output && blocks * steps == terms,
            conv: conv.clone(),
        }
    }

    /// Bytes of the packed weights.
    pub fn packed_len(&self, machine: &Machine) -> usize {
        #[cfg(target_arch = "x86_64")]
        if let Some(columns) = self.columns(machine) {
            return columns.packed_len(&self.conv);
        }
        match &self.depthwise {
            Some(depthwise) => 4 * depthwise.packed_f32_len(machine),
            None => self.panels() * (4 * COLUMNS + self.blocks * BLOCK_LEN),
        }
    }

    /// Packs weights to be used again and again.
    ///
    /// # Panics
    /// When a slice does not have the size of the geometry.
    pub fn pack(&self, machine: &Machine, w: Weights<'_, i8>, packed: &mut [u8]) {
        assert_eq!(packed.len(), self.packed_len(machine), "the packed weights must have their size");
        #[cfg(target_arch = "x86_64")]
        if let Some(columns) = self.columns(machine) {
            return columns.pack(self, w, packed);
        }
        match &self.depthwise {
            Some(depthwise) => depthwise.pack_int8(machine, w, bytemuck::cast_slice_mut(packed)),
            None => pack::pack(machine, self, w, packed),
        }
    }

    /// Computes the convolution with packed weights. `finished` takes the sums of every block of whole pixels, with the index of
    /// its first element: they are nowhere else.
    ///
    /// # Panics
    /// When a slice does not have the size of the geometry.
    pub fn run(&self, machine: &Machine, x: &[u8], packed: &[u8], finished: &Epilogue<'_>) {
        assert_eq!(x.len(), self.conv.input_len(), "the input's size must match {:?}", self.conv);
        assert_eq!(packed.len(), self.packed_len(machine), "the packed weights must have their size");
        if self.conv.output_len() == 0 {
            return;
        }
        #[cfg(target_arch = "x86_64")]
        if let Some(columns) = self.columns(machine) {
            // SAFETY: the machine has the instructions.
            return unsafe { columns.run(machine, self, x, packed, finished) };
        }
        if let Some(depthwise) = &self.depthwise {
            return depthwise.run_int8(machine, x, self.zero, bytemuck::cast_slice(packed), finished);
        }
        match self.cuts_channels(machine) {
            true => self.run_panels(machine, x, packed, finished),
            false => self.run_chunks(machine, x, packed, finished),
        }
    }

    /// How depthwise convolutions are computed where the machine has instructions for it.
    #[cfg(target_arch = "x86_64")]
    fn columns(&self, machine: &Machine) -> Option<&depthwise::Columns> {
        self.columns.as_ref().filter(|_| machine.simd.int8() >= Int8Unit::Vnni)
    }

    fn panels(&self) -> usize {
        self.conv.out_channels.div_ceil(COLUMNS)
    }

    fn pixels(&self) -> usize {
        self.conv.batch * self.conv.output[0] * self.conv.output[1]
    }

    /// Whether weights take longer to read than the few pixels to multiply, so that each job should read its own.
    fn cuts_channels(&self, machine: &Machine) -> bool {
        const FEW_PIXELS: usize = 512;
        let weights = self.panels() * self.blocks * BLOCK_LEN;
        let threads = machine.pool.threads();
        threads > 1 && self.pixels() <= FEW_PIXELS && weights > second_level_bytes() / 4 && self.panels() >= threads
    }

    /// Jobs that differ in their pixels. Groups of squares have their sums taken while they are in the cache.
    fn run_chunks(&self, machine: &Machine, x: &[u8], packed: &[u8], finished: &Epilogue<'_>) {
        let (pixels, outputs) = (self.pixels(), self.conv.out_channels);
        let (each, group) = (self.chunk_pixels(machine), ROWS * self.group());
        machine.pool.run(pixels.div_ceil(each), &|chunk| {
            let pixels = chunk * each..((chunk + 1) * each).min(pixels);
            scratch::borrow(group.min(pixels.len()) * outputs, |sums: &mut [f32]| {
                for first in pixels.clone().step_by(group) {
                    let pixels = first..(first + group).min(pixels.end);
                    let sums = &mut sums[..pixels.len() * outputs];
                    self.multiply(machine, x, packed, pixels, 0..self.panels(), Shared(sums.as_mut_ptr()));
                    finished(first * outputs, sums);
                }
            });
        });
    }

    /// Whether weights do not stay in the second-level cache.
    fn streams(&self) -> bool {
        self.panels() * self.blocks * BLOCK_LEN > second_level_bytes() / 2
    }

    /// Squares whose windows are laid out together, and whose sums wait for each other: few, so that all of it stays near, but
    /// weights that come from far away are read for many.
    fn group(&self) -> usize {
        const SUMS: usize = 12 * 1024;
        let fits = second_level_bytes() / 2 / (ROWS * self.blocks * self.steps);
        let wanted = if self.streams() { GROUP } else { SUMS / (ROWS * self.conv.out_channels) };
        wanted.min(fits).clamp(1, GROUP)
    }

    /// Pixels of a chunk. Weights that do not stay in the cache are read for more pixels at a time.
    fn chunk_pixels(&self, machine: &Machine) -> usize {
        const SUMS: usize = 32 * 1024;
        const STREAMING: usize = 256;
        let (pixels, threads) = (self.pixels(), machine.pool.threads());
        let wanted = (SUMS / self.conv.out_channels).max(if self.streams() { STREAMING } else { ROWS });
        let chunks = pixels.div_ceil(wanted.next_multiple_of(ROWS)).next_multiple_of(threads);
        pixels.div_ceil(chunks).next_multiple_of(ROWS)
    }

    /// Jobs that differ in their output channels, and then those that take the sums.
    fn run_panels(&self, machine: &Machine, x: &[u8], packed: &[u8], finished: &Epilogue<'_>) {
        let (pixels, outputs, threads) = (self.pixels(), self.conv.out_channels, machine.pool.threads());
        let each = self.panels().div_ceil(threads);
        scratch::borrow(pixels * outputs, |sums: &mut [f32]| {
            let target = Shared(sums.as_mut_ptr());
            machine.pool.run(self.panels().div_ceil(each), &|job| {
                let panels = job * each..((job + 1) * each).min(self.panels());
                self.multiply(machine, x, packed, 0..pixels, panels, target);
            });
            let each = pixels.div_ceil(threads);
            machine.pool.run(pixels.div_ceil(each), &|share| {
                let (first, end) = (share * each * outputs, ((share + 1) * each).min(pixels) * outputs);
                // SAFETY: shares are disjoint, and all sums are there.
                finished(first, unsafe { std::slice::from_raw_parts_mut(target.at(first), end - first) });
            });
        });
    }

    /// Some output channels of some pixels; the first pixel's sums begin at `sums`.
    fn multiply(
        &self,
        machine: &Machine,
        x: &[u8],
        packed: &[u8],
        pixels: Range<usize>,
        panels: Range<usize>,
        sums: Shared<f32>,
    ) {
        let unit = Unit::configure(machine.simd, self.blocks, self.steps);
        let (starts, weights) = packed.split_at(4 * COLUMNS * self.panels());
        let starts: &[i32] = bytemuck::cast_slice(starts);
        let (row_len, outputs) = (self.blocks * self.steps, self.conv.out_channels);
        let group = self.group().min(pixels.len().div_ceil(ROWS));
        let parts = self.blocks.min(unit.blocks_at_once());
        scratch::borrow(group * ROWS * row_len + unfold::BEHIND, |rows: &mut [u8]| {
            scratch::borrow(group * SQUARE, |products: &mut [i32]| {
                for first in pixels.clone().step_by(group * ROWS) {
                    let group = first..(first + group * ROWS).min(pixels.end);
                    let windows = self.windows(x, group.clone(), rows);
                    let squares = || group.clone().step_by(ROWS).enumerate();
                    for panel in panels.clone() {
                        let weights = &weights[panel * self.blocks * BLOCK_LEN..][..self.blocks * BLOCK_LEN];
                        let starts = &starts[panel * COLUMNS..][..COLUMNS];
                        let columns = panel * COLUMNS..((panel + 1) * COLUMNS).min(outputs);
                        let sums_of =
                            |first: usize| (sums.at((first - pixels.start) * outputs + columns.start), outputs);
                        let live = |first: usize| ROWS.min(group.end - first);
                        let all_stored = squares().all(|(square, first)| {
                            let sizes = [self.steps, live(first), columns.len()];
                            // SAFETY: as below.
                            unsafe {
                                unit.finished_square(
                                    windows.row(square * ROWS),
                                    row_len,
                                    weights,
                                    sizes,
                                    starts,
                                    sums_of(first),
                                )
                            }
                        });
                        if all_stored {
                            continue;
                        }
                        for part in (0..self.blocks).step_by(parts) {
                            let part = part..(part + parts).min(self.blocks);
                            let b = &weights[part.start * BLOCK_LEN..part.end * BLOCK_LEN];
                            for ((square, first), c) in squares().zip(products.chunks_exact_mut(SQUARE)) {
                                let a = windows.row(square * ROWS).wrapping_add(part.start * self.steps);
                                let sizes = [self.steps, live(first), columns.len()];
                                // SAFETY: 32 rows lie behind `a`: those of the image, or copies with room for as many.
                                unsafe { unit.square(a, row_len, b, sizes, part.start > 0, c) };
                            }
                        }
                        // What a unit has just written cannot be read at once, so that the others come in between.
                        for ((_, first), c) in squares().zip(products.chunks_exact(SQUARE)) {
                            let (sizes, (to, stride)) = ([live(first), columns.len()], sums_of(first));
                            // SAFETY: these channels of these pixels are this job's own.
                            unsafe { tile::store(machine.simd, c, starts, sizes, to, stride) };
                        }
                    }
                }
            });
        });
    }
}

/// Terms of each sum.
fn terms(conv: &ConvGeometry) -> usize {
    conv.kernel[0] * conv.kernel[1] * conv.group_inputs()
}

/// Squares whose windows are laid out together: a panel of weights is read once for them.
const GROUP: usize = 8;
