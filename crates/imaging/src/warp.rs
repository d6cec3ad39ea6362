//! Projective motions of images onto a canvas of another size, with bilinear interpolation.

mod plain;

use crate::Image;
use crate::bilinear::{self, Columns, Interpolated, PADDING, Spots, blend_rows, column_weights, row_weights};
use crate::collage::Collage;
use crate::color::HsvShift;
use crate::geometry::{flip_horizontally, flip_vertically};
use crate::lanes::{Lanes, pack};
use crate::simd::vectorized;

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

/// What happens to an image after it was moved, row by row while the row is in the cache.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Finish {
    /// A change of colors.
    pub color: Option<HsvShift>,
    /// Left and right change places.
    pub mirrored: bool,
    /// Top and bottom change places.
    pub upside_down: bool,
}

impl Finish {
    /// The same for an image that was moved already.
    pub fn apply(&self, image: &mut Image<u8>) {
        if let Some(color) = &self.color {
            color.apply_to(image);
        }
        if self.mirrored {
            flip_horizontally(image);
        }
        if self.upside_down {
            flip_vertically(image);
        }
    }
}

/// Moves an image by `motion` (old coordinates to new ones) onto a canvas of that size; what was outside gets `fill`.
/// Pixel (0, 0) lies at the coordinates (0, 0), as in OpenCV.
pub fn warp(image: &Image<u8>, motion: &Projection, height: usize, width: usize, fill: u8) -> Image<u8> {
    warp_collage(&Collage::of(image, fill), motion, [height, width], &Finish::default())
}

/// Moves what lies on a collage onto a canvas of that height and width, and finishes it.
pub fn warp_collage(collage: &Collage, motion: &Projection, [height, width]: [usize; 2], finish: &Finish) -> Image<u8> {
    let back = motion.inverse();
    if collage.channels() != 3 {
        return plain::warp(&collage.to_image(), back, [height, width], collage.fill(), finish);
    }
    let image = Image::filled(height, width, 3, 0);
    let lanes = vec![[collage.fill(), collage.fill(), collage.fill(), 0]; image.width()];
    let mut output = Output { image, lanes, finish };
    match back {
        Some(back) if back.is_upright() => upright(collage, &back, &mut output),
        Some(back) => slanted(collage, &back, &mut output),
        // Everything was moved to one line: only what lies around it is seen.
        None => (0..height).for_each(|row| {
            output.lanes.fill([collage.fill(), collage.fill(), collage.fill(), 0]);
            output.finish_row(row);
        }),
    }
    output.image
}

/// An image that is written row by row.
struct Output<'a> {
    image: Image<u8>,
    /// The row in work.
    lanes: Vec<Lanes>,
    finish: &'a Finish,
}

impl Output<'_> {
    fn finish_row(&mut self, row: usize) {
        if let Some(color) = &self.finish.color {
            color.apply(&mut self.lanes);
        }
        let target = if self.finish.upside_down { self.image.height() - 1 - row } else { row };
        pack(&self.lanes, self.image.row_mut(target));
    }
}

/// The pixel before a coordinate, from −1 on, and how far behind it the coordinate lies. Coordinates from which no pixel is
/// seen are those of pixel −1, which is `fill` like the one after the last.
#[inline(always)]
fn neighbor(position: f64, length: usize) -> (i32, f64) {
    let low = position.floor();
    let is_seen = low >= -1.0 && low < length as f64;
    let (first, share) = if is_seen { (low, position - low) } else { (-1.0, 0.0) };
    (first as i32, share)
}

/// Columns have the same neighbors in every row.
fn upright(collage: &Collage, back: &Projection, output: &mut Output) {
    let m = &back.0;
    let mut columns = Columns::default();
    for column in 0..output.image.width() {
        let (first, share) = neighbor(m[0][0] * column as f64 + m[0][2], collage.width());
        columns.push((first + 1) as usize, column_weights(share));
    }
    if output.finish.mirrored {
        columns.reverse();
    }
    let mut rows = Interpolated::new(&columns, blend_rows, |row, pixels, line| collage.read_row(row, pixels, line));
    for row in 0..output.image.height() {
        let (first, share) = neighbor(m[1][1] * row as f64 + m[1][2], collage.height());
        rows.row([first as isize, first as isize + 1], row_weights(share), &mut output.lanes);
        output.finish_row(row);
    }
}

/// Every pixel has neighbors of its own.
fn slanted(collage: &Collage, back: &Projection, output: &mut Output) {
    let (height, stride) = (collage.height(), 3 * (collage.width() + 2));
    let mut canvas = vec![0; stride * (height + 2) + PADDING];
    for (row, line) in canvas.chunks_exact_mut(stride).take(height + 2).enumerate() {
        collage.read_row(row as isize - 1, 0..collage.width() + 2, line);
    }
    let mut spots = Spots::new(output.image.width());
    for row in 0..output.image.height() {
        find_spots(
            back,
            row as f64,
            [height, collage.width()],
            &mut spots.offsets,
            &mut spots.columns,
            &mut spots.rows,
        );
        if output.finish.mirrored {
            spots.reverse();
        }
        bilinear::sample(&canvas, stride, &spots, &mut output.lanes);
        output.finish_row(row);
    }
}

