//! Where the tiles of a convolution lie, counted row by row through all images.

use super::transform::{Line, Planes, Strip, TILE};
use crate::kernels::conv::ConvGeometry;
use std::ops::Range;

/// The tiles of all images.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tiles {
    pub batch: usize,
    /// Rows of tiles in an image, and tiles in a row.
    pub grid: [usize; 2],
    output: [usize; 2],
    input: [usize; 2],
    pad_low: [i64; 2],
}

/// Images and their channels.
#[derive(Clone, Copy)]
pub(super) struct Images {
    pub first: *mut f32,
    pub channels: usize,
}

impl Tiles {
    pub fn new(conv: &ConvGeometry) -> Tiles {
        let grid = conv.output.map(|extent| extent.div_ceil(TILE as usize));
        Tiles { batch: conv.batch, grid, output: conv.output, input: conv.input, pad_low: conv.pad_low }
    }

    /// Rows of tiles in all images.
    pub fn rows(&self) -> usize {
        self.batch * self.grid[0]
    }

    /// The first line of the output that belongs to a row of tiles, counted through all images.
    pub fn output_line(&self, row: usize) -> usize {
        row / self.grid[0] * self.output[0] + row % self.grid[0] * TILE as usize
    }

    /// Calls `visit` with each row of tiles that `range` touches: the row, the first tile in it, how many tiles, and how
    /// many tiles of the range came before.
    pub fn strips(&self, range: Range<usize>, mut visit: impl FnMut(usize, usize, usize, usize)) {
        let width = self.grid[1];
        let mut at = range.start;
        while at < range.end {
            let (row, column) = (at / width, at % width);
            let tiles = (width - column).min(range.end - at);
            visit(row, column, tiles, at - range.start);
            at += tiles;
        }
    }

    /// The windows of some tiles.
    pub fn windows(
        &self,
        x: Images,
        outside: *mut f32,
        range: Range<usize>,
        planes: Planes,
        visit: impl Fn(&Strip<4>),
    ) {
        let step = [0, 1].map(|axis| -self.pad_low[axis]);
        self.visit(self.input, step, x, outside, range, planes, visit);
    }

    /// The pixels of some tiles themselves.
    pub fn outputs(
        &self,
        y: Images,
        outside: *mut f32,
        range: Range<usize>,
        planes: Planes,
        visit: impl Fn(&Strip<2>),
    ) {
        self.visit(self.output, [0; 2], y, outside, range, planes, visit);
    }

    fn visit<const N: usize>(
        &self,
        extents: [usize; 2],
        origin: [i64; 2],
        images: Images,
        outside: *mut f32,
        range: Range<usize>,
        planes: Planes,
        visit: impl Fn(&Strip<N>),
    ) {
        let Images { first, channels } = images;
        self.strips(range, |row, column, tiles, before| {
            let (image, row) = (row / self.grid[0], row % self.grid[0]);
            let line = |index: usize| {
                let at = origin[0] + row as i64 * TILE + index as i64;
                let start = |at: i64| (image * extents[0] + at as usize) * extents[1] * channels;
                match (0..extents[0] as i64).contains(&at) {
                    true => Line { first: first.wrapping_add(start(at)), step: channels as isize },
                    false => Line { first: outside, step: 0 },
                }
            };
            visit(&Strip {
                lines: std::array::from_fn(line),
                width: extents[1] as i64,
                column: origin[1] + column as i64 * TILE,
                tiles,
                channels,
                outside,
                planes: planes.at_tile(before),
            });
        });
    }
}
