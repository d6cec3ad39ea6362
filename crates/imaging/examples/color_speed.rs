//! Time of the four color adjustments on an image of 224×224, on one thread.

use octant_imaging::{Image, Semantics, color};
use std::time::Instant;

type Adjustment = fn(&mut Image<u8>, f64, Semantics) -> Result<(), octant_imaging::Unsupported>;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut state = 1u32;
    let image = Image::from_fn(224, 224, 3, |row, column, _| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (row + column / 2) as u8 / 2 + (state >> 25) as u8
    });
    let adjustments: [(&str, Adjustment, f64); 4] = [
        ("brightness", color::adjust_brightness, 1.2),
        ("contrast", color::adjust_contrast, 1.2),
        ("saturation", color::adjust_saturation, 1.2),
        ("hue", color::adjust_hue, 0.07),
    ];
    for semantics in [Semantics::Pil, Semantics::Torchvision] {
        for (name, adjust, amount) in adjustments {
            let mut best = f64::MAX;
            for _ in 0..50 {
                let mut image = image.clone();
                let start = Instant::now();
                adjust(&mut image, amount, semantics)?;
                best = best.min(start.elapsed().as_secs_f64() * 1e6);
            }
            println!("{semantics} {name}: {best:.0} µs");
        }
    }
    Ok(())
}
