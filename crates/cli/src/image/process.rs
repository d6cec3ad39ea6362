//! `octant image resize|crop|blur`: read, compute, write.

use super::engine::Engine;
use super::files::{self, Job};
use super::operation::{Operation, Precision, Size, stored_like, window};
use super::times::Target;
use crate::Ending;
use crate::output::Json;
use anyhow::{Context, Result, bail};
use octant_data::AnyImage;
use octant_graph::DType;
use octant_imaging::blur::GaussianBlur;
use octant_imaging::geometry::{Border, PixelWindow, center_window};
use octant_imaging::mask::{MaskCrop, Threshold, bounds};
use octant_imaging::resize::Method;
use octant_imaging::{Filter, Image, Semantics};
use serde_json::json;
use std::path::PathBuf;

/// What is read and written.
#[derive(clap::Args)]
pub(super) struct Files {
    /// An image, a folder of images, or a folder with video/ and mask/
    input: PathBuf,
    /// The image or folder to write; images are written as PNG
    out: PathBuf,
    /// The mask, or the folder of masks with the images' names
    #[arg(long, value_name = "PATH")]
    masks: Option<PathBuf>,
    /// Print one JSON object per line
    #[arg(long)]
    json: bool,
}

/// Bring images to another size
#[derive(clap::Args)]
pub(super) struct Resize {
    #[command(flatten)]
    files: Files,
    /// Width and height, such as 512x384
    #[arg(long)]
    size: Size,
    /// Keep the shape of what is seen and fill the rest of the size on both sides: constant, edge or reflect
    #[arg(long, value_enum, value_name = "BORDER")]
    pad: Option<Pad>,
    /// The value of every channel of a constant border, in the units of the image; 0 if not given
    #[arg(long, value_name = "VALUE", requires = "pad")]
    fill: Option<f64>,
    /// nearest, bilinear, bicubic, area or lanczos
    #[arg(long, default_value = "bilinear")]
    filter: Filter,
    /// Whose results: pil (colors multiplied by alpha), torchvision, opencv (its own code, not IPP's) or tensorflow
    #[arg(long, default_value = "pil")]
    semantics: Semantics,
    /// Whether the filter widens when images shrink; what the library does if not given
    #[arg(long)]
    antialias: Option<bool>,
    #[command(flatten)]
    target: Target,
}

/// What the rest of a frame is filled with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Pad {
    /// One value, that of --fill
    Constant,
    /// The pixels of the edge
    Edge,
    /// The image mirrored, its edge not repeated
    Reflect,
}

/// Cut out what a mask marks, or a fixed window
#[derive(clap::Args)]
pub(super) struct Crop {
    #[command(flatten)]
    files: Files,
    /// A fixed window instead of a mask's: left,top,width,height
    #[arg(long, conflicts_with = "center")]
    window: Option<String>,
    /// The middle instead of a mask's window: width and height
    #[arg(long)]
    center: Option<Size>,
    /// Pixels to keep around what the mask marks
    #[arg(long, default_value_t = 0)]
    padding: usize,
    /// The crop is at least this high and wide, where the image allows it
    #[arg(long, default_value_t = 1)]
    min_size: usize,
    /// Width divided by height, reached by enlarging one of them
    #[arg(long)]
    aspect: Option<f64>,
    /// One window for all images, around everything that any mask marks
    #[arg(long)]
    steady: bool,
    /// A mask marks where it is at least this
    #[arg(long, default_value_t = 128.0)]
    threshold: f32,
    /// A mask marks only where it is above the threshold
    #[arg(long)]
    above: bool,
    #[command(flatten)]
    target: Target,
}

/// Gaussian blur
#[derive(clap::Args)]
pub(super) struct Blur {
    #[command(flatten)]
    files: Files,
    /// Standard deviation in pixels; with opencv, 0 derives it from --kernel
    #[arg(long)]
    sigma: f32,
    /// Pixels that the kernel covers, an odd number; derived from --sigma if not given
    #[arg(long)]
    kernel: Option<usize>,
    /// Whose results: pil, torchvision or opencv
    #[arg(long, default_value = "torchvision")]
    semantics: Semantics,
    #[command(flatten)]
    target: Target,
}

