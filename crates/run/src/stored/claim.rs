//! One run at a time stores checkpoints under an address.
//!
//! Who does is in `owner.json` there, which is written again every few seconds. Another one refuses to begin while it changes, and
//! replaces what has not changed for a while; clocks of different machines are not compared. The owner looks before every
//! commit: one that was thought dead and was not stops storing. A store has no locks, so a commit that is sent at the moment of a
//! replacement may still arrive.

use crate::{Result, RunError};
use octant_cluster::host;
use octant_fetch::ObjectStore;
use serde::{Deserialize, Serialize};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const OWNER: &str = "owner.json";
/// How often the owner shows that it is alive.
const INTERVAL: Duration = Duration::from_secs(5);
/// An owner that has not shown it for so long is gone.
const PATIENCE: Duration = Duration::from_secs(20);
/// How often another one's object is looked at.
const LOOK: Duration = Duration::from_secs(1);

/// Who stores checkpoints under an address.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Owner {
    /// Another one for every process that ever owned an address.
    session: String,
    host: String,
    directory: PathBuf,
    process: u32,
    /// How often it was written.
    beat: u64,
}

impl Owner {
    fn new(run: &Path) -> Result<Owner> {
        let directory = std::path::absolute(run).map_err(|source| RunError::File { path: run.into(), source })?;
        let random = || RandomState::new().build_hasher().finish();
        let session = format!("{:016x}{:016x}", random(), random());
        Ok(Owner { session, host: host(), directory, process: std::process::id(), beat: 0 })
    }

    /// The lock of a run directory lets one process in at a time, so the one before has ended.
    fn is_of_same_directory(&self, other: &Owner) -> bool {
        (&self.host, &self.directory) == (&other.host, &other.directory)
    }

    fn name(&self) -> String {
        format!("process {} on {} for {}", self.process, self.host, self.directory.display())
    }

    fn text(&self) -> Result<Vec<u8>> {
        serde_json::to_vec_pretty(self).map_err(|error| RunError::Refused(error.to_string()))
    }

    fn read(store: &ObjectStore) -> Result<Option<Owner>> {
        let Some(text) = store.get(OWNER)? else { return Ok(None) };
        let owner = serde_json::from_slice(&text).map_err(|error| {
            let address = store.address();
            RunError::Refused(format!("{address}/{OWNER} says nothing of a run ({error}); give another address"))
        });
        owner.map(Some)
    }
}

/// An address that this process owns, until it is dropped.
pub(crate) struct Claim {
    guard: Guard,
    /// Whose it was, in a sentence.
    pub note: Option<String>,
    ends: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Claim {
    /// Takes an address for a run, where no living process has it.
    pub fn take(address: &str, run: &Path) -> Result<Claim> {
        let (store, own) = (ObjectStore::open(address)?, Owner::new(run)?);
        let mut note = None;
        loop {
            match Owner::read(&store)? {
                None => drop(store.put_new(OWNER, &own.text()?)?),
                Some(owner) if owner.session == own.session => break,
                Some(before) => {
                    if !before.is_of_same_directory(&own) {
                        wait_until_gone(&store, &before)?;
                    }
                    note =
                        Some(format!("{address} belonged to {}, which has ended: it is this run's now", before.name()));
                    // Where two replace it at once, the next look shows who was last.
                    store.put(OWNER, &own.text()?)?;
                }
            }
        }
        let guard = Guard(Arc::new(Held { store, own, lost: AtomicBool::new(false) }));
        let (ends, receiver) = channel();
        let renewed = guard.clone();
        let thread = std::thread::spawn(move || {
            let mut beat = 0;
            while !renewed.is_lost() && receiver.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
                beat += 1;
                // A store that cannot be reached now may be at the next beat; commits look for themselves.
                let _ = renewed.renew(beat);
            }
        });
        Ok(Claim { guard, note, ends: Some(ends), thread: Some(thread) })
    }

    /// What looks before a commit.
    pub fn guard(&self) -> Guard {
        self.guard.clone()
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        drop(self.ends.take());
        // A panic of the thread is a beat that was missed.
        let _ = self.thread.take().map(JoinHandle::join);
        if self.guard.check().is_ok() {
            // What stays is replaced by the next run.
            let _ = self.guard.store().delete(OWNER);
        }
    }
}

/// Looks whether a claim still holds.
#[derive(Clone)]
pub(crate) struct Guard(Arc<Held>);

struct Held {
    store: ObjectStore,
    own: Owner,
    lost: AtomicBool,
}

impl Guard {
    /// The store that the address leads to.
    pub fn store(&self) -> &ObjectStore {
        &self.0.store
    }

    /// Whether the address was seen to belong to another process.
    pub fn is_lost(&self) -> bool {
        self.0.lost.load(Ordering::Relaxed)
    }

    /// Fails where another process has the address now.
    pub fn check(&self) -> Result<()> {
        let Held { store, own, lost } = &*self.0;
        let other = loop {
            match Owner::read(store)? {
                Some(owner) if owner.session == own.session => return Ok(()),
                Some(other) => break other,
                // Somebody has removed it; nobody has taken it.
                None if store.put_new(OWNER, &own.text()?)? => return Ok(()),
                None => {}
            }
        };
        lost.store(true, Ordering::Relaxed);
        let (address, name) = (store.address(), other.name());
        Err(RunError::Refused(format!("{address} belongs to {name} now: this run stores nothing there any more")))
    }

    fn renew(&self, beat: u64) -> Result<()> {
        self.check()?;
        Ok(self.store().put(OWNER, &Owner { beat, ..self.0.own.clone() }.text()?)?)
    }
}

/// Returns once an owner has not shown for a while that it is alive, or has let go; refuses where it does.
fn wait_until_gone(store: &ObjectStore, before: &Owner) -> Result<()> {
    let begun = Instant::now();
    while begun.elapsed() < PATIENCE {
        std::thread::sleep(LOOK);
        match Owner::read(store)? {
            None => return Ok(()),
            Some(now) if now == *before => {}
            Some(now) => {
                return Err(RunError::Refused(format!(
                    "{} belongs to a run that is alive ({}): give every run an address of its own, or end that one first",
                    store.address(),
                    now.name()
                )));
            }
        }
    }
    Ok(())
}
