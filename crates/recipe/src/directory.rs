//! Which directory a run lives in, and whether it begins or resumes there.

use crate::error::{refusal, refuse};
use crate::{Recipe, Result, nearest, table};
use octant_archive::Archive;
use octant_events::RunDirectory;
use octant_train::checkpoint::Checkpoint;
use octant_zoo::identity::Card;
use std::path::{Path, PathBuf};
use toml::Table;

/// A run that is about to begin or to resume.
pub struct Opened {
    /// Where it writes.
    pub directory: RunDirectory,
    /// Where it resumes, if it does.
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

/// The table of the recipe, the recipe's file or the run directory of that name, and whether it is a run.
pub fn recipe_or_run(name: &str) -> Result<(Table, bool)> {
    let path = Path::new(name);
    if path.join("config.toml").is_file() {
        return Ok((config(path)?, true));
    }
    match table(name) {
        Err(_) if path.is_dir() => {
            refuse!("{name} is a folder without config.toml, so it holds no run{}", nearest_run(path))
        }
        // Recipes have no folders in their names: a run is meant.
        Err(_) if path.components().count() > 1 && !name.ends_with(".toml") => {
            refuse!("there is no {name}{}", nearest_run(path))
        }
        table => Ok((table?, false)),
    }
}

/// A run with nearly that name beside where it was looked for, as the rest of a sentence.
pub fn nearest_run(run: &Path) -> String {
    let beside = run.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let entries = std::fs::read_dir(beside).into_iter().flatten().flatten();
    let runs = entries.filter(|entry| entry.path().join("config.toml").is_file());
    let names: Vec<String> = runs.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    let wanted = run.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    match nearest(&wanted, names.iter().map(String::as_str)) {
        Some(near) => format!("; did you mean {}?", run.with_file_name(near).display()),
        None => "; give the directory of a run, such as runs/NAME".into(),
    }
}

/// The data that the run in a directory was trained on, where it is read from files.
pub fn trained_on(run: &Path) -> Option<PathBuf> {
    Some(PathBuf::from(config(run).ok()?.get("data")?.get("dir")?.as_str()?))
}

/// The recipe of the run that lives in a directory.
pub fn of_run(run: &Path) -> Result<Recipe> {
    crate::check(config(run)?)
}

/// The directory that was given; without one, that of an unfinished run of the same recipe with the same settings, which
/// then resumes, or the next free one under `folder`.
pub fn choose(wanted: Option<&Path>, folder: &Path, recipe: &Recipe, fresh: bool) -> PathBuf {
    if let Some(wanted) = wanted {
        return wanted.to_path_buf();
    }
    let numbered = |number: usize| folder.join(format!("{}-{number}", recipe.name));
    let free = (1..).find(|&number| !numbered(number).exists()).expect("the numbers do not end");
    let before = (1..free).rev().map(numbered).filter(|_| !fresh);
    before.into_iter().find(|path| is_unfinished(path, recipe)).unwrap_or_else(|| numbered(free))
}

/// Whether a directory holds a run of exactly this recipe that is neither running nor finished.
fn is_unfinished(path: &Path, recipe: &Recipe) -> bool {
    if RunDirectory::is_in_use(path) || !of_run(path).is_ok_and(|before| before == *recipe) {
        return false;
    }
    let epochs: u64 = recipe.phases.iter().map(|phase| phase.epochs).sum();
    match Checkpoint::newest(&path.join("checkpoints"), "last") {
        Ok(Some((checkpoint, _))) => !checkpoint.progress.finished && checkpoint.progress.epoch < epochs,
        // Stopped before its first checkpoint: nothing is lost when it starts again in the same folder.
        Ok(None) => true,
        Err(_) => false,
    }
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

/// A run that can be resumed; nothing was changed yet.
pub struct Resumable {
    /// Where it resumes.
    pub checkpoint: Checkpoint,
    /// Why this is not the newest checkpoint, where it is not.
    warning: Option<String>,
    /// Under which name the checkpoint was looked for.
    name: &'static str,
}

/// The run in a directory, where it has a checkpoint to resume from. A run of another recipe is refused.
pub fn resumable(path: &Path, recipe: &Recipe) -> Result<Option<Resumable>> {
    if !RunDirectory::exists(path) {
        return Ok(None);
    }
    let before = of_run(path).map(|recipe| recipe.name).unwrap_or_default();
    if before != recipe.name {
        refuse!(
            "{} holds a run of {before}, not of {}; choose another directory, or start over in this one",
            path.display(),
            recipe.name
        );
    }
    newest(&path.join("checkpoints"))
}

impl Resumable {
    /// Resumes in that directory, whose files are cut back to the checkpoint.
    pub fn open(self, path: &Path) -> Result<Opened> {
        let Resumable { mut checkpoint, mut warning, name } = self;
        let lengths = checkpoint.progress.file_lengths();
        let directory = RunDirectory::resume(path, || lengths)?;
        if let Some(warning) = warning.as_mut().filter(|_| checkpoint.path.ends_with(format!("{name}.bak"))) {
            checkpoint.replace_damaged(name)?;
            *warning += &format!("; it is {} now", checkpoint.path.display());
        }
        Ok(Opened { directory, checkpoint: Some(checkpoint), warning })
    }
}

/// Whether the run in a directory has finished an epoch, by its table of metrics.
pub fn has_trained(path: &Path) -> bool {
    std::fs::read_to_string(path.join("metrics.csv")).is_ok_and(|table| table.lines().count() > 1)
}

/// Begins a run in that directory; what is there is removed.
pub fn begin(path: &Path, recipe: &Recipe) -> Result<Opened> {
    let directory = RunDirectory::create(path, &recipe.to_text())?;
    Ok(Opened { directory, checkpoint: None, warning: None })
}

/// The checkpoint to resume from: the last one, or where it is damaged or gone the best one, never none without a word.
fn newest(folder: &Path) -> Result<Option<Resumable>> {
    let last = match Checkpoint::newest(folder, "last") {
        Ok(Some((checkpoint, warning))) => return Ok(Some(Resumable { checkpoint, warning, name: "last" })),
        Ok(None) => None,
        Err(error) => Some(error),
    };
    match (Checkpoint::newest(folder, "best"), last) {
        (Ok(Some((best, _))), last) => {
            let why = last.map_or_else(|| "the last checkpoint is gone".to_string(), |error| error.to_string());
            let (path, step) = (best.path.display(), best.progress.step);
            let warning = Some(format!("{why}; resuming from the best one, {path} at step {step}"));
            Ok(Some(Resumable { checkpoint: best, warning, name: "best" }))
        }
        (_, Some(error)) => Err(error.into()),
        (_, None) => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{check, table};

    fn glyphs() -> Recipe {
        check(table("glyphs").unwrap()).unwrap()
    }

    #[test]
    fn the_same_command_resumes_where_it_stopped() {
        let folder = tempfile::tempdir().unwrap();
        let recipe = glyphs();
        let first = choose(None, folder.path(), &recipe, false);
        assert!(first.ends_with("glyphs-1"));
        let run = begin(&first, &recipe).unwrap();
        assert!(choose(None, folder.path(), &recipe, false).ends_with("glyphs-2"), "another process is at work there");
        drop(run);
        assert_eq!(choose(None, folder.path(), &recipe, false), first, "it was stopped");
        assert!(choose(None, folder.path(), &recipe, true).ends_with("glyphs-2"), "a fresh one was requested");
        let mut other = recipe.clone();
        other.step.batch_size += 1;
        assert!(choose(None, folder.path(), &other, false).ends_with("glyphs-2"), "other settings are another run");
    }
}
