//! Scenes for what labels may say beside boxes: outlines of textured shapes, people as stick figures with keypoints, and
//! long rotated boxes.

use super::scenes::instances_of_scene;
use super::{field, to_bytes};
use crate::{Detail, Keypoint, KeypointLayout, LabeledBox, Ring, SampleRng};
use octant_imaging::Image;
use octant_imaging::polygon::{self, Point, RotatedRectangle};
use octant_imaging::rle::Rle;

/// A color image of `side` × `side` and the outlines of what can be seen of its objects.
pub fn instances(side: usize, rng: &mut SampleRng) -> (Image<u8>, Vec<LabeledBox>) {
    let (image, owners, objects) = instances_of_scene(side, rng);
    let outlined = objects.into_iter().map(|(number, object)| {
        let visible = Rle::of(side, side, |row, column| owners[row * side + column] == number);
        let ring = |(points, is_hole): (Vec<Point>, bool)| {
            let points = points.into_iter().map(|point| point.map(|v| v as f32)).collect();
            Ring { points, is_hole }
        };
        object.with(Detail::Outline(visible.rings().into_iter().map(ring).collect()))
    });
    (image, outlined.collect())
}

/// What the keypoints of [`figures`] are: head, hands and feet.
pub fn figure_keypoints() -> KeypointLayout {
    KeypointLayout { count: 5, visibility: true, mirrored: Some(vec![0, 2, 1, 4, 3]) }
}

/// The only class of [`figures`].
pub const FIGURE_CLASSES: [&str; 1] = ["person"];

/// A background that changes slowly, and its mean color.
fn ground(side: usize, rng: &mut SampleRng) -> (Image<f32>, [f32; 3]) {
    let texture = field(side, (3, 3), 4, 0.6, rng);
    let base: [f32; 3] = std::array::from_fn(|_| rng.between(0.2, 0.8));
    let image =
        Image::from_fn(side, side, 3, |row, column, channel| base[channel] + 0.07 * texture.pixel(row, column)[0]);
    (image, base)
}

/// A color that differs from the background's.
fn contrast(base: &[f32; 3], rng: &mut SampleRng) -> [f32; 3] {
    let mut color: [f32; 3] = std::array::from_fn(|_| rng.between(0.0, 1.0));
    let loud = rng.below(3);
    color[loud] = (base[loud] + 0.5).rem_euclid(1.0);
    color
}

fn paint(image: &mut Image<f32>, points: &[Point], color: [f32; 3]) {
    let (height, width) = (image.height(), image.width());
    polygon::fill(points, height, width, |row, columns| {
        for column in columns {
            image.row_mut(row)[3 * column..3 * column + 3].copy_from_slice(&color);
        }
    });
}

/// A line of some thickness, as a polygon.
fn limb(from: Point, to: Point, thickness: f64) -> [Point; 4] {
    let center = [0, 1].map(|axis| (from[axis] + to[axis]) / 2.0);
    let (dx, dy) = (to[0] - from[0], to[1] - from[1]);
    RotatedRectangle { center, size: [dx.hypot(dy) + thickness, thickness], angle: dy.atan2(dx) }.corners()
}

fn disc(center: Point, radius: f64) -> Vec<Point> {
    let corner = |index: usize| {
        let (sin, cos) = (index as f64 * std::f64::consts::TAU / 20.0).sin_cos();
        [center[0] + radius * cos, center[1] + radius * sin]
    };
    (0..20).map(corner).collect()
}

fn finished(mut image: Image<f32>, rng: &mut SampleRng) -> Image<u8> {
    image.values_mut().iter_mut().for_each(|value| *value += 0.02 * rng.normal());
    to_bytes(&image)
}

