//! `octant image threshold|round`: what becomes of every value, by a named rule. Images become PNG, `.npy` arrays of any shape stay
//! arrays.

use crate::output::{Json, line};
use crate::{Ending, hints};
use anyhow::{Context, Result, bail};
use octant_process::files::{self, Job};
use octant_process::{Rounding, ValueRule};
use octant_tensor::{read_npy, write_npy};
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

fn is_array(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("npy"))
}

impl Files {
    fn apply(&self, rule: &ValueRule) -> Result<Ending> {
        if is_array(&self.input) { self.array(rule) } else { self.images(rule) }
    }

    fn array(&self, rule: &ValueRule) -> Result<Ending> {
        if self.white.is_some() {
            bail!("--white is for images; the values of an array are taken as they are");
        }
        if !is_array(&self.out) {
            bail!("an array becomes an array; give an OUT that ends in .npy, not {}", self.out.display());
        }
        let result = rule.on_array(&read_npy(&self.input)?).with_context(|| self.input.display().to_string())?;
        write_npy(&self.out, &result)?;
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
        let jobs = files::jobs(&self.input, &self.out, None)?;
        let mut failed = 0;
        for job in &jobs {
            if let Err(error) = self.image(job, rule, white) {
                eprintln!("failed: {}: {}", job.image.display(), hints::with_flags(&error.to_string()));
                failed += 1;
            }
        }
        if !self.json {
            line(format_args!("{rule}: {} image(s), written to {}", jobs.len() - failed, self.out.display()));
        }
        match failed {
            0 => Ok(Ending::Done),
            _ => bail!("{failed} of {} images failed; they are listed above", jobs.len()),
        }
    }

    fn image(&self, job: &Job, rule: &ValueRule, white: f32) -> octant_process::Result<()> {
        let result = rule.on_image(&files::read(&job.image)?, white)?;
        files::write(&job.out, &result)?;
        if self.json {
            let [height, width, channels] = result.dims();
            Json::line(json!({
                "event": "image", "in": job.image, "out": job.out, "width": width, "height": height, "channels": channels,
                "dtype": result.dtype().name(), "rule": rule.to_string(),
            }));
        }
        Ok(())
    }
}
