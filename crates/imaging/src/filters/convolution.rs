//! Filters that widen with the reduction, so that every input counts: Pillow, torch with antialias, TensorFlow's
//! scale-and-translate.

use super::Rows;
use crate::Filter;
use std::f64::consts::PI;

/// A kernel and how far it reaches at scale one.
struct Kernel {
    radius: f64,
    value: fn(f64) -> f64,
}

fn kernel(filter: Filter) -> Kernel {
    match filter {
        // Nearest never comes here; a box is what averaging an area means for these libraries.
        Filter::Nearest | Filter::Area => Kernel { radius: 0.5, value: boxcar },
        Filter::Bilinear => Kernel { radius: 1.0, value: triangle },
        Filter::Bicubic => Kernel { radius: 2.0, value: cubic },
        Filter::Lanczos => Kernel { radius: 3.0, value: lanczos3 },
    }
}

fn boxcar(x: f64) -> f64 {
    if x > -0.5 && x <= 0.5 { 1.0 } else { 0.0 }
}

fn triangle(x: f64) -> f64 {
    (1.0 - x.abs()).max(0.0)
}

/// Keys' cubic with a = −0.5.
fn cubic(x: f64) -> f64 {
    let x = x.abs();
    match x {
        _ if x < 1.0 => (1.5 * x - 2.5) * x * x + 1.0,
        _ if x < 2.0 => ((-0.5 * x + 2.5) * x - 4.0) * x + 2.0,
        _ => 0.0,
    }
}

fn sinc(x: f64) -> f64 {
    if x == 0.0 { 1.0 } else { (PI * x).sin() / (PI * x) }
}

fn lanczos3(x: f64) -> f64 {
    if (-3.0..3.0).contains(&x) { sinc(x) * sinc(x / 3.0) } else { 0.0 }
}

/// Pillow: double precision throughout.
pub(super) fn pil(input: usize, output: usize, filter: Filter) -> Rows {
    let Kernel { radius, value } = kernel(filter);
    let scale = input as f64 / output as f64;
    let filter_scale = scale.max(1.0);
    let support = radius * filter_scale;
    let rows = (0..output).map(|position| {
        let center = (position as f64 + 0.5) * scale;
        let first = ((center - support + 0.5) as isize).max(0);
        let end = ((center + support + 0.5) as isize).min(input as isize);
        let weights = (first..end).map(|x| value((x as f64 - center + 0.5) * (1.0 / filter_scale))).collect();
        (first, normalized(weights))
    });
    Rows::new(input, rows)
}

/// torch with antialias: the same construction with coordinates in single precision.
pub(super) fn torch(input: usize, output: usize, filter: Filter) -> Rows {
    let Kernel { radius, value } = kernel(filter);
    let scale = input as f32 / output as f32;
    let filter_scale = scale.max(1.0);
    let support = radius as f32 * filter_scale;
    let rows = (0..output).map(|position| {
        let center = scale * (position as f32 + 0.5);
        let first = ((center - support + 0.5) as isize).max(0);
        let end = ((center + support + 0.5) as isize).min(input as isize);
        let inverse = 1.0 / filter_scale;
        let weights = (first..end).map(|x| value(((x as f32 - center + 0.5) * inverse) as f64)).collect();
        (first, normalized(weights))
    });
    Rows::new(input, rows)
}

/// TensorFlow's scale-and-translate: single precision, and the filter widens only on request.
pub(super) fn tensorflow(input: usize, output: usize, filter: Filter, antialias: bool) -> Rows {
    let Kernel { radius, value } = kernel(filter);
    let inverse_scale = 1.0 / (output as f32 / input as f32);
    let kernel_scale = if antialias { inverse_scale.max(1.0) } else { 1.0 };
    let last = input as isize - 1;
    let rows = (0..output).map(|position| {
        let center = (position as f32 + 0.5) * inverse_scale;
        let reach = radius as f32 * kernel_scale;
        let first = ((center - reach - 0.5).ceil() as isize).clamp(0, last);
        let end = ((center + reach - 0.5).floor() as isize).clamp(0, last) + 1;
        let one_over_scale = 1.0 / kernel_scale;
        let weights = (first..end).map(|x| value(((x as f32 + 0.5 - center) * one_over_scale) as f64)).collect();
        (first, normalized(weights))
    });
    Rows::new(input, rows)
}

fn normalized(mut weights: Vec<f64>) -> Vec<f64> {
    let sum: f64 = weights.iter().sum();
    if sum != 0.0 {
        weights.iter_mut().for_each(|weight| *weight /= sum);
    }
    weights
}
