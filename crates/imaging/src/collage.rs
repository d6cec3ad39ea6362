//! Several images on one canvas, without the canvas: motions read the images themselves.

use crate::Image;
use crate::geometry::PixelWindow;
use std::ops::Range;

/// A part of an image and where its upper left pixel lies on the canvas.
#[derive(Debug, Clone, Copy)]
pub struct Tile<'a> {
    /// The image.
    pub image: &'a Image<u8>,
    /// The part of it that is seen.
    pub window: PixelWindow,
    /// Column and row on the canvas.
    pub position: [usize; 2],
}

/// A canvas of one shade with parts of images on it. Later tiles hide earlier ones.
#[derive(Debug, Clone)]
pub struct Collage<'a> {
    height: usize,
    width: usize,
    channels: usize,
    fill: u8,
    tiles: Vec<Tile<'a>>,
}

impl<'a> Collage<'a> {
    /// An empty canvas for images of that many channels.
    pub fn new(height: usize, width: usize, channels: usize, fill: u8) -> Collage<'a> {
        Collage { height, width, channels, fill, tiles: Vec::new() }
    }

    /// A canvas that is one image; `fill` is what lies around it.
    pub fn of(image: &'a Image<u8>, fill: u8) -> Collage<'a> {
        let mut collage = Collage::new(image.height(), image.width(), image.channels(), fill);
        let window = PixelWindow { top: 0, left: 0, height: image.height(), width: image.width() };
        collage.push(Tile { image, window, position: [0, 0] });
        collage
    }

    /// Adds a tile, clipped to its image and to the canvas. Images of other channels than the canvas are left out.
    pub fn push(&mut self, tile: Tile<'a>) {
        let Tile { image, window, position: [left, top] } = tile;
        let height = window.height.min(image.height().saturating_sub(window.top)).min(self.height.saturating_sub(top));
        let width = window.width.min(image.width().saturating_sub(window.left)).min(self.width.saturating_sub(left));
        if height > 0 && width > 0 && image.channels() == self.channels {
            self.tiles.push(Tile { window: PixelWindow { height, width, ..window }, ..tile });
        }
    }

    /// Rows.
    pub fn height(&self) -> usize {
        self.height
    }

    /// Columns.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Values per pixel.
    pub fn channels(&self) -> usize {
        self.channels
    }

    /// The shade of what no tile covers, and of everything around the canvas.
    pub fn fill(&self) -> u8 {
        self.fill
    }

    /// Some pixels of a row that has one more pixel of `fill` on either side. Rows outside of the canvas are `fill`.
    pub(crate) fn read_row(&self, row: isize, pixels: Range<usize>, line: &mut [u8]) {
        let channels = self.channels;
        let pixels = pixels.start..pixels.end.min(self.width + 2);
        let inside = usize::try_from(row).ok().filter(|&row| row < self.height);
        line[pixels.start * channels..pixels.end * channels].fill(self.fill);
        for tile in &self.tiles {
            let row = inside.and_then(|row| row.checked_sub(tile.position[1])).filter(|&row| row < tile.window.height);
            let start = (1 + tile.position[0]).max(pixels.start);
            let end = (1 + tile.position[0] + tile.window.width).min(pixels.end);
            if let (Some(row), true) = (row, start < end) {
                let left = tile.window.left + start - 1 - tile.position[0];
                let values = &tile.image.row(tile.window.top + row)[left * channels..][..(end - start) * channels];
                line[start * channels..end * channels].copy_from_slice(values);
            }
        }
    }

    /// The canvas itself.
    pub fn to_image(&self) -> Image<u8> {
        let mut image = Image::filled(self.height, self.width, self.channels, self.fill);
        for tile in &self.tiles {
            let (left, length) = (tile.window.left * self.channels, tile.window.width * self.channels);
            for row in 0..tile.window.height {
                let values = &tile.image.row(tile.window.top + row)[left..left + length];
                let start = tile.position[0] * self.channels;
                image.row_mut(tile.position[1] + row)[start..start + length].copy_from_slice(values);
            }
        }
        image
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_those_of_the_canvas_between_two_pixels_of_fill() {
        let [a, b] = [1, 100].map(|base| Image::from_fn(4, 5, 3, |row, column, _| base + (row * 5 + column) as u8));
        let mut collage = Collage::new(6, 8, 3, 77);
        let window = PixelWindow { top: 1, left: 2, height: 9, width: 9 };
        collage.push(Tile { image: &a, window, position: [0, 0] });
        collage.push(Tile { image: &b, window, position: [6, 2] });
        let canvas = collage.to_image();
        assert_eq!((canvas.pixel(0, 0)[0], canvas.pixel(2, 6)[0], canvas.pixel(5, 7)[0]), (8, 107, 77));
        let mut line = vec![0; 10 * 3];
        for row in -2..8isize {
            let inside = if (0..6).contains(&row) { canvas.row(row as usize).to_vec() } else { vec![77; 24] };
            let whole = [vec![77; 3], inside, vec![77; 3]].concat();
            for pixels in [0..10, 2..9, 7..8] {
                line.fill(1);
                collage.read_row(row, pixels.clone(), &mut line);
                let bytes = 3 * pixels.start..3 * pixels.end;
                assert_eq!(line[bytes.clone()], whole[bytes], "row {row}, {pixels:?}");
            }
        }
    }
}
