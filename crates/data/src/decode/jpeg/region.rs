//! The part of an image that is decoded, in whole units of blocks.

use super::header::{Component, Frame};
use octant_imaging::geometry::PixelWindow;
use std::ops::Range;

/// Pixels beside a window that interpolated chroma reads: one of a component that is half as fine.
const MARGIN: usize = 2;

/// A window of an image and the units that its pixels come from.
pub(super) struct Region {
    pub window: PixelWindow,
    /// Units across and down.
    units: [Range<usize>; 2],
    /// Whether units below the region are left out.
    pub ends_early: bool,
    finest: [usize; 2],
}

impl Region {
    pub fn new(frame: &Frame, window: PixelWindow) -> Region {
        let along = |axis: usize, start: usize, length: usize| {
            let side = 8 * frame.finest[axis];
            let end = (start + length + MARGIN).div_ceil(side).min(frame.units()[axis]);
            start.saturating_sub(MARGIN) / side..end
        };
        let units = [along(0, window.left, window.width), along(1, window.top, window.height)];
        let ends_early = units[1].end < frame.units()[1];
        Region { window, units, ends_early, finest: frame.finest }
    }

    /// Columns and rows of a component's blocks that are needed.
    pub fn blocks(&self, component: &Component) -> [Range<usize>; 2] {
        [0, 1].map(|axis| {
            let Range { start, end } = self.units[axis];
            start * component.sampling[axis]..end * component.sampling[axis]
        })
    }

    /// The first column of the region, in pixels of the image.
    pub fn left(&self) -> usize {
        8 * self.finest[0] * self.units[0].start
    }
}