vectorized! {
    /// Where the pixels of a row come from on a canvas of that height and width with one more pixel on every side.
    fn find_spots(
        back: &Projection,
        row: f64,
        dims: [usize; 2],
        offsets: &mut [u32],
        columns: &mut [u32],
        rows: &mut [u32],
    ) {
        let [height, width] = dims;
        let [x, y, z] = back.0.map(|m| (m[0], m[1] * row + m[2]));
        let is_affine = back.0[2] == [0.0, 0.0, 1.0];
        for (column, ((offset, columns), rows)) in offsets.iter_mut().zip(columns).zip(rows).enumerate() {
            let at = |(step, start): (f64, f64)| step * column as f64 + start;
            let scale = if is_affine { 1.0 } else { 1.0 / at(z) };
            let (left, across) = neighbor(at(x) * scale, width);
            let (top, down) = neighbor(at(y) * scale, height);
            let ([first, second], [upper, lower]) = (column_weights(across), row_weights(down));
            *offset = 3 * ((top + 1) as u32 * (width + 2) as u32 + (left + 1) as u32);
            *columns = first as u32 | (second as u32) << 16;
            *rows = upper as u32 | (lower as u32) << 16;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collage::Tile;
    use crate::color::shift_hsv;
    use crate::geometry::PixelWindow;

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

    fn textured(height: usize, width: usize, channels: usize) -> Image<u8> {
        Image::from_fn(height, width, channels, |row, column, channel| {
            (row * 23 + column * 31 + channel * 57 + row * column) as u8
        })
    }

    #[test]
    fn colors_change_as_channels_alone_would() {
        let image = textured(12, 17, 3);
        let motions = [
            Projection([[0.8, 0.0, 2.25], [0.0, 1.7, -3.5], [0.0, 0.0, 1.0]]),
            Projection([[0.8, 0.3, -1.25], [-0.4, 1.1, 3.5], [1e-3, -2e-3, 1.0]]),
        ];
        for motion in motions {
            let moved = warp(&image, &motion, 21, 19, 114);
            for channel in 0..3 {
                let alone = Image::from_fn(12, 17, 1, |row, column, _| image.pixel(row, column)[channel]);
                let alone = warp(&alone, &motion, 21, 19, 114);
                let pairs = moved.values().iter().skip(channel).step_by(3).zip(alone.values());
                let difference = pairs.map(|(a, b)| a.abs_diff(*b)).max();
                assert!(difference.is_some_and(|difference| difference <= 1), "{difference:?}");
            }
        }
    }

    #[test]
    fn a_collage_moves_like_its_canvas() {
        let (a, b) = (textured(9, 14, 3), textured(11, 6, 3));
        let mut collage = Collage::new(20, 24, 3, 114);
        let window = PixelWindow { top: 1, left: 2, height: 7, width: 12 };
        collage.push(Tile { image: &a, window, position: [0, 3] });
        collage.push(Tile { image: &b, window, position: [12, 10] });
        for slant in [0.0, 0.2] {
            let motion = Projection([[0.9, slant, 1.5], [-slant, 1.3, -2.0], [0.0, 0.0, 1.0]]);
            let direct = warp_collage(&collage, &motion, [22, 22], &Finish::default());
            assert!(direct == warp(&collage.to_image(), &motion, 22, 22, 114));
        }
    }

    #[test]
    fn finishing_while_moving_is_finishing_afterwards() {
        let image = textured(12, 17, 3);
        for slant in [0.0, 0.2] {
            let motion = Projection([[0.9, slant, 1.5], [-slant, 1.3, -2.0], [0.0, 0.0, 1.0]]);
            let color = HsvShift::new(0.1, 1.4, 0.8);
            let finish = Finish { color: Some(color), mirrored: true, upside_down: true };
            let finished = warp_collage(&Collage::of(&image, 114), &motion, [22, 21], &finish);
            let mut moved = warp(&image, &motion, 22, 21, 114);
            shift_hsv(&mut moved, 0.1, 1.4, 0.8);
            flip_horizontally(&mut moved);
            flip_vertically(&mut moved);
            assert!(finished == moved);
        }
    }

    #[test]
    fn a_motion_onto_a_line_shows_the_fill() {
        let flat = Projection([[1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 1.0]]);
        for channels in [1, 3] {
            assert!(warp(&textured(4, 4, channels), &flat, 3, 3, 114).values().iter().all(|&value| value == 114));
        }
    }

    #[test]
    fn a_motion_and_its_inverse_lead_back() {
        let motion = Projection([[1.2, 0.1, 3.0], [-0.2, 0.9, 4.0], [1e-4, 2e-4, 1.0]]);
        let (x, y) = motion.inverse().unwrap().after(&motion).apply(7.0, 5.0);
        assert!((x - 7.0).abs() < 1e-9 && (y - 5.0).abs() < 1e-9);
    }
}
