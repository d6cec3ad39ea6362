//! Outlines of shapes and the shaded, textured shapes that they stand for: pairs for image-to-image networks. What a shape
//! looks like follows from its kind, so that it can be learned from the outline.

use super::scenes::distance;
use super::to_bytes;
use crate::SampleRng;
use octant_imaging::Image;

/// Two colors per kind of shape: disc, ring, square, triangle, cross.
const COLORS: [[[f32; 3]; 2]; 5] = [
    [[0.86, 0.24, 0.20], [0.98, 0.55, 0.40]],
    [[0.95, 0.70, 0.15], [0.80, 0.50, 0.05]],
    [[0.15, 0.35, 0.75], [0.45, 0.65, 0.95]],
    [[0.15, 0.60, 0.30], [0.55, 0.85, 0.45]],
    [[0.50, 0.25, 0.65], [0.75, 0.55, 0.85]],
];

struct Shape {
    kind: usize,
    center: [f32; 2],
    radius: f32,
    turn: (f32, f32),
}

impl Shape {
    fn distance(&self, x: f32, y: f32) -> f32 {
        let (sin, cos) = self.turn;
        let (dx, dy) = (x - self.center[0], y - self.center[1]);
        distance(self.kind, cos * dx + sin * dy, cos * dy - sin * dx, self.radius)
    }

    /// Light from the upper left on a texture that every kind has its own of.
    fn color(&self, x: f32, y: f32, channel: usize) -> f32 {
        let second = match self.kind {
            0 => false,
            1 => (x - self.center[0]).hypot(y - self.center[1]) * 0.8 % 4.0 > 2.0,
            2 => (x / 5.0).floor() as i32 % 2 == (y / 5.0).floor() as i32 % 2,
            3 => y % 6.0 > 3.0,
            _ => (x + y) % 8.0 > 4.0,
        };
        let light = -((x - self.center[0]) + (y - self.center[1])) / (2.0 * self.radius);
        COLORS[self.kind][usize::from(second)][channel] + 0.22 * light
    }
}

/// An outline drawing of `side` × `side` and the image that it outlines, both in color.
pub fn outlines(side: usize, rng: &mut SampleRng) -> (Image<u8>, Image<u8>) {
    let size = side as f32;
    let count = 2 + rng.below(3);
    let shapes: Vec<Shape> = (0..count)
        .map(|_| Shape {
            kind: rng.below(COLORS.len()),
            center: std::array::from_fn(|_| rng.between(0.15 * size, 0.85 * size)),
            radius: rng.between(0.12, 0.27) * size,
            turn: rng.between(-0.5, 0.5).sin_cos(),
        })
        .collect();
    let mut drawing = Image::filled(side, side, 3, 1.0f32);
    let mut painting =
        Image::from_fn(side, side, 3, |row, _, channel| [0.80, 0.86, 0.93][channel] - 0.25 * row as f32 / size);
    for shape in &shapes {
        for row in 0..side {
            for column in 0..side {
                let (x, y) = (column as f32 + 0.5, row as f32 + 0.5);
                let distance = shape.distance(x, y);
                let cover = (0.5 - distance).clamp(0.0, 1.0);
                // The line hides what lies below, and so does the inside.
                let line = (1.2 - distance.abs()).clamp(0.0, 1.0);
                for channel in 0..3 {
                    let position = 3 * column + channel;
                    let paper = &mut drawing.row_mut(row)[position];
                    *paper += cover * (1.0 - *paper);
                    *paper -= line * *paper;
                    let paint = &mut painting.row_mut(row)[position];
                    *paint += cover * (shape.color(x, y, channel) - *paint);
                }
            }
        }
    }
    (to_bytes(&drawing), to_bytes(&painting))
}
