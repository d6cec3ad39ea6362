//! Checkpoints: written so that a whole one always exists, read so that a damaged one is never used.
//!
//! A checkpoint is a folder with `model.safetensors` (the evaluated weights, with the reference's names and layouts),
//! `state.safetensors` (everything else that lives on the device), `progress.toml`, `config.toml`, and `checksums.txt`
//! over all of them. It is written under a temporary name, read back, and renamed; the one before it stays as `.bak`.
//! Where no process has all of the state, each writes its own parts of the first two: see [`together`].

mod together;

pub use together::{DeviceParts, Parts};

use crate::step::{Role, TracedStep};
use crate::values::Values;
use crate::{RunProgress, TrainError};
use octant_archive::{Archive, save_safetensors};
use octant_cluster::Cluster;
use octant_events::crc32c;
use octant_graph::HostTensor;
use octant_nn::VariableSpec;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Host copies of everything on the device, or of the parts of it that this process keeps.
pub struct Snapshot {
    /// The parts, where the state is divided among processes; then there is nothing in the other lists.
    pub parts: Option<Parts>,
    /// The evaluated variables, with the reference's names and layouts.
    pub model: Vec<(String, HostTensor)>,
    /// The rest, with names and layouts of the step.
    pub state: Vec<(String, HostTensor)>,
}

/// A checkpoint that was read and found whole.
pub struct Checkpoint {
    /// The folder.
    pub path: PathBuf,
    /// The evaluated variables.
    pub model: Archive,
    /// The rest of the state.
    pub state: Archive,
    /// How far the run had come.
    pub progress: RunProgress,
}

const MODEL: &str = "model.safetensors";
const STATE: &str = "state.safetensors";
const PROGRESS: &str = "progress.toml";
/// The configuration that a checkpoint was written with.
pub const CONFIG: &str = "config.toml";
/// The checksums of all files of a checkpoint; its last line is that of the lines before it.
pub const CHECKSUMS: &str = "checksums.txt";

impl Checkpoint {
    /// Reads a checkpoint's folder and compares every byte with its checksums.
    pub fn read(path: &Path) -> Result<Checkpoint, TrainError> {
        verify(path)?;
        let text = std::fs::read_to_string(path.join(PROGRESS)).map_err(|error| unreadable(path, error))?;
        let progress = toml::from_str(&text).map_err(|error| unreadable(path, error.message()))?;
        let state = if path.join(STATE).exists() { path.join(STATE) } else { together::state_in(path) };
        let (model, state) = (Archive::open(&path.join(MODEL))?, Archive::open(&state)?);
        Ok(Checkpoint { path: path.to_path_buf(), model, state, progress })
    }

    /// The newest whole checkpoint of that name (`last` or `best`), and a sentence where it is not the newest one
    /// written. `None` when none was ever written.
    pub fn newest(folder: &Path, name: &str) -> Result<Option<(Checkpoint, Option<String>)>, TrainError> {
        let [newest, backup] = [name.to_string(), format!("{name}.bak")].map(|name| folder.join(name));
        let first = match Checkpoint::read(&newest) {
            Ok(checkpoint) => return Ok(Some((checkpoint, None))),
            Err(error) => error,
        };
        match Checkpoint::read(&backup) {
            // Killed between the two renames: nothing was damaged, and nothing needs to be reported.
            Ok(checkpoint) if !newest.exists() => Ok(Some((checkpoint, None))),
            Ok(checkpoint) => {
                let step = checkpoint.progress.step;
                let warning = format!("{first}; resuming from the one before it, {} at step {step}", backup.display());
                Ok(Some((checkpoint, Some(warning))))
            }
            Err(_) if !newest.exists() && !backup.exists() => Ok(None),
            Err(_) => Err(first),
        }
    }

