//! What the loader of a data set of boxes costs: processor time per image for each stage on one thread, then the rate and
//! the processor time of the whole loader, with mosaics and all other augmentation or as for validation.
//!
//! `cargo run --release -p octant-data --example boxes -- data.yaml [SIDE] [WORKERS] [EPOCHS] [val]`

use octant_data::detection::{AugmentSettings, BoxAugment, RecentImages, open};
use octant_data::readers::Split;
use octant_data::{Dataset, Loader, LoaderConfig, Permutation, Pipeline, SampleRng, Transform, TransformStep};
use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let number = |position: usize, usual: usize| words.get(position).map_or(Ok(usual), |word| word.parse());
    let path = PathBuf::from(words.first().ok_or("give a data set of boxes")?);
    let (side, workers, epochs) = (number(1, 640)?, number(2, 1)?, number(3, 5)?);
    let is_validation = words.get(4).is_some_and(|word| word == "val");
    let dataset: Arc<dyn Dataset> = Arc::new(open(&path, Split::Train)?);
    let transform: Arc<dyn Transform> = match is_validation {
        true => Arc::new(Pipeline::new([TransformStep::Letterbox { side }])),
        false => Arc::new(augment(&dataset, side)),
    };
    if epochs <= 5 {
        stages(&dataset, &*transform, side)?;
    }
    let config = LoaderConfig { batch_size: 64, workers, ..LoaderConfig::default() };
    let loader = Loader::new(dataset, transform, config)?;
    let (mut rates, mut costs) = (Vec::new(), Vec::new());
    for epoch in 0..epochs as u64 {
        let (begun, used) = (Instant::now(), process_ms()?);
        let mut images = 0.0;
        for batch in loader.epoch(epoch) {
            images += batch?.indices.len() as f64;
        }
        rates.push(images / begun.elapsed().as_secs_f64());
        costs.push((process_ms()? - used) / images);
        if epochs > 5 {
            println!("epoch {epoch}: {:.1} MiB resident", resident_mib()?);
        }
    }
    let [rate, cost] = [rates, costs].map(|mut values| {
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    });
    println!("{rate:.1} images/s of {side}×{side} with {workers} workers, {cost:.2} ms of processor time per image");
    Ok(())
}

fn augment(dataset: &Arc<dyn Dataset>, side: usize) -> BoxAugment {
    let images = RecentImages::new(dataset.clone(), side);
    BoxAugment { images, side, most_boxes: 1024, mosaic_until: u64::MAX, settings: AugmentSettings::default() }
}

/// One thread, stage by stage, over images that are neighbors in an epoch's order.
fn stages(dataset: &Arc<dyn Dataset>, transform: &dyn Transform, side: usize) -> Result<(), Box<dyn Error>> {
    let count = dataset.len() as u64;
    let order = Permutation::new(count, 0, 0);
    let indices: Vec<usize> = (0..count.min(128)).map(|position| order.at(position) as usize).collect();
    let per_image = |work: &dyn Fn(usize) -> Result<(), octant_data::DataError>| -> Result<f64, Box<dyn Error>> {
        let used = thread_ms()?;
        indices.iter().try_for_each(|&index| work(index))?;
        Ok((thread_ms()? - used) / indices.len() as f64)
    };
    let prepare =
        |index: usize| transform.prepare(&**dataset, index, &mut SampleRng::new(0, 0, index as u64)).map(|_| ());
    let images = RecentImages::new(dataset.clone(), side);
    let decode = per_image(&|index| dataset.get(index).map(|_| ()))?;
    let scale = per_image(&|index| images.get(index).map(|_| ()))? - decode;
    let both = per_image(&prepare)?;
    let again = per_image(&prepare)?;
    println!("read and decode {decode:.2} ms, scale {scale:.2} ms, first pass {both:.2} ms, second {again:.2} ms");
    Ok(())
}

/// Processor time of this thread.
fn thread_ms() -> Result<f64, Box<dyn Error>> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat")?;
    let nanoseconds: f64 = text.split_whitespace().next().ok_or("no time in schedstat")?.parse()?;
    Ok(nanoseconds / 1e6)
}

/// Processor time of all threads of this process, those that have ended among them.
fn process_ms() -> Result<f64, Box<dyn Error>> {
    const TICK_MS: f64 = 10.0;
    let text = std::fs::read_to_string("/proc/self/stat")?;
    // The name, which may have spaces, ends with the last parenthesis; user and system time are the 12th and 13th after it.
    let fields: Vec<&str> = text.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks: Result<f64, _> = fields.get(11..13).unwrap_or_default().iter().map(|field| field.parse::<f64>()).sum();
    Ok(ticks? * TICK_MS)
}

fn resident_mib() -> Result<f64, Box<dyn Error>> {
    let text = std::fs::read_to_string("/proc/self/status")?;
    let line = text.lines().find(|line| line.starts_with("VmRSS:")).ok_or("no VmRSS")?;
    let kib: f64 = line.split_whitespace().nth(1).ok_or("no VmRSS")?.parse()?;
    Ok(kib / 1024.0)
}
