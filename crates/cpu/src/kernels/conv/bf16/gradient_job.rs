//! One job of the gradient: both sides of a block of pixels brought into the order of the tiles.

use super::super::ConvGeometry;
use super::gradient_shifted::ShiftedSweep;
use crate::simd::Simd;
use std::ops::Range;

/// Some input and output channels of a slice.
pub(super) struct Job<'a> {
    pub simd: Simd,
    pub conv: &'a ConvGeometry,
    pub inputs: Range<usize>,
    pub outputs: Range<usize>,
    /// Taps, and channels rounded up to whole tiles.
    pub padded: [usize; 3],
    pub x: *const u16,
    pub dy: *const u16,
    pub dw: *mut f32,
}

impl Job<'_> {
    /// Where the pixel of each position lies in the input; `zeros` outside.
    pub fn input_pointers(
        &self,
        sweep: &ShiftedSweep,
        spans: Range<usize>,
        class: usize,
        zeros: *const u16,
        pointers: &mut [*const u16],
    ) {
        let (vertical, horizontal) = (&sweep.sweep.vertical, &sweep.sweep.horizontal);
        let [first_row, first_column] = sweep.classes[class].map(|first| first as i64);
        let [height, width] = self.conv.input;
        let mut slots = pointers.iter_mut();
        for (image, rows) in spans.map(|span| sweep.span(span)) {
            for row in rows.start..rows.end + sweep.extra_rows {
                let line = vertical.origin(row) + first_row;
                let inside = (0..vertical.input).contains(&line);
                let line = (image * height + line.max(0) as usize) * width;
                for (column, slot) in (0..sweep.width).zip(&mut slots) {
                    let at = horizontal.origin(column) + first_column;
                    *slot = match inside && (0..horizontal.input).contains(&at) {
                        true => self.x.wrapping_add((line + at as usize) * self.conv.in_channels),
                        false => zeros,
                    };
                }
            }
        }
        slots.for_each(|slot| *slot = zeros);
    }

    /// Where the gradient of each position lies; `zeros` where there is no output.
    pub fn gradient_pointers(
        &self,
        sweep: &ShiftedSweep,
        spans: Range<usize>,
        zeros: *const u16,
        pointers: &mut [*const u16],
    ) {
        let (vertical, horizontal) = (&sweep.sweep.vertical, &sweep.sweep.horizontal);
        let mut slots = pointers.iter_mut();
        for (image, rows) in spans.map(|span| sweep.span(span)) {
            for row in rows.start..rows.end + sweep.extra_rows {
                let line = image * self.conv.output[0] + vertical.first + row * vertical.step;
                for (column, slot) in (0..sweep.width).zip(&mut slots) {
                    let pixel = line * self.conv.output[1] + horizontal.first + column * horizontal.step;
                    *slot = match row < rows.end && column < horizontal.count {
                        true => self.dy.wrapping_add(pixel * self.conv.out_channels),
                        false => zeros,
                    };
                }
            }
        }
        slots.for_each(|slot| *slot = zeros);
    }
}
