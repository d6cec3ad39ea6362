//! Checkpoints in an object store: what a run keeps under an address, and how it gets there and back.
//!
//! A checkpoint becomes objects below `step-STEP-CHECKSUM/`, under the names of its files, with the files of the run itself in
//! `run/` there. Only when all of them are stored is `last.json` or `best.json` replaced by a list of them with their checksums,
//! in one request: that list is what makes the checkpoint valid. It also names the checkpoint before, whose objects stay; those
//! that no list names are removed. An upload that breaks off anywhere leaves the lists as they were. One process at a time does
//! that under an address ([`claim`]).

mod claim;
mod uploads;

pub(crate) use claim::Claim;
pub(crate) use uploads::Uploads;

use crate::error::make_folder;
use crate::{Result, RunError};
use claim::Guard;
use octant_events::RunDirectory;
use octant_fetch::{FetchError, ObjectStore, StoredFile};
use octant_train::checkpoint::{self, Checkpoint};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

/// The checkpoints that are stored, the one to resume from first.
const NAMES: [&str; 2] = ["last", "best"];
/// What the objects of a checkpoint begin with.
const FOLDERS: &str = "step-";
/// Where the files of the run itself lie there.
const OF_RUN: &str = "run";
/// The lists have this form.
const FORM: u32 = 1;

/// The list that makes a checkpoint valid.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Manifest {
    form: u32,
    step: u64,
    /// What its objects begin with.
    folder: String,
    /// By their paths in the checkpoint.
    checkpoint: BTreeMap<String, Listed>,
    /// By their names in the run directory.
    run: BTreeMap<String, Listed>,
    /// The one of the same name before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    before: Option<Box<Manifest>>,
}

/// A file of a list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Listed {
    bytes: u64,
    /// Of every piece.
    sha256: Vec<String>,
}

impl Listed {
    fn stored(&self) -> StoredFile {
        StoredFile { bytes: self.bytes, pieces: self.sha256.clone() }
    }
}

/// The lists of an address, by name.
type Manifests = BTreeMap<&'static str, Manifest>;

fn manifests(store: &ObjectStore) -> Result<Manifests> {
    let mut found = Manifests::new();
    for name in NAMES {
        let list = format!("{name}.json");
        let Some(text) = store.get(&list)? else { continue };
        let manifest: Manifest = serde_json::from_slice(&text).map_err(|error| {
            RunError::Refused(format!(
                "{}/{list} is no list of a checkpoint ({error}); give another address",
                store.address()
            ))
        })?;
        if manifest.form != FORM {
            let form = manifest.form;
            let problem = format!("{}/{list} has form {form}, which this version cannot read", store.address());
            return Err(RunError::Refused(problem));
        }
        found.insert(name, manifest);
    }
    Ok(found)
}

/// Brings a run from an object store into a directory, where the store has a later checkpoint than it. Returns a sentence where it
/// did.
pub fn restore(address: &str, run: &Path) -> Result<Option<String>> {
    let store = ObjectStore::open(address)?;
    let stored = manifests(&store)?;
    let Some(last) = stored.get("last") else { return Ok(None) };
    let folder = run.join("checkpoints");
    let here = Checkpoint::newest(&folder, "last").ok().flatten().map(|(found, _)| found.progress.step);
    if here.is_some_and(|step| step >= last.step) || RunDirectory::is_in_use(run) {
        return Ok(None);
    }
    make_folder(&folder)?;
    if let Some(best) = stored.get("best") {
        adopt(&store, "best", best, &folder)?;
    }
    let (last, damage) = adopt(&store, "last", last, &folder)?;
    // The file that makes the directory a run comes last.
    let (config, others): (Vec<_>, Vec<_>) = last.run.iter().partition(|(name, _)| *name == "config.toml");
    for (name, listed) in others.into_iter().chain(config) {
        let path = plain(name).map(|name| run.join(name))?;
        let temporary = run.join(format!("{name}.tmp"));
        store.get_file(&format!("{}/{OF_RUN}/{name}", last.folder), &listed.stored(), &temporary)?;
        std::fs::rename(&temporary, &path).map_err(|source| RunError::File { path, source })?;
    }
    let before = here.map_or_else(String::new, |step| format!(", {} had step {step}", run.display()));
    let damage = damage.map(|problem| format!("; it is the one before the newest: {problem}")).unwrap_or_default();
    Ok(Some(format!("the checkpoint of step {} comes from {}{before}{damage}", last.step, store.address())))
}

