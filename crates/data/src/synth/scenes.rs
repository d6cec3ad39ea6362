//! Scenes of textured shapes that hide each other, for detection: objects of 8 to 300 pixels and things that only look
//! like objects.

use super::{field, to_bytes};
use crate::{LabeledBox, SampleRng};
use octant_imaging::Image;

/// What there is to find.
pub const SCENE_CLASSES: [&str; 5] = ["disc", "ring", "square", "triangle", "cross"];

/// A painted shape: where it lies and how.
pub(super) struct Shape {
    pub class: usize,
    pub center: [f32; 2],
    pub radius: f32,
    turn: (f32, f32),
    color: [f32; 3],
    stripe: [f32; 3],
    /// Stripes per radius; 0 has none.
    frequency: f32,
    /// Half of it is cut away: it is no object.
    pub is_decoy: bool,
}

/// The classes of a scene's pixels.
pub const SEMANTIC_CLASSES: [&str; 6] = ["background", "disc", "ring", "square", "triangle", "cross"];

/// A color image of `side` × `side` and the class of every pixel. What only looks like an object is background.
pub fn semantic(side: usize, rng: &mut SampleRng) -> (Image<u8>, Image<u8>) {
    let (image, owners, shapes) = painted(side, rng);
    let class = |row: usize, column: usize| match shapes.get(owners[row * side + column]) {
        Some(shape) if !shape.is_decoy => shape.class as u8 + 1,
        _ => 0,
    };
    (to_bytes(&image), Image::from_fn(side, side, 1, |row, column, _| class(row, column)))
}

/// A color image of `side` × `side` and the boxes of what can be seen of its objects.
pub fn scene(side: usize, rng: &mut SampleRng) -> (Image<u8>, Vec<LabeledBox>) {
    let (image, owners, shapes) = painted(side, rng);
    let boxes = shapes.iter().enumerate().filter(|(_, shape)| !shape.is_decoy);
    let boxes = boxes.filter_map(|(number, shape)| visible(&owners, side, number, shape)).collect();
    (to_bytes(&image), boxes)
}

/// An image, the number of the shape that is seen at every pixel, and the boxes of those that are objects by their number.
pub(super) fn instances_of_scene(
    side: usize,
    rng: &mut SampleRng,
) -> (Image<u8>, Vec<usize>, Vec<(usize, LabeledBox)>) {
    let (image, owners, shapes) = painted(side, rng);
    let objects = shapes.iter().enumerate().filter(|(_, shape)| !shape.is_decoy);
    let objects =
        objects.filter_map(|(number, shape)| Some((number, visible(&owners, side, number, shape)?))).collect();
    (to_bytes(&image), owners, objects)
}

/// An image, which shape is seen at every pixel, and the shapes.
fn painted(side: usize, rng: &mut SampleRng) -> (Image<f32>, Vec<usize>, Vec<Shape>) {
    let (mut image, base) = ground(side, rng);
    let count = 1 + rng.below(7);
    // Which shape is seen at every pixel; later ones hide earlier ones.
    let mut owners = vec![usize::MAX; side * side];
    let shapes: Vec<Shape> = (0..count).map(|_| shape(side, &base, rng)).collect();
    for (number, shape) in shapes.iter().enumerate() {
        paint(&mut image, &mut owners, number, shape);
    }
    image.values_mut().iter_mut().for_each(|value| *value += 0.02 * rng.normal());
    (image, owners, shapes)
}

/// A ground without shapes, and its mean color.
pub(super) fn ground(side: usize, rng: &mut SampleRng) -> (Image<f32>, [f32; 3]) {
    let ground = field(side, (3, 3), 4, 0.6, rng);
    let base: [f32; 3] = std::array::from_fn(|_| rng.between(0.15, 0.85));
    let tilt: [f32; 2] = std::array::from_fn(|_| rng.between(-0.25, 0.25));
    let image = Image::from_fn(side, side, 3, |row, column, channel| {
        let (x, y) = (column as f32 / side as f32 - 0.5, row as f32 / side as f32 - 0.5);
        base[channel] + 0.08 * ground.pixel(row, column)[0] + tilt[0] * x + tilt[1] * y
    });
    (image, base)
}

