//! Plain 3×3 convolutions of few channels, where cuDNN leaves the tensor cores idle, and the gradients of kernels. Numbers are
//! rounded to the 11 bits of TF32, but multiplied as scaled f16 numbers, which is twice as fast, and summed in f32.
//!
//! Measured on an H200 at batch 32, in µs against cuDNN's: 16→16 at 256² 82 against 283, the gradient of the kernel 75
//! against 698; 48→16 203 against 651, 148 against 1,344; 32→32 at 128² 52 against 82 (forward) and 89 (backward), 51
//! against 382; 96→32 123 against 230; the gradient at 64→64, 64² 49 against 108, at 128→128, 32² 50 against 73, at 256→256,
//! 16² 53 against 71. Products alone, without any memory, would reach 603 TFLOP/s; the gradients reach 125 to 250.

use crate::call::{Call, enough};
use crate::compiler::{Source, source};
use crate::driver::Grid;
use crate::window::{Images, Window};

/// Channels come in blocks.
const BLOCK: i64 = 16;
/// Warps of a block of the convolution.
const WARPS: i64 = 4;
/// Bytes that a warp's lanes copy at once.
const COPY: i64 = 32 * 16;
/// Pixels that a warp of the gradient takes at once.
const COLUMN: i64 = 16;
/// What is left of shared memory, at its alignment.
const ALIGNMENT: i64 = 16;
/// Processors of a large GPU.
const PROCESSORS: i64 = 132;

/// `(input, kernel) -> output`, and the gradient with respect to the input.
///
/// More operands follow, in this order: factors and offsets if the input is to be rectified; the second input of joined
/// convolutions, or the second array of an input that lies in two; the pointwise kernel of joined and split ones; for the cotangent of a rectified norm what was normalized, the
/// norm's factors and offsets, and the offsets that move what was normalized to its center. More results: the output of
/// the split pointwise convolution; the moments of all outputs, `[images, parts, 4, channels]`: count, shift, the sums of
/// distances from the shift and of their squares; of a cotangent `[images, parts, 2, channels]`: its sums, and those
/// of its products with what was normalized, moved.
pub struct Convolution;

/// Whether a convolution tells sums of what it makes.
fn tells(window: &Window) -> bool {
    window.moments + window.cotangent > 0
}

/// How a convolution is cut: what was fastest.
struct Tile {
    /// Output channels of a block.
    outputs: i64,
    /// Columns of pixels of a warp, in eights.
    eights: i64,
    /// Rows under way.
    stages: i64,
    /// Blocks that share a processor.
    resident: i64,
}

impl Tile {
    fn of(window: &Window) -> Tile {
        match (window.inputs, window.outputs) {
            // All weights stay in registers.
            (BLOCK, BLOCK) => Tile { outputs: 16, eights: 2, stages: 3, resident: 4 },
            (BLOCK, outputs) if outputs % 48 == 0 => Tile { outputs: 48, eights: 4, stages: 4, resident: 2 },
            (32, outputs) if outputs % 48 == 0 => Tile { outputs: 48, eights: 4, stages: 3, resident: 2 },
            (_, outputs) if outputs % 32 == 0 => Tile { outputs: 32, eights: 4, stages: 3, resident: 2 },
            _ => Tile { outputs: 16, eights: 4, stages: 3, resident: 3 },
        }
    }

    /// The columns that images are cut into, side by side.
    fn across(&self, width: i64) -> i64 {
        enough(width, 8 * self.eights).into()
    }

    /// The bands that images are cut into, one below the other: those with which the last blocks end soonest, when each
    /// row costs the same and so do the rows that a band shares with its neighbors.
    fn bands(&self, window: &Window, columns: i64, height: i64) -> i64 {
        let at_once = PROCESSORS * self.resident * WARPS;
        let cost = |rows: i64| {
            let warps = columns * i64::from(enough(height, rows)) * (window.outputs / self.outputs);
            i64::from(enough(warps, at_once)) * (rows + window.side - 1)
        };
        let rows = [8, 16, 32].into_iter().min_by_key(|&rows| cost(rows)).unwrap_or(16);
        enough(height, rows).into()
    }
}

impl Call for Convolution {
    const NAME: &'static str = "octant.convolution";
    const SOURCE: Source = source!("convolution.cu", c"octant_convolution");
    const GRADIENT: bool = false;