/// Fetches a checkpoint, or the one before where objects of it are damaged or gone, and gives it its name. Returns the one that
/// it was, and what was wrong with the first.
fn adopt<'a>(
    store: &ObjectStore,
    name: &str,
    manifest: &'a Manifest,
    folder: &Path,
) -> Result<(&'a Manifest, Option<FetchError>)> {
    let once = |manifest: &Manifest| -> Result<()> {
        let temporary = folder.join(format!("{name}.tmp"));
        if temporary.exists() {
            std::fs::remove_dir_all(&temporary).map_err(|source| RunError::File { path: temporary.clone(), source })?;
        }
        for (file, listed) in &manifest.checkpoint {
            let path = temporary.join(plain(file)?);
            make_folder(path.parent().unwrap_or(&temporary))?;
            store.get_file(&format!("{}/{file}", manifest.folder), &listed.stored(), &path)?;
        }
        Ok(checkpoint::adopt(folder, name).map(drop)?)
    };
    match (once(manifest), &manifest.before) {
        (Ok(()), _) => Ok((manifest, None)),
        (Err(RunError::Fetch(problem @ FetchError::Damaged(_))), Some(before)) => {
            once(before).map(|()| (&**before, Some(problem)))
        }
        (Err(error), _) => Err(error),
    }
}

/// A path of a list, which must stay where it belongs.
fn plain(name: &str) -> Result<&Path> {
    let path = Path::new(name);
    match path.components().all(|part| matches!(part, Component::Normal(_))) && !name.is_empty() {
        true => Ok(path),
        false => {
            Err(RunError::Refused(format!("a list of a stored checkpoint names {name:?}, which is no file of a run")))
        }
    }
}

/// Stores the newest checkpoints of a run under an address, those that are not there yet.
pub fn store(run: &Path, address: &str) -> Result<()> {
    let claim = Claim::take(address, run)?;
    let mut stored = StoredRun::open(claim.guard(), run)?;
    NAMES.into_iter().try_for_each(|name| stored.store(name).map(drop))
}

/// What of a run is in a store.
struct StoredRun {
    guard: Guard,
    run: PathBuf,
    manifests: Manifests,
}

impl StoredRun {
    fn open(guard: Guard, run: &Path) -> Result<StoredRun> {
        let manifests = manifests(guard.store())?;
        Ok(StoredRun { guard, run: run.to_path_buf(), manifests })
    }

    /// Stores the newest checkpoint of that name, where it is not there yet; returns its step and how many bytes were sent.
    fn store(&mut self, name: &'static str) -> Result<Option<(u64, u64)>> {
        let folder = self.run.join("checkpoints");
        let known = self.manifests.get(name).map(|known| known.folder.clone());
        if identity(&folder.join(name)).is_none_or(|(_, identity)| Some(identity) == known) {
            return Ok(None);
        }
        self.guard.check()?;
        // One that is replaced now is stored at the next look.
        let Some(staged) = staged(&folder, name)? else { return Ok(None) };
        let Some((step, identity)) = identity(&staged) else { return Ok(None) };
        // The best checkpoint often is the last one too.
        let same = self.manifests.values().find(|known| known.folder == identity).cloned();
        let (manifest, sent) = match same {
            Some(known) => (known, 0),
            None => self.send(&staged, identity, step)?,
        };
        std::fs::remove_dir_all(&staged).map_err(|source| RunError::File { path: staged, source })?;
        let before = self.manifests.get(name).map(|before| Box::new(Manifest { before: None, ..before.clone() }));
        let manifest = Manifest { before, ..manifest };
        let text = serde_json::to_vec_pretty(&manifest).map_err(|error| RunError::Refused(error.to_string()))?;
        self.guard.check()?;
        self.guard.store().put(&format!("{name}.json"), &text)?;
        self.manifests.insert(name, manifest);
        self.clean()?;
        Ok(Some((step, sent)))
    }

