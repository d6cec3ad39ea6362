//! Time of resizing 1920×1080 to 512×512, bilinear with antialias, on one thread.

use octant_imaging::resize::{Method, Resizable};
use octant_imaging::{Filter, Image, Semantics};
use std::time::Instant;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let image = Image::from_fn(1080, 1920, 3, |row, column, channel| (row * 7 + column * 3 + channel * 50) as u8);
    for semantics in [Semantics::Pil, Semantics::OpenCv, Semantics::Torchvision] {
        let filter = if semantics == Semantics::OpenCv { Filter::Area } else { Filter::Bilinear };
        let mut times = Vec::new();
        for _ in 0..30 {
            let start = Instant::now();
            std::hint::black_box(image.resize(512, 512, Method::new(filter, semantics))?);
            times.push(start.elapsed().as_secs_f64() * 1e3);
        }
        times.sort_by(f64::total_cmp);
        println!("{semantics} {filter}: best {:.2} ms, median {:.2} ms", times[0], times[15]);
    }
    Ok(())
}
