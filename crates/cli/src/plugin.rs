//! The `plugin` command: the libraries through which XLA's devices are reached.

use crate::Ending;
use crate::output::Json;
use anyhow::{Result, bail};
use octant_pjrt::Plugin;
use octant_pjrt::discover::{self, FoundPlugin, PluginKind};
use octant_pjrt::install::install;
use serde_json::json;
use std::path::PathBuf;

/// Find or install the plugins for TPUs and GPUs
#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
    /// Print JSON
    #[arg(long, global = true)]
    json: bool,
}

#[derive(clap::Subcommand)]
enum Command {
    /// List the plugins on this machine
    List,
    /// Install a plugin with pip into Octant's own folder: tpu, cuda13 or cuda12
    Install {
        /// tpu, cuda13 or cuda12
        kind: String,
        /// Take the packages from this folder of wheels, without a network
        #[arg(long, value_name = "DIR")]
        from: Option<PathBuf>,
        /// A version of the package instead of the newest
        #[arg(long)]
        version: Option<String>,
    },
    /// Print where a plugin lies
    Path {
        /// tpu, cuda13 or cuda12
        kind: String,
    },
}

fn kind(name: &str) -> Result<PluginKind> {
    match PluginKind::KNOWN.into_iter().find(|kind| kind.name() == name) {
        Some(kind) => Ok(kind),
        None => bail!("there is no plugin \"{name}\"; there are tpu, cuda13 and cuda12"),
    }
}

pub(crate) fn run(arguments: Arguments) -> Result<Ending> {
    match arguments.command {
        Command::List => list(arguments.json),
        Command::Install { kind: name, from, version } => {
            let kind = kind(&name)?;
            eprintln!("installing {name} with pip; this can take minutes");
            let installed = install(kind, from.as_deref(), version.as_deref())?;
            describe(&installed.found, arguments.json);
        }
        Command::Path { kind: name } => {
            let found = discover::plugin(&[kind(&name)?])?;
            match arguments.json {
                true => Json::line(json!({ "event": "path", "kind": name, "path": found.path })),
                false => println!("{}", found.path.display()),
            }
        }
    }
    Ok(Ending::Done)
}

fn list(as_json: bool) {
    let found = discover::plugins();
    found.iter().for_each(|found| describe(found, as_json));
    if found.is_empty() && !as_json {
        println!("no plugins; `octant plugin install tpu` (or cuda13, cuda12) installs one");
    }
}

fn describe(found: &FoundPlugin, as_json: bool) {
    let api = Plugin::load(&found.path).map(|plugin| plugin.version().to_string());
    let state = match &api {
        Ok(api) => format!("PJRT {api}"),
        Err(error) => format!("cannot be loaded: {error}"),
    };
    match as_json {
        true => Json::line(json!({
            "event": "plugin", "kind": found.kind.name(), "path": found.path, "version": found.version, "state": state,
        })),
        false => println!(
            "{:<7} {} {}\n        {} ({})",
            found.kind.name(),
            found.version.as_deref().unwrap_or("unknown version"),
            state,
            found.path.display(),
            found.origin
        ),
    }
}
