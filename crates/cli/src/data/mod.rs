//! The `data` command: get, make up, look at, check, measure and pack data sets.

mod convert;
mod get;
mod opened;
mod pack;
mod show;
mod stats;
mod synth;
mod verify;

use crate::Ending;
use anyhow::Result;
pub(crate) use opened::ticking;

/// Download, generate, show, verify, measure and pack data sets
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  octant data get fashion-mnist\n  octant data synth irstd scenes --count 100\n  octant \
                        data show scenes --out sheet.png\n  octant data verify s3://bucket/imagenet/train\n\nA data set is a \
                        folder or a file, or either of them at s3://…, gs://… or https://…; its layout is recognized."
)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Fetch a published data set: resumed where it broke off, and verified
    Get(get::Arguments),
    /// Write a synthetic data set from a seed: infrared scenes, shapes, scenes with boxes, or discs to count
    Synth(synth::Arguments),
    /// Show samples with their labels, masks or boxes as one image
    Show(show::Arguments),
    /// Decode every file; list what is corrupt, does not match, contradicts or is there twice
    Verify(verify::Arguments),
    /// Mean, deviation, sizes, balance of the classes
    Stats(stats::Arguments),
    /// Write a data set of boxes in another form: Ultralytics', COCO's or Pascal VOC's
    Convert(convert::Arguments),
    /// Write a data set decoded into one file, or into shards
    Pack(pack::Arguments),
}

pub(crate) fn run(arguments: Arguments) -> Result<Ending> {
    match arguments.command {
        Command::Get(arguments) => get::run(arguments),
        Command::Synth(arguments) => synth::run(arguments),
        Command::Show(arguments) => show::run(arguments),
        Command::Verify(arguments) => verify::run(arguments),
        Command::Stats(arguments) => stats::run(arguments),
        Command::Convert(arguments) => convert::run(arguments),
        Command::Pack(arguments) => pack::run(arguments),
    }
}
