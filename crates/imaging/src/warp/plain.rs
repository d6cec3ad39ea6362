//! Motions of images that do not have three channels, pixel by pixel.

use super::{Finish, Projection};
use crate::Image;

pub(super) fn warp(
    image: &Image<u8>,
    back: Option<Projection>,
    [height, width]: [usize; 2],
    fill: u8,
    finish: &Finish,
) -> Image<u8> {
    let mut output = Image::filled(height, width, image.channels(), fill);
    if let Some(back) = back {
        for row in 0..height {
            for (column, pixel) in output.row_mut(row).chunks_exact_mut(image.channels()).enumerate() {
                sample(image, back.apply(column as f64, row as f64), fill, pixel);
            }
        }
    }
    finish.apply(&mut output);
    output
}

/// The weighted mean of four pixels; those outside are `fill`.
fn sample(image: &Image<u8>, (x, y): (f64, f64), fill: u8, pixel: &mut [u8]) {
    let ((left, across), (top, down)) = (super::neighbor(x, image.width()), super::neighbor(y, image.height()));
    let at = |row: i32, column: i32| match (usize::try_from(row), usize::try_from(column)) {
        (Ok(row), Ok(column)) if row < image.height() && column < image.width() => Some(image.pixel(row, column)),
        _ => None,
    };
    let corners = [at(top, left), at(top, left + 1), at(top + 1, left), at(top + 1, left + 1)];
    let weights = [(1.0 - down) * (1.0 - across), (1.0 - down) * across, down * (1.0 - across), down * across];
    for (channel, value) in pixel.iter_mut().enumerate() {
        let level = |corner: Option<&[u8]>| f64::from(corner.map_or(fill, |pixel| pixel[channel]));
        let sum: f64 = corners.iter().zip(weights).map(|(&corner, weight)| level(corner) * weight).sum();
        *value = (sum + 0.5) as u8;
    }
}
