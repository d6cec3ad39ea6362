//! The `predict` command: pictures through a run, or raw tensors through a model.

use crate::output::Json;
use crate::recipes::Recipe;
use crate::{Ending, device, eval, prepare, train};
use anyhow::{Context, Result, bail};
use octant_archive::Archive;
use octant_data::decode::{DecodeOptions, Format, read_picture};
use octant_data::{Picture, Sample, SampleRng, Step, Target, Transform, write_png_u8};
use octant_graph::{DType, HostTensor, Shape, Trace};
use octant_imaging::resize::Method;
use octant_imaging::{Filter, Image, Semantics};
use octant_nn::{Context as Network, Mode};
use octant_runtime::{CompileOptions, Mesh, Program, Sharding};
use octant_tensor::{read_npy, write_npy};
use octant_train::Predictor;
use octant_train::step::StepPlan;
use serde_json::json;
use std::path::{Path, PathBuf};

/// Ask a run about pictures, or a model with weights about tensors
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// A run directory and the pictures (or folders of pictures) to look at
    paths: Vec<PathBuf>,
    /// Raw tensors: the model; `octant models` lists them
    #[arg(long, requires_all = ["input", "output"])]
    model: Option<String>,
    /// Raw tensors: the size of the head, if not the published one
    #[arg(long)]
    classes: Option<usize>,
    /// Raw tensors: the file of weights; random ones from --seed if not given
    #[arg(long)]
    weights: Option<PathBuf>,
    /// Raw tensors: a .npy file of pictures as the network sees them, after normalisation
    #[arg(long, value_name = "FILE")]
    input: Option<PathBuf>,
    /// Raw tensors: the order of axes in the input and the output, nchw or nhwc
    #[arg(long, default_value = "nchw")]
    layout: String,
    /// Raw tensors: where the output goes as .npy. A run: the folder for masks and overlays
    #[arg(long, value_name = "PATH")]
    output: Option<PathBuf>,
    /// Which checkpoint of the run: best or last
    #[arg(long, default_value = "best")]
    checkpoint: String,
    /// The seed of random weights
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// What layers compute in: f32 or bf16
    #[arg(long, default_value = "f32")]
    precision: String,
    /// The device: auto or cpu
    #[arg(long, default_value = "auto")]
    device: String,
    /// Threads of the CPU engine; all cores if not given
    #[arg(long)]
    threads: Option<usize>,
    /// Print one JSON object per picture instead of CSV
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: Arguments) -> Result<Ending> {
    match (&arguments.model, &arguments.paths[..]) {
        (Some(model), []) => raw(model, &arguments),
        (Some(_), _) => bail!("--model takes --input and no run directory"),
        (None, []) => bail!("give a run directory and pictures, or --model with --weights, --input and --output"),
        (None, [_]) => bail!("give the pictures to look at after the run directory"),
        (None, [run, pictures @ ..]) => of_run(run, pictures, &arguments),
    }
}

/// One tensor through one network.
fn raw(name: &str, arguments: &Arguments) -> Result<Ending> {
    let (Some(input), Some(output)) = (&arguments.input, &arguments.output) else {
        bail!("--model needs --input x.npy and --output y.npy");
    };
    let entry = octant_zoo::find(name)?;
    let model = (entry.build)(arguments.classes.unwrap_or(entry.classes));
    let is_nchw = match arguments.layout.as_str() {
        "nchw" => true,
        "nhwc" => false,
        other => bail!("there is no layout \"{other}\"; use nchw or nhwc"),
    };
    let tensor = read_npy(input)?;
    if tensor.dims().len() != 4 {
        bail!(
            "{} has {} axes; pictures have four: a batch, rows, columns, channels",
            input.display(),
            tensor.dims().len()
        );
    }
    let tensor = HostTensor::from_f64s(tensor.shape().with_dtype(DType::F32), &tensor.to_f64s())?;
    let images = if is_nchw { reordered(&tensor, &[0, 2, 3, 1])? } else { tensor };
    let trace = Trace::new();
    let placeholder = trace.input("images", images.shape().clone());
    let precision = train::precision(&arguments.precision)?;
    let context = Network::new(&trace, Mode::Evaluate, precision);
    let result = model.forward(&context.root(), &placeholder.convert(precision.dtype())).convert(DType::F32);
    let specs: Vec<_> = context.variables().into_iter().map(|variable| variable.spec).collect();
    let values = match &arguments.weights {
        Some(path) => {
            let loaded = octant_zoo::weights::load(&Archive::open(path)?, &*model, &specs, arguments.seed);
            loaded.matching.require(true)?;
            loaded.values
        }
        None => specs.iter().map(|spec| spec.initial(arguments.seed)).collect(),
    };
    let backend = device::open(&arguments.device, arguments.threads)?;
    let program = Program::new("prediction", trace.finish(&[result])?);
    let executable = backend.compile(&program, &CompileOptions::default())?;
    let upload = |tensor: &HostTensor| backend.upload(tensor, &Mesh::single(), &Sharding::Replicated);
    // The trace declared the pictures first, then the variables in their order.
    let inputs: Result<Vec<_>, _> = std::iter::once(&images).chain(&values).map(upload).collect();
    let answer = executable.execute(&inputs?)?.remove(0).to_host()?;
    let answer = match is_nchw && answer.dims().len() == 4 {
        true => reordered(&answer, &[0, 3, 1, 2])?,
        false => answer,
    };
    write_npy(output, &answer)?;
    match arguments.json {
        true => Json::line(json!({ "event": "done", "model": entry.name, "output": output, "shape": answer.dims() })),
        false => println!("{} {} → {} {}", entry.name, images.shape(), output.display(), answer.shape()),
    }
    Ok(Ending::Done)
}