pub(super) fn resize(arguments: Resize) -> Result<Ending> {
    let Resize { files, size, pad, fill, filter, semantics, antialias, target } = arguments;
    let method = method(filter, semantics, antialias);
    if fill.is_some() && pad != Some(Pad::Constant) {
        bail!("--fill is the value of a constant border; add --pad constant or leave it out");
    }
    let border = |fill: f64| match pad? {
        Pad::Constant => Some(Border::Constant(fill)),
        Pad::Edge => Some(Border::Repeat),
        Pad::Reflect => Some(Border::Reflect),
    };
    let of = |method, pad| Operation::Resize { height: size.height, width: size.width, method, pad };
    let padded = pad.map(|pad| format!(", {} border", format!("{pad:?}").to_lowercase())).unwrap_or_default();
    let what = format!("resize to {}×{}, {filter}, {semantics}{padded}", size.width, size.height);
    let work = Work::read(&files)?;
    // Masks hold labels, which must not be mixed; beyond an image there are none.
    let for_masks = of(Method::new(Filter::Nearest, semantics), border(0.0));
    let count = work.jobs.len();
    let operations = vec![of(method, border(fill.unwrap_or(0.0))); count];
    work.process(&files, &target, &what, &operations, Some(&vec![for_masks; count]))
}

pub(super) fn blur(arguments: Blur) -> Result<Ending> {
    let Blur { files, sigma, kernel, semantics, target } = arguments;
    if !(sigma >= 0.0 && sigma.is_finite()) || (sigma == 0.0 && kernel.is_none()) {
        bail!("--sigma must be greater than 0");
    }
    let operation = Operation::Blur(gaussian(sigma, kernel, semantics)?);
    let what = format!("blur with sigma {sigma}, {semantics}");
    let work = Work::read(&files)?;
    let operations = vec![operation; work.jobs.len()];
    work.process(&files, &target, &what, &operations, None)
}

pub(super) fn crop(arguments: Crop) -> Result<Ending> {
    let mut work = Work::read(&arguments.files)?;
    let windows = windows(&arguments, &mut work)?;
    let operations: Vec<Operation> = windows.into_iter().map(Operation::Crop).collect();
    work.process(&arguments.files, &arguments.target, "crop", &operations, Some(&operations))
}

pub(super) fn method(filter: Filter, semantics: Semantics, antialias: Option<bool>) -> Method {
    let usual = Method::new(filter, semantics);
    Method { antialias: antialias.unwrap_or(usual.antialias), ..usual }
}

/// A blur as a person describes it. Torchvision has no size of its own: three standard deviations to each side.
pub(super) fn gaussian(sigma: f32, kernel: Option<usize>, semantics: Semantics) -> Result<GaussianBlur> {
    if kernel.is_some_and(|size| size.is_multiple_of(2)) {
        bail!("--kernel must be an odd number: the middle of the kernel lies on a pixel");
    }
    let size = match (kernel, semantics) {
        (Some(size), _) => size,
        (None, Semantics::Torchvision) => 2 * (3.0 * sigma).ceil() as usize + 1,
        (None, _) => 0,
    };
    Ok(GaussianBlur { sigma, size, semantics })
}

/// The window of every image that has one; the others are left out of the work.
fn windows(arguments: &Crop, work: &mut Work) -> Result<Vec<PixelWindow>> {
    if let Some(text) = &arguments.window {
        let wanted = window(text)?;
        return Ok(work.keep(|_, image| fitting(wanted, image)));
    }
    if let Some(size) = arguments.center {
        return Ok(work.keep(|_, image| {
            let [height, width, _] = image.dims();
            Ok(center_window(&Image::filled(height, width, 1, 0u8), size.height.min(height), size.width.min(width)))
        }));
    }
    if work.jobs.iter().any(|job| job.mask.is_none()) {
        bail!("give --masks, a folder with video/ and mask/, --window or --center");
    }
    let threshold = match arguments.above {
        true => Threshold::Above(arguments.threshold),
        false => Threshold::AtLeast(arguments.threshold),
    };
    let mut masks = work.keep(|job, image| {
        let (path, _) = job.mask.as_ref().context("it has no mask")?;
        let mask = files::read_mask(path, threshold)?;
        if mask.dims()[..2] != image.dims()[..2] {
            bail!("{} and its mask have different sizes", job.image.display());
        }
        Ok(mask)
    });
    if arguments.steady && !masks.is_empty() {
        let all = together(&masks)?;
        masks.fill(all);
    }
    let crop = MaskCrop { padding: arguments.padding, min_size: arguments.min_size, aspect: arguments.aspect };
    // A mask that marks nothing keeps its whole image.
    let window = |mask: &Image<u8>| {
        crop.window(mask).unwrap_or(PixelWindow { top: 0, left: 0, height: mask.height(), width: mask.width() })
    };
    Ok(masks.iter().map(window).collect())
}

