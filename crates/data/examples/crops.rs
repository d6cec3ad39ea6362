//! Milliseconds that a random resized crop of 224² takes per image, from the whole image and from the part that it needs: one
//! thread, medians of rounds in turn.
//!
//!     cargo run --release -p octant-data --example crops -- FOLDER [ROUNDS]

use octant_data::decode::DecodeOptions;
use octant_data::readers::FolderDataset;
use octant_data::{Dataset, Pipeline, SampleRng, Transform, TransformStep};
use octant_imaging::resize::Method;
use octant_imaging::{Filter, Semantics};
use std::error::Error;
use std::time::Instant;

fn main() -> Result<(), Box<dyn Error>> {
    let mut words = std::env::args().skip(1);
    let set = FolderDataset::open(words.next().ok_or("which folder?")?, DecodeOptions::default())?;
    let rounds: usize = words.next().map_or(Ok(7), |word| word.parse())?;
    let crop = TransformStep::RandomResizedCrop {
        size: (224, 224),
        scale: (0.08, 1.0),
        ratio: (0.75, 4.0 / 3.0),
        method: Method::new(Filter::Bilinear, Semantics::Pil),
    };
    let pipeline = Pipeline::new([crop, TransformStep::FlipHorizontally { p: 0.5 }]);
    let mut times = [Vec::new(), Vec::new()];
    for round in 0..rounds.max(1) {
        for (whole, times) in [true, false].into_iter().zip(&mut times) {
            let start = Instant::now();
            for index in 0..set.len() {
                let mut rng = SampleRng::new(1, round as u64, index as u64);
                std::hint::black_box(match whole {
                    true => pipeline.apply(set.get(index)?, &mut rng)?,
                    false => pipeline.prepare(&set, index, &mut rng)?,
                });
            }
            times.push(start.elapsed().as_secs_f64() * 1000.0 / set.len() as f64);
        }
    }
    times.iter_mut().for_each(|times| times.sort_by(f64::total_cmp));
    let [whole, window] = times.map(|times| times[times.len() / 2]);
    println!("{} files: whole {whole:.3} ms, part {window:.3} ms, {:.2} ×", set.len(), whole / window);
    Ok(())
}
