//! Scenes of shapes that move, hide each other and come back, for tracking.

use super::scenes::{SCENE_CLASSES, Shape, ground, paint, shape};
use super::to_bytes;
use crate::{LabeledBox, SampleRng};
use octant_imaging::Image;

/// A shape of a frame.
#[derive(Debug, Clone, PartialEq)]
pub struct MovingShape {
    /// The same in every frame of the scene, from 1 on.
    pub track: u64,
    /// The whole shape, also where something hides it.
    pub place: LabeledBox,
    /// The share of it that can be seen.
    pub visibility: f32,
}

/// Shapes that are seen less than this are nothing to be found.
pub const SEEN: f32 = 0.3;

/// Where something that moves back and forth between two walls is.
fn between_walls(start: f32, speed: f32, time: f32, low: f32, high: f32) -> f32 {
    let span = (high - low).max(1.0);
    let along = (start - low + speed * time).rem_euclid(2.0 * span);
    low + if along > span { 2.0 * span - along } else { along }
}

/// A frame of a scene: a color image of `side` × `side` and its shapes. The scene follows from the random numbers alone, so
/// that any frame of it can be made by itself.
pub fn moving(side: usize, frame: usize, rng: &mut SampleRng) -> (Image<u8>, Vec<MovingShape>) {
    let size = side as f32;
    let (mut image, base) = ground(side, rng);
    let count = 3 + rng.below(4);
    let shapes: Vec<Shape> = (0..count)
        .map(|_| {
            let radius = rng.between(0.07, 0.13) * size;
            let (start, angle) =
                ([0, 1].map(|_| rng.between(radius, size - radius)), rng.between(0.0, std::f32::consts::TAU));
            let speed = rng.between(0.005, 0.02) * size;
            let heading = [angle.cos(), angle.sin()];
            let center = [0, 1]
                .map(|axis| between_walls(start[axis], speed * heading[axis], frame as f32, radius, size - radius));
            let mut shape = shape(side, &base, rng);
            (shape.center, shape.radius, shape.is_decoy) = (center, radius, false);
            shape
        })
        .collect();
    let mut owners = vec![usize::MAX; side * side];
    let mut covered = vec![0usize; shapes.len()];
    for (number, shape) in shapes.iter().enumerate() {
        paint(&mut image, &mut owners, number, shape);
        covered[number] = owners.iter().filter(|&&owner| owner == number).count();
    }
    // Noise is another one in every frame.
    let mut noise = SampleRng::new(u64::from(rng.bits()), 1, frame as u64);
    image.values_mut().iter_mut().for_each(|value| *value += 0.02 * noise.normal());
    let found = shapes.iter().enumerate().map(|(number, shape)| {
        let [x, y] = shape.center;
        let reach = shape.radius;
        let seen = owners.iter().filter(|&&owner| owner == number).count();
        MovingShape {
            track: number as u64 + 1,
            place: LabeledBox::new(shape.class as u32, [x - reach, y - reach, x + reach, y + reach]),
            visibility: seen as f32 / covered[number].max(1) as f32,
        }
    });
    debug_assert!(shapes.iter().all(|shape| shape.class < SCENE_CLASSES.len()));
    (to_bytes(&image), found.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_does_not_depend_on_those_before_it_and_shapes_move_little_between_two() {
        let at = |frame: usize| moving(96, frame, &mut SampleRng::new(3, 0, 7));
        assert_eq!(at(5), at(5));
        let (before, after) = (at(5).1, at(6).1);
        assert!(before.len() >= 3 && before.len() == after.len());
        for (a, b) in before.iter().zip(&after) {
            let moved = ((a.place.x0 - b.place.x0).powi(2) + (a.place.y0 - b.place.y0).powi(2)).sqrt();
            assert!(a.track == b.track && a.place.class == b.place.class && moved > 0.0 && moved < 3.0, "{moved}");
            assert!((0.0..=1.0).contains(&a.visibility) && a.place.x0 >= -0.1 && a.place.x1 <= 96.1);
        }
    }
}
