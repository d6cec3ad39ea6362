//! The `check-export` command: an exported file beside our own predictions.

use crate::device::DeviceFlags;
use crate::output::{Bar, Json, count};
use crate::{Ending, device, fetching, opened};
use anyhow::{Result, bail};
use octant_device::Options;
use octant_predict::{ExportedFacts, PeerChoice, PeerRuntime, check_export, exported_network};
use std::path::PathBuf;

/// Run an exported file in another runtime, and compare its outputs with our predictions
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  octant check-export classify-1.onnx --data DIR\n  octant check-export model.onnx \
                        --data DIR --runtime openvino\n\nPython 3 runs the runtime (`pip install onnxruntime`, or `jax` for StableHLO); the \
                        environment variable OCTANT_PEER_PYTHON names another interpreter."
)]
pub(crate) struct Arguments {
    /// What `octant export` wrote
    file: PathBuf,
    /// Images: files, folders, patterns or lists of them
    #[arg(long, required = true, num_args = 1.., value_name = "DIR")]
    data: Vec<PathBuf>,
    /// The runtime: onnxruntime or openvino for ONNX, jaxlib for StableHLO; if not given, the first that executes the file
    #[arg(long)]
    runtime: Option<String>,
    /// The run or the file of weights that the file was made from, if it is not where it was
    #[arg(long, value_name = "RUN|FILE")]
    against: Option<PathBuf>,
    /// The most images that are compared; all if not given
    #[arg(long)]
    limit: Option<usize>,
    #[command(flatten)]
    device: DeviceFlags,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: Arguments) -> Result<Ending> {
    if arguments.limit == Some(0) {
        bail!("--limit must be at least 1");
    }
    let runtime: Option<PeerRuntime> = arguments.runtime.as_deref().map(str::parse).transpose()?;
    let python = std::env::var_os("OCTANT_PEER_PYTHON").unwrap_or_else(|| "python3".into());
    let facts = ExportedFacts::open(&arguments.file)?;
    let runtime = runtime.unwrap_or(PeerRuntime::of(facts.format()));
    let network = exported_network(&facts, arguments.against.as_deref())?;
    let sources = fetching::sources(&arguments.data)?;
    opened::say_skipped(&sources, arguments.json);
    let mut images = sources.images();
    if let Some((_, error)) = sources.unreachable.into_iter().next() {
        return Err(error.into());
    }
    images.truncate(arguments.limit.unwrap_or(images.len()));
    if images.is_empty() {
        bail!("there are no images in what --data names");
    }
    let DeviceFlags { device: name, threads } = &arguments.device;
    let backend = octant_device::open(name, &Options { exact: true, ..device::options(*threads)? })?;
    let peer = PeerChoice { runtime, python };
    let total = images.len();
    let mut bar = Bar::new("comparing".into(), total as u64);
    let checked = check_export(&arguments.file, &facts, network, &images, &backend, &peer, &mut |done| {
        if bar.is_due() {
            bar.draw(done as u64, "images");
        }
    });
    bar.clear();
    let found = checked?;
    if arguments.json {
        Json::line(found.json(facts.precision()));
    } else {
        println!("{} and Octant on {}, {}:", found.runtime, count(found.images as u64, "image"), facts.precision());
        println!("  largest relative difference  {:.2e}", found.difference);
        let pixels =
            if found.changed_pixels > 0 { format!(" ({} pixels)", found.changed_pixels) } else { String::new() };
        println!("  changed predictions          {} of {}{pixels}", found.changed, found.images);
        println!("  of these within 1e-4 of a threshold or of the runner-up  {}", found.within_margin);
        found.beyond_margin.iter().take(10).for_each(|path| println!("  changed: {}", path.display()));
    }
    match found.problem(facts.precision()) {
        Some(problem) => bail!(problem),
        None => Ok(Ending::Done),
    }
}
