//! 1920×1080 → 512×512, bilinear with antialias, bytes: Octant's resize and `fast_image_resize`, one thread, by turns.
//!
//! Run it with `cargo run --release` in this folder. Both get the fastest instructions that the processor has; both write
//! into fresh memory. The images they make are compared, so that no side wins by doing less.

use fast_image_resize::images::{Image as PeerImage, ImageRef};
use fast_image_resize::{FilterType, PixelType, ResizeAlg, ResizeOptions, Resizer};
use octant_imaging::compare::compare;
use octant_imaging::resize::{Method, Resizable};
use octant_imaging::{Filter, Image, Semantics};
use std::error::Error;
use std::hint::black_box;
use std::time::Instant;

const FROM: [usize; 2] = [1080, 1920];
const TO: [usize; 2] = [512, 512];
const ROUNDS: usize = 60;

fn ours(image: &Image<u8>) -> Result<Image<u8>, Box<dyn Error>> {
    Ok(image.resize(TO[0], TO[1], Method::new(Filter::Bilinear, Semantics::Pil))?)
}

fn theirs(resizer: &mut Resizer, image: &Image<u8>) -> Result<Image<u8>, Box<dyn Error>> {
    let kind = if image.channels() == 3 { PixelType::U8x3 } else { PixelType::U8 };
    let source = ImageRef::new(FROM[1] as u32, FROM[0] as u32, image.values(), kind)?;
    let mut target = PeerImage::new(TO[1] as u32, TO[0] as u32, kind);
    let options = ResizeOptions::new().resize_alg(ResizeAlg::Convolution(FilterType::Bilinear));
    resizer.resize(&source, &mut target, &options)?;
    Ok(Image::new(TO[0], TO[1], image.channels(), target.into_vec())?)
}

fn main() -> Result<(), Box<dyn Error>> {
    for channels in [3, 1] {
        let image = Image::from_fn(FROM[0], FROM[1], channels, |row, column, channel| {
            ((row * row / 97 + column * 13 + channel * 71) ^ (row * column / 31)) as u8
        });
        let mut resizer = Resizer::new();
        let mut times = [Vec::new(), Vec::new()];
        for _ in 0..ROUNDS {
            let begun = Instant::now();
            black_box(ours(&image)?);
            times[0].push(begun.elapsed().as_secs_f64() * 1e3);
            let begun = Instant::now();
            black_box(theirs(&mut resizer, &image)?);
            times[1].push(begun.elapsed().as_secs_f64() * 1e3);
        }
        times.iter_mut().for_each(|times| times.sort_by(f64::total_cmp));
        let [own, peer] = [&times[0], &times[1]].map(|times| (times[0], times[ROUNDS / 2]));
        println!("{channels} channel(s): octant {:.2} ms (least {:.2}), fast_image_resize {:.2} ms (least {:.2}): {:.2} times as fast",
            own.1, own.0, peer.1, peer.0, peer.1 / own.1);
        let difference = compare(&ours(&image)?, &theirs(&mut resizer, &image)?).ok_or("the sizes differ")?;
        println!("    results differ by at most {} level(s), {:.3} % are equal", difference.max, 100.0 * difference.equal);
    }
    Ok(())
}