    /// Makes the backup that this checkpoint was read from the newest one again. What was damaged is kept as `.damaged`:
    /// otherwise it would become the backup of the next checkpoint.
    pub fn replace_damaged(&mut self, name: &str) -> Result<(), TrainError> {
        let Some(folder) = self.path.parent() else { return Ok(()) };
        let [newest, damaged] = [name.to_string(), format!("{name}.damaged")].map(|name| folder.join(name));
        let replace = || {
            if damaged.exists() {
                std::fs::remove_dir_all(&damaged)?;
            }
            std::fs::rename(&newest, &damaged)?;
            std::fs::rename(&self.path, &newest)?;
            sync_folder(folder)
        };
        replace().map_err(|error| unreadable(&newest, format!("it cannot be put aside: {error}")))?;
        self.path = newest;
        Ok(())
    }

    /// The state by name, in the layout of the device, for a step that has these variables.
    pub fn values(&self, variables: &[VariableSpec], averaged: bool) -> Result<Values, TrainError> {
        let mut values = Values::of_state(self.state.tensors.iter().cloned());
        // Companions are in the state, under their own names.
        for spec in variables.iter().filter(|spec| !spec.companion) {
            let name = if averaged { format!("{}#average", spec.path) } else { spec.path.clone() };
            values.set(name, crate::state::import(spec, &self.model)?);
        }
        Ok(values)
    }

    /// Whether averages of weights were kept: then the model's file holds those.
    pub fn is_averaged(&self, variables: &[VariableSpec]) -> bool {
        variables.iter().find(|spec| !spec.companion).is_some_and(|spec| self.state.get(&spec.path).is_some())
    }
}

/// Whether a step keeps averages of weights.
pub fn averages(step: &TracedStep) -> bool {
    step.entries.iter().any(|entry| matches!(entry.role, Role::Average(_)))
}

fn unreadable(path: &Path, problem: impl std::fmt::Display) -> TrainError {
    TrainError::Checkpoint(format!("the checkpoint {} cannot be used: {problem}", path.display()))
}

/// Compares all files with `checksums.txt`, whose last line is the checksum of the lines before it.
fn verify(path: &Path) -> Result<(), TrainError> {
    let text = std::fs::read_to_string(path.join(CHECKSUMS)).map_err(|error| unreadable(path, error))?;
    let damaged = || unreadable(path, "its list of checksums is damaged");
    let (lines, last) = text.trim_end_matches('\n').rsplit_once('\n').ok_or_else(damaged)?;
    if last != format!("{:08x}", crc32c(lines.as_bytes())) || !text.ends_with('\n') {
        return Err(damaged());
    }
    for line in lines.lines() {
        let (sum, name) = line.split_once("  ").ok_or_else(damaged)?;
        let bytes = std::fs::read(path.join(name)).map_err(|error| unreadable(path, format!("{name}: {error}")))?;
        if sum != format!("{:08x}", crc32c(&bytes)) {
            return Err(unreadable(path, format!("{name} is damaged (its checksum differs)")));
        }
    }
    Ok(())
}

/// The step of the checkpoint in a folder, of which nothing else is read; none where there is none.
pub fn step_of(path: &Path) -> Option<u64> {
    let text = std::fs::read_to_string(path.join(PROGRESS)).ok()?;
    toml::from_str(&text).ok().map(|progress: RunProgress| progress.step)
}

/// Gives a checkpoint that was brought to `NAME.tmp` from elsewhere its name, once it is found whole. The one before is kept.
pub fn adopt(folder: &Path, name: &str) -> Result<PathBuf, TrainError> {
    let temporary = folder.join(format!("{name}.tmp"));
    verify(&temporary)?;
    exchange(folder, name, &temporary).map_err(|error| unreadable(&temporary, error))
}

/// The newest whole checkpoint of any name; none where there is none.
pub fn kept(folder: &Path) -> Option<Checkpoint> {
    let found = ["last", "best"].iter().filter_map(|name| Checkpoint::newest(folder, name).ok().flatten());
    found.map(|(checkpoint, _)| checkpoint).max_by_key(|checkpoint| checkpoint.progress.step)
}

