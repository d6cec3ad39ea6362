//! A small canvas: lines, boxes and text into a PNG, with soft edges.

use crate::EventsError;
use octant_imaging::{Image, font};
use std::path::Path;

/// Red, green and blue.
pub type Color = [u8; 3];

/// An image being drawn.
pub struct Canvas {
    width: usize,
    height: usize,
    pixels: Vec<u8>,
}

impl Canvas {
    /// The height of a line of text.
    pub const TEXT: f32 = 18.0;

    /// A white canvas.
    pub fn new(width: usize, height: usize) -> Canvas {
        Canvas { width, height, pixels: vec![255; width * height * 3] }
    }

    /// Mixes a color into a pixel; outside of the canvas nothing happens.
    fn blend(&mut self, x: isize, y: isize, color: Color, share: f32) {
        if x < 0 || y < 0 || x as usize >= self.width || y as usize >= self.height {
            return;
        }
        let position = (y as usize * self.width + x as usize) * 3;
        for (pixel, color) in self.pixels[position..position + 3].iter_mut().zip(color) {
            *pixel = (*pixel as f32 + (color as f32 - *pixel as f32) * share.clamp(0.0, 1.0)) as u8;
        }
    }

    /// A filled box: left, top, width, height.
    pub fn block(&mut self, [x, y, width, height]: [usize; 4], color: Color) {
        for row in y..y + height {
            (x..x + width).for_each(|column| self.blend(column as isize, row as isize, color, 1.0));
        }
    }

    /// A line two pixels thick with soft edges.
    pub fn line(&mut self, from: [f32; 2], to: [f32; 2], color: Color) {
        let [dx, dy] = [to[0] - from[0], to[1] - from[1]];
        let length = (dx * dx + dy * dy).max(1e-6);
        let span = |a: f32, b: f32| (a.min(b).floor() as isize - 2)..=(a.max(b).ceil() as isize + 2);
        for y in span(from[1], to[1]) {
            for x in span(from[0], to[0]) {
                let [px, py] = [x as f32 - from[0], y as f32 - from[1]];
                let along = ((px * dx + py * dy) / length).clamp(0.0, 1.0);
                let [ox, oy] = [px - along * dx, py - along * dy];
                self.blend(x, y, color, 1.5 - (ox * ox + oy * oy).sqrt());
            }
        }
    }

    /// How wide a text will be.
    pub fn text_width(text: &str) -> f32 {
        font::width(text, Canvas::TEXT)
    }

    /// The text, or as much of its beginning as fits.
    pub fn fitted(text: &str, room: usize) -> String {
        font::fitted(text, Canvas::TEXT, room as f32)
    }

    /// Text with its upper left corner at a pixel.
    pub fn letters(&mut self, [x, y]: [usize; 2], text: &str, color: Color) {
        font::draw(text, Canvas::TEXT, |column, row, share| {
            self.blend(x as isize + column as isize, y as isize + row as isize, color, share);
        });
    }

    /// Text that runs upward from a pixel, which is the left end of its upper edge.
    pub fn letters_upward(&mut self, [x, y]: [usize; 2], text: &str, color: Color) {
        font::draw(text, Canvas::TEXT, |column, row, share| {
            self.blend(x as isize + row as isize, y as isize - column as isize, color, share);
        });
    }

    /// An image of three bytes per pixel with its upper left corner at a place.
    pub fn image(&mut self, [x, y]: [usize; 2], width: usize, pixels: &[u8]) {
        for (row, line) in pixels.chunks_exact(width.max(1) * 3).enumerate() {
            for (column, pixel) in line.chunks_exact(3).enumerate() {
                self.blend((x + column) as isize, (y + row) as isize, [pixel[0], pixel[1], pixel[2]], 1.0);
            }
        }
    }

    /// An image of any size in a rectangle of `[width, height]`, by its nearest pixels. One channel is shown as gray.
    pub fn scaled_image(&mut self, [x, y]: [usize; 2], [width, height]: [usize; 2], image: &Image<u8>) {
        for row in 0..height {
            for column in 0..width {
                let pixel = image.pixel(row * image.height() / height, column * image.width() / width);
                let color = [0, 1, 2].map(|channel| pixel[channel.min(pixel.len() - 1)]);
                self.blend((x + column) as isize, (y + row) as isize, color, 1.0);
            }
        }
    }

    /// Width and height.
    pub fn size(&self) -> [usize; 2] {
        [self.width, self.height]
    }

    /// The canvas as a PNG file's bytes.
    pub fn png(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut encoder = png::Encoder::new(&mut bytes, self.width as u32, self.height as u32);
        encoder.set_color(png::ColorType::Rgb);
        // Flat areas compress as well without a filter, and choosing one for every row takes longer than drawing.
        encoder.set_filter(png::Filter::NoFilter);
        let written = encoder.write_header().and_then(|mut writer| writer.write_image_data(&self.pixels));
        written.expect("the pixels are as many as the size says, and memory does not refuse");
        bytes
    }

    /// Writes the canvas as a PNG file.
    pub fn save(&self, path: &Path) -> Result<(), EventsError> {
        std::fs::write(path, self.png()).map_err(EventsError::write(path))
    }
}
