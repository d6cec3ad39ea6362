//! How many samples per second the loader prepares: `throughput FOLDER_OF_CLASSES [WORKERS]`.
//!
//! Two pipelines: ImageNet training (decode, random resized crop to 224, mirror, colour jitter) over the JPEGs of the
//! folder, and CIFAR fine-tuning (32 → crop → jitter → bicubic 256 → centre 224 → two erasings) over made-up pictures.
//! `throughput.py` next to this file does the same with PyTorch's DataLoader and torchvision.

use octant_data::decode::DecodeOptions;
use octant_data::readers::FolderDataset;
use octant_data::{DataError, Dataset, Loader, LoaderConfig, Picture, Pipeline, Sample, SampleRng, Step, Target};
use octant_imaging::{Image, Semantics};
use std::sync::Arc;
use std::time::Instant;

/// Random pictures of CIFAR's size.
struct Noise(usize);

impl Dataset for Noise {
    fn len(&self) -> usize {
        self.0
    }
    fn get(&self, index: usize) -> Result<Sample, DataError> {
        let mut rng = SampleRng::new(0, 0, index as u64);
        let picture = Image::from_fn(32, 32, 3, |_, _, _| rng.bits() as u8);
        Ok(Sample { picture: Picture::U8(picture), target: Target::Class(0) })
    }
}

/// Processor time of this process, which other programs on the machine do not change much; zero where unknown.
fn cpu_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after_name = text.rsplit(')').next().unwrap_or_default();
    let ticks: f64 = after_name.split_whitespace().skip(11).take(2).filter_map(|field| field.parse::<f64>().ok()).sum();
    ticks / 100.0
}

fn measure(name: &str, dataset: Arc<dyn Dataset>, pipeline: Pipeline, workers: usize) -> Result<(), DataError> {
    let config = LoaderConfig { batch_size: 64, workers, ..LoaderConfig::default() };
    let loader = Loader::new(dataset, Arc::new(pipeline), config)?;
    let (mut best, mut count, cpu) = (0.0f64, 0, cpu_seconds());
    for epoch in 0..3 {
        let start = Instant::now();
        let mut samples = 0;
        for batch in loader.epoch(epoch) {
            samples += batch?.valid;
        }
        count += samples;
        best = best.max(samples as f64 / start.elapsed().as_secs_f64());
    }
    let cpu = 1e3 * (cpu_seconds() - cpu) / count as f64;
    println!("{name}: {best:.0} samples/s with {workers} workers, {cpu:.2} ms of processor time per sample");
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().ok_or("usage: throughput FOLDER_OF_CLASSES [WORKERS]")?;
    let workers = arguments.next().map_or(Ok(2), |text| text.parse())?;
    let mut imagenet = Pipeline::imagenet_train(224);
    imagenet.steps.push(Step::ColourJitter {
        brightness: 0.4,
        contrast: 0.4,
        saturation: 0.4,
        hue: 0.1,
        semantics: Semantics::Pil,
        p: 1.0,
    });
    let jpegs = Arc::new(FolderDataset::open(folder, DecodeOptions::default())?);
    measure("jpeg 500×375 → 224", jpegs, imagenet, workers)?;
    measure("cifar 32 → 224", Arc::new(Noise(4096)), Pipeline::cifar_finetune_train(224), workers)?;
    Ok(())
}
