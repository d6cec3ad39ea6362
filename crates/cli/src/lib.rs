//! `octant`: the command line. It parses and prints; what a command does is a call of the library. [`main`] is all of it; a
//! program of its own and Python's package call it alike.
//!
//! Each command is one file that turns its flags into calls of the library. Every command prints text, or with
//! `--json` one object per line. Errors arrive here as one chain and are printed once.

// First, because its macros replace the standard library's in all others.
#[macro_use]
mod output;

mod bench;
mod board;
mod cache;
mod check_export;
mod commands;
mod compiling;
mod data;
mod device;
mod devices;
mod eval;
mod events;
mod export;
mod features;
mod fetching;
mod flags;
mod hints;
mod image;
mod launch;
mod launching;
mod logs;
mod models;
mod opened;
mod plan;
mod plugin;
mod predict;
mod prepare;
mod recipes;
mod selftest;
mod serve;
mod style;
mod timeline;
mod track;
mod train;
mod weights;
mod welcome;
mod yolo;

pub use launch::Launch;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use octant_cluster::signals;

/// Trains, fine-tunes and evaluates vision models on whatever accelerator there is.
#[derive(Parser)]
#[command(name = "octant", version)]
struct Cli {
    /// On GPUs, use kernels that may add in another order in every run, where they are faster: results are then not
    /// repeatable bit for bit
    #[arg(long, global = true, display_order = 1000)]
    fast_nondeterministic: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
#[allow(clippy::large_enum_variant, reason = "there is one, for the life of the process")]
enum Command {
    /// Train a network; without arguments, a small one on generated images
    Train(train::Arguments),
    /// Evaluate a run or a file of weights on a data set
    Eval(eval::Arguments),
    /// Predict for images or tensors with a run, or with a model and weights
    Predict(predict::Arguments),
    /// Follow objects through videos and folders of frames with a detector
    Track(track::Arguments),
    /// Write a network's image features, or measure how well they separate classes
    Features(features::Arguments),
    /// Write a run or a model as a file that other runtimes execute
    Export(export::Arguments),
    /// Run an exported file in another runtime, and compare its outputs with our predictions
    CheckExport(check_export::Arguments),
    /// Serve runs or models over HTTP and gRPC
    Serve(serve::Arguments),
    /// Show, filter, merge, rewrite and export event files
    Events(events::Arguments),
    /// Show runs in a browser, live
    Board(board::Arguments),
    /// Write what starts a run on a cluster: a Slurm script, manifests for Kubernetes, a SkyPilot task, a container
    Launch(launching::Arguments),
    /// Show the logs of the processes that trained together
    Logs(logs::Arguments),
    /// List the recipes, or show one
    Recipes(recipes::Arguments),
    /// Download, generate, show, verify, measure and pack data sets
    Data(data::Arguments),
    /// Resize, crop and blur images, and compare results of libraries and devices
    Image(image::Arguments),
    /// Measure the speed of training steps or predictions on data in memory
    Bench(bench::Arguments),
    /// List the models that can be trained
    Models(models::Arguments),
    /// Fetch published weights, look into files of weights, convert them
    Weights(weights::Arguments),
    /// List the devices that can be used
    Devices(devices::Arguments),
    /// Compile a recipe for machines that are not attached: memory, speed and cost
    Plan(plan::Arguments),
    /// Translate Ultralytics' command line
    Yolo(yolo::Arguments),
    /// Find or install the plugins for TPUs and GPUs
    Plugin(plugin::Arguments),
    /// Show, clean and copy the store of compiled programs
    Cache(cache::Arguments),
    /// Check that a device of this machine computes correctly
    Selftest(selftest::Arguments),
    /// List all commands and arguments, for completions, manual pages and tests
    #[command(hide = true)]
    Commands(commands::Arguments),
}

/// How a command that did not fail ended, for the exit code.
pub(crate) enum Ending {
    /// All was done.
    Done,
    /// A signal of that number ended it early; what was done is saved.
    Interrupted(i32),
    /// With this code of its own.
    Code(u8),
}

/// The exit code of a process that did what it should.
const SUCCESS: u8 = 0;
const FAILURE: u8 = 1;

/// Runs a command line to its end and returns the exit code. To be called once per process, before other threads start.
pub fn main(launch: Launch) -> u8 {
    let started = std::time::Instant::now();
    let launch = launch.remember();
    // TensorBoard starts its data server, which may be this program, with flags alone.
    if board::is_data_server(launch.arguments.first().cloned()) {
        return board::data_server();
    }
    if launch.arguments.is_empty() {
        output::end_quietly_with_the_reader();
        welcome::show();
        return SUCCESS;
    }
    // Before any thread starts: libtpu reads its environment when it is loaded.
    octant_device::prepare();
    let cli = parsed();
    if cli.fast_nondeterministic {
        device::allow_nondeterministic();
    }
    let command = match cli.command {
        Command::Yolo(arguments) => match translated(&arguments) {
            Ok(Some(command)) => command,
            Ok(None) => {
                device::note_ignored_flag();
                return SUCCESS;
            }
            Err(error) => return failed(&error),
        },
        command => command,
    };
    match command {
        Command::Train(_) => output::training_begins(),
        _ => output::end_quietly_with_the_reader(),
    }
    let result = match command {
        Command::Train(arguments) => train::run(arguments),
        Command::Eval(arguments) => eval::run(arguments),
        Command::Predict(arguments) => predict::run(arguments),
        Command::Track(arguments) => track::run(arguments),
        Command::Features(arguments) => features::run(arguments),
        Command::Export(arguments) => export::run(arguments),
        Command::CheckExport(arguments) => check_export::run(arguments),
        Command::Serve(arguments) => serve::run(arguments),
        Command::Events(arguments) => events::run(arguments),
        Command::Board(arguments) => board::run(arguments),
        Command::Launch(arguments) => launching::run(arguments),
        Command::Logs(arguments) => logs::run(arguments),
        Command::Recipes(arguments) => recipes::run(arguments),
        Command::Data(arguments) => data::run(arguments),
        Command::Image(arguments) => image::run(arguments),
        Command::Bench(arguments) => bench::run(arguments, started),
        Command::Models(arguments) => models::run(arguments),
        Command::Weights(arguments) => weights::run(arguments),
        Command::Devices(arguments) => devices::run(arguments),
        Command::Plan(arguments) => plan::run(arguments),
        Command::Plugin(arguments) => plugin::run(arguments),
        Command::Cache(arguments) => cache::run(arguments),
        Command::Yolo(_) => Err(anyhow::anyhow!("a yolo command cannot mean another one")),
        Command::Selftest(arguments) => selftest::run(arguments),
        Command::Commands(arguments) => commands::run(&Cli::command(), &arguments),
    };
    if result.is_ok() {
        device::note_ignored_flag();
    }
    output::flush();
    compiling::leave(match result {
        Ok(Ending::Done) => SUCCESS,
        Ok(Ending::Interrupted(signal)) => signals::exit_code(signal),
        Ok(Ending::Code(code)) => code,
        Err(error) => failed(&error),
    })
}

fn failed(error: &anyhow::Error) -> u8 {
    eprintln!("octant: {}", hints::with_flags_given(&sentence(error), launch::texts()));
    let run = error.downcast_ref::<octant_run::RunError>();
    run.and_then(octant_run::RunError::exit_code).map_or(FAILURE, |code| code.number())
}

/// Ultralytics' command as one of ours; `None` when it was only to be printed.
fn translated(arguments: &yolo::Arguments) -> anyhow::Result<Option<Command>> {
    let Some(words) = yolo::command(arguments)? else { return Ok(None) };
    let words = std::iter::once("octant".to_string()).chain(words);
    Ok(Some(Cli::try_parse_from(words)?.command))
}

/// The command line. Negative numbers are values, so that the error names the range instead of an unknown flag.
fn parsed() -> Cli {
    fn with_numbers(command: clap::Command) -> clap::Command {
        let command =
            command.mut_args(|argument| match argument.get_long().is_some() && argument.get_action().takes_values() {
                true => argument.allow_negative_numbers(true),
                false => argument,
            });
        command.mut_subcommands(with_numbers)
    }
    let command = with_numbers(Cli::command());
    let matches = command.clone().try_get_matches_from(launch::words());
    let matches = matches.unwrap_or_else(|error| hints::near_flags(error, &command, launch::texts()).exit());
    if let Some(problem) = hints::remote_output(&matches) {
        eprintln!("octant: {problem}");
        std::process::exit(1);
    }
    Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit())
}

/// The chain of causes as one sentence. An error that quotes its cause does not repeat it.
pub(crate) fn sentence(error: &anyhow::Error) -> String {
    error.chain().skip(1).fold(error.to_string(), |text, cause| {
        let cause = cause.to_string();
        if text.contains(&cause) { text } else { format!("{text}: {cause}") }
    })
}
