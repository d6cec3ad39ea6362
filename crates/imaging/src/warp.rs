//! Projective motions of images onto a canvas of another size, with bilinear interpolation.

use crate::Image;

/// A 3×3 matrix, row by row, over homogeneous coordinates of pixels.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Projection(pub [[f64; 3]; 3]);

impl Projection {
    /// Nothing moves.
    pub const IDENTITY: Projection = Projection([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]);

    /// First `other`, then this one.
    pub fn after(&self, other: &Projection) -> Projection {
        let entry = |row: usize, column: usize| (0..3).map(|k| self.0[row][k] * other.0[k][column]).sum();
        Projection(std::array::from_fn(|row| std::array::from_fn(|column| entry(row, column))))
    }

    /// Where a point goes.
    pub fn apply(&self, x: f64, y: f64) -> (f64, f64) {
        let [a, b, c] = self.0.map(|row| row[0] * x + row[1] * y + row[2]);
        (a / c, b / c)
    }

    /// The motion back; nothing when this one flattens the plane.
    pub fn inverse(&self) -> Option<Projection> {
        let m = &self.0;
        let minor = |r: usize, c: usize| {
            let rows = [(r + 1) % 3, (r + 2) % 3];
            let columns = [(c + 1) % 3, (c + 2) % 3];
            m[rows[0]][columns[0]] * m[rows[1]][columns[1]] - m[rows[0]][columns[1]] * m[rows[1]][columns[0]]
        };
        let determinant: f64 = (0..3).map(|c| m[0][c] * minor(0, c)).sum();
        let inverse = || std::array::from_fn(|row| std::array::from_fn(|column| minor(column, row) / determinant));
        (determinant.abs() > 1e-12).then(|| Projection(inverse()))
    }

    /// Neither rotation nor shear nor perspective.
    fn is_upright(&self) -> bool {
        let m = &self.0;
        m[0][1] == 0.0 && m[1][0] == 0.0 && m[2] == [0.0, 0.0, 1.0]
    }
}

/// Moves an image by `motion` (old coordinates to new ones) onto a canvas of that size; what was outside gets `fill`.
/// Pixel (0, 0) lies at the coordinates (0, 0), as in OpenCV.
pub fn warp(image: &Image<u8>, motion: &Projection, height: usize, width: usize, fill: u8) -> Image<u8> {
    let mut output = Image::filled(height, width, image.channels(), fill);
    let Some(back) = motion.inverse() else { return output };
    if back.is_upright() {
        upright(image, &back, &mut output, fill);
        return output;
    }
    let channels = image.channels();
    for row in 0..height {
        for (column, pixel) in output.row_mut(row).chunks_exact_mut(channels).enumerate() {
            let (x, y) = back.apply(column as f64, row as f64);
            let (x, y) = (Tap::new(x, image.width()), Tap::new(y, image.height()));
            if let (Some(x), Some(y)) = (x, y) {
                let rows = y.index.map(|row| row.map(|row| image.row(row)));
                blend(pixel, rows, x, y.share, channels, fill);
            }
        }
    }
    output
}

/// The two pixels that a coordinate lies between, where they exist, and the share of the second one.
#[derive(Clone, Copy)]
struct Tap {
    index: [Option<usize>; 2],
    share: f32,
}

impl Tap {
    /// Nothing when both pixels are outside.
    fn new(position: f64, length: usize) -> Option<Tap> {
        let low = position.floor();
        let at = |position: f64| (position >= 0.0 && position < length as f64).then_some(position as usize);
        let index = [at(low), at(low + 1.0)];
        (index != [None; 2]).then_some(Tap { index, share: (position - low) as f32 })
    }
}

