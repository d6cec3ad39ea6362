//! A built-in data set for first runs and tests: ten line drawings of 28×28, generated from a seed.
//!
//! It needs no download and no disk, yet it is not a toy for linear models: position, size, rotation, slant, stroke,
//! contrast (dark on light as often as light on dark), uneven background, clutter and noise all vary, so that no pixel
//! means anything by itself. A logistic regression on pixels stays near chance; a small convolutional network gets most
//! of it right.

use crate::{AnyImage, DataError, Dataset, Sample, SampleRng, Target};
use octant_imaging::Image;
use std::f32::consts::TAU;
use std::ops::Range;

const SIDE: usize = 28;
const NAMES: [&str; 10] = ["ring", "plus", "triangle", "square", "star", "arch", "zigzag", "tee", "spiral", "arrow"];

type Point = [f32; 2];

/// The built-in data set. Samples are rendered when they are read.
pub struct Glyphs {
    len: usize,
    seed: u64,
    classes: Vec<String>,
}

impl Glyphs {
    /// `len` samples; another seed gives another set (for instance one to train on and one to test on).
    pub fn new(len: usize, seed: u64) -> Glyphs {
        Glyphs { len, seed, classes: NAMES.map(str::to_string).to_vec() }
    }
}

impl Dataset for Glyphs {
    fn len(&self) -> usize {
        self.len
    }

    fn get(&self, index: usize) -> Result<Sample, DataError> {
        let mut rng = SampleRng::new(self.seed, 0, index as u64);
        let class = rng.below(NAMES.len());
        Ok(Sample { image: AnyImage::U8(draw(class, &mut rng)), target: Target::Class(class as u32) })
    }

    fn class_names(&self) -> &[String] {
        &self.classes
    }

    fn location(&self, index: usize) -> String {
        format!("glyph {index} of seed {}", self.seed)
    }
}

/// The strokes of a class, in a square from −1 to 1.
fn strokes(class: usize) -> Vec<Vec<Point>> {
    let on_circle = |turn: f32, radius: f32| [radius * (turn * TAU).sin(), -radius * (turn * TAU).cos()];
    let curve = |count: usize, point: &dyn Fn(f32) -> Point| {
        (0..=count).map(|step| point(step as f32 / count as f32)).collect::<Vec<Point>>()
    };
    match class {
        0 => vec![curve(14, &|t| on_circle(t, 0.9))],
        1 => vec![vec![[-0.9, 0.0], [0.9, 0.0]], vec![[0.0, -0.9], [0.0, 0.9]]],
        2 => vec![curve(3, &|t| on_circle(t, 1.0))],
        3 => vec![curve(4, &|t| on_circle(t + 0.125, 1.1))],
        4 => vec![curve(5, &|t| on_circle(t * 2.0, 1.0))],
        5 => vec![[vec![[-0.8, 0.9]], curve(8, &|t| on_circle(t / 2.0 - 0.25, 0.8)), vec![[0.8, 0.9]]].concat()],
        6 => vec![vec![[-0.8, -0.9], [0.8, -0.9], [-0.8, 0.9], [0.8, 0.9]]],
        7 => vec![vec![[-0.9, -0.8], [0.9, -0.8]], vec![[0.0, -0.8], [0.0, 0.9]]],
        8 => vec![curve(18, &|t| on_circle(t * 1.75, 0.15 + 0.8 * t))],
        _ => vec![vec![[0.0, 0.9], [0.0, -0.9]], vec![[-0.6, -0.2], [0.0, -0.9], [0.6, -0.2]]],
    }
}

/// A straight piece of a stroke, in pixels.
struct Segment {
    from: Point,
    to: Point,
    half_width: f32,
    contrast: f32,
}

impl Segment {
    /// Rows, and columns, of the pixels that the stroke can touch.
    fn extent(&self, axis: usize) -> Range<usize> {
        let (first, last) = (self.from[axis].min(self.to[axis]), self.from[axis].max(self.to[axis]));
        let reach = self.half_width + 1.0;
        let pixel = |position: f32| position.clamp(0.0, SIDE as f32) as usize;
        pixel(first - reach)..pixel(last + reach).saturating_add(1).min(SIDE)
    }

    /// How much of the pixel at `point` the stroke covers, with soft edges.
    fn coverage(&self, point: Point) -> f32 {
        let along = [self.to[0] - self.from[0], self.to[1] - self.from[1]];
        let offset = [point[0] - self.from[0], point[1] - self.from[1]];
        let length = (along[0] * along[0] + along[1] * along[1]).max(1e-6);
        let t = ((offset[0] * along[0] + offset[1] * along[1]) / length).clamp(0.0, 1.0);
        let [dx, dy] = [offset[0] - t * along[0], offset[1] - t * along[1]];
        (self.half_width + 0.5 - (dx * dx + dy * dy).sqrt()).clamp(0.0, 1.0)
    }
}