fn reordered(tensor: &HostTensor, axes: &[usize]) -> Result<HostTensor> {
    let strides = tensor.shape().strides();
    let dims: Vec<usize> = axes.iter().map(|&axis| tensor.dims()[axis]).collect();
    let along: Vec<usize> = axes.iter().map(|&axis| strides[axis]).collect();
    Ok(HostTensor::from_strides(Shape::new(tensor.dtype(), dims), tensor.bytes(), 0, &along)?)
}

/// Pictures through the network of a run, one at a time.
fn of_run(run: &Path, paths: &[PathBuf], arguments: &Arguments) -> Result<Ending> {
    let (recipe, weights) = eval::resolve(run, None, &arguments.checkpoint, None, &[])?;
    let files = pictures(paths)?;
    let (outputs, names) = head(&recipe, &weights)?;
    let entry = octant_zoo::find(&recipe.model)?;
    let mut transform = prepare::transform(&recipe, &recipe.eval_transform, false, entry)?;
    if transform.steps.is_empty() {
        // The recipe's own pictures are all of one size; others must be brought to it.
        let side = recipe.image_size.or(recipe.data.side).unwrap_or(entry.preprocessing.input[0]);
        transform
            .steps
            .push(Step::Resize { size: (side, side), method: Method::new(Filter::Bilinear, Semantics::Pil) });
    }
    let channels = match entry.preprocessing.input[2] {
        1 => octant_data::decode::Channels::Grey,
        _ => octant_data::decode::Channels::Rgb,
    };
    let options = DecodeOptions { channels, eight_bits: true, ..DecodeOptions::default() };
    let prepared = |path: &PathBuf| -> Result<Image<u8>> {
        let sample = Sample { picture: read_picture(path, &options)?, target: Target::Class(0) };
        match transform.apply(sample, &mut SampleRng::new(0, 0, 0))?.picture {
            Picture::U8(image) => Ok(image),
            other => {
                bail!("{} has elements of {}; put to-u8 into the recipe's transform", path.display(), other.dtype())
            }
        }
    };
    let first = files.first().context("there are no pictures in what was given")?;
    let dims = prepared(first)?.dims();
    let task = prepare::task(&recipe, outputs, dims, false)?;
    let backend = device::open(&arguments.device, arguments.threads)?;
    let precision = train::precision(&recipe.precision)?;
    let plan = StepPlan { precision, ..StepPlan::new(&*task, 1) };
    let values = eval::values(&recipe, &weights, outputs)?;
    let predictor = Predictor::new(&*backend, &plan, &CompileOptions::default(), &values)?;
    let folder = arguments.output.clone().unwrap_or_else(|| run.join("predictions"));
    let writer = Writer { recipe: &recipe, names, folder, json: arguments.json };
    writer.header();
    for path in &files {
        let image = prepared(path)?;
        if image.dims() != dims {
            bail!(
                "{} is {:?} after the transform, the first picture {dims:?}; the recipe needs a resize for that",
                path.display(),
                image.dims()
            );
        }
        let tensor = HostTensor::new([1, dims[0], dims[1], dims[2]], image.values())?;
        writer.row(path, &image, &predictor.predict(&tensor)?)?;
    }
    Ok(Ending::Done)
}

