//! Windows as rows of a matrix.

use super::Int8Conv;
use super::tile::ROWS;
use std::ops::Range;

/// Windows, one row of `len` bytes after the other.
pub(super) struct Rows {
    first: *const u8,
    len: usize,
}

impl Rows {
    /// Where a row begins.
    pub fn row(&self, index: usize) -> *const u8 {
        self.first.wrapping_add(index * self.len)
    }
}

/// Bytes that are copied at a time. A copy may run over its end by fewer: what follows is written later.
const WORD: usize = 16;

/// Room behind the last row.
pub(super) const BEHIND: usize = WORD;

impl Int8Conv {
    /// The windows of some pixels, in the image itself or copied to `rows`. Behind the last one there is room for as many rows as
    /// a square has.
    pub(super) fn windows(&self, x: &[u8], pixels: Range<usize>, rows: &mut [u8]) -> Rows {
        let len = self.blocks * self.steps;
        if self.is_matrix && pixels.len().is_multiple_of(ROWS) {
            return Rows { first: x.as_ptr().wrapping_add(pixels.start * len), len };
        }
        match self.is_matrix {
            true => rows[..pixels.len() * len].copy_from_slice(&x[pixels.start * len..pixels.end * len]),
            false => self.unfold(x, pixels, rows),
        }
        Rows { first: rows.as_ptr(), len }
    }

    /// Copies windows, with the number that stands for 0 around the image. What follows the last number of each is multiplied with
    /// zeros.
    fn unfold(&self, x: &[u8], pixels: Range<usize>, rows: &mut [u8]) {
        let conv = &self.conv;
        let [height, width] = conv.output;
        let len = self.blocks * self.steps;
        let (line, mut column) = (pixels.start / width, pixels.start % width);
        let (mut image, mut line) = (line / height, line % height);
        for row in 0..pixels.len() {
            let top = (line * conv.stride[0]) as i64 - conv.pad_low[0];
            let left = (column * conv.stride[1]) as i64 - conv.pad_low[1];
            self.window(x, image, [top, left], &mut rows[row * len..(row + 1) * len + BEHIND]);
            column += 1;
            if column == width {
                (line, column) = (line + 1, 0);
            }
            if line == height {
                (image, line) = (image + 1, 0);
            }
        }
    }

    /// Copies the window that begins at a pixel, which may lie outside.
    fn window(&self, x: &[u8], image: usize, [top, left]: [i64; 2], row: &mut [u8]) {
        let conv = &self.conv;
        let ([height, width], channels) = (conv.input, conv.in_channels);
        let run = conv.kernel[1] * channels;
        let inside = conv.kernel_dilation[1] == 1 && left >= 0 && left as usize + conv.kernel[1] <= width;
        for tap in 0..conv.kernel[0] {
            let (at, line) = (tap * run, top + (tap * conv.kernel_dilation[0]) as i64);
            if !(0..height as i64).contains(&line) {
                row[at..at + run].fill(self.zero);
                continue;
            }
            let line = (image * height + line as usize) * width;
            if inside {
                copy(x, (line + left as usize) * channels, row, at, run);
                continue;
            }
            for tap in 0..conv.kernel[1] {
                let (at, column) = (at + tap * channels, left + (tap * conv.kernel_dilation[1]) as i64);
                match (0..width as i64).contains(&column) {
                    true => copy(x, (line + column as usize) * channels, row, at, channels),
                    false => row[at..at + channels].fill(self.zero),
                }
            }
        }
        let end = conv.kernel[0] * run;
        row[end..self.blocks * self.steps].fill(0);
    }
}

/// Copies a few bytes, word by word where there is room for whole ones: a call of the C library would take longer.
#[inline(always)]
fn copy(from: &[u8], first: usize, to: &mut [u8], at: usize, len: usize) {
    let whole = len.next_multiple_of(WORD);
    match (from.get(first..first + whole), to.get_mut(at..at + whole)) {
        (Some(from), Some(to)) if len <= 16 * WORD => {
            for (to, from) in to.as_chunks_mut::<WORD>().0.iter_mut().zip(from.as_chunks::<WORD>().0) {
                *to = *from;
            }
        }
        _ => to[at..at + len].copy_from_slice(&from[first..first + len]),
    }
}