    fn operands(window: &Window) -> [usize; 2] {
        let operands =
            2 + 2 * window.rectified + 2 * window.joined + window.others() + window.split + 4 * window.cotangent;
        [operands as usize, ((1 + window.split) * (1 + window.moments) + window.cotangent) as usize]
    }

    fn defines(window: &Window) -> Vec<String> {
        let Tile { outputs, eights, stages, resident } = Tile::of(window);
        let numbers = [
            ("SIDE", window.side),
            ("INPUTS", window.inputs),
            ("OUTPUTS", outputs),
            ("EIGHTS", eights),
            ("STAGES", stages),
            ("RESIDENT", resident),
            ("WARPS", WARPS),
            ("TURNED", window.turned),
            ("SPLIT", window.split),
            ("JOINED", window.joined),
            ("RECTIFIED", window.rectified),
            ("MOMENTS", window.moments),
            ("COTANGENT", window.cotangent),
            ("APART", window.apart),
        ];
        numbers.map(|(name, value)| format!("{name}={value}")).to_vec()
    }

    /// The weights in f16, and for every warp a ring of rows of 16 channels as they come, and one in f16.
    fn shared(window: &Window) -> u32 {
        let Tile { outputs, eights, stages, .. } = Tile::of(window);
        let taps = window.side * window.side + (window.split + window.joined);
        let weights = 2 * taps * window.inputs * outputs;
        let copies = (8 * eights + window.side - 1 + 7) / 8;
        let factors = 2 * 4 * window.inputs;
        (weights + WARPS * (stages * COPY + COPY / 2) * copies + factors + ALIGNMENT) as u32
    }

    /// Every warp writes a part of the sums: columns that did not divide them would leave some unwritten.
    fn check(window: &Window, &[_, _, width, _]: &Images, parts: i64) -> Result<(), String> {
        let across = Tile::of(window).across(width);
        match !tells(window) || parts % across == 0 {
            true => Ok(()),
            false => Err(format!("sums in {parts} parts do not fall into {across} columns of pixels")),
        }
    }

    fn grid(window: &Window, _: &Images, output: &Images, parts: i64) -> Grid {
        let [images, height, width, _] = *output;
        let tile = Tile::of(window);
        let across = tile.across(width);
        let columns = images * across;
        // Whoever asks for sums says in how many parts, every warp's being one of them.
        let bands = if tells(window) { (parts / across).max(1) } else { tile.bands(window, columns, height) };
        let blocks = [enough(columns, WARPS), (window.outputs / tile.outputs) as u32, bands as u32];
        Grid { blocks, threads: [32, WARPS as u32] }
    }
}

/// `(input, cotangent) -> sums`, the kernel's gradient in parts.
///
/// More operands follow: factors and offsets if the input is to be rectified; the second array of an input that lies in two; the
/// cotangent of the pointwise convolution of
/// split ones, which has sums of its own.
pub struct Gradient;

/// Blocks of input and of output channels that the warps of one block own, and warps that share their pixels.
fn shares(window: &Window) -> [i64; 3] {
    let inputs = [2, 3].into_iter().find(|pairs| window.inputs % (pairs * BLOCK) == 0).unwrap_or(1);
    let outputs = if window.outputs % (2 * BLOCK) == 0 { 2 } else { 1 };
    [inputs, outputs, (4 / (inputs * outputs)).max(1)]
}

impl Call for Gradient {
    const NAME: &'static str = "octant.convolution_gradient";
    const SOURCE: Source = source!("convolution_gradient.cu", c"octant_convolution_gradient");
    const GRADIENT: bool = true;

    fn operands(window: &Window) -> [usize; 2] {
        [(2 + 2 * window.rectified + window.others() + window.split) as usize, (1 + window.split) as usize]
    }

    fn defines(window: &Window) -> Vec<String> {
        let [inputs, outputs, shares] = shares(window);
        // Registers suffice for twelve warps; those that share pixels copy more and need more.
        let resident = if shares == 1 { 12 / (inputs * outputs) } else { 2 };
        let numbers = [
            ("SIDE", window.side),
            ("INPUT_PAIRS", inputs),
            ("OUTPUT_PAIRS", outputs),
            ("SHARES", shares),
            ("RESIDENT", resident),
            ("SPLIT", window.split),
            ("RECTIFIED", window.rectified),
            ("APART", window.others() * window.apart),
        ];
        numbers.map(|(name, value)| format!("{name}={value}")).to_vec()
    }

