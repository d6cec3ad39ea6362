//! Milliseconds that decoding takes per image, the files in memory and one thread: the median of rounds and the fastest.
//!
//!     cargo run --release -p octant-data --example decoding -- FOLDER [ROUNDS]

use octant_data::decode::{DecodeOptions, decode};
use std::error::Error;
use std::time::Instant;

fn main() -> Result<(), Box<dyn Error>> {
    let mut words = std::env::args().skip(1);
    let folder = words.next().ok_or("which folder?")?;
    let rounds: usize = words.next().map_or(Ok(21), |word| word.parse())?;
    let paths =
        std::fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>, std::io::Error>>()?;
    let files = paths.iter().map(std::fs::read).collect::<Result<Vec<_>, _>>()?;
    let mut times = Vec::new();
    for _ in 0..rounds.max(1) {
        let start = Instant::now();
        for file in &files {
            std::hint::black_box(decode(file, &DecodeOptions::default())?);
        }
        times.push(start.elapsed().as_secs_f64() * 1000.0 / files.len() as f64);
    }
    times.sort_by(f64::total_cmp);
    println!("{} files: median {:.3} ms, fastest {:.3} ms", files.len(), times[times.len() / 2], times[0]);
    Ok(())
}