    /// Stores the files of a checkpoint and of the run.
    fn send(&self, staged: &Path, folder: String, step: u64) -> Result<(Manifest, u64)> {
        let mut sent = 0;
        let mut put = |file: &str, path: &Path| -> Result<Listed> {
            let StoredFile { bytes, pieces } = self.guard.store().put_file(&format!("{folder}/{file}"), path)?;
            sent += bytes;
            Ok(Listed { bytes, sha256: pieces })
        };
        let mut checkpoint = BTreeMap::new();
        for file in files_below(staged, "").map_err(unreadable(staged))? {
            let listed = put(&file, &staged.join(&file))?;
            checkpoint.insert(file, listed);
        }
        let mut run = BTreeMap::new();
        for file in files_of_run(&self.run).map_err(unreadable(&self.run))? {
            let listed = put(&format!("{OF_RUN}/{file}"), &self.run.join(&file))?;
            run.insert(file, listed);
        }
        Ok((Manifest { form: FORM, step, folder, checkpoint, run, before: None }, sent))
    }

    /// Removes the objects of checkpoints that no list names.
    fn clean(&self) -> Result<()> {
        let named = self.manifests.values().flat_map(|manifest| {
            let before = manifest.before.iter().map(|before| before.folder.as_str());
            before.chain([manifest.folder.as_str()])
        });
        let named: BTreeSet<&str> = named.collect();
        let store = self.guard.store();
        for object in store.list(FOLDERS)? {
            if object.split_once('/').is_some_and(|(folder, _)| !named.contains(folder)) {
                store.delete(&object)?;
            }
        }
        Ok(())
    }
}

/// The step of a checkpoint, and what its objects begin with: the checksum of all its files is part of that. None where there is
/// none.
fn identity(checkpoint: &Path) -> Option<(u64, String)> {
    let sums = std::fs::read_to_string(checkpoint.join(checkpoint::CHECKSUMS)).ok()?;
    let step = checkpoint::step_of(checkpoint)?;
    Some((step, format!("{FOLDERS}{step:08}-{}", sums.lines().last()?)))
}

/// The files of a checkpoint under another name, which stay while it is replaced by the next one; none where that happens right
/// now.
fn staged(folder: &Path, name: &str) -> Result<Option<PathBuf>> {
    let (from, staged) = (folder.join(name), folder.join(format!("{name}.upload")));
    let linked = || -> std::io::Result<bool> {
        if staged.exists() {
            std::fs::remove_dir_all(&staged)?;
        }
        let before = std::fs::read(from.join(checkpoint::CHECKSUMS))?;
        for file in files_below(&from, "")? {
            let to = staged.join(&file);
            to.parent().map_or(Ok(()), std::fs::create_dir_all)?;
            // File systems without links get a copy.
            std::fs::hard_link(from.join(&file), &to).or_else(|_| std::fs::copy(from.join(&file), &to).map(drop))?;
        }
        // Its folder is replaced as a whole: the same list before and after means the same files in between.
        Ok(std::fs::read(from.join(checkpoint::CHECKSUMS))? == before)
    };
    match linked() {
        Ok(is_whole) => Ok(is_whole.then_some(staged)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(RunError::File { path: staged, source }),
    }
}

fn unreadable(folder: &Path) -> impl FnOnce(std::io::Error) -> RunError {
    move |error| RunError::Refused(format!("cannot read {}: {error}", folder.display()))
}

/// The files in a folder and below it, by their paths with `/`.
fn files_below(folder: &Path, above: &str) -> std::io::Result<Vec<String>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder.join(above))? {
        let entry = entry?;
        let name = format!("{above}{}", entry.file_name().to_string_lossy());
        match entry.path().is_dir() {
            true => files.extend(files_below(folder, &format!("{name}/"))?),
            false => files.push(name),
        }
    }
    files.sort();
    Ok(files)
}

/// The files that a run keeps beside its checkpoints; folders hold what can be drawn again.
fn files_of_run(run: &Path) -> std::io::Result<Vec<String>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(run)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if entry.path().is_file() && name != "run.lock" && !name.ends_with(".tmp") {
            files.push(name);
        }
    }
    files.sort();
    Ok(files)
}