/// A window that lies in the image as a whole: a part of it would be of another size than was asked for.
fn fitting(window: PixelWindow, image: &AnyImage) -> Result<PixelWindow> {
    let [height, width, _] = image.dims();
    let PixelWindow { top, left, height: rows, width: columns } = window;
    let fits = |first: usize, length: usize, size: usize| first.checked_add(length).is_some_and(|end| end <= size);
    if !fits(top, rows, height) || !fits(left, columns, width) {
        bail!("the window {left},{top},{columns},{rows} does not lie in the image, which is {width}×{height}");
    }
    Ok(window)
}

/// A mask that marks the corners of everything that any of the masks marks.
fn together(masks: &[Image<u8>]) -> Result<Image<u8>> {
    let first = masks.first().context("there are no masks")?;
    if masks.iter().any(|mask| mask.dims() != first.dims()) {
        bail!("--steady needs images of one size");
    }
    let mut all = Image::filled(first.height(), first.width(), 1, 0u8);
    for window in masks.iter().filter_map(bounds) {
        all.row_mut(window.top)[window.left] = 1;
        all.row_mut(window.top + window.height - 1)[window.left + window.width - 1] = 1;
    }
    Ok(all)
}

/// Images to work on. One that cannot be read or worked on is said and left out; the command fails at the end.
struct Work {
    jobs: Vec<Job>,
    images: Vec<AnyImage>,
    failed: usize,
}

impl Work {
    fn read(files: &Files) -> Result<Work> {
        let jobs = files::jobs(&files.input, &files.out, files.masks.as_deref())?;
        let mut work = Work { jobs: Vec::new(), images: Vec::new(), failed: 0 };
        for job in jobs {
            match files::read(&job.image) {
                Ok(image) => {
                    work.images.push(image);
                    work.jobs.push(job);
                }
                Err(error) => work.fail(&job, &error),
            }
        }
        Ok(work)
    }

    fn fail(&mut self, job: &Job, error: &anyhow::Error) {
        let text = format!("{error:#}");
        let path = job.image.display().to_string();
        eprintln!("failed: {}", if text.contains(&path) { text } else { format!("{path}: {text}") });
        self.failed += 1;
    }

    /// Something about every image; images of which it cannot be had are left out.
    fn keep<T>(&mut self, about: impl Fn(&Job, &AnyImage) -> Result<T>) -> Vec<T> {
        let mut kept = Vec::new();
        let (jobs, images) = (std::mem::take(&mut self.jobs), std::mem::take(&mut self.images));
        for (job, image) in jobs.into_iter().zip(images) {
            match about(&job, &image) {
                Ok(value) => {
                    kept.push(value);
                    self.jobs.push(job);
                    self.images.push(image);
                }
                Err(error) => self.fail(&job, &error),
            }
        }
        kept
    }

    /// Runs the operations, writes images and masks, and says how long it took.
    fn process(
        mut self,
        files: &Files,
        target: &Target,
        what: &str,
        operations: &[Operation],
        for_masks: Option<&[Operation]>,
    ) -> Result<Ending> {
        let all = self.jobs.len() + self.failed;
        if !self.jobs.is_empty() {
            let mut engine = Engine::open(target)?;
            let (results, times) = engine.run(&self.images, operations, target)?;
            for (number, result) in results.into_iter().enumerate() {
                let computed = target.precision.dtype(self.images[number].dtype());
                let report = files.json.then_some(computed);
                let written = self.write(number, result, report, for_masks.map(|operations| &operations[number]));
                if let Err(error) = written {
                    self.fail(&self.jobs[number].clone(), &error);
                }
            }
            let precision = format!("{:?}", target.precision).to_lowercase();
            let what = format!("{what}, {precision} precision, on {}", engine.name());
            times.print(&what, self.jobs.len(), files.json);
            if !files.json {
                println!("  written to  {}", files.out.display());
            }
        }
        match self.failed {
            0 => Ok(Ending::Done),
            failed => bail!("{failed} of {all} images failed; they are listed above"),
        }
    }

    /// Writes one result, and reports it with the type that it was computed in where that is wanted.
    fn write(
        &self,
        number: usize,
        result: AnyImage,
        report: Option<DType>,
        for_mask: Option<&Operation>,
    ) -> Result<()> {
        let job = &self.jobs[number];
        let result = stored_like(result, &self.images[number]);
        let [height, width, channels] = result.dims();
        files::write(&job.out, &result)?;
        if let Some(computed) = report {
            Json::line(json!({
                "event": "image", "in": job.image, "out": job.out, "width": width, "height": height,
                "channels": channels, "dtype": result.dtype().name(), "computed_in": computed.name(),
            }));
        }
        if let Some((mask, Some(out))) = &job.mask {
            let mask = files::read(mask)?;
            let moved = for_mask.map(|operation| operation.on_host(&mask, Precision::Stored));
            files::write(out, &moved.unwrap_or(Ok(mask))?)?;
        }
        Ok(())
    }
}
