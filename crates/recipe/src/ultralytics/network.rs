//! The network that `model=` names: a run, a file of weights or a name.

use crate::error::{Result, refusal, refuse};
use octant_archive::Archive;
use octant_zoo::identity::Card;
use std::path::{Path, PathBuf};

/// What `model=` is.
pub(super) enum Network {
    /// The directory of a run, and the name of its network.
    Run(PathBuf, String),
    /// A file of weights, the name of the network that they are for, and whether the file itself has it: then it says the
    /// size of images too.
    File { path: PathBuf, name: String, names_itself: bool },
    /// A network without weights.
    Named(String),
}

impl Network {
    pub(super) fn of(model: &str) -> Result<Network> {
        let path = Path::new(model);
        if path.is_dir() {
            let name = crate::config(path)?.get("model").and_then(|name| name.as_str()).map(str::to_string);
            return Ok(Network::Run(path.into(), name.ok_or_else(|| refusal!("{model} does not name its network"))?));
        }
        let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let known = octant_zoo::find(&stem);
        let is_yaml = path.extension().is_some_and(|ending| ending == "yaml" || ending == "yml");
        match (is_yaml, path.is_file()) {
            (true, true) if known.is_err() => refuse!(
                "{model} describes a network of its own, which is not read; model=yolo11n.yaml and its like name those that \
                 are here (`octant models` lists them)"
            ),
            (true, _) => Ok(Network::Named(known?.name.into())),
            (false, true) => {
                // What the file says of itself counts more than what it is called.
                let own = Archive::open(path).ok().and_then(|archive| Card::of(&archive).model);
                if let Some(name) = own {
                    return Ok(Network::File { path: path.into(), name, names_itself: true });
                }
                let name = known.map(|entry| entry.name.to_string()).map_err(|_| {
                    refusal!(
                        "{model} does not name its network; use `octant train detect --model NAME --weights {model}`"
                    )
                })?;
                Ok(Network::File { path: path.into(), name, names_itself: false })
            }
            (false, false) if known.is_err() && path.components().count() > 1 => {
                refuse!("there is no {model}; give the directory of a run, such as runs/detect-1, or a file of weights")
            }
            (false, false) => {
                let entry = known?;
                refuse!(
                    "there is no file {model} here; download it yourself (the license of these weights is {}), or write \
                     model={stem}.yaml to start from random weights",
                    entry.license
                )
            }
        }
    }
}
