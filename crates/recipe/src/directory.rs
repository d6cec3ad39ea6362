//! Which directory a run lives in, and whether it begins or goes on there.

use crate::error::{refusal, refuse};
use crate::{Recipe, Result};
use octant_events::RunDirectory;
use octant_train::checkpoint::Checkpoint;
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
