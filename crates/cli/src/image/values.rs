//! `octant image threshold|round`: what becomes of every value, by a named rule. Images become PNG, `.npy` arrays of any shape stay
//! arrays.

use crate::output::{Json, line};
use crate::{Ending, hints};
use anyhow::{Result, bail};
use octant_process::{Processed, Rounding, ValueRule, WorkEvent, is_array};
use serde_json::json;
use std::path::PathBuf;

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
    /// How: floor, truncate (towards zero, as a cast to an integer), half-even (ties to the even number: tf.round, torch.round,
    /// numpy.round) or half-up (ties up: a cast of x + 0.5)
    #[arg(long)]
    rule: Rounding,
}

pub(super) fn threshold(arguments: &Threshold) -> Result<Ending> {
    let limit = match (arguments.at_least, arguments.above) {
        (Some(limit), _) => octant_process::Threshold::AtLeast(limit),
        (None, Some(limit)) => octant_process::Threshold::Above(limit),
        (None, None) => bail!("give --at-least or --above"),
    };
    arguments.files.apply(&ValueRule::Threshold { limit, marked: arguments.marked })
}

pub(super) fn round(arguments: &Round) -> Result<Ending> {
    let files = &arguments.files;
    if !is_array(&files.input) && files.white.unwrap_or(255.0) == 255.0 {
        bail!(
            "the levels of images are whole numbers already; --white 1 rounds shares of the range, and arrays are .npy files"
        );
    }
    files.apply(&ValueRule::Round(arguments.rule))
}

impl Files {
    fn apply(&self, rule: &ValueRule) -> Result<Ending> {
        if is_array(&self.input) { self.array(rule) } else { self.images(rule) }
    }

    fn array(&self, rule: &ValueRule) -> Result<Ending> {
        if self.white.is_some() {
            bail!("--white is for images; the values of an array are taken as they are");
        }
        let result = rule.on_array_file(&self.input, &self.out)?;
        let dtype = result.dtype().name();
        match self.json {
            true => Json::line(json!({
                "event": "array", "in": self.input, "out": self.out, "shape": result.dims(), "dtype": dtype,
                "rule": rule.to_string(),
            })),
            false => line(format_args!("{}: {rule}, {dtype} {:?}", self.out.display(), result.dims())),
        }
        Ok(Ending::Done)
    }

    fn images(&self, rule: &ValueRule) -> Result<Ending> {
        let white = self.white.unwrap_or(255.0);
        if !(white > 0.0 && white.is_finite()) {
            bail!("--white must be greater than 0");
        }
        let mut show = |event: WorkEvent| match event {
            WorkEvent::Failed(sentence) => eprintln!("failed: {}", hints::with_flags(&sentence)),
            WorkEvent::Written { image, out, dims: [height, width, channels], dtype, .. } if self.json => {
                Json::line(json!({
                    "event": "image", "in": image, "out": out, "width": width, "height": height, "channels": channels,
                    "dtype": dtype.name(), "rule": rule.to_string(),
                }));
            }
            WorkEvent::Written { .. } => {}
        };
        let Processed { images, failed, .. } = rule.on_files(&self.input, &self.out, white, &mut show)?;
        if !self.json {
            line(format_args!("{rule}: {} image(s), written to {}", images - failed, self.out.display()));
        }
        match failed {
            0 => Ok(Ending::Done),
            _ => bail!("{failed} of {images} images failed; they are listed above"),
        }
    }
}