/// The same as the rest of a sentence.
pub(crate) fn kept_text(folder: &Path) -> String {
    match kept(folder) {
        Some(kept) => format!("the last good one is {} at step {}", kept.path.display(), kept.progress.step),
        None => "there is no earlier one".to_string(),
    }
}

/// What is about to be written.
pub struct Contents {
    /// The tensors.
    pub snapshot: Snapshot,
    /// How far the run has come.
    pub progress: RunProgress,
    /// The resolved configuration.
    pub config: String,
    /// The metadata of `model.safetensors`.
    pub metadata: Vec<(String, String)>,
    /// Files whose lengths `progress` mentions: they are synced before the checkpoint gets its name.
    pub mentioned: Vec<File>,
}

/// Writes a checkpoint and waits for it.
pub fn write(folder: &Path, name: &str, contents: &Contents) -> Result<PathBuf, TrainError> {
    let temporary = folder.join(format!("{name}.tmp"));
    let failed = |problem: String| {
        TrainError::Checkpoint(format!("the checkpoint could not be written: {problem}; {}", kept_text(folder)))
    };
    fill(&temporary, contents).map_err(&failed)?;
    let path = exchange(folder, name, &temporary).map_err(|error| failed(error.to_string()))?;
    Ok(path)
}

/// Writes all files, reads the tensors back, and syncs everything.
fn fill(folder: &Path, contents: &Contents) -> Result<(), String> {
    let text = |error: std::io::Error| error.to_string();
    if folder.exists() {
        std::fs::remove_dir_all(folder).map_err(text)?;
    }
    std::fs::create_dir_all(folder).map_err(text)?;
    let tensors = [(MODEL, &contents.snapshot.model), (STATE, &contents.snapshot.state)];
    for (name, tensors) in tensors {
        let path = folder.join(name);
        let named = tensors.iter().map(|(name, tensor)| (name.as_str(), tensor));
        save_safetensors(&path, named, &contents.metadata).map_err(|error| error.to_string())?;
        let read = Archive::open(&path).map_err(|error| error.to_string())?;
        if !tensors.iter().all(|(name, tensor)| read.get(name) == Some(tensor) || has_nan(tensor)) {
            return Err(format!("{name} was read back with other values; check the disk"));
        }
    }
    let lines = [MODEL, STATE].map(|name| checksum(folder, name)).into_iter().collect::<Result<_, _>>()?;
    complete(folder, contents, lines)
}

/// The line of a file in the list of checksums, once it is on the disk.
fn checksum(folder: &Path, name: &str) -> Result<String, String> {
    let path = folder.join(name);
    let bytes = std::fs::read(&path).map_err(|error| error.to_string())?;
    File::open(&path).and_then(|file| file.sync_all()).map_err(|error| error.to_string())?;
    Ok(format!("{:08x}  {name}", crc32c(&bytes)))
}

/// Writes what is no tensor, and the checksums of all files.
fn complete(folder: &Path, contents: &Contents, mut lines: Vec<String>) -> Result<(), String> {
    let text = |error: std::io::Error| error.to_string();
    let progress = toml::to_string(&contents.progress).map_err(|error| error.to_string())?;
    for (name, content) in [(PROGRESS, &progress), (CONFIG, &contents.config)] {
        std::fs::write(folder.join(name), content).map_err(text)?;
        lines.push(checksum(folder, name)?);
    }
    let lines = lines.join("\n");
    let path = folder.join(CHECKSUMS);
    std::fs::write(&path, format!("{lines}\n{:08x}\n", crc32c(lines.as_bytes()))).map_err(text)?;
    File::open(&path).and_then(|file| file.sync_all()).map_err(text)?;
    for file in &contents.mentioned {
        file.sync_data().map_err(text)?;
    }
    sync_folder(folder).map_err(text)
}

/// Comparing by value, a tensor that holds NaN never equals itself; its bytes are still covered by the checksums.
fn has_nan(tensor: &HostTensor) -> bool {
    tensor.to_f64s().iter().any(|value| value.is_nan())
}

