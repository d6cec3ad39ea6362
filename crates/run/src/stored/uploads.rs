//! Follows the checkpoints of a run and stores every one, on a thread of its own.

use super::{Claim, NAMES, StoredRun};
use crate::Result;
use octant_events::units::{bytes, duration};
use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How often a new checkpoint is looked for.
const INTERVAL: Duration = Duration::from_millis(500);
/// After a failure the store is left alone for so many intervals; twice as many after the next one.
const FIRST_PAUSE: u32 = 20;
/// At most for so many.
const LONGEST_PAUSE: u32 = 600;

/// The uploads of a run under way.
pub(crate) struct Uploads {
    address: String,
    ends: Option<Sender<()>>,
    warnings: Receiver<String>,
    /// One more than the step of the newest stored checkpoint; 0 before there is one.
    stored: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
    /// Let go when all is stored.
    _claim: Claim,
}

impl Uploads {
    /// Begins to follow the checkpoints of a run. What the store has already is looked up first, so that an address that cannot
    /// be read ends the run before its first step.
    pub fn start(claim: Claim, run: &Path) -> Result<Uploads> {
        let stored_run = StoredRun::open(claim.guard(), run)?;
        let address = claim.guard().store().address().to_string();
        let (ends, receiver) = channel();
        let (sender, warnings) = channel();
        let stored = Arc::new(AtomicU64::new(0));
        let follower = Follower { run: run.into(), stored_run, stored: stored.clone(), sender };
        let thread = std::thread::spawn(move || follower.work(&receiver));
        Ok(Uploads { address, ends: Some(ends), warnings, stored, thread: Some(thread), _claim: claim })
    }

    /// What went wrong since the last call, in sentences.
    pub fn warnings(&self) -> Vec<String> {
        self.warnings.try_iter().collect()
    }

    /// Whether the store has the checkpoint of that step.
    fn has(&self, step: u64) -> bool {
        self.stored.load(Ordering::Relaxed) == step + 1
    }

    /// Waits until the last checkpoint is stored, and says so; returns a sentence, and what went wrong.
    pub fn end(mut self, step: u64, message: &mut dyn FnMut(&str)) -> Vec<String> {
        if !self.has(step) {
            message(&format!("waiting until the last checkpoint is in {}", self.address));
        }
        self.finish();
        let is_there = if self.has(step) { "is" } else { "is not" };
        message(&format!("the checkpoint of step {step} {is_there} in {}", self.address));
        self.warnings()
    }

    fn finish(&mut self) {
        drop(self.ends.take());
        // A panic of the thread is an upload that failed; the run did not.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// What a run that fails has saved is stored all the same.
impl Drop for Uploads {
    fn drop(&mut self) {
        self.finish();
    }
}

struct Follower {
    run: PathBuf,
    stored_run: StoredRun,
    stored: Arc<AtomicU64>,
    /// For what goes wrong.
    sender: Sender<String>,
}

impl Follower {
    fn work(mut self, ends: &Receiver<()>) {
        let (mut pause, mut next_pause) = (0, FIRST_PAUSE);
        loop {
            let is_over = ends.recv_timeout(INTERVAL) != Err(RecvTimeoutError::Timeout);
            if pause > 0 && !is_over {
                pause -= 1;
                continue;
            }
            match NAMES.into_iter().try_for_each(|name| self.store(name)) {
                Ok(()) => next_pause = FIRST_PAUSE,
                // There is no use in another attempt.
                Err(error) if self.stored_run.guard.is_lost() => {
                    let text = error.to_string();
                    self.log(&text);
                    let _ = self.sender.send(text);
                    return;
                }
                Err(error) => {
                    let again = if is_over { "" } else { "; it is tried again" };
                    let address = self.stored_run.guard.store().address();
                    let text = format!("a checkpoint could not be stored in {address}: {error}{again}");
                    self.log(&text);
                    // The receiver is gone once the run has failed.
                    let _ = self.sender.send(text);
                    (pause, next_pause) = (next_pause, (2 * next_pause).min(LONGEST_PAUSE));
                }
            }
            if is_over {
                return;
            }
        }
    }

    fn store(&mut self, name: &'static str) -> Result<()> {
        let begun = Instant::now();
        if let Some((step, sent)) = self.stored_run.store(name)? {
            let address = self.stored_run.guard.store().address();
            let (size, time) = (bytes(sent), duration(begun.elapsed()));
            self.log(&format!("the checkpoint `{name}` of step {step} is in {address} ({size} sent in {time})"));
        }
        let step = self.stored_run.manifests.get("last").map_or(0, |last| last.step + 1);
        self.stored.store(step, Ordering::Relaxed);
        Ok(())
    }

    /// A line in the log of the run, which its own process appends to as well. Without it, nothing is lost but the line.
    fn log(&self, line: &str) {
        let log = OpenOptions::new().append(true).open(self.run.join("log.txt"));
        let _ = log.and_then(|mut log| writeln!(log, "{line}"));
    }
}
