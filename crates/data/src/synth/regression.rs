//! A regression task that needs the whole image: counting discs and measuring what they cover.

use super::{noise::field, to_bytes};
use crate::SampleRng;
use octant_imaging::Image;

/// A gray image with up to twelve discs, their number and the share of the image that they cover together.
pub fn regression(side: usize, rng: &mut SampleRng) -> (Image<u8>, [f32; 2]) {
    let ground = field(side, (3, 3), 4, 0.5, rng);
    let level = rng.between(0.2, 0.5);
    let count = rng.below(13);
    let discs: Vec<[f32; 4]> = (0..count)
        .map(|_| {
            let radius = rng.between(0.03, 0.11) * side as f32;
            let position = [0, 1].map(|_| rng.between(radius, side as f32 - radius));
            [position[0], position[1], radius, rng.between(0.15, 0.45)]
        })
        .collect();
    let mut covered = 0usize;
    let image = Image::from_fn(side, side, 1, |row, column, _| {
        let depth = discs.iter().map(|[x, y, radius, heat]| {
            let (dx, dy) = (column as f32 + 0.5 - x, row as f32 + 0.5 - y);
            let inside = (radius + 0.5 - (dx * dx + dy * dy).sqrt()).clamp(0.0, 1.0);
            (inside, inside * heat)
        });
        let (inside, heat) = depth.fold((0.0f32, 0.0f32), |sum, disc| (sum.0.max(disc.0), sum.1.max(disc.1)));
        covered += (inside >= 0.5) as usize;
        level + 0.05 * ground.pixel(row, column)[0] + heat + 0.02 * rng.normal()
    });
    (to_bytes(&image), [count as f32, covered as f32 / (side * side) as f32])
}
