//! Filters that look at a fixed number of neighbors whatever the reduction: no antialias.

use super::Rows;
use std::f64::consts::FRAC_PI_4;

/// An output that is one input.
fn pick(input: usize, output: usize, source: impl Fn(usize) -> usize) -> Rows {
    Rows::new(input, (0..output).map(|position| (source(position).min(input - 1) as isize, vec![1.0])))
}

/// Pillow walks along the axis by adding the step, and the sum's rounding decides at the boundary between pixels.
pub(super) fn nearest_pil(input: usize, output: usize) -> Rows {
    let step = input as f64 / output as f64;
    let positions: Vec<usize> = std::iter::successors(Some(step * 0.5), |position| Some(position + step))
        .take(output)
        .map(|x| x as usize)
        .collect();
    pick(input, output, |position| positions[position])
}

/// Pillow's 16-bit images go through its code for any motion, which multiplies.
pub(super) fn nearest_pil_16_bit(input: usize, output: usize) -> Rows {
    let step = input as f64 / output as f64;
    pick(input, output, |position| ((position as f64 + 0.5) * step) as usize)
}

pub(super) fn nearest_torch(input: usize, output: usize) -> Rows {
    let scale = input as f32 / output as f32;
    pick(input, output, |position| (position as f32 * scale).floor() as usize)
}

pub(super) fn nearest_opencv(input: usize, output: usize) -> Rows {
    let scale = 1.0 / (output as f64 / input as f64);
    pick(input, output, |position| (position as f64 * scale).floor() as usize)
}

pub(super) fn nearest_tensorflow(input: usize, output: usize) -> Rows {
    let scale = input as f32 / output as f32;
    pick(input, output, |position| ((position as f32 + 0.5) * scale).floor() as usize)
}

pub(super) fn bilinear_torch(input: usize, output: usize) -> Rows {
    let scale = input as f32 / output as f32;
    let rows = (0..output).map(|position| {
        let center = (scale * (position as f32 + 0.5) - 0.5).max(0.0);
        let share = center - center.floor();
        (center.floor() as isize, vec![(1.0 - share) as f64, share as f64])
    });
    Rows::new(input, rows)
}

pub(super) fn bilinear_tensorflow(input: usize, output: usize) -> Rows {
    let scale = input as f32 / output as f32;
    let rows = (0..output).map(|position| {
        let center = (position as f32 + 0.5) * scale - 0.5;
        let share = center - center.floor();
        (center.floor() as isize, vec![(1.0 - share) as f64, share as f64])
    });
    Rows::new(input, rows)
}

/// OpenCV rounds coordinates to single precision after computing them in double, and does not interpolate outside.
pub(super) fn bilinear_opencv(input: usize, output: usize) -> Rows {
    let rows = (0..output).map(|position| {
        let (first, share) = opencv_coordinate(input, output, position);
        match first {
            before if before < 0 => (0, vec![1.0, 0.0]),
            after if after >= input as isize - 1 => (input as isize - 1, vec![1.0]),
            inside => (inside, vec![(1.0 - share) as f64, share as f64]),
        }
    });
    Rows::new(input, rows)
}

pub(crate) fn opencv_coordinate(input: usize, output: usize, position: usize) -> (isize, f32) {
    let scale = 1.0 / (output as f64 / input as f64);
    let center = ((position as f64 + 0.5) * scale - 0.5) as f32;
    (center.floor() as isize, center - center.floor())
}

/// The four weights of a cubic through neighbors at −1, 0, 1, 2 for a point at `x` in 0–1.
fn cubic_weights(x: f32, a: f32) -> [f32; 4] {
    let near = |x: f32| ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0;
    let far = |x: f32| ((a * x - 5.0 * a) * x + 8.0 * a) * x - 4.0 * a;
    [far(x + 1.0), near(x), near(1.0 - x), far(2.0 - x)]
}

