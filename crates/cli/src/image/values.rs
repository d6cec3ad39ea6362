//! `octant image threshold|round`: what becomes of every value, by a named rule. Images become PNG, `.npy` arrays of any shape stay
//! arrays.

use super::files::{self, Job};
use super::operation::to_floats;
use crate::Ending;
use crate::output::{Json, line};
use anyhow::{Context, Result, bail};
use octant_data::AnyImage;
use octant_imaging::Image;
use octant_imaging::mask;
use octant_tensor::{HostTensor, read_npy, write_npy};
use serde_json::json;
use std::path::{Path, PathBuf};

#[derive(clap::Args)]
struct Files {
    /// An image, a folder of images, or a .npy array
    input: PathBuf,
    /// The image or folder to write, or the .npy array
    out: PathBuf,
    /// What white is called in images: 255 for levels, 1 for shares of the range. Arrays are taken as they are
    #[arg(long)]
    white: Option<f32>,
    /// Print one JSON object per line
    #[arg(long)]
    json: bool,
}

/// Mark the values that reach a limit
#[derive(clap::Args)]
#[command(group(clap::ArgGroup::new("limit").required(true)))]
pub(super) struct Threshold {
    #[command(flatten)]
    files: Files,
    /// Mark values of at least this
    #[arg(long, value_name = "LIMIT", group = "limit")]
    at_least: Option<f32>,
    /// Mark values above this
    #[arg(long, value_name = "LIMIT", group = "limit")]
    above: Option<f32>,
    /// What marked values become, others become 0; 255 in images and 1 in arrays if not given
    #[arg(long)]
    marked: Option<u8>,
}

/// Make values whole by a named rule
#[derive(clap::Args)]
pub(super) struct Round {
    #[command(flatten)]
    files: Files,
    /// How
    #[arg(long, value_enum)]
    rule: Rule,
}

/// How floats become whole numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Rule {
    /// Down
    Floor,
    /// Towards zero, as a cast to an integer
    Truncate,
    /// To the nearest, ties to the even one: tf.round, torch.round, numpy.round
    HalfEven,
    /// To the nearest, ties up: a cast of x + 0.5
    HalfUp,
}

impl Rule {
    fn rounding(self) -> mask::Rounding {
        match self {
            Rule::Floor => mask::Rounding::Floor,
            Rule::Truncate => mask::Rounding::Truncate,
            Rule::HalfEven => mask::Rounding::HalfEven,
            Rule::HalfUp => mask::Rounding::HalfUp,
        }
    }
}

pub(super) fn threshold(arguments: &Threshold) -> Result<Ending> {
    let limit = match (arguments.at_least, arguments.above) {
        (Some(limit), _) => mask::Threshold::AtLeast(limit),
        (None, Some(limit)) => mask::Threshold::Above(limit),
        (None, None) => bail!("give --at-least or --above"),
    };
    let what = match limit {
        mask::Threshold::AtLeast(limit) => format!("at least {limit}"),
        mask::Threshold::Above(limit) => format!("above {limit}"),
    };
    if is_array(&arguments.files.input) {
        let marked = arguments.marked.unwrap_or(1);
        return on_array(&arguments.files, &what, |values| {
            let marks: Vec<u8> = values.iter().map(|&value| if limit.holds(value) { marked } else { 0 }).collect();
            Ok(marks.into())
        });
    }
    let marked = arguments.marked.unwrap_or(255);
    on_images(&arguments.files, &what, |image| {
        let marks = image.map(|value| if limit.holds(value) { marked } else { 0 });
        Ok(AnyImage::U8(marks))
    })
}

