//! The `board` command: runs in a browser, and the data server that TensorBoard starts.

use crate::Ending;
use crate::output::line;
use anyhow::{Context, Result, bail};
use clap::Parser;
use octant_board::{DataOptions, Options, Serving, serve, serve_anywhere, serve_data};
use std::ffi::OsString;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Show runs in a browser, live
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  octant board\n  octant board runs /logs/elsewhere --port 7000 --open\n\nTensorBoard with \
                        Octant as its data server:\n  TENSORBOARD_DATA_SERVER_BINARY=$(which octant) tensorboard \
                        --logdir runs --load_fast=true"
)]
pub(crate) struct Arguments {
    /// Run directories, folders of runs, or log folders of other programs; `runs` when none is named
    folders: Vec<PathBuf>,
    /// The port; the next free one from 6400 on when none is given, 0 for any
    #[arg(long)]
    port: Option<u16>,
    /// The address to listen on. Others than this machine can reach any but 127.0.0.1, and then need the token that is printed
    #[arg(long, default_value = "127.0.0.1")]
    host: IpAddr,
    /// A name by which browsers reach this machine; may be repeated
    #[arg(long, value_name = "HOST")]
    name: Vec<String>,
    /// Let the page change notes and tags of runs; without it the board only reads
    #[arg(long)]
    edit: bool,
    /// Open the page in a browser
    #[arg(long)]
    open: bool,
    /// Serve TensorBoard instead, which passes its own flags behind this one
    #[arg(long, conflicts_with_all = ["folders", "port", "host", "name", "edit", "open"])]
    data_server: bool,
    /// TensorBoard's flags
    #[arg(last = true, hide = true)]
    flags: Vec<OsString>,
}

pub(crate) fn run(arguments: Arguments) -> Result<Ending> {
    if arguments.data_server {
        let words = std::iter::once("octant".into()).chain(arguments.flags);
        return run_data_server(DataServer::parse_from(words)).map(|()| Ending::Done);
    }
    if let Some(flag) = arguments.flags.first() {
        bail!("{} is for TensorBoard's data server; add --data-server before the --", flag.display());
    }
    // It runs until it is ended.
    crate::device::note_ignored_flag();
    let folders = if arguments.folders.is_empty() { vec!["runs".into()] } else { arguments.folders };
    let serving = start(&folders, arguments.host, arguments.port, &arguments.name, arguments.edit)?;
    line(format_args!("{}", serving.url()));
    match serving.url_for_others() {
        Some(url) if url == serving.url() => line("Others can reach this address."),
        Some(url) => line(format_args!("From other machines: {url}")),
        None if serving.needs_token() => {
            line("No address of this machine for others was found; --name HOST allows the name that they reach it by.")
        }
        None => {}
    }
    if serving.needs_token() {
        line("The token in the address is needed, and the connection is not encrypted.");
    }
    line(match arguments.edit {
        true => "Ctrl-C ends the board; notes and tags can be changed, all else is only read.",
        false => "Ctrl-C ends the board; runs are only read.",
    });
    if arguments.open {
        open(&serving.url());
    }
    serving.wait();
    Ok(Ending::Done)
}

/// The board of one run while it trains.
pub(crate) fn beside(run: &Path) -> Result<Serving> {
    start(&[run.to_path_buf()], IpAddr::V4(Ipv4Addr::LOCALHOST), None, &[], false)
}

fn start(folders: &[PathBuf], host: IpAddr, port: Option<u16>, names: &[String], edits: bool) -> Result<Serving> {
    let address = SocketAddr::new(host, port.unwrap_or(0));
    let options = Options { folders: folders.to_vec(), address, names: names.to_vec(), edits };
    Ok(match port {
        Some(_) => serve(&options)?,
        None => serve_anywhere(&options)?,
    })
}

/// The page in whatever the system opens addresses with; that nothing does is no failure.
fn open(url: &str) {
    let program = if cfg!(target_os = "macos") {
        "open"
    } else if cfg!(windows) {
        "explorer"
    } else {
        "xdg-open"
    };
    let quiet = || std::process::Stdio::null();
    let _ = std::process::Command::new(program).arg(url).stdout(quiet()).stderr(quiet()).spawn();
}

/// The flags of TensorBoard's own data server.
#[derive(clap::Parser)]
#[command(name = "octant", disable_version_flag = true)]
struct DataServer {
    /// The folder of runs
    #[arg(long)]
    logdir: PathBuf,
    /// Seconds between two looks at the files, or `once`
    #[arg(long, default_value = "5")]
    reload: String,
    /// How many values of each plugin's tags are sent: `scalars=500,images=all`
    #[arg(long, default_value = "")]
    samples_per_plugin: String,
    /// The port; 0 for any
    #[arg(long, default_value_t = 6806)]
    port: u16,
    /// The address to listen on
    #[arg(long, default_value = "localhost")]
    host: String,
    /// Where to write the port
    #[arg(long)]
    port_file: Option<PathBuf>,
    /// Where to write why it did not start
    #[arg(long)]
    error_file: Option<PathBuf>,
    /// End when standard input does
    #[arg(long)]
    die_after_stdin: bool,
    /// Checksums are always compared
    #[arg(long)]
    checksum: bool,
    /// Accepted, without effect
    #[arg(long)]
    no_checksum: bool,
    /// Accepted, without effect
    #[arg(long, short, action = clap::ArgAction::Count)]
    verbose: u8,
}

/// Whether the first argument is a flag of TensorBoard's data server, which is started without a command.
pub(crate) fn is_data_server(first: Option<OsString>) -> bool {
    first.is_some_and(|first| first.to_string_lossy().starts_with("--logdir"))
}

pub(crate) fn data_server() -> u8 {
    let arguments = DataServer::parse_from(crate::launch::words());
    let error_file = arguments.error_file.clone();
    let Err(error) = run_data_server(arguments) else { return crate::SUCCESS };
    match error_file {
        Some(path) if std::fs::write(&path, format!("{error:#}\n")).is_ok() => {}
        _ => eprintln!("octant: {error:#}"),
    }
    // What TensorBoard takes for a folder that it should read by itself.
    8
}

fn run_data_server(arguments: DataServer) -> Result<()> {
    let samples = arguments.samples_per_plugin.split(',').filter_map(|pair| pair.split_once('='));
    let mut addresses = (arguments.host.as_str(), arguments.port).to_socket_addrs().context("no such --host")?;
    // TensorBoard connects to localhost, which means IPv4 to most.
    let all: Vec<SocketAddr> = addresses.by_ref().collect();
    let address = all.iter().find(|address| address.is_ipv4()).or(all.first()).context("no such --host")?;
    let options = DataOptions {
        folder: arguments.logdir,
        address: *address,
        reload: arguments.reload.parse().ok().map(Duration::from_secs),
        samples: samples.map(|(name, most)| (name.to_string(), most.parse().ok())).collect(),
    };
    let serving = serve_data(&options)?;
    if let Some(path) = &arguments.port_file {
        std::fs::write(path, format!("{}\n", serving.address().port()))
            .with_context(|| format!("cannot write {}", path.display()))?;
    } else {
        eprintln!("listening on {}", serving.address());
    }
    if arguments.die_after_stdin {
        std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink()).context("cannot read standard input")?;
        return Ok(());
    }
    serving.wait();
    Ok(())
}