pub(super) fn bicubic_torch(input: usize, output: usize) -> Rows {
    let scale = input as f32 / output as f32;
    let rows = (0..output).map(|position| {
        let center = scale * (position as f32 + 0.5) - 0.5;
        let weights = cubic_weights(center - center.floor(), -0.75);
        (center.floor() as isize - 1, weights.map(f64::from).to_vec())
    });
    Rows::new(input, rows)
}

/// OpenCV computes three weights and takes the fourth from their sum.
pub(super) fn bicubic_opencv(input: usize, output: usize) -> Rows {
    let rows = (0..output).map(|position| {
        let (first, share) = opencv_coordinate(input, output, position);
        (first - 1, opencv_cubic_weights(share).map(f64::from).to_vec())
    });
    Rows::new(input, rows)
}

pub(crate) fn opencv_cubic_weights(share: f32) -> [f32; 4] {
    let mut weights = cubic_weights(share, -0.75);
    weights[3] = 1.0 - weights[0] - weights[1] - weights[2];
    weights
}

/// OpenCV's eight-tap Lanczos, whose sines of the eight offsets are all derived from one.
pub(super) fn lanczos_opencv(input: usize, output: usize) -> Rows {
    let rows = (0..output).map(|position| {
        let (first, share) = opencv_coordinate(input, output, position);
        (first - 3, lanczos4_weights(share).map(f64::from).to_vec())
    });
    Rows::new(input, rows)
}

pub(crate) fn lanczos4_weights(x: f32) -> [f32; 8] {
    let s45 = std::f64::consts::FRAC_1_SQRT_2;
    let turns = [(1.0, 0.0), (-s45, -s45), (0.0, 1.0), (s45, -s45), (-1.0, 0.0), (s45, s45), (0.0, -1.0), (-s45, s45)];
    if x < f32::EPSILON {
        return [0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0];
    }
    let base = -(x as f64 + 3.0) * FRAC_PI_4;
    let (sin, cos) = base.sin_cos();
    let mut weights = [0.0f32; 8];
    for (tap, (a, b)) in turns.into_iter().enumerate() {
        let y = -(x as f64 + 3.0 - tap as f64) * FRAC_PI_4;
        weights[tap] = ((a * sin + b * cos) / (y * y)) as f32;
    }
    let sum: f32 = weights.iter().sum();
    weights.map(|weight| weight * (1.0 / sum))
}

/// TensorFlow reads the cubic from a table of 1024 steps and gives neighbors outside no weight at all.
pub(super) fn bicubic_tensorflow(input: usize, output: usize) -> Rows {
    const STEPS: f32 = 1024.0;
    let scale = input as f32 / output as f32;
    let rows = (0..output).map(|position| {
        let center = (position as f32 + 0.5) * scale - 0.5;
        let first = center.floor() as isize - 1;
        let step = ((center - center.floor()) * STEPS).round_ties_even();
        let mut weights = cubic_weights(step / STEPS, -0.5);
        for (tap, weight) in weights.iter_mut().enumerate() {
            if !(0..input as isize).contains(&(first + tap as isize)) {
                *weight = 0.0;
            }
        }
        let sum: f32 = weights.iter().sum();
        (first, weights.map(|weight| (weight / sum) as f64).to_vec())
    });
    Rows::new(input, rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::f64::consts::PI;

    #[test]
    fn lanczos_is_the_windowed_sinc() {
        let direct = |x: f64| if x == 0.0 { 1.0 } else { (PI * x).sin() * (PI * x / 4.0).sin() / (x * x) };
        for x in [0.1f32, 0.37, 0.5, 0.93] {
            let wanted: Vec<f64> = (0..8).map(|tap| direct(x as f64 + 3.0 - tap as f64)).collect();
            let sum: f64 = wanted.iter().sum();
            let given = lanczos4_weights(x);
            assert!(given.iter().zip(&wanted).all(|(&given, wanted)| (given as f64 - wanted / sum).abs() < 1e-6));
        }
    }
}