pub(super) fn round(arguments: &Round) -> Result<Ending> {
    let rounding = arguments.rule.rounding();
    let what = format!("{:?}", arguments.rule).to_lowercase();
    if is_array(&arguments.files.input) {
        return on_array(&arguments.files, &what, |values| {
            let whole = |&value: &f32| {
                let rounded = f64::from(rounding.apply(value));
                let fits = (f64::from(i32::MIN)..=f64::from(i32::MAX)).contains(&rounded);
                if fits { Ok(rounded as i32) } else { bail!("{value} is no number that an i32 holds") }
            };
            Ok(values.iter().map(whole).collect::<Result<Vec<i32>>>()?.into())
        });
    }
    if arguments.files.white.unwrap_or(255.0) == 255.0 {
        bail!(
            "the levels of images are whole numbers already; --white 1 rounds shares of the range, and arrays are .npy files"
        );
    }
    on_images(&arguments.files, &what, |image| {
        let rounded = image.map(|value| rounding.apply(value));
        match rounded.values().iter().all(|value| (0.0..=255.0).contains(value)) {
            true => Ok(AnyImage::U8(rounded.map(|value| value as u8))),
            false => bail!("an 8-bit image holds 0 to 255; choose a smaller --white"),
        }
    })
}

fn is_array(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("npy"))
}

/// Values of one of the types that the rules give.
enum Whole {
    U8(Vec<u8>),
    I32(Vec<i32>),
}

impl From<Vec<u8>> for Whole {
    fn from(values: Vec<u8>) -> Whole {
        Whole::U8(values)
    }
}

impl From<Vec<i32>> for Whole {
    fn from(values: Vec<i32>) -> Whole {
        Whole::I32(values)
    }
}

fn on_array(files: &Files, what: &str, rule: impl Fn(&[f32]) -> Result<Whole>) -> Result<Ending> {
    if files.white.is_some() {
        bail!("--white is for images; the values of an array are taken as they are");
    }
    if !is_array(&files.out) {
        bail!("an array becomes an array; give an OUT that ends in .npy, not {}", files.out.display());
    }
    let array = read_npy(&files.input)?;
    let values: Vec<f32> = array.to_f64s().into_iter().map(|value| value as f32).collect();
    let dims = array.dims().to_vec();
    let result = match rule(&values).with_context(|| files.input.display().to_string())? {
        Whole::U8(values) => HostTensor::new(dims, &values)?,
        Whole::I32(values) => HostTensor::new(dims, &values)?,
    };
    write_npy(&files.out, &result)?;
    let dtype = result.dtype().name();
    match files.json {
        true => Json::line(json!({
            "event": "array", "in": files.input, "out": files.out, "shape": result.dims(), "dtype": dtype, "rule": what,
        })),
        false => line(format_args!("{}: {what}, {dtype} {:?}", files.out.display(), result.dims())),
    }
    Ok(Ending::Done)
}

fn on_images(files: &Files, what: &str, rule: impl Fn(Image<f32>) -> Result<AnyImage>) -> Result<Ending> {
    let white = files.white.unwrap_or(255.0);
    if !(white > 0.0 && white.is_finite()) {
        bail!("--white must be greater than 0");
    }
    let jobs = files::jobs(&files.input, &files.out, None)?;
    let mut failed = 0;
    for job in &jobs {
        if let Err(error) = on_image(job, files, what, white, &rule) {
            eprintln!("failed: {}: {error:#}", job.image.display());
            failed += 1;
        }
    }
    if !files.json {
        line(format_args!("{what}: {} image(s), written to {}", jobs.len() - failed, files.out.display()));
    }
    match failed {
        0 => Ok(Ending::Done),
        _ => bail!("{failed} of {} images failed; they are listed above", jobs.len()),
    }
}

fn on_image(
    job: &Job,
    files: &Files,
    what: &str,
    white: f32,
    rule: impl Fn(Image<f32>) -> Result<AnyImage>,
) -> Result<()> {
    let image = files::read(&job.image)?;
    let full = match image {
        AnyImage::U8(_) => 255.0,
        AnyImage::U16(_) => 65535.0,
        AnyImage::F32(_) => 1.0,
    };
    // Divided last: a level of 128 of 255 is 128 again, and half of the range is exactly what 0.5 is compared with.
    let result = rule(to_floats(&image).map(|value| value * white / full))?;
    files::write(&job.out, &result)?;
    if files.json {
        let [height, width, channels] = result.dims();
        Json::line(json!({
            "event": "image", "in": job.image, "out": job.out, "width": width, "height": height, "channels": channels,
            "dtype": result.dtype().name(), "rule": what,
        }));
    }
    Ok(())
}