    /// A ring of three times two rows of the input and of the cotangents as they come, and twice two in f16.
    fn shared(window: &Window) -> u32 {
        let [inputs, outputs, shares] = shares(window);
        let width = COLUMN * shares;
        let row = |pixels: i64, channels: i64| 6 * pixels * channels * 4 + 4 * pixels * (channels + 8) * 2;
        let cotangents = (1 + window.split) * row(width, BLOCK * outputs);
        let factors = 2 * 4 * BLOCK * inputs;
        (row(width + window.side - 1, BLOCK * inputs) + cotangents + factors + ALIGNMENT) as u32
    }

    fn grid(window: &Window, _: &Images, _: &Images, parts: i64) -> Grid {
        let [inputs, outputs, shares] = shares(window);
        let blocks = window.inputs / (BLOCK * inputs) * (window.outputs / (BLOCK * outputs));
        Grid { blocks: [blocks as u32, parts as u32, 1], threads: [32, (inputs * outputs * shares) as u32] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::window::tests::plain;

    #[test]
    fn the_warps_of_a_block_own_different_channels_as_far_as_there_are_any() {
        let grid = |inputs, outputs| {
            let grid = Gradient::grid(&plain(3, 32, inputs, outputs), &[0; 4], &[0; 4], 7);
            (grid.blocks, grid.threads[1])
        };
        assert_eq!(grid(16, 16), ([1, 7, 1], 4));
        assert_eq!(grid(48, 16), ([1, 7, 1], 3));
        assert_eq!(grid(32, 32), ([1, 7, 1], 4));
        assert_eq!(grid(96, 32), ([3, 7, 1], 4));
    }

    #[test]
    fn images_are_cut_so_that_no_processor_waits_long() {
        let grid = |inputs, outputs, size| {
            Convolution::grid(&plain(3, 32, inputs, outputs), &[0; 4], &[32, size, size, outputs], 1).blocks
        };
        assert_eq!(grid(16, 16, 256), [128, 1, 8]);
        assert_eq!(grid(16, 48, 256), [64, 1, 8]);
        assert_eq!(grid(48, 16, 256), [64, 1, 16]);
        assert_eq!(grid(32, 32, 128), [32, 1, 8]);
        assert_eq!(grid(32, 64, 64), [16, 2, 8]);
    }

    /// What every GPU that runs these kernels gives a block.
    const SHARED: u32 = 99 << 10;

    #[test]
    fn weights_and_rows_fit_into_shared_memory() {
        let channels = || (1..=6).map(|blocks| BLOCK * blocks);
        let all = channels().flat_map(|inputs| channels().map(move |outputs| (inputs, outputs)));
        for (inputs, outputs) in all.filter(|&(inputs, outputs)| inputs.min(outputs) <= 64) {
            let window = plain(3, 32, inputs, outputs);
            for shared in [window, Window { split: 1, ..window }].map(|window| Convolution::shared(&window)) {
                assert!(shared <= SHARED, "{inputs}→{outputs}: {shared}");
                // A block takes a kilobyte for itself.
                assert!(Tile::of(&window).resident as u32 * (shared + 1024) <= 227 << 10);
            }
        }
        for (inputs, outputs) in [(16, 16), (16, 32), (48, 16), (32, 32), (48, 32), (112, 16), (256, 256)] {
            let window = plain(3, 32, inputs, outputs);
            let shared = Gradient::shared(&window);
            assert!(shared <= SHARED, "{inputs}→{outputs}: {shared}");
            let split = Gradient::shared(&Window { split: 1, ..window });
            assert!(shares(&window)[2] > 2 || split <= SHARED, "{inputs}→{outputs}: {split}");
            let [pairs_in, pairs_out, shares] = shares(&window);
            let resident = if shares == 1 { 12 / (pairs_in * pairs_out) } else { 2 } as u32;
            assert!(resident * (shared + 1024) <= 227 << 10, "{inputs}→{outputs}: {shared}");
            assert!(shares > 2 || resident * (split + 1024) <= 227 << 10, "{inputs}→{outputs}: {split}");
        }
    }

    #[test]
    fn moments_come_in_parts_that_warps_make() {
        let check = |inputs, outputs, width, parts| {
            let window = Window { moments: 1, ..plain(3, 32, inputs, outputs) };
            Convolution::check(&window, &[32, 256, width, outputs], parts).is_ok()
        };
        assert!(check(16, 16, 256, 128) && check(32, 32, 131, 40) && check(48, 16, 250, 8));
        assert!(!check(16, 16, 256, 8) && !check(32, 32, 131, 32));
    }
}
