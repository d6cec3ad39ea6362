//! Windows that slide over images at their own scale.

use super::Collect;
use crate::error::{Result, refuse};
use octant_imaging::Image;
use octant_imaging::geometry::{Border, PixelWindow, crop, pad_to};

/// Windows that slide over images at their own scale. Where they overlap, logits are added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlidingWindows {
    pub(super) side: usize,
    pub(super) stride: usize,
}

impl SlidingWindows {
    /// Windows of `side` × `side` pixels, `stride` pixels from each to the next: two thirds of the side if not given.
    pub fn new(side: usize, stride: Option<usize>) -> Result<SlidingWindows> {
        let stride = stride.unwrap_or((side * 2).div_ceil(3));
        if side == 0 || !(1..=side).contains(&stride) {
            refuse!("windows of {side} pixels, one every {stride}, leave pixels out; choose a stride from 1 to {side}");
        }
        Ok(SlidingWindows { side, stride })
    }

    /// Where windows begin along a side; the last one ends with the image.
    fn starts(&self, length: usize) -> Vec<usize> {
        let last = length.saturating_sub(self.side);
        (0..last).step_by(self.stride).chain([last]).collect()
    }

    /// How many windows see each pixel along a side of at least a window's length.
    fn seen(&self, length: usize) -> Vec<f32> {
        let mut seen = vec![0.0; length];
        self.starts(length).iter().for_each(|&start| seen[start..][..self.side].iter_mut().for_each(|n| *n += 1.0));
        seen
    }

    /// The sums of the logits of every pixel of an image, row by row from the top. `run` returns the logits
    /// `[windows, side, side, classes]` of windows. Images that are smaller than a window are mirrored at their edges.
    pub(super) fn slide(
        &self,
        image: &Image<u8>,
        classes: usize,
        mut run: impl FnMut(&[Image<u8>], &mut Collect<'_>) -> Result<()>,
        mut row_of_sums: impl FnMut(&[f32]),
    ) -> Result<()> {
        let side = self.side;
        let filled = pad_to(image, side, side, Border::Reflect);
        let (height, width) = (filled.height(), filled.width());
        let line = width * classes;
        let (tops, lefts) = (self.starts(height), self.starts(width));
        let mut rows_left = image.height();
        // Rows above the next windows are finished.
        let mut sums = vec![0f32; side * line];
        for (number, &top) in tops.iter().enumerate() {
            let window = |&left: &usize| crop(&filled, PixelWindow { top, left, height: side, width: side });
            let windows: Vec<Image<u8>> = lefts.iter().map(window).collect();
            run(&windows, &mut |window, logits| {
                for (row, logits) in logits.chunks_exact(side * classes).enumerate() {
                    let sums = &mut sums[row * line + lefts[window] * classes..][..side * classes];
                    sums.iter_mut().zip(logits).for_each(|(sum, logit)| *sum += logit);
                }
            })?;
            let finished = tops.get(number + 1).map_or(side, |next| next - top);
            for row in sums[..finished * line].chunks_exact(line).take(rows_left) {
                row_of_sums(&row[..image.width() * classes]);
            }
            rows_left = rows_left.saturating_sub(finished);
            sums.copy_within(finished * line.., 0);
            sums[(side - finished) * line..].fill(0.0);
        }
        Ok(())
    }

    /// The mean logits of every pixel.
    pub(super) fn means(
        &self,
        image: &Image<u8>,
        classes: usize,
        run: impl FnMut(&[Image<u8>], &mut Collect<'_>) -> Result<()>,
    ) -> Result<Vec<f32>> {
        let [down, across] = [image.height(), image.width()].map(|length| self.seen(length.max(self.side)));
        let mut means = Vec::with_capacity(image.height() * image.width() * classes);
        let mut row = 0;
        self.slide(image, classes, run, |sums| {
            for (pixel, &across) in sums.chunks_exact(classes).zip(&across) {
                means.extend(pixel.iter().map(|sum| sum / (down[row] * across)));
            }
            row += 1;
        })?;
        Ok(means)
    }
}

#[cfg(test)]
mod tests {
    use super::super::likeliest;
    use super::*;

    /// Synthetic logits of a pixel at a position in a window.
    fn logit(value: u8, [row, column]: [usize; 2], class: usize) -> f32 {
        ((usize::from(value) * (class + 3) + row * 5 + column * (class + 1)) % 17) as f32
    }

    /// Windows as they are, all sums kept.
    fn plainly(image: &Image<u8>, windows: SlidingWindows, classes: usize) -> Vec<u8> {
        let side = windows.side;
        let filled = pad_to(image, side, side, Border::Reflect);
        let mut sums = vec![vec![0f32; classes]; filled.height() * filled.width()];
        for top in windows.starts(filled.height()) {
            for left in windows.starts(filled.width()) {
                for (row, column) in (0..side * side).map(|at| (at / side, at % side)) {
                    let value = filled.pixel(top + row, left + column)[0];
                    let sums = &mut sums[(top + row) * filled.width() + left + column];
                    (0..classes).for_each(|class| sums[class] += logit(value, [row, column], class));
                }
            }
        }
        let at = |row: usize, column: usize| likeliest(&sums[row * filled.width() + column]);
        (0..image.height())
            .flat_map(|row| (0..image.width()).map(move |column| (row, column)))
            .map(|(r, c)| at(r, c))
            .collect()
    }

    #[test]
    fn overlapping_windows_are_added_up_without_keeping_the_whole_image() {
        for ([height, width], side, stride) in [
            ([20, 33], 8, Some(3)),
            ([20, 33], 8, Some(8)),
            ([8, 8], 8, None),
            ([5, 19], 8, Some(5)),
            ([3, 2], 8, None),
            ([64, 9], 7, Some(1)),
        ] {
            let image = Image::from_fn(height, width, 1, |row, column, _| (row * 31 + column * 7) as u8);
            let windows = SlidingWindows::new(side, stride).unwrap();
            let run = |all: &[Image<u8>], add: &mut Collect<'_>| {
                for (number, window) in all.iter().enumerate() {
                    let logits = (0..side * side * 3).map(|at| {
                        let [row, column, class] = [at / 3 / side, at / 3 % side, at % 3];
                        logit(window.pixel(row, column)[0], [row, column], class)
                    });
                    add(number, &logits.collect::<Vec<f32>>());
                }
                Ok(())
            };
            let mut found = Vec::new();
            windows.slide(&image, 3, run, |sums| found.extend(sums.chunks_exact(3).map(likeliest))).unwrap();
            assert_eq!(found, plainly(&image, windows, 3), "{height}×{width}, {side}, {stride:?}");
            // Means are sums divided by how many windows see a pixel.
            let ones = |all: &[Image<u8>], add: &mut Collect<'_>| {
                (0..all.len()).for_each(|number| add(number, &vec![1.0; side * side * 3]));
                Ok(())
            };
            assert_eq!(windows.means(&image, 3, ones).unwrap(), vec![1.0; height * width * 3]);
        }
        assert_eq!(SlidingWindows::new(9, None).unwrap(), SlidingWindows { side: 9, stride: 6 });
        for (side, stride) in [(8, Some(9)), (8, Some(0)), (0, None)] {
            let problem = SlidingWindows::new(side, stride).unwrap_err().to_string();
            assert!(problem.contains("leave pixels out"), "{problem}");
        }
    }
}