pub(super) fn shape(side: usize, base: &[f32; 3], rng: &mut SampleRng) -> Shape {
    let size = side as f32;
    // As many small objects as large ones: sizes are log-uniform.
    let longest = (0.55 * size).min(300.0);
    let shortest = 8f32.max(size * 0.06);
    let length = shortest * (longest / shortest).powf(rng.uniform());
    let mut color: [f32; 3] = std::array::from_fn(|_| rng.between(0.0, 1.0));
    let loud = rng.below(3);
    color[loud] = (base[loud] + 0.5).rem_euclid(1.0);
    let stripe = color.map(|value| (value + rng.between(-0.25, 0.25)).clamp(0.0, 1.0));
    Shape {
        class: rng.below(SCENE_CLASSES.len()),
        center: std::array::from_fn(|_| rng.between(0.05 * size, 0.95 * size)),
        radius: length / 2.0,
        turn: rng.between(-0.5, 0.5).sin_cos(),
        color,
        stripe,
        frequency: if rng.chance(0.5) { rng.between(1.5, 4.0) } else { 0.0 },
        is_decoy: rng.chance(0.15),
    }
}

/// The signed distance to the edge of a shape in pixels, negative inside.
pub(super) fn distance(class: usize, u: f32, v: f32, radius: f32) -> f32 {
    let length = (u * u + v * v).sqrt();
    match class {
        0 => length - radius,
        1 => (length - 0.78 * radius).abs() - 0.22 * radius,
        2 => u.abs().max(v.abs()) - 0.8 * radius,
        3 => (0.5 * (3.0f32.sqrt() * u.abs() - v)).max(v) - radius / 2.0,
        _ => {
            let (long, short) = (u.abs().max(v.abs()), u.abs().min(v.abs()));
            (long - radius).max(short - 0.3 * radius)
        }
    }
}

pub(super) fn paint(image: &mut Image<f32>, owners: &mut [usize], number: usize, shape: &Shape) {
    let side = image.width();
    let reach = |center: f32| {
        let low = (center - shape.radius - 1.0).max(0.0) as usize;
        low..((center + shape.radius + 2.0).max(0.0) as usize).min(side)
    };
    let (sin, cos) = shape.turn;
    for row in reach(shape.center[1]) {
        for column in reach(shape.center[0]) {
            let (dx, dy) = (column as f32 + 0.5 - shape.center[0], row as f32 + 0.5 - shape.center[1]);
            let (u, v) = (cos * dx + sin * dy, cos * dy - sin * dx);
            let mut edge = distance(shape.class, u, v, shape.radius);
            if shape.is_decoy {
                edge = edge.max(u);
            }
            let cover = (0.5 - edge).clamp(0.0, 1.0);
            if cover <= 0.0 {
                continue;
            }
            if cover >= 0.5 {
                owners[row * side + column] = number;
            }
            let is_stripe = (shape.frequency * u / shape.radius * 3.0).sin() > 0.3 && shape.frequency > 0.0;
            let color = if is_stripe { shape.stripe } else { shape.color };
            for (value, color) in image.row_mut(row)[3 * column..3 * column + 3].iter_mut().zip(color) {
                *value += cover * (color - *value);
            }
        }
    }
}

/// The box around what can be seen; nothing when that is little.
fn visible(owners: &[usize], side: usize, number: usize, shape: &Shape) -> Option<LabeledBox> {
    let mut bounds = [side, side, 0, 0];
    let mut pixels = 0;
    for (at, _) in owners.iter().enumerate().filter(|(_, owner)| **owner == number) {
        let (row, column) = (at / side, at % side);
        bounds = [bounds[0].min(column), bounds[1].min(row), bounds[2].max(column + 1), bounds[3].max(row + 1)];
        pixels += 1;
    }
    let [x0, y0, x1, y1] = bounds.map(|bound| bound as f32);
    let enough = pixels >= 20 && pixels as f32 > 0.25 * shape.radius * shape.radius && x1 - x0 >= 5.0 && y1 - y0 >= 5.0;
    enough.then_some(LabeledBox::new(shape.class as u32, [x0, y0, x1, y1]))
}