/// Makes the temporary folder the newest one. Whatever happens in between, one of `name` and `name.bak` is whole.
fn exchange(folder: &Path, name: &str, temporary: &Path) -> std::io::Result<PathBuf> {
    let [newest, backup, old] = ["", ".bak", ".old"].map(|ending| folder.join(format!("{name}{ending}")));
    if old.exists() {
        std::fs::remove_dir_all(&old)?;
    }
    if newest.exists() {
        if backup.exists() {
            std::fs::rename(&backup, &old)?;
        }
        std::fs::rename(&newest, &backup)?;
    }
    std::fs::rename(temporary, &newest)?;
    sync_folder(folder)?;
    if old.exists() {
        std::fs::remove_dir_all(&old)?;
    }
    Ok(newest)
}

/// Renames survive a power cut only once the folder itself is synced.
fn sync_folder(folder: &Path) -> std::io::Result<()> {
    match cfg!(unix) {
        true => File::open(folder)?.sync_all(),
        false => Ok(()),
    }
}

/// Writes checkpoints while training continues; at most one at a time.
pub struct CheckpointWriter {
    folder: PathBuf,
    /// The processes that have parts of the state, and how many checkpoints they have written together.
    cluster: Option<Arc<Cluster>>,
    written: u64,
    under_way: Option<JoinHandle<Result<(), TrainError>>>,
    /// Microseconds that the last one took; 0 before the first.
    took: Arc<AtomicU64>,
}

impl CheckpointWriter {
    /// A writer into that folder.
    pub fn new(folder: &Path) -> CheckpointWriter {
        CheckpointWriter {
            folder: folder.to_path_buf(),
            cluster: None,
            written: 0,
            under_way: None,
            took: Arc::default(),
        }
    }

    /// The same with other processes, which have parts of the state where it is divided; all begin the same checkpoints.
    pub fn with(mut self, cluster: Option<Arc<Cluster>>) -> CheckpointWriter {
        self.cluster = cluster;
        self
    }

    /// Begins to write a checkpoint under one or more names, after the one before is done; the error is that one's.
    pub fn begin(
        &mut self,
        names: &'static [&'static str],
        contents: impl FnOnce() -> Contents + Send + 'static,
    ) -> Result<(), TrainError> {
        let before = self.finish();
        let (folder, cluster, took) = (self.folder.clone(), self.cluster.clone(), self.took.clone());
        self.written += 1;
        let number = self.written;
        let (thread, begun) = (std::thread::Builder::new().name("checkpoint".into()), Instant::now());
        let spawned = thread.spawn(move || {
            let contents = contents();
            names.iter().try_for_each(|name| match (&contents.snapshot.parts, &cluster) {
                (Some(parts), Some(cluster)) => together::write(&folder, name, &contents, parts, cluster, number),
                _ => write(&folder, name, &contents).map(drop),
            })?;
            took.store((begun.elapsed().as_micros() as u64).max(1), Ordering::Relaxed);
            Ok(())
        });
        self.under_way =
            Some(spawned.map_err(|error| TrainError::Checkpoint(format!("no thread for the checkpoint: {error}")))?);
        before
    }

    /// How long the last checkpoint took to be whole on the disk, under all of its names; none where none is finished.
    pub fn took(&self) -> Option<Duration> {
        let micros = self.took.load(Ordering::Relaxed);
        (micros > 0).then(|| Duration::from_micros(micros))
    }

    /// Waits for the checkpoint that is being written.
    pub fn finish(&mut self) -> Result<(), TrainError> {
        match self.under_way.take().map(JoinHandle::join) {
            None | Some(Ok(Ok(()))) => Ok(()),
            Some(Ok(Err(error))) => Err(error),
            Some(Err(_)) => Err(TrainError::Checkpoint("the thread that writes checkpoints panicked".into())),
        }
    }
}

impl Drop for CheckpointWriter {
    fn drop(&mut self) {
        // An error was reported by the caller of `finish`; here the run is already failing for another reason.
        let _ = self.finish();
    }
}

#[cfg(test)]
mod tests;
