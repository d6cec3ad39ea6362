//! The `features` command: writes image features to a file, or measures how well they separate classes.

use crate::device::DeviceFlags;
use crate::output::{Bar, Json, line};
use crate::{Ending, fetching, opened, prepare};
use anyhow::{Context, Result, bail};
use octant_archive::save_safetensors;
use octant_data::Dataset;
use octant_data::decode::{Channels, DecodeOptions};
use octant_data::readers::{TableDataset, images_below};
use octant_metrics::features::{
    LinearProbe, ProbeSettings, TEMPERATURE, accuracy, frechet_distance, kernel_distance, nearest_neighbors,
};
use octant_predict::{Extractor, ModelChoice, Network, PredictOptions, Predictor};
use octant_tensor::{HostTensor, write_npy};
use octant_zoo::ModelEntry;
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
    /// The folder of images. Judging needs a folder per class, in train/ and val/ or to be split
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
    /// Judge by a vote of this many nearest neighbors among the training images
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
    /// What layers compute in, f32 or bf16
    #[arg(long, default_value = "f32")]
    precision: String,
    #[command(flatten)]
    device: DeviceFlags,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: Arguments) -> Result<Ending> {
    let judges = arguments.knn.is_some() || arguments.probe;
    if arguments.output.is_none() && arguments.against.is_none() && !judges {
        bail!(
            "say what to do with the features: --output FILE writes them, --knn K and --probe judge them, --against DIR \
             compares two folders"
        );
    }
    if arguments.knn == Some(0) || arguments.batch_size == 0 {
        bail!("--knn and --batch-size must be at least 1");
    }
    let layer = arguments.layer.parse()?;
    let network = match arguments.model.exists() {
        true => of_weights(&arguments)?,
        false => of_model(&arguments)?,
    };
    let backend = arguments.device.open()?;
    let predictor = Predictor::new(network, &backend, PredictOptions::default())?;
    eprintln!("{}", opened::described(&predictor));
    let extractor = predictor.features(layer, arguments.batch_size);
    if let Some(output) = &arguments.output {
        write(&extractor, &arguments, output)?;
    }
    if let Some(other) = &arguments.against {
        compare(&extractor, &arguments, other)?;
    }
    if judges {
        judge(&extractor, &arguments)?;
    }
    Ok(Ending::Done)
}

/// A model of the zoo, prepared as its weights want it.
fn of_model(arguments: &Arguments) -> Result<Network> {
    let entry = octant_zoo::find(&arguments.model.to_string_lossy())?;
    let Some(given) = &arguments.weights else {
        bail!("without weights the features would be random; give --weights FILE, or --weights pretrained");
    };
    let weights = fetching::weights(given, entry)?;
    let precision = octant_recipe::precision(&arguments.precision)?;
    let choice = ModelChoice { headless: true, precision, ..ModelChoice::default() };
    let mut network = Network::of_model(entry, Some(&weights), &choice)?;
    network.remarks.iter().for_each(|remark| eprintln!("{remark}"));
    if let Some(side) = arguments.image_size {
        network.resize_images(side)?;
    }
    Ok(network)
}

/// A run, or a file of weights that names its network.
fn of_weights(arguments: &Arguments) -> Result<Network> {
    if arguments.weights.is_some() {
        bail!("{} has weights of its own; remove --weights", arguments.model.display());
    }
    let file = opened::network(&arguments.model, arguments.checkpoint.as_deref())?;
    let mut network = file.with_precision(octant_recipe::precision(&arguments.precision)?).network()?;
    if let Some(side) = arguments.image_size {
        network.resize_images(side)?;
    }
    Ok(network)
}

/// A bar for a data set, drawn by the library's progress.
fn watching<T>(
    label: &str,
    json: bool,
    work: impl FnOnce(&mut dyn FnMut(u64, u64)) -> octant_predict::Result<T>,
) -> Result<T> {
    let mut bar = None;
    let result = work(&mut |done, batches| {
        let bar = bar.get_or_insert_with(|| Bar::new(label.into(), batches));
        if !json && bar.is_due() {
            bar.draw(done, "batches");
        }
    });
    bar.into_iter().for_each(Bar::clear);
    Ok(result?)
}

/// The line of the zoo of an extractor's network.
fn entry(extractor: &Extractor) -> Result<&'static ModelEntry> {
    Ok(extractor.predictor.network().entry()?)
}

