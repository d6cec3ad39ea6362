//! Rotation, translation, scaling and shearing, as Pillow computes them for torchvision.

use crate::{Filter, Image};

/// Maps a pixel of the new image to its position in the old one: x' = a·x + b·y + c, y' = d·x + e·y + f.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Affine(pub [f64; 6]);

/// The parts of an affine motion around the center of the image, in torchvision's terms.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Motion {
    /// Clockwise rotation in degrees.
    pub angle: f64,
    /// Shift in pixels, (x, y).
    pub translate: (f64, f64),
    /// Enlargement.
    pub scale: f64,
    /// Shear in degrees, (x, y).
    pub shear: (f64, f64),
}

impl Motion {
    /// No motion at all.
    pub const NONE: Motion = Motion { angle: 0.0, translate: (0.0, 0.0), scale: 1.0, shear: (0.0, 0.0) };

    /// The map from new to old pixels for an image of that size, as torchvision's `affine` builds it.
    pub fn inverse(self, height: usize, width: usize) -> Affine {
        self.inverse_around((width as f64 * 0.5, height as f64 * 0.5))
    }

    /// The same around another center, (x, y).
    pub fn inverse_around(self, (center_x, center_y): (f64, f64)) -> Affine {
        let rotation = self.angle.to_radians();
        let (shear_x, shear_y) = (self.shear.0.to_radians(), self.shear.1.to_radians());
        let (turned_sin, turned_cos) = (rotation - shear_y).sin_cos();
        let a = turned_cos / shear_y.cos();
        let b = -turned_cos * shear_x.tan() / shear_y.cos() - rotation.sin();
        let c = turned_sin / shear_y.cos();
        let d = -turned_sin * shear_x.tan() / shear_y.cos() + rotation.cos();
        // The inverse of rotation and shear, whose determinant is one.
        let mut matrix = [d, -b, 0.0, -c, a, 0.0].map(|value| value / self.scale);
        let (shift_x, shift_y) = (center_x + self.translate.0, center_y + self.translate.1);
        matrix[2] = center_x - matrix[0] * shift_x - matrix[1] * shift_y;
        matrix[5] = center_y - matrix[3] * shift_x - matrix[4] * shift_y;
        Affine(matrix)
    }
}

impl Affine {
    /// Where a point of the new image comes from.
    pub fn source(&self, x: f64, y: f64) -> (f64, f64) {
        let [a, b, c, d, e, f] = self.0;
        (a * x + b * y + c, d * x + e * y + f)
    }

    /// Where a point of the old image goes to; `None` when the map flattens the plane.
    pub fn target(&self, x: f64, y: f64) -> Option<(f64, f64)> {
        let [a, b, c, d, e, f] = self.0;
        let determinant = a * e - b * d;
        let (x, y) = (x - c, y - f);
        (determinant != 0.0).then(|| ((e * x - b * y) / determinant, (a * y - d * x) / determinant))
    }
}

/// Moves an image; what was outside gets `fill`. Nearest neighbor uses Pillow's 16.16 fixed point, everything else its
/// bilinear filter.
pub fn transform(image: &Image<u8>, map: &Affine, filter: Filter, fill: u8) -> Image<u8> {
    match filter {
        Filter::Nearest => nearest(image, map, fill),
        _ => bilinear(image, map, fill),
    }
}

fn nearest(image: &Image<u8>, map: &Affine, fill: u8) -> Image<u8> {
    let fixed = |value: f64| (value * 65536.0 + 0.5).floor() as i64;
    let [a, b, c, d, e, f] = map.0;
    let steps = [a, b, d, e].map(fixed);
    let starts = [fixed(c + a * 0.5 + b * 0.5), fixed(f + d * 0.5 + e * 0.5)];
    let channels = image.channels();
    let mut output = Image::filled(image.height(), image.width(), channels, fill);
    for row in 0..image.height() {
        let mut x = starts[0] + steps[1] * row as i64;
        let mut y = starts[1] + steps[3] * row as i64;
        for pixel in output.row_mut(row).chunks_exact_mut(channels) {
            let (column, line) = (x >> 16, y >> 16);
            if (0..image.width() as i64).contains(&column) && (0..image.height() as i64).contains(&line) {
                pixel.copy_from_slice(image.pixel(line as usize, column as usize));
            }
            x += steps[0];
            y += steps[2];
        }
    }
    output
}

fn bilinear(image: &Image<u8>, map: &Affine, fill: u8) -> Image<u8> {
    let channels = image.channels();
    let (height, width) = (image.height() as f64, image.width() as f64);
    let mut output = Image::filled(image.height(), image.width(), channels, fill);
    for row in 0..image.height() {
        for (column, pixel) in output.row_mut(row).chunks_exact_mut(channels).enumerate() {
            let (x, y) = map.source(column as f64 + 0.5, row as f64 + 0.5);
            if (0.0..width).contains(&x) && (0.0..height).contains(&y) {
                interpolate(image, x - 0.5, y - 0.5, pixel);
            }
        }
    }
    output
}

fn interpolate(image: &Image<u8>, x: f64, y: f64, pixel: &mut [u8]) {
    let (left, top) = (x.floor(), y.floor());
    let (share_x, share_y) = (x - left, y - top);
    let inside = |position: f64, len: usize| (position.max(0.0) as usize).min(len - 1);
    let columns = [inside(left, image.width()), inside(left + 1.0, image.width())];
    let rows = [inside(top, image.height()), inside(top + 1.0, image.height())];
    for (channel, value) in pixel.iter_mut().enumerate() {
        let along = |row: usize| {
            let [first, second] = columns.map(|column| image.pixel(row, column)[channel] as f64);
            first + share_x * (second - first)
        };
        let [upper, lower] = rows.map(along);
        *value = (upper + share_y * (lower - upper)) as u8;
    }
}
