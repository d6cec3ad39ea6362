//! The `serve` command: networks behind HTTP and gRPC.

use crate::device::DeviceFlags;
use crate::output::{Json, count, duration, line};
use crate::{Ending, opened};
use anyhow::{Context, Result};
use octant_cluster::signals;
use octant_predict::is_channels_first;
use octant_serve::{ModelSource, ServeEvent, ServeOptions, Server, SourceOptions};
use serde_json::json;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Serve runs or models over HTTP and gRPC
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  octant serve runs/classify-1\n  octant serve cats=runs/a dogs=runs/b --device cuda --max-delay 2\n  \
                        octant serve resnet50 --weights pretrained\n  curl --data-binary @cat.jpg \
                        http://127.0.0.1:8000/predict\n\nClients of the Open Inference Protocol (version 2), such as \
                        tritonclient, work unchanged, over HTTP and gRPC on the same port. docs/guides/serve.md has \
                        the inputs, outputs and limits."
)]
pub(crate) struct Arguments {
    /// Run directories, files of weights that name their network, or models (`octant models` lists them); NAME=PATH serves one
    /// under another name
    #[arg(required = true, value_name = "[NAME=]RUN|FILE|MODEL")]
    sources: Vec<String>,
    /// Of models: the weights, a file, an address, or `pretrained`; `random` to measure speed alone
    #[arg(long, value_name = "FILE|NAME")]
    weights: Option<PathBuf>,
    /// Which checkpoint of runs, best or last; the best one if not given
    #[arg(long)]
    checkpoint: Option<String>,
    /// What layers compute in, f32, bf16, or int8 between the ranges that `octant export --int8` kept; as runs were trained, and f32
    /// of models, if not given
    #[arg(long)]
    precision: Option<String>,
    #[command(flatten)]
    device: DeviceFlags,
    /// The address to listen on. Others than this machine can reach any but 127.0.0.1, and then need a token
    #[arg(long, default_value = "127.0.0.1")]
    host: IpAddr,
    /// The port, of HTTP and of gRPC; 0 for any
    #[arg(long, default_value_t = 8000)]
    port: u16,
    /// A name by which clients or a proxy reach this machine; may be repeated
    #[arg(long, value_name = "HOST")]
    name: Vec<String>,
    /// What clients must send as `Authorization: Bearer TOKEN`; the environment's OCTANT_SERVE_TOKEN, which others cannot see, if
    /// not given. With another --host than 127.0.0.1 one is made and printed where there is none
    #[arg(long)]
    token: Option<String>,
    /// The order of axes of tensors, nchw or nhwc
    #[arg(long, default_value = "nchw")]
    layout: String,
    /// The most images of a batch; programs for 1, 2, 4, … images are compiled before the server is ready
    #[arg(long, default_value_t = 8, value_name = "N")]
    max_batch: usize,
    /// Milliseconds that the first image of a batch waits for others; without it, those that wait anyway are put together
    #[arg(long, default_value_t = 0.0, value_name = "MS")]
    max_delay: f64,
    /// The most images that wait, per model; requests beyond are refused
    #[arg(long, default_value_t = 128, value_name = "N")]
    queue: usize,
    /// Seconds that a request may take
    #[arg(long, default_value_t = 30.0, value_name = "SECONDS")]
    timeout: f64,
    /// The largest request, in MiB
    #[arg(long, default_value_t = 64, value_name = "MIB")]
    max_request: usize,
    /// Memory for all requests that are being received or processed, in MiB
    #[arg(long, default_value_t = 1024, value_name = "MIB")]
    request_memory: usize,
    /// Seconds between two looks at the files of networks, which are loaded again when they changed; 0 for never
    #[arg(long, default_value_t = 2.0, value_name = "SECONDS")]
    reload: f64,
    /// Seconds that requests under way get when the server is stopped
    #[arg(long, default_value_t = 10.0, value_name = "SECONDS")]
    drain: f64,
    /// Print one JSON object per line
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: Arguments) -> Result<Ending> {
    let begun = Instant::now();
    let options = options(&arguments)?;
    let drain = seconds("--drain", arguments.drain)?;
    let sources = sources(&arguments)?;
    let device = arguments.device.open()?;
    let json = arguments.json;
    let server = Server::start(sources, &device, options, move |event| print(&event, json))?;
    // Until now a signal ends the process at once: no request is under way yet.
    signals::stop_at()?;
    let endpoint = server.endpoint();
    let (url, others) = (endpoint.url(), endpoint.url_for_others());
    match json {
        true => Json::line(json!({
            "event": "ready", "url": url, "url_for_others": others, "address": endpoint.address.to_string(),
            "token": endpoint.token, "device": device.name(), "seconds": begun.elapsed().as_secs_f64(),
        })),
        false => {
            line(format_args!("{url}"));
            match others {
                Some(other) if other == url => line("Others can reach this address."),
                Some(other) => line(format_args!("From other machines: {other}")),
                None => {}
            }
            if let Some(token) = &endpoint.token {
                line(format_args!("Clients send `Authorization: Bearer {token}`; the connection is not encrypted."));
            }
            line(format_args!("Ready after {} on {}. Ctrl-C stops.", duration(begun.elapsed()), device.name()));
        }
    }
    while !signals::is_stopped() {
        std::thread::sleep(Duration::from_millis(50));
    }
    if !json {
        line(format_args!("Stopping: requests under way have {} left; Ctrl-C ends at once.", duration(drain)));
    }
    let drained = server.stop(drain);
    match json {
        true => Json::line(json!({ "event": "stopped", "drained": drained })),
        false if drained => line("Stopped; all requests were completed."),
        false => line("Stopped; requests that took longer were dropped."),
    }
    Ok(Ending::Done)
}

