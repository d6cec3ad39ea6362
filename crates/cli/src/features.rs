//! The `features` command: writes image features to a file, or measures how well they separate classes.

use crate::device::DeviceFlags;
use crate::output::{Bar, Json, line};
use crate::{Ending, opened, prepare};
use anyhow::{Result, bail};
use octant_data::Dataset;
use octant_predict::{Distances, Extractor, Opening, PredictOptions, Predictor, separation, write_features};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Write a network's image features, or measure how well they separate classes
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  octant features vit_small_patch14_dinov2 PHOTOS --weights pretrained --output photos.npy\n  \
                  octant features vit_small_patch14_dinov2 DATA --weights pretrained --knn 20 --probe\n  octant features \
                  runs/vit-finetune-1 PHOTOS --output photos.safetensors\n  octant features inception_v3_fid MADE --weights \
                  FILE --against REAL"
)]
pub(crate) struct Arguments {
    /// A model that `octant models` lists, a run directory, or a file of weights that names its network
    model: PathBuf,
    /// The folder of images. --knn and --probe need a folder per class, in train/ and val/ or to be split
    data: PathBuf,
    /// The weights of a model: a file, an address, `pretrained`, or a name that `octant weights get` knows
    #[arg(long, value_name = "FILE|NAME")]
    weights: Option<PathBuf>,
    /// Where the features go: .npy with a table of the images beside it, or .safetensors
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// What is written: `pooled` is what the last layer sees, `output` its result, `map` the features of every position
    #[arg(long, default_value = "pooled")]
    layer: String,
    /// Evaluate by a vote of this many nearest neighbors among the training images
    #[arg(long, value_name = "K")]
    knn: Option<usize>,
    /// Measure with a linear layer that is trained on the training images' features
    #[arg(long)]
    probe: bool,
    /// Compare with the images of this folder: the Fréchet distance (FID with Inception's features) and the kernel
    /// distance (KID)
    #[arg(long, value_name = "DIR")]
    against: Option<PathBuf>,
    /// Height and width of images; the model's if not given
    #[arg(long)]
    image_size: Option<usize>,
    /// Images per step
    #[arg(long, default_value_t = 16)]
    batch_size: usize,
    /// Which checkpoint of a run, best or last; the best one if not given
    #[arg(long)]
    checkpoint: Option<String>,
    /// What layers compute in, f32, bf16, or int8 between the ranges that `octant export --int8` kept
    #[arg(long, default_value = "f32")]
    precision: String,
    #[command(flatten)]
    device: DeviceFlags,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: Arguments) -> Result<Ending> {
    let evaluates = arguments.knn.is_some() || arguments.probe;
    if arguments.output.is_none() && arguments.against.is_none() && !evaluates {
        bail!(
            "choose what to do with the features: --output FILE writes them, --knn K and --probe evaluate them, --against DIR \
             compares two folders"
        );
    }
    if arguments.knn == Some(0) || arguments.batch_size == 0 {
        bail!("--knn and --batch-size must be at least 1");
    }
    let layer = arguments.layer.parse()?;
    let mut network = opened::network(&Opening {
        weights: arguments.weights.clone(),
        checkpoint: arguments.checkpoint.clone(),
        headless: true,
        precision: Some(arguments.precision.parse()?),
        ..Opening::of(&arguments.model)
    })?;
    if let Some(side) = arguments.image_size {
        network.resize_images(side)?;
    }
    let backend = arguments.device.open()?;
    let predictor = Predictor::new(network, &backend, PredictOptions::default())?;
    eprintln!("{predictor}");
    let extractor = predictor.features(layer, arguments.batch_size);
    if let Some(output) = &arguments.output {
        write(&extractor, &arguments, output)?;
    }
    if let Some(other) = &arguments.against {
        compare(&extractor, &arguments, other)?;
    }
    if evaluates {
        evaluate(&extractor, &arguments)?;
    }
    Ok(Ending::Done)
}

fn write(extractor: &Extractor, arguments: &Arguments, output: &Path) -> Result<()> {
    let (dataset, paths) = extractor.images_of(&arguments.data)?;
    let features = Bar::watching("computing", arguments.json, |progress| extractor.tensor(dataset, progress))?;
    write_features(output, &features, &paths)?;
    match arguments.json {
        true => {
            Json::line(json!({ "event": "done", "images": paths.len(), "shape": features.dims(), "output": output }))
        }
        false => line(format!("{} of {} images → {}", features.shape(), paths.len(), output.display())),
    }
    Ok(())
}

/// The distance between two folders of images.
fn compare(extractor: &Extractor, arguments: &Arguments, other: &Path) -> Result<()> {
    let summarized = |folder: &Path| {
        let label = folder.display().to_string();
        Bar::watching(&label, arguments.json, |progress| extractor.summarized_folder(folder, progress))
    };
    let found = Distances::between(&summarized(&arguments.data)?, &summarized(other)?);
    if arguments.json {
        Json::line(found.json());
        return Ok(());
    }
    let Distances { images, width, frechet, kernel, remark } = found;
    line(format!("{} and {} images, {width} features each", images[0], images[1]));
    line(format!("  Fréchet distance {frechet:.4}  kernel distance {kernel:.6}"));
    remark.iter().for_each(line);
    Ok(())
}

fn evaluate(extractor: &Extractor, arguments: &Arguments) -> Result<()> {
    let mut recipe = extractor.predictor.network().recipe.clone();
    recipe.data = octant_recipe::DataSource::of_files("folder", arguments.data.clone());
    let data = prepare::data(&recipe, &[])?;
    data.remarks.iter().for_each(|remark| eprintln!("warning: {remark}"));
    let labeled = |label: &str, dataset: &Arc<dyn Dataset>| {
        Bar::watching(label, arguments.json, |progress| extractor.labeled(dataset.clone(), progress))
    };
    let [train, test] = [labeled("training images", &data.train)?, labeled("images to evaluate on", &data.valid)?];
    let metrics = separation(&train, &test, data.outputs, arguments.knn, arguments.probe);
    let (learned, evaluated) = (train.classes.len(), test.classes.len());
    if arguments.json {
        let metrics: serde_json::Map<_, _> = metrics.into_iter().map(|(name, value)| (name, json!(value))).collect();
        Json::line(
            json!({ "event": "judged", "train": learned, "images": evaluated, "width": train.width, "accuracy": metrics }),
        );
        return Ok(());
    }
    line(format!("{} features of {learned} images, evaluated on {evaluated}", train.width));
    metrics.iter().for_each(|(name, value)| line(format!("  {name:<8} accuracy {:.4}", value)));
    Ok(())
}