fn write(extractor: &Extractor, arguments: &Arguments, output: &Path) -> Result<()> {
    let (dataset, paths) = images_of(&arguments.data, entry(extractor)?)?;
    let features = watching("computing", arguments.json, |progress| extractor.tensor(dataset, progress))?;
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
        let (dataset, paths) = images_of(folder, entry(extractor)?)?;
        if paths.len() < 2 {
            bail!("{} has {} images; a distribution needs two at least", folder.display(), paths.len());
        }
        let label = folder.display().to_string();
        watching(&label, arguments.json, |progress| extractor.summarized(dataset, progress))
    };
    let [a, b] = [summarized(&arguments.data)?, summarized(other)?];
    let (frechet, kernel) = (frechet_distance(&a, &b), kernel_distance(&a, &b));
    let few = (a.len().min(b.len()) <= a.width()).then(|| {
        format!("fewer images than the {} numbers per image: the Fréchet distance is too large then", a.width())
    });
    if arguments.json {
        let counts = [a.len(), b.len()];
        Json::line(json!({ "event": "compared", "images": counts, "fid": frechet, "kid": kernel, "remark": few }));
        return Ok(());
    }
    line(format!("{} and {} images, {} features each", a.len(), b.len(), a.width()));
    line(format!("  Fréchet distance {frechet:.4}  kernel distance {kernel:.6}"));
    few.iter().for_each(line);
    Ok(())
}

fn judge(extractor: &Extractor, arguments: &Arguments) -> Result<()> {
    let mut recipe = extractor.predictor.network().recipe.clone();
    recipe.data = octant_recipe::DataSource::of_files("folder", arguments.data.clone());
    let data = prepare::data(&recipe, &[])?;
    data.remarks.iter().for_each(|remark| eprintln!("warning: {remark}"));
    let labeled = |label: &str, dataset: &Arc<dyn Dataset>| {
        watching(label, arguments.json, |progress| extractor.labeled(dataset.clone(), progress))
    };
    let [train, test] = [labeled("training images", &data.train)?, labeled("images to evaluate on", &data.valid)?];
    let mut metrics = Vec::new();
    if let Some(count) = arguments.knn {
        let guesses = nearest_neighbors(&train, &test.values, data.outputs, count, TEMPERATURE);
        metrics.push((format!("{count}-nn"), accuracy(&guesses, &test.classes)));
    }
    if arguments.probe {
        let probe = LinearProbe::fit(&train, data.outputs, &ProbeSettings::default());
        metrics.push(("probe".to_string(), accuracy(&probe.classify(&test.values), &test.classes)));
    }
    let (learned, judged) = (train.classes.len(), test.classes.len());
    if arguments.json {
        let metrics: serde_json::Map<_, _> = metrics.into_iter().map(|(name, value)| (name, json!(value))).collect();
        Json::line(
            json!({ "event": "judged", "train": learned, "images": judged, "width": train.width, "accuracy": metrics }),
        );
        return Ok(());
    }
    line(format!("{} features of {learned} images, judged on {judged}", train.width));
    metrics.iter().for_each(|(name, value)| line(format!("  {name:<8} accuracy {:.4}", value)));
    Ok(())
}

/// All images in a folder and below it, in the order of their names, and their paths below it.
fn images_of(folder: &Path, entry: &ModelEntry) -> Result<(Arc<dyn Dataset>, Vec<PathBuf>)> {
    let channels = if entry.preprocessing.input[2] == 1 { Channels::Gray } else { Channels::Rgb };
    let options = DecodeOptions { channels, eight_bits: true, ..DecodeOptions::default() };
    let dataset = TableDataset::unlabeled(folder, options)?;
    let below = |path: PathBuf| path.strip_prefix(folder).map(Path::to_path_buf).unwrap_or(path);
    let paths = images_below(folder)?.into_iter().map(below).collect();
    Ok((Arc::new(dataset), paths))
}

/// Writes features, and which image each row belongs to.
fn write_features(output: &Path, features: &HostTensor, paths: &[PathBuf]) -> Result<()> {
    let names: Vec<String> = paths.iter().map(|path| path.to_string_lossy().into_owned()).collect();
    match output.extension().and_then(|ending| ending.to_str()) {
        Some("npy") => {
            write_npy(output, features)?;
            let quoted = |name: &String| format!("\"{}\"\n", name.replace('"', "\"\""));
            let table = output.with_extension("csv");
            let text = std::iter::once("path\n".to_string()).chain(names.iter().map(quoted)).collect::<String>();
            std::fs::write(&table, text).with_context(|| format!("cannot write {}", table.display()))?;
        }
        Some("safetensors") => {
            let metadata = [("paths".to_string(), serde_json::to_string(&names)?)];
            save_safetensors(output, [("features", features)], &metadata)?;
        }
        _ => bail!("{} must end in .npy or .safetensors", output.display()),
    }
    Ok(())
}