/// Columns have the same taps in every row.
fn upright(image: &Image<u8>, back: &Projection, output: &mut Image<u8>, fill: u8) {
    let m = &back.0;
    let columns: Vec<Option<Tap>> =
        (0..output.width()).map(|column| Tap::new(m[0][0] * column as f64 + m[0][2], image.width())).collect();
    let channels = image.channels();
    for row in 0..output.height() {
        let Some(y) = Tap::new(m[1][1] * row as f64 + m[1][2], image.height()) else { continue };
        let rows = y.index.map(|row| row.map(|row| image.row(row)));
        let inside = match rows {
            [Some(upper), Some(lower)] if channels == 3 => Some((upper, lower)),
            _ => None,
        };
        for (pixel, x) in output.row_mut(row).chunks_exact_mut(channels).zip(&columns) {
            let Some(x) = x else { continue };
            if let (Some((upper, lower)), [Some(first), Some(_)]) = (inside, x.index) {
                blend_inside(pixel, [&upper[3 * first..][..6], &lower[3 * first..][..6]], x.share, y.share);
            } else {
                blend(pixel, rows, *x, y.share, channels, fill);
            }
        }
    }
}

/// The weighted mean of four pixels of three channels that all exist: two neighbors in each of two rows.
#[inline]
fn blend_inside(pixel: &mut [u8], [upper, lower]: [&[u8]; 2], share_x: f32, share_y: f32) {
    for channel in 0..3 {
        let along = |row: &[u8]| {
            let (first, second) = (f32::from(row[channel]), f32::from(row[channel + 3]));
            first + share_x * (second - first)
        };
        let (upper, lower) = (along(upper), along(lower));
        pixel[channel] = (upper + share_y * (lower - upper) + 0.5) as u8;
    }
}

/// The weighted mean of four pixels; those outside are `fill`.
#[inline]
fn blend(pixel: &mut [u8], rows: [Option<&[u8]>; 2], x: Tap, share_y: f32, channels: usize, fill: u8) {
    for (channel, value) in pixel.iter_mut().enumerate() {
        let at = |row: Option<&[u8]>, column: Option<usize>| match (row, column) {
            (Some(row), Some(column)) => f32::from(row[column * channels + channel]),
            _ => f32::from(fill),
        };
        let along = |row| {
            let (first, second) = (at(row, x.index[0]), at(row, x.index[1]));
            first + x.share * (second - first)
        };
        let (upper, lower) = (along(rows[0]), along(rows[1]));
        *value = (upper + share_y * (lower - upper) + 0.5) as u8;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shift_by_whole_pixels_copies() {
        let image = Image::from_fn(4, 5, 3, |row, column, channel| (row * 50 + column * 7 + channel) as u8);
        let shift = Projection([[1.0, 0.0, 2.0], [0.0, 1.0, 1.0], [0.0, 0.0, 1.0]]);
        let moved = warp(&image, &shift, 6, 8, 114);
        assert_eq!(moved.pixel(1, 2), image.pixel(0, 0));
        assert_eq!(moved.pixel(4, 6), image.pixel(3, 4));
        assert_eq!(moved.pixel(0, 0), [114; 3]);
    }

    #[test]
    fn rotated_and_upright_motions_agree_where_both_apply() {
        let image = Image::from_fn(9, 9, 1, |row, column, _| (row * 20 + column * 3) as u8);
        let upright = Projection([[1.5, 0.0, -1.0], [0.0, 0.75, 0.5], [0.0, 0.0, 1.0]]);
        // A rotation that rounding does not let see.
        let slanted = Projection([[1.5, 1e-9, -1.0], [1e-9, 0.75, 0.5], [0.0, 0.0, 1.0]]);
        let (a, b) = (warp(&image, &upright, 8, 12, 0), warp(&image, &slanted, 8, 12, 0));
        let difference = a.values().iter().zip(b.values()).map(|(a, b)| a.abs_diff(*b)).max();
        assert!(difference.is_some_and(|difference| difference <= 1), "{difference:?}");
    }

    #[test]
    fn a_motion_and_its_inverse_lead_back() {
        let motion = Projection([[1.2, 0.1, 3.0], [-0.2, 0.9, 4.0], [1e-4, 2e-4, 1.0]]);
        let (x, y) = motion.inverse().unwrap().after(&motion).apply(7.0, 5.0);
        assert!((x - 7.0).abs() < 1e-9 && (y - 5.0).abs() < 1e-9);
    }
}
