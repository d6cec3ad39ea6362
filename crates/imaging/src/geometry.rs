//! Moving pixels without computing new ones: crops, padding, flips, erasing; and boxes that move with them.

use crate::{Channel, Image};

/// A rectangle of pixels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub struct PixelWindow {
    /// First row.
    pub top: usize,
    /// First column.
    pub left: usize,
    /// Rows.
    pub height: usize,
    /// Columns.
    pub width: usize,
}

/// Where tiles begin that cover a length: as few as possible, evenly spread, neighbors sharing at least `overlap`. A length that
/// fits into a tile is one.
pub fn tile_starts(length: usize, tile: usize, overlap: usize) -> Vec<usize> {
    let Some(rest) = length.checked_sub(tile) else { return vec![0] };
    let steps = rest.div_ceil(tile.saturating_sub(overlap).max(1));
    (0..=steps).map(|step| rest * step / steps.max(1)).collect()
}

/// What pixels beyond the border are.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Border<T> {
    /// All of this value.
    Constant(T),
    /// Mirrored, the border itself not repeated.
    Reflect,
    /// The border pixel again and again.
    Repeat,
}

impl<T> Border<T> {
    /// The position inside 0..len whose pixel stands at a position outside. A constant border has none; it gives the edge.
    pub fn source(&self, position: isize, len: usize) -> usize {
        match self {
            Border::Reflect => mirrored(position, len),
            Border::Repeat | Border::Constant(_) => position.clamp(0, len as isize - 1) as usize,
        }
    }
}

/// A part of the image. The crop is clipped to the image; at least one pixel is returned.
pub fn crop<T: Channel>(image: &Image<T>, window: PixelWindow) -> Image<T> {
    let top = window.top.min(image.height() - 1);
    let left = window.left.min(image.width() - 1);
    let height = window.height.clamp(1, image.height() - top);
    let width = window.width.clamp(1, image.width() - left);
    let channels = image.channels();
    let mut values = Vec::with_capacity(height * width * channels);
    for row in top..top + height {
        values.extend_from_slice(&image.row(row)[left * channels..][..width * channels]);
    }
    Image::new(height, width, channels, values).expect("the rows were cut to this size")
}

/// The middle of the image, rounded as torchvision does. The image must be at least that large; see [`pad_to`].
pub fn center_window<T: Channel>(image: &Image<T>, height: usize, width: usize) -> PixelWindow {
    let offset = |outer: usize, inner: usize| ((outer.saturating_sub(inner)) as f64 / 2.0).round_ties_even() as usize;
    PixelWindow { top: offset(image.height(), height), left: offset(image.width(), width), height, width }
}

/// The padded image: pixels to add above, left, below and right.
pub fn pad<T: Channel>(image: &Image<T>, [top, left, bottom, right]: [usize; 4], border: Border<T>) -> Image<T> {
    let (height, width) = (image.height() + top + bottom, image.width() + left + right);
    let channels = image.channels();
    if let Border::Constant(value) = border {
        let mut output = Image::filled(height, width, channels, value);
        for row in 0..image.height() {
            output.row_mut(top + row)[left * channels..][..image.stride()].copy_from_slice(image.row(row));
        }
        return output;
    }
    let mut values = Vec::with_capacity(height * width * channels);
    for row in 0..height {
        let line = image.row(border.source(row as isize - top as isize, image.height()));
        for column in 0..width {
            let from = border.source(column as isize - left as isize, image.width());
            values.extend_from_slice(&line[from * channels..][..channels]);
        }
    }
    Image::new(height, width, channels, values).expect("one value per channel was pushed for every pixel")
}

/// Pads below and to the right until the image has at least this size.
pub fn pad_to<T: Channel>(image: &Image<T>, height: usize, width: usize, border: Border<T>) -> Image<T> {
    let bottom = height.saturating_sub(image.height());
    let right = width.saturating_sub(image.width());
    if bottom + right == 0 { image.clone() } else { pad(image, [0, 0, bottom, right], border) }
}

/// Left and right exchanged.
pub fn flip_horizontally<T: Channel>(image: &mut Image<T>) {
    let channels = image.channels();
    for row in 0..image.height() {
        let line = image.row_mut(row);
        match channels {
            1 => line.reverse(),
            3 => line.as_chunks_mut::<3>().0.reverse(),
            4 => line.as_chunks_mut::<4>().0.reverse(),
            _ => {
                // Reversing everything reverses the pixels and their channels; the channels are then put right.
                line.reverse();
                line.chunks_exact_mut(channels).for_each(<[T]>::reverse);
            }
        }
    }
}

/// Top and bottom exchanged.
pub fn flip_vertically<T: Channel>(image: &mut Image<T>) {
    let (height, stride) = (image.height(), image.stride());
    let (upper, lower) = image.values_mut().split_at_mut(height / 2 * stride);
    let skipped = if height.is_multiple_of(2) { 0 } else { stride };
    let rows = lower[skipped..].chunks_exact_mut(stride).rev();
    upper.chunks_exact_mut(stride).zip(rows).for_each(|(above, below)| above.swap_with_slice(below));
}

/// Rows and columns exchanged.
pub fn transpose<T: Channel>(image: &Image<T>) -> Image<T> {
    let channels = image.channels();
    let mut output = Image::filled(image.width(), image.height(), channels, T::ZERO);
    for row in 0..image.height() {
        for (column, pixel) in image.row(row).chunks_exact(channels).enumerate() {
            output.row_mut(column)[row * channels..][..channels].copy_from_slice(pixel);
        }
    }
    output
}

/// Overwrites a part of the image with values computed from (row, column, channel) in that part.
pub fn erase<T: Channel>(image: &mut Image<T>, window: PixelWindow, mut value: impl FnMut(usize, usize, usize) -> T) {
    let channels = image.channels();
    let bottom = (window.top + window.height).min(image.height());
    let right = (window.left + window.width).min(image.width());
    for row in window.top..bottom {
        let line = image.row_mut(row);
        for column in window.left..right {
            for channel in 0..channels {
                line[column * channels + channel] = value(row - window.top, column - window.left, channel);
            }
        }
    }
}

/// The position inside 0..len that a position outside mirrors to, the border itself not repeated.
pub(crate) fn mirrored(position: isize, len: usize) -> usize {
    if len == 1 {
        return 0;
    }
    let period = 2 * (len as isize - 1);
    let position = position.rem_euclid(period);
    position.min(period - position) as usize
}
