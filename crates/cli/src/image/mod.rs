//! The `image` command: resize, crop, blur, threshold and round files or folders of frames and masks, and compare results of
//! libraries and devices.
//!
//! What is done is an [`Operation`](octant_process::Operation); where it is done is the host or a device.

mod compare;
mod process;
mod target;
mod values;

use crate::Ending;
use anyhow::Result;

/// Resize, crop and blur images, and compare results of libraries and devices
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  octant image resize IN OUT --size 512x384 --semantics opencv\n  octant image resize IN OUT \
                        --size 640x640 --pad edge\n  octant image threshold mask.png marked.png --at-least 0.5 --white 1\n  octant \
                        image round scores.npy whole.npy --rule half-even\n  octant image crop CLIP OUT \
                        --padding 16 --aspect 1.5 --steady\n  octant image blur IN OUT --sigma 2 --device cpu --runs 5\n  octant \
                        image compare frame.png --size 854x480 --white 1"
)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Bring images to another size
    Resize(process::Resize),
    /// Cut out what a mask marks, or a fixed window
    Crop(process::Crop),
    /// Gaussian blur
    Blur(process::Blur),
    /// Mark the values that reach a limit
    Threshold(values::Threshold),
    /// Make values whole by a named rule
    Round(values::Round),
    /// Compare two images, or the results of libraries, precisions and devices for one
    Compare(compare::Arguments),
}

pub(crate) fn run(arguments: Arguments) -> Result<Ending> {
    match arguments.command {
        Command::Resize(arguments) => process::resize(arguments),
        Command::Crop(arguments) => process::crop(arguments),
        Command::Blur(arguments) => process::blurred(arguments),
        Command::Threshold(arguments) => values::threshold(&arguments),
        Command::Round(arguments) => values::round(&arguments),
        Command::Compare(arguments) => compare::run(arguments),
    }
}
