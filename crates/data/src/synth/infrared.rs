//! Infrared scenes: clouds, sea or ground, a sensor's noise, and a few dim targets of some pixels.

use super::{field, to_bytes};
use crate::SampleRng;
use octant_imaging::Image;

/// What lies behind the targets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Scene {
    Clouds,
    Sea,
    Ground,
}

/// A gray scene and its mask of 0 and 1.
pub fn infrared(side: usize, rng: &mut SampleRng) -> (Image<u8>, Image<u8>) {
    let scene = [Scene::Clouds, Scene::Sea, Scene::Ground][rng.below(3)];
    let mut image = match scene {
        Scene::Clouds => clouds(side, rng),
        Scene::Sea => sea(side, rng),
        Scene::Ground => ground(side, rng),
    };
    let mut mask = Image::filled(side, side, 1, 0u8);
    for _ in 0..1 + rng.below(3) {
        add_target(&mut image, &mut mask, rng);
    }
    add_sensor_noise(&mut image, rng);
    (to_bytes(&image), mask)
}

/// Bright, soft-edged patches over a dark sky.
fn clouds(side: usize, rng: &mut SampleRng) -> Image<f32> {
    let shape = field(side, (2, 3), 6, 0.55, rng);
    let texture = field(side, (8, 8), 4, 0.6, rng);
    let cover = rng.between(-0.4, 0.9);
    let (sky, cloud) = (rng.between(0.08, 0.25), rng.between(0.15, 0.5));
    let values = shape.values().iter().zip(texture.values()).map(|(&shape, &texture)| {
        let density = 1.0 / (1.0 + (-3.0 * (shape - cover)).exp());
        sky + cloud * density * (1.0 + 0.12 * texture) + 0.01 * texture
    });
    Image::new(side, side, 1, values.collect()).expect("fields have the size of the image")
}

/// Long horizontal waves that shrink towards a horizon, glints, and sky above.
fn sea(side: usize, rng: &mut SampleRng) -> Image<f32> {
    let waves = field(side, (side / 8, 3), 3, 0.6, rng);
    let sky = field(side, (2, 2), 4, 0.5, rng);
    let horizon = rng.between(0.1, 0.45) * side as f32;
    let (water, air, glint) = (rng.between(0.2, 0.4), rng.between(0.12, 0.3), rng.between(1.4, 2.2));
    Image::from_fn(side, side, 1, |row, column, _| {
        let wave = waves.pixel(row, column)[0];
        if (row as f32) < horizon {
            return air + 0.03 * sky.pixel(row, column)[0] + 0.05 * row as f32 / side as f32;
        }
        let depth = (row as f32 - horizon) / side as f32;
        let sparkle = if wave > glint { 0.12 * (wave - glint) } else { 0.0 };
        water + 0.06 * wave * (0.3 + depth) + sparkle - 0.05 * depth
    })
}

/// Patchy terrain with warm blocks and roads.
fn ground(side: usize, rng: &mut SampleRng) -> Image<f32> {
    let terrain = field(side, (3, 3), 6, 0.6, rng);
    let level = rng.between(0.2, 0.4);
    let mut image = terrain.map(|value| level + 0.06 * value);
    for _ in 0..3 + rng.below(8) {
        let heat = rng.between(-0.12, 0.16);
        let (height, width) = (4 + rng.below(side / 6), 4 + rng.below(side / 6));
        let (top, left) = (rng.below(side), rng.below(side));
        for row in top..(top + height).min(side) {
            image.row_mut(row)[left..(left + width).min(side)].iter_mut().for_each(|value| *value += heat);
        }
    }
    for _ in 0..rng.below(3) {
        let (start, lean) = (rng.between(0.0, side as f32), rng.between(-0.8, 0.8));
        let (heat, half_width) = (rng.between(0.04, 0.12), rng.between(0.8, 2.5));
        for row in 0..side {
            for (column, value) in image.row_mut(row).iter_mut().enumerate() {
                let distance = (column as f32 - start - lean * row as f32).abs();
                *value += heat * (half_width + 0.5 - distance).clamp(0.0, 1.0);
            }
        }
    }
    image
}

/// A blurred spot that stands out from what is around it by a few standard deviations. The mask is where it has at
/// least a third of its height.
fn add_target(image: &mut Image<f32>, mask: &mut Image<u8>, rng: &mut SampleRng) {
    const MARGIN: usize = 8;
    let side = image.height();
    let room = side.saturating_sub(2 * MARGIN).max(1);
    let (row, column) = (MARGIN + rng.below(room), MARGIN + rng.below(room));
    let (row, column) = (row.min(side - 1) as f32 + rng.uniform(), column.min(side - 1) as f32 + rng.uniform());
    let (along, across) = (rng.between(0.9, 2.4), rng.between(0.8, 1.5));
    let (sin, cos) = rng.between(0.0, std::f32::consts::PI).sin_cos();
    let contrast = (rng.between(3.0, 7.0) * local_deviation(image, row as usize, column as usize)).clamp(0.13, 0.5);
    let reach = 9.0;
    let span = |center: f32| (center - reach).max(0.0) as usize..((center + reach) as usize).min(side);
    for y in span(row) {
        for x in span(column) {
            let (dx, dy) = (x as f32 + 0.5 - column, y as f32 + 0.5 - row);
            let (u, v) = ((cos * dx + sin * dy) / along, (cos * dy - sin * dx) / across);
            let height = (-0.5 * (u * u + v * v)).exp();
            image.row_mut(y)[x] += contrast * height;
            if height >= 1.0 / 3.0 {
                mask.row_mut(y)[x] = 1;
            }
        }
    }
}

fn local_deviation(image: &Image<f32>, row: usize, column: usize) -> f32 {
    let side = image.height();
    let rows = row.saturating_sub(12)..(row + 12).min(side);
    let values: Vec<f32> = rows
        .flat_map(|row| image.row(row)[column.saturating_sub(12)..(column + 12).min(side)].iter().copied())
        .collect();
    let mean = values.iter().sum::<f32>() / values.len().max(1) as f32;
    (values.iter().map(|value| (value - mean).powi(2)).sum::<f32>() / values.len().max(1) as f32).sqrt()
}

/// Read-out noise, faint column stripes, and darker corners.
fn add_sensor_noise(image: &mut Image<f32>, rng: &mut SampleRng) {
    let side = image.height();
    let (noise, stripes, vignette) = (rng.between(0.004, 0.016), rng.between(0.0, 0.006), rng.between(0.0, 0.2));
    let offsets: Vec<f32> = (0..side).map(|_| stripes * rng.normal()).collect();
    for row in 0..side {
        for (column, value) in image.row_mut(row).iter_mut().enumerate() {
            let [x, y] = [column, row].map(|position| 2.0 * position as f32 / side as f32 - 1.0);
            *value = *value * (1.0 - vignette * (x * x + y * y) / 2.0) + offsets[column] + noise * rng.normal();
        }
    }
}
