//! Colored shapes on a textured ground.

use super::{field, to_bytes};
use crate::{LabeledBox, SampleRng};
use octant_imaging::Image;

pub(super) const NAMES: [&str; 4] = ["disc", "ring", "square", "triangle"];

/// A color image with `count` shapes (fewer where there is no room) and their boxes.
pub fn shapes(side: usize, count: usize, rng: &mut SampleRng) -> (Image<u8>, Vec<LabeledBox>) {
    let ground = field(side, (3, 3), 4, 0.6, rng);
    let base: [f32; 3] = std::array::from_fn(|_| rng.between(0.2, 0.8));
    let mut image =
        Image::from_fn(side, side, 3, |row, column, channel| base[channel] + 0.07 * ground.pixel(row, column)[0]);
    let mut objects: Vec<LabeledBox> = Vec::new();
    for _ in 0..count {
        let class = rng.below(NAMES.len());
        let Some(object) = position(side, class, &objects, rng) else { continue };
        // Far from the ground in at least one channel, or the shape could not be seen.
        let mut color: [f32; 3] = std::array::from_fn(|_| rng.between(0.0, 1.0));
        let loud = rng.below(3);
        color[loud] = (base[loud] + 0.5).rem_euclid(1.0);
        let turn = rng.between(-0.6, 0.6).sin_cos();
        objects.push(paint(&mut image, class, &object, color, turn));
    }
    image.values_mut().iter_mut().for_each(|value| *value += 0.02 * rng.normal());
    (to_bytes(&image), objects)
}

/// A random box that no other shape touches; ten attempts.
fn position(side: usize, class: usize, others: &[LabeledBox], rng: &mut SampleRng) -> Option<LabeledBox> {
    (0..10).find_map(|_| {
        let size = rng.between(0.16, 0.4) * side as f32;
        let (x0, y0) = (rng.between(1.0, side as f32 - size - 1.0), rng.between(1.0, side as f32 - size - 1.0));
        let object = LabeledBox::new(class as u32, [x0, y0, x0 + size, y0 + size]);
        let disjoint = |other: &LabeledBox| {
            object.x0 > other.x1 || other.x0 > object.x1 || object.y0 > other.y1 || other.y0 > object.y1
        };
        others.iter().all(disjoint).then_some(object)
    })
}

/// Paints a shape and returns the box that fits it tightly: rotated squares and triangles do not fill their circle.
fn paint(
    image: &mut Image<f32>,
    class: usize,
    object: &LabeledBox,
    color: [f32; 3],
    (sin, cos): (f32, f32),
) -> LabeledBox {
    let mut tight = LabeledBox::new(object.class, [f32::MAX, f32::MAX, 0.0, 0.0]);
    let radius = (object.x1 - object.x0) / 2.0;
    let center = ((object.x0 + object.x1) / 2.0, (object.y0 + object.y1) / 2.0);
    let side = image.width();
    for row in object.y0 as usize..(object.y1.ceil() as usize).min(side) {
        let line = image.row_mut(row);
        for column in object.x0 as usize..(object.x1.ceil() as usize).min(side) {
            let (dx, dy) = (column as f32 + 0.5 - center.0, row as f32 + 0.5 - center.1);
            let (u, v) = (cos * dx + sin * dy, cos * dy - sin * dx);
            let cover = (0.5 - distance(class, u, v, radius)).clamp(0.0, 1.0);
            if cover >= 0.5 {
                let (x, y) = (column as f32, row as f32);
                (tight.x0, tight.y0) = (tight.x0.min(x), tight.y0.min(y));
                (tight.x1, tight.y1) = (tight.x1.max(x + 1.0), tight.y1.max(y + 1.0));
            }
            for (value, color) in line[3 * column..3 * column + 3].iter_mut().zip(color) {
                *value += cover * (color - *value);
            }
        }
    }
    tight
}

/// The signed distance to the edge of a shape in pixels, negative inside. Rotated shapes stay inside of the circle in the box.
fn distance(class: usize, u: f32, v: f32, radius: f32) -> f32 {
    let length = (u * u + v * v).sqrt();
    match class {
        0 => length - radius,
        1 => (length - 0.8 * radius).abs() - 0.2 * radius,
        2 => u.abs().max(v.abs()) - radius * std::f32::consts::FRAC_1_SQRT_2,
        _ => {
            let side = 0.5 * (3.0f32.sqrt() * u.abs() - v);
            side.max(v) - radius / 2.0
        }
    }
}