fn draw(class: usize, rng: &mut SampleRng) -> Image<u8> {
    let background = rng.between(0.15, 0.85);
    let strength = rng.between(0.25, 0.7);
    // The contrast points to the side where there is room for it, else to either side.
    let sign = match background {
        low if low < 0.35 => 1.0,
        high if high > 0.65 => -1.0,
        _ => [1.0, -1.0][rng.below(2)],
    };
    let mut segments = clutter(sign * strength, rng);
    segments.extend(glyph(class, sign * strength, rng));
    // What the strokes make lighter and darker, drawn where they are: most pixels are far from most strokes.
    let (mut light, mut dark) = ([0.0f32; SIDE * SIDE], [0.0f32; SIDE * SIDE]);
    for segment in &segments {
        for row in segment.extent(1) {
            for column in segment.extent(0) {
                let change = segment.contrast * segment.coverage([column as f32 + 0.5, row as f32 + 0.5]);
                let pixel = row * SIDE + column;
                light[pixel] = light[pixel].max(change);
                dark[pixel] = dark[pixel].min(change);
            }
        }
    }
    let ramp = [rng.between(-0.1, 0.1), rng.between(-0.1, 0.1)];
    let noise = rng.between(0.01, 0.09);
    Image::from_fn(SIDE, SIDE, 1, |row, column, _| {
        let point = [column as f32 + 0.5, row as f32 + 0.5];
        let middle = SIDE as f32 / 2.0;
        let mut value = background + (ramp[0] * (point[0] - middle) + ramp[1] * (point[1] - middle)) / middle;
        let pixel = row * SIDE + column;
        value += light[pixel] + dark[pixel] + noise * rng.normal();
        (value.clamp(0.0, 1.0) * 255.0) as u8
    })
}

/// The strokes of the class, shifted, scaled, rotated and sheared at random.
fn glyph(class: usize, contrast: f32, rng: &mut SampleRng) -> Vec<Segment> {
    let size = rng.between(6.0, 10.5);
    let [width, height] = [size * rng.between(0.8, 1.1), size * rng.between(0.8, 1.1)];
    let (sin, cos) = rng.between(-0.5, 0.5).sin_cos();
    let slant = rng.between(-0.25, 0.25);
    let room = SIDE as f32 / 2.0 - size;
    let center = [0, 1].map(|_| SIDE as f32 / 2.0 + rng.between(-room, room));
    let half_width = rng.between(0.4, 1.3);
    let position = |[x, y]: Point| {
        let [x, y] = [width * (x + slant * y), height * y];
        [center[0] + cos * x - sin * y, center[1] + sin * x + cos * y]
    };
    let strokes = strokes(class).into_iter().map(|stroke| stroke.into_iter().map(position).collect::<Vec<_>>());
    let pieces = strokes.flat_map(|stroke| stroke.windows(2).map(|pair| [pair[0], pair[1]]).collect::<Vec<_>>());
    pieces.map(|[from, to]| Segment { from, to, half_width, contrast }).collect()
}

/// A few short strokes that mean nothing.
fn clutter(contrast: f32, rng: &mut SampleRng) -> Vec<Segment> {
    (0..rng.below(4))
        .map(|_| {
            let from = [rng.between(0.0, SIDE as f32), rng.between(0.0, SIDE as f32)];
            let to = [from[0] + rng.between(-6.0, 6.0), from[1] + rng.between(-6.0, 6.0)];
            Segment { from, to, half_width: rng.between(0.2, 0.8), contrast: contrast * rng.between(-0.7, 0.7) }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_balanced_and_samples_repeatable() {
        let set = Glyphs::new(2000, 1);
        let mut counts = [0; 10];
        for index in 0..set.len() {
            let sample = set.get(index).unwrap();
            let Target::Class(class) = sample.target else { panic!("a class is expected") };
            counts[class as usize] += 1;
        }
        assert!(counts.iter().all(|count| (140..260).contains(count)), "{counts:?}");
        assert_eq!(set.get(17).unwrap(), Glyphs::new(20, 1).get(17).unwrap());
        assert_ne!(set.get(17).unwrap(), Glyphs::new(20, 2).get(17).unwrap());
    }

    #[test]
    fn images_stay_as_they_were_drawn_pixel_by_pixel() {
        let set = Glyphs::new(200, 3);
        let all: Vec<u8> = (0..set.len())
            .flat_map(|index| {
                let AnyImage::U8(image) = set.get(index).unwrap().image else { panic!("bytes are expected") };
                image.into_values()
            })
            .collect();
        assert_eq!(crc32c::crc32c(&all), 235_853_028);
    }
}
