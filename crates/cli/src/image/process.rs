//! `octant image resize|crop|blur`: read, compute, write.

use super::target::{self, Target};
use crate::output::Json;
use crate::{Ending, hints};
use anyhow::{Result, bail};
use octant_process::{
    Border, CropBy, Filter, MaskCrop, Operation, Semantics, Size, Threshold, Work, WorkEvent, blur, method, window,
};
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
    #[arg(long, conflicts_with_all = ["center", "padding", "min_size", "aspect", "steady", "threshold", "above"])]
    window: Option<String>,
    /// The middle instead of a mask's window: width and height
    #[arg(long, conflicts_with_all = ["padding", "min_size", "aspect", "steady", "threshold", "above"])]
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
    if fill.is_some() && pad != Some(Pad::Constant) {
        bail!("--fill is the value of a constant border; add --pad constant or leave it out");
    }
    let border = pad.map(|pad| match pad {
        Pad::Constant => Border::Constant(fill.unwrap_or(0.0)),
        Pad::Edge => Border::Repeat,
        Pad::Reflect => Border::Reflect,
    });
    let method = method(filter, semantics, antialias);
    let operation = Operation::Resize { height: size.height, width: size.width, method, pad: border };
    let padded = pad.map(|pad| format!(", {} border", format!("{pad:?}").to_lowercase())).unwrap_or_default();
    let what = format!("resize to {}×{}, {filter}, {semantics}{padded}", size.width, size.height);
    files.process(&target, &what, |work| Ok(vec![operation; work.len()]))
}

pub(super) fn blurred(arguments: Blur) -> Result<Ending> {
    let Blur { files, sigma, kernel, semantics, target } = arguments;
    if !(sigma >= 0.0 && sigma.is_finite()) || (sigma == 0.0 && kernel.is_none()) {
        bail!("--sigma must be greater than 0");
    }
    let operation = Operation::Blur(blur(sigma, kernel, semantics)?);
    files.process(&target, &format!("blur with sigma {sigma}, {semantics}"), |work| Ok(vec![operation; work.len()]))
}

pub(super) fn crop(arguments: Crop) -> Result<Ending> {
    let Crop { files, window: text, center, padding, min_size, aspect, steady, threshold, above, target } = arguments;
    let by = match (&text, center) {
        (Some(text), _) => CropBy::Window(window(text)?),
        (None, Some(size)) => CropBy::Center(size),
        (None, None) => {
            let threshold = if above { Threshold::Above(threshold) } else { Threshold::AtLeast(threshold) };
            CropBy::Masks { threshold, crop: MaskCrop { padding, min_size, aspect }, steady }
        }
    };
    files.process(&target, "crop", |work| {
        if matches!(by, CropBy::Masks { .. }) && !work.has_masks() {
            bail!("give --masks, a folder with video/ and mask/, --window or --center");
        }
        Ok(work.crops(&by)?)
    })
}

impl Files {
    /// Applies one operation to each image, writes images and masks, and prints how long it took.
    fn process(
        &self,
        target: &Target,
        what: &str,
        operations: impl FnOnce(&mut Work) -> Result<Vec<Operation>>,
    ) -> Result<Ending> {
        let mut show = |event: WorkEvent| match event {
            WorkEvent::Failed(sentence) => eprintln!("failed: {}", hints::with_flags(&sentence)),
            WorkEvent::Written { image, out, dims: [height, width, channels], dtype, computed_in } if self.json => {
                Json::line(json!({
                    "event": "image", "in": image, "out": out, "width": width, "height": height,
                    "channels": channels, "dtype": dtype.name(), "computed_in": computed_in.name(),
                }));
            }
            WorkEvent::Written { .. } => {}
        };
        let mut work = Work::read(&self.input, &self.out, self.masks.as_deref(), &mut show)?;
        let operations = operations(&mut work)?;
        let count = work.len();
        let done = match work.is_empty() {
            true => work.nothing_left(),
            false => {
                let (engine, precision) = (target.open()?, target.precision);
                let done = work.process(&engine, &operations, precision, target.runs)?;
                let what = format!("{what}, {precision} precision, on {}", engine.name());
                done.times.iter().for_each(|times| target::print(times, &what, count, self.json));
                if !self.json {
                    println!("  written to  {}", self.out.display());
                }
                done
            }
        };
        match done.failed {
            0 => Ok(Ending::Done),
            failed => bail!("{failed} of {} images failed; they are listed above", done.images),
        }
    }
}
