//! Turning the hue, through HSV: in bytes as Pillow does, or in floats as torchvision does.

use super::check;
use crate::simd::vectorized;
use crate::{Image, Semantics, Unsupported};

/// Turns the hue by a share of the full circle, −0.5 to 0.5.
pub fn adjust_hue(image: &mut Image<u8>, turn: f64, semantics: Semantics) -> Result<(), Unsupported> {
    check(semantics, "hue adjustment")?;
    if image.channels() != 3 {
        return Ok(());
    }
    let pixels = image.values_mut().as_chunks_mut::<3>().0;
    match semantics {
        Semantics::Pil => {
            // Truncated, then wrapped: 255 steps to the circle, as Pillow's bytes have them.
            let steps = (turn * 255.0) as i32 as u8;
            turn_bytes(pixels, steps);
        }
        _ => pixels.iter_mut().for_each(|pixel| *pixel = turn_floats(*pixel, turn as f32)),
    }
    Ok(())
}

/// Pixels per step. Each part of the work is a loop of its own over arrays, so that it runs in vectors.
const STRIP: usize = 64;

vectorized! {
    /// As Pillow: to HSV in bytes, the hue rotated, and back, with the same roundings in between.
    fn turn_bytes(pixels: &mut [[u8; 3]], steps: u8) {
        // Where each channel is found among the largest, lowest, falling and rising level, by sector.
        const CHANNELS: [[u8; 3]; 6] = [[0, 3, 1], [2, 0, 1], [1, 0, 3], [1, 2, 0], [3, 1, 0], [0, 1, 2]];
        let positions: [(u8, f32); 256] = std::array::from_fn(|hue| {
            let position = (hue as f64 * 6.0 / 255.0) as f32;
            (position as u8 % 6, position - (position as u8) as f32)
        });
        for strip in pixels.chunks_mut(STRIP) {
            let mut planes = [[0.0f32; STRIP]; 3];
            for (lane, pixel) in strip.iter().enumerate() {
                (0..3).for_each(|channel| planes[channel][lane] = pixel[channel] as f32);
            }
            let (mut hues, mut saturations, mut values) = ([0i32; STRIP], [0.0f32; STRIP], [0.0f32; STRIP]);
            for lane in 0..STRIP {
                let rgb = [planes[0][lane], planes[1][lane], planes[2][lane]];
                (hues[lane], saturations[lane], values[lane]) = to_hsv(rgb);
            }
            let (mut sectors, mut parts) = ([0u8; STRIP], [0.0f32; STRIP]);
            for lane in 0..STRIP {
                (sectors[lane], parts[lane]) = positions[(hues[lane] as u8).wrapping_add(steps) as usize];
            }
            let mut levels = [[0u8; STRIP]; 4];
            for lane in 0..STRIP {
                let (value, share) = (values[lane], saturations[lane]);
                levels[0][lane] = truncated(value as f64) as u8;
                levels[1][lane] = level(value, share);
                levels[2][lane] = level(value, share * parts[lane]);
                levels[3][lane] = level(value, share * (1.0 - parts[lane]));
            }
            for (lane, pixel) in strip.iter_mut().enumerate() {
                *pixel = CHANNELS[sectors[lane] as usize].map(|channel| levels[channel as usize & 3][lane]);
            }
        }
    }
}

/// Hue in bytes, saturation as a share (of whole bytes), and the largest channel. The largest channel has distance zero
/// from itself and the smallest distance one, so that one division is enough. No branches: this runs in vectors.
#[inline(always)]
fn to_hsv([r, g, b]: [f32; 3]) -> (i32, f32, f32) {
    let larger = |a: f32, b: f32| if a > b { a } else { b };
    let smaller = |a: f32, b: f32| if a < b { a } else { b };
    let (largest, smallest) = (larger(larger(r, g), b), smaller(smaller(r, g), b));
    let range = largest - smallest;
    let middle = r + g + b - largest - smallest;
    let distance = (largest - middle) / larger(range, 1.0);
    // When two channels are equal the first of red, green, blue counts as the largest, as in Pillow.
    let (is_red, is_green) = (r == largest, g == largest);
    let green_lowest = g == smallest;
    let red_start = if green_lowest { -1.0 } else { 1.0 };
    let green_start = if b == smallest { 1.0 } else { 3.0 };
    let blue_start = if green_lowest { 5.0 } else { 3.0 };
    let start = if is_red {
        red_start
    } else if is_green {
        green_start
    } else {
        blue_start
    };
    // Even sectors run towards the next color, odd ones away from it.
    let rises = if is_red {
        green_lowest
    } else if is_green {
        b == smallest
    } else {
        !green_lowest
    };
    let sector = start + if rises { distance } else { -distance };
    let rotated = sector as f64 / 6.0 + 1.0;
    let hue = (if rotated >= 1.0 { rotated - 1.0 } else { rotated }) as f32;
    let hue = if range == 0.0 { 0.0 } else { hue };
    let saturation = truncated((range / larger(largest, 1.0)) as f64 * 255.0);
    (truncated(hue as f64 * 255.0), (saturation as f64 / 255.0) as f32, largest)
}

/// `value` × (1 − `share`), rounded half up.
#[inline(always)]
fn level(value: f32, share: f32) -> u8 {
    let exact = (value as f64 * (1.0 - share as f64)) as f32;
    truncated(exact as f64 + 0.5) as u8
}

/// Towards zero, for numbers between −1 and 256.
#[inline(always)]
fn truncated(value: f64) -> i32 {
    debug_assert!((-1.0..=256.0).contains(&value));
    // SAFETY: all callers compute from bytes: shares of 255 and levels between zero and 255.5, never NaN. A checked
    // conversion would keep the loops out of vectors.
    unsafe { value.to_int_unchecked() }
}

fn in_sector<T>(sector: i32, v: T, p: T, q: T, t: T) -> [T; 3] {
    match sector.rem_euclid(6) {
        0 => [v, t, p],
        1 => [q, v, p],
        2 => [p, v, t],
        3 => [p, q, v],
        4 => [t, p, v],
        _ => [v, p, q],
    }
}

fn turn_floats(pixel: [u8; 3], turn: f32) -> [u8; 3] {
    let [r, g, b] = pixel.map(|value| value as f32 / 255.0);
    let (largest, smallest) = (r.max(g).max(b), r.min(g).min(b));
    let gray = largest == smallest;
    let range = largest - smallest;
    let saturation = range / if gray { 1.0 } else { largest };
    let divisor = if gray { 1.0 } else { range };
    let [rc, gc, bc] = [r, g, b].map(|value| (largest - value) / divisor);
    let sector = match largest {
        _ if largest == r => bc - gc,
        _ if largest == g => rc + 2.0 - bc,
        _ => gc + 4.0 - rc,
    };
    let hue = (sector * (1.0 / 6.0) + 1.0) % 1.0;
    let hue = (hue + turn).rem_euclid(1.0);
    let position = hue * 6.0;
    let part = position - position.floor();
    let level = |share: f32| (share * largest).clamp(0.0, 1.0);
    let inner = saturation * part;
    let (p, q, t) = (level(1.0 - saturation), level(1.0 - inner), level(inner + (1.0 - saturation)));
    let rgb = in_sector(position.floor() as i32, largest, p, q, t);
    // Slightly under 256, so that 1.0 becomes 255 and every level gets an equal share.
    rgb.map(|value| (value * (256.0 - 1e-3)) as u8)
}
