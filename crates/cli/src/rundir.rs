//! Which directory a run lives in, and whether it begins or goes on there.

use crate::recipes::{self, Recipe};
use anyhow::{Context, Result, bail};
use octant_archive::Archive;
use octant_events::RunDirectory;
use octant_train::checkpoint::Checkpoint;
use octant_zoo::identity::Card;
use std::path::{Path, PathBuf};
use toml::Table;

/// A run that is about to begin or to go on.
pub(crate) struct Opened {
    pub directory: RunDirectory,
    pub checkpoint: Option<Checkpoint>,
    /// Something the person should know, such as a damaged checkpoint.
    pub warning: Option<String>,
}

/// The configuration of the run that lives in a directory.
pub(crate) fn config(run: &Path) -> Result<Table> {
    let path = run.join("config.toml");
    let text = std::fs::read_to_string(&path)
        .with_context(|| format!("{} holds no run (it has no config.toml)", run.display()))?;
    text.parse().with_context(|| format!("{} is damaged; start over with --fresh", path.display()))
}

/// The recipe of the run that lives in a directory.
pub(crate) fn recipe(run: &Path) -> Result<Recipe> {
    recipes::check(config(run)?)
}

/// The names of the classes that the run in a directory has learned; none where there is no run yet.
pub(crate) fn class_names(run: &Path) -> Vec<String> {
    let files = ["last", "last.bak"].map(|name| run.join("checkpoints").join(name).join("model.safetensors"));
    files.iter().find_map(|file| Archive::open(file).ok()).map(|archive| Card::of(&archive).names).unwrap_or_default()
}

/// The weights of a checkpoint of a run; of the best one, or else of the last, when none is named.
pub(crate) fn weights(run: &Path, wanted: Option<&str>) -> Result<PathBuf> {
    const NAMES: [&str; 2] = ["best", "last"];
    let folder = run.join("checkpoints");
    let names: Vec<&str> = wanted.map_or(NAMES.to_vec(), |name| vec![name]);
    for name in &names {
        if let Some((found, warning)) = Checkpoint::newest(&folder, name)? {
            warning.iter().for_each(|warning| eprintln!("warning: {warning}"));
            return Ok(found.path.join("model.safetensors"));
        }
    }
    match wanted {
        None => bail!("{} has no checkpoint yet", run.display()),
        Some(name) if NAMES.contains(&name) => bail!("{} has no checkpoint {name:?} yet", run.display()),
        Some(name) => {
            let near = recipes::nearest(name, NAMES.into_iter());
            let near = near.map_or(String::new(), |near| format!("; did you mean {near}?"));
            bail!("{} has no checkpoint {name:?}{near} There are best and last", run.display())
        }
    }
}

/// The directory that was asked for, or the next free one under `runs/`.
pub(crate) fn choose(wanted: Option<&Path>, recipe: &str) -> PathBuf {
    let free = || (1..).map(|number| PathBuf::from(format!("runs/{recipe}-{number}"))).find(|path| !path.exists());
    wanted.map(Path::to_path_buf).or_else(free).expect("the numbers do not end")
}

/// Goes on with the run in that directory if there is one and `fresh` is not asked for; begins one otherwise.
pub(crate) fn open(path: &Path, recipe: &Recipe, fresh: bool) -> Result<Opened> {
    if RunDirectory::exists(path) && !fresh {
        let before = self::recipe(path).map(|recipe| recipe.name).unwrap_or_default();
        if before != recipe.name {
            bail!(
                "{} holds a run of {before}, not of {}; give another --out, or --fresh to start over",
                path.display(),
                recipe.name
            );
        }
        if let Some((mut checkpoint, warning)) = Checkpoint::newest(&path.join("checkpoints"), "last")? {
            let lengths = checkpoint.progress.file_lengths();
            let directory = RunDirectory::resume(path, || lengths)?;
            if warning.is_some() {
                checkpoint.replace_damaged("last")?;
            }
            return Ok(Opened { directory, checkpoint: Some(checkpoint), warning });
        }
    }
    let directory = RunDirectory::create(path, &toml::to_string(recipe)?)?;
    Ok(Opened { directory, checkpoint: None, warning: None })
}
