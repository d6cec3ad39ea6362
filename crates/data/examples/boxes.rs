//! How many training images per second the loader makes of a data set of boxes, with mosaics and all other augmentation.
//!
//! `cargo run --release -p octant-data --example boxes -- data.yaml [SIDE] [WORKERS]`

use octant_data::detection::{AugmentSettings, BoxAugment, DetectionSplit, RecentImages, open};
use octant_data::{Dataset, Loader, LoaderConfig};
use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

fn main() -> Result<(), Box<dyn Error>> {
    let mut words = std::env::args().skip(1);
    let path = PathBuf::from(words.next().ok_or("give a data set of boxes")?);
    let side = words.next().map_or(Ok(640), |word| word.parse())?;
    let workers = words.next().map_or(Ok(1), |word| word.parse())?;
    let dataset: Arc<dyn Dataset> = Arc::new(open(&path, DetectionSplit::Train)?);
    let settings = AugmentSettings::default();
    let augment = BoxAugment {
        images: RecentImages::new(dataset.clone(), side),
        side,
        most_boxes: 1024,
        mosaic_until: u64::MAX,
        settings,
    };
    let config = LoaderConfig { batch_size: 16, workers, ..LoaderConfig::default() };
    let loader = Loader::new(dataset, Arc::new(augment), config)?;
    let mut rates = Vec::new();
    for epoch in 0..5 {
        let begun = Instant::now();
        let mut images = 0;
        for batch in loader.epoch(epoch) {
            images += batch?.indices.len();
        }
        rates.push(images as f64 / begun.elapsed().as_secs_f64());
    }
    rates.sort_by(f64::total_cmp);
    println!("{:.1} images/s of {side}×{side} with {workers} workers (median of {} epochs)", rates[2], rates.len());
    Ok(())
}