/// A color image with one to three people whose arms and legs move; keypoints under another person are hidden.
pub fn figures(side: usize, rng: &mut SampleRng) -> (Image<u8>, Vec<LabeledBox>) {
    let (mut image, base) = ground(side, rng);
    let size = side as f32;
    let mut objects: Vec<LabeledBox> = Vec::new();
    for _ in 0..1 + rng.below(3) {
        let height = f64::from(rng.between(0.3, 0.6) * size);
        let [x, y] = [rng.between(0.2, 0.8), rng.between(0.1, 0.9)].map(|share| f64::from(share * size));
        let y = y.clamp(0.5 * height, f64::from(size) - 0.5 * height);
        let mut angle = |low: f32, high: f32| f64::from(rng.between(low, high));
        let at = |[x, y]: Point, angle: f64, length: f64| [x + length * angle.cos(), y + length * angle.sin()];
        let (neck, hip) = ([x, y - 0.2 * height], [x, y + 0.1 * height]);
        let head = [x, y - 0.36 * height];
        // In the image, the left hand lies left: 90 degrees is down.
        let left_hand = at(neck, angle(1.9, 3.9), 0.32 * height);
        let right_hand = at(neck, angle(-0.75, 1.2), 0.32 * height);
        let left_foot = at(hip, angle(1.65, 2.4), 0.38 * height);
        let right_foot = at(hip, angle(0.75, 1.5), 0.38 * height);
        let (color, skin) = (contrast(&base, rng), contrast(&base, rng));
        let thick = (0.07 * height).max(2.0);
        let mut parts = vec![limb(neck, hip, 1.8 * thick).to_vec()];
        parts.extend([left_hand, right_hand].map(|hand| limb(neck, hand, thick).to_vec()));
        parts.extend([left_foot, right_foot].map(|foot| limb(hip, foot, thick).to_vec()));
        let face = disc(head, 0.12 * height);
        parts.iter().for_each(|part| paint(&mut image, part, color));
        paint(&mut image, &face, skin);
        parts.push(face);
        let limit = f64::from(size);
        let keypoint = |at: Point| {
            let is_inside = at.iter().all(|v| (0.0..=limit).contains(v));
            Keypoint { at: at.map(|v| v as f32), visibility: if is_inside { 2 } else { 0 } }
        };
        let points = [head, left_hand, right_hand, left_foot, right_foot].map(keypoint).to_vec();
        let bounds = polygon::bounds(parts.iter().flatten().copied()).unwrap_or_default();
        let corners = bounds.map(|v| v.clamp(0.0, limit) as f32);
        let ring = |points: &Vec<Point>| Ring {
            points: points.iter().map(|at| at.map(|v| v as f32)).collect(),
            is_hole: false,
        };
        let rings: Vec<Ring> = parts.iter().map(ring).collect();
        objects.iter_mut().for_each(|other| other.hide(&rings));
        objects.push(LabeledBox::new(0, corners).with(Detail::Keypoints(points)));
    }
    (finished(image, rng), objects)
}

/// The classes of [`vehicles`].
pub const VEHICLE_CLASSES: [&str; 2] = ["ship", "truck"];

/// A color image of long ships with a bow and short trucks with a cabin, seen from above at any angle; none hides another.
pub fn vehicles(side: usize, rng: &mut SampleRng) -> (Image<u8>, Vec<LabeledBox>) {
    let (mut image, base) = ground(side, rng);
    let size = f64::from(side as f32);
    let mut taken: Vec<RotatedRectangle> = Vec::new();
    let mut objects = Vec::new();
    for _ in 0..2 + rng.below(5) {
        let class = rng.below(2);
        let length = f64::from(rng.between(0.16, 0.4)) * size;
        let share = if class == 0 { rng.between(0.2, 0.3) } else { rng.between(0.45, 0.6) };
        let center = [0, 1].map(|_| f64::from(rng.between(0.08, 0.92)) * size);
        let angle = f64::from(rng.between(0.0, std::f32::consts::TAU));
        let (color, second) = (contrast(&base, rng), contrast(&base, rng));
        let rectangle = RotatedRectangle { center, size: [length, length * f64::from(share)], angle };
        let around = RotatedRectangle { size: rectangle.size.map(|side| side * 1.1), ..rectangle };
        let is_inside = rectangle.corners().concat().into_iter().all(|v| (0.0..=size).contains(&v));
        if !is_inside || taken.iter().any(|other| other.common(&around) > 0.0) {
            continue;
        }
        taken.push(around);
        let (sin, cos) = angle.sin_cos();
        let [long, wide] = rectangle.size.map(|side| side / 2.0);
        let at = |u: f64, v: f64| [center[0] + u * cos - v * sin, center[1] + u * sin + v * cos];
        if class == 0 {
            paint(
                &mut image,
                &[at(-long, -wide), at(0.5 * long, -wide), at(long, 0.0), at(0.5 * long, wide), at(-long, wide)],
                color,
            );
            paint(&mut image, &limb(at(-0.6 * long, 0.0), at(-0.2 * long, 0.0), wide), second);
        } else {
            paint(&mut image, &rectangle.corners(), color);
            paint(&mut image, &[at(0.6 * long, -wide), at(long, -wide), at(long, wide), at(0.6 * long, wide)], second);
        }
        let corners: Vec<[f32; 2]> = rectangle.corners().map(|corner| corner.map(|v| v as f32)).to_vec();
        let bounds = polygon::bounds(rectangle.corners()).unwrap_or_default().map(|v| v as f32);
        objects.push(LabeledBox::new(class as u32, bounds).with(Detail::Corners(corners)));
    }
    (finished(image, rng), objects)
}
