//! Writes the built-in data set as raw bytes (images, then labels), for a look at it with other tools.

use octant_data::{Dataset, Glyphs, Target};
use std::io::Write;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("usage: glyphs_to_raw OUT [COUNT] [SEED]")?;
    let count = arguments.next().map_or(Ok(10_000), |text| text.parse())?;
    let seed = arguments.next().map_or(Ok(0), |text| text.parse())?;
    let set = Glyphs::new(count, seed);
    let mut file = std::io::BufWriter::new(std::fs::File::create(path)?);
    let mut labels = Vec::new();
    for index in 0..count {
        let sample = set.get(index)?;
        file.write_all(sample.image.bytes())?;
        if let Target::Class(class) = sample.target {
            labels.push(class as u8);
        }
    }
    Ok(file.write_all(&labels)?)
}
