//! `octant image compare`: differences between results.

use super::target::engine;
use crate::Ending;
use crate::output::Json;
use anyhow::{Context, Result, bail};
use octant_data::write_png_u8;
use octant_process::{
    Filter, ImageDifference, Operation, ProcessError, Results, Semantics, Size, Variant, blur, method,
};
use serde_json::json;
use std::path::PathBuf;

/// Compare two images, or the results of libraries, precisions and devices for one
///
/// With two images (or folders with the same names), their differences. With one and --size or --sigma, the results of
/// several variants, each against the first. A variant is `SEMANTICS[:PRECISION[:DEVICE]]`, such as opencv,
/// torchvision:f32 or torchvision:bf16:cpu.
#[derive(clap::Args)]
pub(super) struct Arguments {
    /// An image or a folder of images
    input: PathBuf,
    /// The image or folder to compare it with
    #[arg(conflicts_with_all = ["size", "sigma", "filter", "antialias", "variants"])]
    other: Option<PathBuf>,
    /// Compare resizes to this width and height
    #[arg(long)]
    size: Option<Size>,
    /// Compare blurs of this standard deviation
    #[arg(long, conflicts_with_all = ["size", "filter", "antialias"])]
    sigma: Option<f32>,
    /// The filter of resizes
    #[arg(long, default_value = "bilinear")]
    filter: Filter,
    /// Whether filters widen when images shrink; what each library does if not given
    #[arg(long)]
    antialias: Option<bool>,
    /// What is compared; the first is what the others are compared with
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "opencv,torchvision,torchvision:f32,torchvision:f32:cpu,torchvision:bf16:cpu"
    )]
    variants: Vec<Variant>,
    /// What white is called: 255 for levels, 1 for shares of the range
    #[arg(long, default_value_t = 255.0)]
    white: f64,
    /// Write the differences of the last pair as an image, the largest white
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Print one JSON object per pair
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: Arguments) -> Result<Ending> {
    let results = match (&arguments.other, arguments.size, arguments.sigma) {
        (Some(other), _, _) => Results::of_both(&arguments.input, other)?,
        (None, None, None) => bail!("give a second image, or --size or --sigma to compare variants of one"),
        (None, _, _) => variants(&arguments)?,
    };
    let (reference, others) = results.split_first().context("there is nothing to compare")?;
    if !arguments.json {
        println!("differences from {} (white is {}):", reference.name, arguments.white);
        println!("{:<24} {:>9} {:>9} {:>9} {:>9} {:>9} {:>8}", "", "max", "median", "mean", "99 %", "99.9 %", "equal");
    }
    for other in others {
        show(&arguments, reference, other, reference.difference(other)?);
        if let Some(path) = &arguments.out {
            write_png_u8(path, &reference.difference_image(other)?)?;
        }
    }
    if let Some(note) = note(&arguments) {
        match arguments.json {
            true => Json::line(json!({ "event": "note", "text": note })),
            false => crate::output::line(note),
        }
    }
    if let (Some(path), false) = (&arguments.out, arguments.json) {
        println!("the last row's differences in the first image, the largest white: {}", path.display());
    }
    Ok(Ending::Done)
}

/// What the figures do not show: the name of a library may stand for two implementations.
fn note(arguments: &Arguments) -> Option<&'static str> {
    let of_opencv = |variant: &Variant| variant.semantics == Semantics::OpenCv;
    let is_bicubic = arguments.size.is_some() && arguments.filter == Filter::Bicubic;
    (is_bicubic && arguments.variants.iter().any(of_opencv)).then_some(
        "opencv is OpenCV's own bicubic filter, as with cv2.ipp.setUseIPP(False). The cv2 of pip uses IPP by default, which differs \
         from it by one level in about 4 % of the values.",
    )
}

fn show(arguments: &Arguments, reference: &Results, other: &Results, difference: ImageDifference) {
    let ImageDifference { values, equal, max, mean, median, p99, p999 } = difference;
    let [max, mean, median, p99, p999] = [max, mean, median, p99, p999].map(|level| level / 255.0 * arguments.white);
    match arguments.json {
        true => Json::line(json!({
            "event": "difference", "reference": reference.name, "other": other.name, "white": arguments.white,
            "values": values, "equal": equal, "max": max, "mean": mean, "median": median, "p99": p99, "p999": p999,
        })),
        false => println!(
            "{:<24} {max:>9.4} {median:>9.4} {mean:>9.4} {p99:>9.4} {p999:>9.4} {:>6.2} %",
            other.name,
            100.0 * equal
        ),
    }
}

/// What every variant makes of the images.
fn variants(arguments: &Arguments) -> Result<Vec<Results>> {
    let operation = |variant: &Variant| match arguments.size {
        Some(Size { width, height }) => {
            let method = method(arguments.filter, variant.semantics, arguments.antialias);
            Ok(Operation::Resize { height, width, method, pad: None })
        }
        None => Ok(Operation::Blur(blur(arguments.sigma.unwrap_or(1.0), None, variant.semantics)?)),
    };
    let open = |device: &str| engine(device, 16, 1).map_err(|error| ProcessError::Refused(crate::sentence(&error)));
    Ok(Results::of_variants(&arguments.variants, &arguments.input, operation, open)?)
}
