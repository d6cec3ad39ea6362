//! Which directory a run lives in, and whether it begins or goes on there.

use crate::error::{refusal, refuse};
use crate::{Recipe, Result};
use octant_archive::Archive;
use octant_events::RunDirectory;
use octant_train::checkpoint::Checkpoint;
use octant_zoo::identity::Card;
use std::path::{Path, PathBuf};
use toml::Table;

/// A run that is about to begin or to go on.
pub struct Opened {
    /// Where it writes.
    pub directory: RunDirectory,
    /// Where it goes on, if it does.
    pub checkpoint: Option<Checkpoint>,
    /// Something the person should know, such as a damaged checkpoint.
    pub warning: Option<String>,
}

/// The configuration of the run that lives in a directory.
pub fn config(run: &Path) -> Result<Table> {
    let path = run.join("config.toml");
    let text = std::fs::read_to_string(&path)
        .map_err(|_| refusal!("{} holds no run (it has no config.toml)", run.display()))?;
    text.parse().map_err(|error| refusal!("{} is damaged ({error}); the run has to be started over", path.display()))
}

/// The recipe of the run that lives in a directory.
pub fn of_run(run: &Path) -> Result<Recipe> {
    crate::check(config(run)?)
}

/// The names of the classes that the run in a directory has learned; none where there is no run yet.
pub fn class_names(run: &Path) -> Vec<String> {
    let files = ["last", "last.bak"].map(|name| run.join("checkpoints").join(name).join(WEIGHTS));
    files.iter().find_map(|file| Archive::open(file).ok()).map(|archive| Card::of(&archive).names).unwrap_or_default()
}

const WEIGHTS: &str = "model.safetensors";

/// The weights of a checkpoint of a run, and a sentence where the newest one is damaged; of the best one, or else of the
/// last, when none is named.
pub fn checkpoint_weights(run: &Path, wanted: Option<&str>) -> Result<(PathBuf, Option<String>)> {
    const NAMES: [&str; 2] = ["best", "last"];
    let folder = run.join("checkpoints");
    let names: Vec<&str> = wanted.map_or(NAMES.to_vec(), |name| vec![name]);
    for name in &names {
        if let Some((found, warning)) = Checkpoint::newest(&folder, name)? {
            return Ok((found.path.join(WEIGHTS), warning));
        }
    }
    match wanted {
        None => refuse!("{} has no checkpoint yet", run.display()),
        Some(name) if NAMES.contains(&name) => refuse!("{} has no checkpoint \"{name}\" yet", run.display()),
        Some(name) => {
            let near = crate::nearest(name, NAMES.into_iter());
            let hint = near.map_or("there are best and last".into(), |near| format!("did you mean {near}?"));
            refuse!("{} has no checkpoint \"{name}\"; {hint}", run.display())
        }
    }
}

/// The directory that was asked for, or the next free one under `runs/`.
pub fn choose(wanted: Option<&Path>, recipe: &str) -> PathBuf {
    let free = || (1..).map(|number| PathBuf::from(format!("runs/{recipe}-{number}"))).find(|path| !path.exists());
    wanted.map(Path::to_path_buf).or_else(free).expect("the numbers do not end")
}

/// Goes on with the run in that directory if there is one and `fresh` is not asked for; begins one otherwise.
pub fn open(path: &Path, recipe: &Recipe, fresh: bool) -> Result<Opened> {
    if RunDirectory::exists(path) && !fresh {
        let before = of_run(path).map(|recipe| recipe.name).unwrap_or_default();
        if before != recipe.name {
            refuse!(
                "{} holds a run of {before}, not of {}; choose another directory, or start over in this one",
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
    let directory = RunDirectory::create(path, &recipe.to_text())?;
    Ok(Opened { directory, checkpoint: None, warning: None })
}
