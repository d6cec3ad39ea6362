//! All runs below some folders, followed as they grow.

use crate::error::BoardError;
use crate::run::Run;
use octant_events::{Progress, RunFolder, find_runs};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::sync::broadcast;

/// How often files are polled; a point is on screen within a second.
const INTERVAL: Duration = Duration::from_millis(250);
/// How often folders are searched for runs and files.
const SEARCH: Duration = Duration::from_secs(2);
/// What one thread reads of a file before somebody else may look at the run.
const SLICE: u64 = 8 << 20;

/// All runs below some folders.
pub struct Store {
    roots: Vec<(String, PathBuf)>,
    runs: RwLock<BTreeMap<String, Arc<Run>>>,
    next: AtomicU32,
    is_ready: AtomicBool,
    /// Numbers of runs that have news.
    news: broadcast::Sender<Arc<Vec<u32>>>,
    session: String,
    is_editable: bool,
}

impl Store {
    /// Everything below these folders; nothing is read yet.
    pub fn new(folders: &[PathBuf]) -> Result<Store, BoardError> {
        let mut roots: Vec<(String, PathBuf)> = Vec::new();
        for folder in folders {
            if !folder.is_dir() {
                return Err(BoardError::NoFolder(folder.display().to_string()));
            }
            let path = folder.canonicalize().unwrap_or_else(|_| folder.clone());
            if roots.iter().any(|(_, known)| *known == path) {
                continue;
            }
            let short = path.file_name().map_or_else(|| "/".into(), |name| name.to_string_lossy().into_owned());
            let is_taken = roots.iter().any(|(name, _)| *name == short);
            roots.push((if is_taken { path.display().to_string() } else { short }, path));
        }
        let started = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos());
        Ok(Store {
            roots,
            runs: RwLock::default(),
            next: AtomicU32::new(1),
            is_ready: AtomicBool::new(false),
            news: broadcast::channel(256).0,
            session: format!("{started:x}-{:x}", std::process::id()),
            is_editable: false,
        })
    }

    /// Whether notes and tags may be changed.
    pub fn editable(self, is_editable: bool) -> Store {
        Store { is_editable, ..self }
    }

    /// Whether notes and tags may be changed.
    pub(crate) fn is_editable(&self) -> bool {
        self.is_editable
    }

    /// Notifies the pages that these runs changed.
    pub(crate) fn announce(&self, runs: Vec<u32>) {
        let _ = self.news.send(Arc::new(runs));
    }

    /// The runs, by name.
    pub fn runs(&self) -> Vec<Arc<Run>> {
        self.runs.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    /// The run of that number.
    pub fn run(&self, id: u32) -> Option<Arc<Run>> {
        self.runs.read().unwrap_or_else(PoisonError::into_inner).values().find(|run| run.id == id).cloned()
    }

    /// True once everything that was there at first is read.
    pub fn is_ready(&self) -> bool {
        self.is_ready.load(Ordering::Acquire)
    }

    /// Differs between processes, so that a page notices that numbers of runs mean something else.
    pub(crate) fn session(&self) -> &str {
        &self.session
    }

    pub(crate) fn news(&self) -> broadcast::Receiver<Arc<Vec<u32>>> {
        self.news.subscribe()
    }

    pub(crate) fn roots(&self) -> &[(String, PathBuf)] {
        &self.roots
    }

    /// Searches the folders and reads everything to its end.
    pub fn load(&self) {
        self.search();
        self.read();
        self.is_ready.store(true, Ordering::Release);
    }

    /// Loads, and keeps reading until `stops` returns true. Call it on a thread of its own.
    pub fn follow(&self, interval: Option<Duration>, stops: impl Fn() -> bool) {
        self.load();
        self.announce(Vec::new());
        let mut searched = Instant::now();
        while !stops() {
            std::thread::sleep(interval.unwrap_or(INTERVAL).min(INTERVAL));
            let mut changed = Vec::new();
            if searched.elapsed() >= SEARCH.max(interval.unwrap_or(SEARCH).min(Duration::from_secs(30))) {
                changed = self.search();
                searched = Instant::now();
            }
            changed.extend(self.read());
            changed.sort_unstable();
            changed.dedup();
            if !changed.is_empty() {
                self.announce(changed);
            }
        }
    }

    /// Finds runs and files; returns the runs with news.
    fn search(&self) -> Vec<u32> {
        let mut found: BTreeMap<String, RunFolder> = BTreeMap::new();
        for (label, root) in &self.roots {
            for folder in find_runs(root).unwrap_or_default() {
                found.insert(self.name(label, root, &folder.name), folder);
            }
        }
        let known = self.runs.read().unwrap_or_else(PoisonError::into_inner).clone();
        let mut runs = BTreeMap::new();
        let mut changed = Vec::new();
        for (name, folder) in found {
            let run = known.get(&name).cloned().unwrap_or_else(|| {
                let id = self.next.fetch_add(1, Ordering::Relaxed);
                Arc::new(Run::new(id, name.clone(), &folder))
            });
            let before = run.version();
            run.set_files(&folder.files);
            run.read_facts();
            if run.version() != before || !known.contains_key(&name) {
                changed.push(run.id);
            }
            runs.insert(name, run);
        }
        let vanished = known.iter().filter(|(name, _)| !runs.contains_key(*name));
        changed.extend(vanished.map(|(_, run)| run.id));
        *self.runs.write().unwrap_or_else(PoisonError::into_inner) = runs;
        changed
    }

    fn name(&self, label: &str, root: &Path, name: &str) -> String {
        match (self.roots.len() > 1, name) {
            (true, ".") => label.to_string(),
            (true, name) => format!("{label}/{name}"),
            // A folder that is itself a run is shown under its own name.
            (false, ".") => root.file_name().map_or_else(|| ".".into(), |name| name.to_string_lossy().into_owned()),
            (false, name) => name.to_string(),
        }
    }

    /// Reads on in all files, on all cores; returns the runs with news.
    fn read(&self) -> Vec<u32> {
        let queue: Mutex<Vec<Arc<Run>>> = Mutex::new(self.runs().into_iter().rev().collect());
        let changed: Mutex<Vec<u32>> = Mutex::default();
        let work = || {
            loop {
                let run = queue.lock().unwrap_or_else(PoisonError::into_inner).pop();
                let Some(run) = run else { return };
                let progress = run.read(SLICE);
                if progress != Progress::Same {
                    changed.lock().unwrap_or_else(PoisonError::into_inner).push(run.id);
                }
                if progress == Progress::More {
                    // At the far end: every run is shown early rather than one of them whole.
                    queue.lock().unwrap_or_else(PoisonError::into_inner).insert(0, run);
                }
            }
        };
        let threads = std::thread::available_parallelism().map_or(1, usize::from).min(16);
        std::thread::scope(|scope| {
            (1..threads).for_each(|_| {
                scope.spawn(work);
            });
            work();
        });
        changed.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}