/// How many outputs the weights have, and the names of classes where the run's data can still be opened.
fn head(recipe: &Recipe, weights: &Path) -> Result<(usize, Vec<String>)> {
    if let Ok(data) = prepare::data(recipe) {
        return Ok((recipe.classes.unwrap_or(data.outputs), data.train.class_names().to_vec()));
    }
    if let Some(classes) = recipe.classes {
        return Ok((classes, Vec::new()));
    }
    // The data is gone: the head's bias tells how many outputs there are.
    let (model, _) = prepare::model(recipe, 1)?;
    let archive = Archive::open(weights)?;
    let head = model.head_paths();
    let bias = archive
        .tensors
        .iter()
        .find(|(name, tensor)| tensor.dims().len() == 1 && head.iter().any(|head| name.starts_with(head.as_str())));
    let (_, bias) = bias.context("the weights do not tell how many classes there are; set classes in config.toml")?;
    Ok((bias.dims()[0], Vec::new()))
}

/// All pictures among files and folders, folders in the order of names.
fn pictures(paths: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for path in paths {
        if !path.is_dir() {
            files.push(path.clone());
            continue;
        }
        let entries = std::fs::read_dir(path).with_context(|| format!("cannot read {}", path.display()))?;
        let mut inside: Vec<PathBuf> = entries
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| Format::has_picture_extension(path))
            .collect();
        inside.sort();
        files.extend(inside);
    }
    Ok(files)
}

/// Writes what was predicted.
struct Writer<'a> {
    recipe: &'a Recipe,
    names: Vec<String>,
    folder: PathBuf,
    json: bool,
}

impl Writer<'_> {
    fn header(&self) {
        if !self.json {
            println!(
                "{}",
                match self.recipe.task.as_str() {
                    "classify" => "path,class,name,probability",
                    "segment" => "path,marked_pixels,components,mask,overlay",
                    _ => "path,values",
                }
            );
        }
    }

    fn row(&self, path: &Path, image: &Image<u8>, answer: &HostTensor) -> Result<()> {
        match self.recipe.task.as_str() {
            "classify" => {
                let values = answer.to_f64s();
                let (class, probability) =
                    values.iter().copied().enumerate().max_by(|a, b| a.1.total_cmp(&b.1)).unwrap_or_default();
                let name = self.names.get(class).cloned().unwrap_or_else(|| class.to_string());
                match self.json {
                    true => Json::line(
                        json!({ "path": path, "class": class, "name": name, "probability": probability, "probabilities": values }),
                    ),
                    false => println!("{},{class},{name},{probability:.6}", path.display()),
                }
            }
            "segment" => self.mask(path, image, answer)?,
            _ => {
                let values = answer.to_f64s();
                let text: Vec<String> = values.iter().map(f64::to_string).collect();
                match self.json {
                    true => Json::line(json!({ "path": path, "values": values })),
                    false => println!("{},{}", path.display(), text.join(",")),
                }
            }
        }
        Ok(())
    }

    /// A mask of 0 and 255, and the picture with what was marked in red.
    fn mask(&self, path: &Path, image: &Image<u8>, answer: &HostTensor) -> Result<()> {
        std::fs::create_dir_all(&self.folder).with_context(|| format!("cannot write to {}", self.folder.display()))?;
        let (height, width) = (image.height(), image.width());
        let marked: Vec<bool> = answer.bytes().iter().map(|&score| score >= 128).collect();
        let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or("picture");
        let [mask_path, overlay_path] = ["mask", "overlay"].map(|kind| self.folder.join(format!("{stem}-{kind}.png")));
        write_png_u8(
            &mask_path,
            &Image::from_fn(height, width, 1, |row, column, _| if marked[row * width + column] { 255u8 } else { 0 }),
        )?;
        let overlay = Image::from_fn(height, width, 3, |row, column, channel| {
            let pixel = image.pixel(row, column);
            let value = pixel[channel.min(pixel.len() - 1)];
            match (marked[row * width + column], channel) {
                (true, 0) => 255,
                (true, _) => value / 3,
                (false, _) => value,
            }
        });
        write_png_u8(&overlay_path, &overlay)?;
        let count = marked.iter().filter(|&&marked| marked).count();
        let components = octant_metrics::components(&marked, width).len();
        match self.json {
            true => Json::line(
                json!({ "path": path, "marked_pixels": count, "components": components, "mask": mask_path, "overlay": overlay_path }),
            ),
            false => {
                println!("{},{count},{components},{},{}", path.display(), mask_path.display(), overlay_path.display())
            }
        }
        Ok(())
    }
}