fn seconds(flag: &str, value: f64) -> Result<Duration> {
    Duration::try_from_secs_f64(value).ok().with_context(|| format!("{flag} {value}: give seconds, 0 or more"))
}

fn options(arguments: &Arguments) -> Result<ServeOptions> {
    let reload = seconds("--reload", arguments.reload)?;
    let bytes = |mebibytes: usize| mebibytes.saturating_mul(1 << 20);
    Ok(ServeOptions {
        names: arguments.name.clone(),
        token: arguments.token.clone().or_else(|| std::env::var("OCTANT_SERVE_TOKEN").ok()),
        channels_first: is_channels_first(&arguments.layout)?,
        max_batch: arguments.max_batch,
        max_delay: seconds("--max-delay", arguments.max_delay / 1e3)?,
        queue: arguments.queue,
        timeout: seconds("--timeout", arguments.timeout)?,
        max_request: bytes(arguments.max_request),
        memory: bytes(arguments.request_memory),
        reload: (!reload.is_zero()).then_some(reload),
        ..ServeOptions::at(SocketAddr::new(arguments.host, arguments.port))
    })
}

fn sources(arguments: &Arguments) -> Result<Vec<ModelSource>> {
    let options = SourceOptions {
        weights: arguments.weights.clone(),
        checkpoint: arguments.checkpoint.clone(),
        precision: arguments.precision.as_deref().map(str::parse).transpose()?,
    };
    options.sources(&arguments.sources, opened::network)
}

fn print(event: &ServeEvent, json: bool) {
    match *event {
        _ if json => Json::line(event.json()),
        ServeEvent::Compiled { model, batch, took, run } => {
            let (images, took) = (count(batch as u64, "image"), duration(took));
            eprintln!("{model}: {images} in {}; compiled and measured in {took}", duration(run));
        }
        ServeEvent::Reloaded { model, version } => eprintln!("{model}: version {version} is served from now on"),
        ServeEvent::NotReloaded { model, error } => {
            eprintln!("{model} changed, but cannot be loaded, and is served as before: {error}")
        }
    }
}
