//! How many samples per second the loader prepares, and how much memory it holds, epoch by epoch.
//!
//!     cargo run --release -p octant-data --example throughput -- FOLDER_OF_CLASSES
//!         [--pipeline jpeg|cifar] [--workers 2] [--epochs 3] [--json]
//!
//! Two pipelines: `jpeg` decodes the JPEGs of the folder, takes a random resized crop of 224, mirrors and jitters colors;
//! `cifar` takes synthetic images of 32×32 through S3's fine-tuning (crop, jitter, bicubic 256, middle 224, two erasings).
//! `bench/peers/dataloader_peer.py` does the same with PyTorch's DataLoader and torchvision, in turn with this program.

use octant_data::decode::DecodeOptions;
use octant_data::readers::FolderDataset;
use octant_data::{
    AnyImage, DataError, Dataset, Loader, LoaderConfig, Pipeline, Sample, SampleRng, Target, TransformStep,
};
use octant_imaging::{Image, Semantics};
use std::error::Error;
use std::sync::Arc;
use std::time::Instant;

/// Random images of CIFAR's size.
struct Noise(Vec<Sample>);

impl Noise {
    fn new(count: u64) -> Noise {
        let sample = |index| {
            let mut rng = SampleRng::new(0, 0, index);
            let image = Image::from_fn(32, 32, 3, |_, _, _| rng.bits() as u8);
            Sample { image: AnyImage::U8(image), target: Target::Class(0) }
        };
        Noise((0..count).map(sample).collect())
    }
}

impl Dataset for Noise {
    fn len(&self) -> usize {
        self.0.len()
    }
    fn get(&self, index: usize) -> Result<Sample, DataError> {
        Ok(self.0[index].clone())
    }
}

/// Resident memory of this process in MiB; zero where the system does not report it.
fn resident() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok()).unwrap_or(0.0) / 1024.0
}

struct Options {
    folder: String,
    pipeline: String,
    workers: usize,
    epochs: u64,
    json: bool,
}

fn options() -> Result<Options, Box<dyn Error>> {
    let mut options = Options { folder: String::new(), pipeline: "jpeg".into(), workers: 2, epochs: 3, json: false };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or(format!("{word} needs a value"));
        match word.as_str() {
            "--pipeline" => options.pipeline = value()?,
            "--workers" => options.workers = value()?.parse()?,
            "--epochs" => options.epochs = value()?.parse()?,
            "--json" => options.json = true,
            _ => options.folder = word,
        }
    }
    Ok(options)
}

fn imagenet() -> Pipeline {
    let mut pipeline = Pipeline::imagenet_train(224);
    let (brightness, contrast, saturation, hue) = (0.4, 0.4, 0.4, 0.1);
    pipeline.steps.push(TransformStep::ColorJitter {
        brightness,
        contrast,
        saturation,
        hue,
        semantics: Semantics::Pil,
        p: 1.0,
    });
    pipeline
}

fn main() -> Result<(), Box<dyn Error>> {
    let options = options()?;
    let (dataset, pipeline): (Arc<dyn Dataset>, Pipeline) = match options.pipeline.as_str() {
        "jpeg" => (Arc::new(FolderDataset::open(&options.folder, DecodeOptions::default())?), imagenet()),
        "cifar" => (Arc::new(Noise::new(4096)), Pipeline::cifar_finetune_train(224)),
        other => return Err(format!("there is no pipeline {other}; there are jpeg and cifar").into()),
    };
    let config = LoaderConfig { batch_size: 64, workers: options.workers, ..LoaderConfig::default() };
    let loader = Loader::new(dataset, Arc::new(pipeline), config)?;
    for epoch in 0..options.epochs {
        let begun = Instant::now();
        let samples = loader.epoch(epoch).map(|batch| Ok(batch?.valid)).sum::<Result<usize, DataError>>()?;
        let (rate, memory) = (samples as f64 / begun.elapsed().as_secs_f64(), resident());
        let name = &options.pipeline;
        match options.json {
            true => println!(
                r#"{{"pipeline":"{name}","epoch":{epoch},"samples_per_second":{rate:.1},"resident_mib":{memory:.1}}}"#
            ),
            false => println!("{name} epoch {epoch}: {rate:.0} samples/s, {memory:.1} MiB resident"),
        }
    }
    Ok(())
}
