//! The state that worker threads and the consumer share, and the worker's loop.

use super::assembly::Assembly;
use super::pool::lock;
use super::{Batch, Corrupt, Job, Skipped};
use crate::{DataError, Position, Sample, SampleRng, Sampler};
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// The state of one stream of batches.
pub(super) struct Shared {
    state: Mutex<State>,
    work_available: Condvar,
    batch_ready: Condvar,
}

struct State {
    /// Batches in order; the front one is delivered next.
    open: VecDeque<OpenBatch>,
    next: Position,
    end_epoch: u64,
    stopped: bool,
    workers: usize,
    lost: Option<String>,
}

struct OpenBatch {
    position: Position,
    rows: Vec<(usize, u64)>,
    claimed: usize,
    assembly: Arc<Mutex<Assembly>>,
    done: Option<Result<Batch, DataError>>,
}

/// One row of one batch, to be prepared by one worker.
struct Claim {
    position: Position,
    row: usize,
    index: u64,
    assembly: Arc<Mutex<Assembly>>,
}

impl Shared {
    pub fn new(from: Position, end_epoch: u64, workers: usize) -> Shared {
        let state = State { open: VecDeque::new(), next: from, end_epoch, stopped: false, workers, lost: None };
        Shared { state: Mutex::new(state), work_available: Condvar::new(), batch_ready: Condvar::new() }
    }

    /// The next batch in order, waiting for it; `None` at the end of the stream.
    pub fn take(&self, sampler: &Sampler) -> Option<Result<Batch, DataError>> {
        let mut state = lock(&self.state);
        loop {
            if let Some(result) = state.open.front_mut().and_then(|front| front.done.take()) {
                state.open.pop_front();
                self.work_available.notify_all();
                return Some(result);
            }
            if state.open.is_empty() && state.exhausted(sampler) {
                return None;
            }
            if let Some(reason) = &state.lost {
                return Some(Err(DataError::request(format!("a loader worker died: {reason}"))));
            }
            if state.workers == 0 {
                return Some(Err(DataError::request("every loader worker has ended before the batches were complete")));
            }
            state = self.batch_ready.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Ends the workers; rows in preparation are finished and discarded.
    pub fn stop(&self) {
        lock(&self.state).stopped = true;
        self.work_available.notify_all();
    }

    /// A worker thread panicked.
    pub fn worker_lost(&self, reason: String) {
        let mut state = lock(&self.state);
        state.workers -= 1;
        state.lost.get_or_insert(reason);
        self.batch_ready.notify_all();
    }

    /// Waits for an unclaimed row; `None` when the worker should end.
    fn claim(&self, job: &Job) -> Option<Claim> {
        let mut state = lock(&self.state);
        loop {
            if state.stopped {
                return None;
            }
            if let Some(claim) = state.claim_open() {
                return Some(claim);
            }
            if state.exhausted(&job.sampler) {
                return None;
            }
            if state.open.len() < job.config.prefetch.max(1) {
                state.open_next(&job.sampler);
                continue;
            }
            state = self.work_available.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn deliver(&self, assembly: &Arc<Mutex<Assembly>>, result: Result<Batch, DataError>) {
        let mut state = lock(&self.state);
        let batch = state.open.iter_mut().find(|open| Arc::ptr_eq(&open.assembly, assembly));
        if let Some(batch) = batch {
            batch.done = Some(result);
            self.batch_ready.notify_all();
        }
    }
}

impl State {
    fn exhausted(&self, sampler: &Sampler) -> bool {
        self.next.epoch >= self.end_epoch || self.next.batch >= sampler.batches()
    }

    fn claim_open(&mut self) -> Option<Claim> {
        let open = self.open.iter_mut().find(|open| open.claimed < open.rows.len())?;
        let (row, index) = open.rows[open.claimed];
        open.claimed += 1;
        Some(Claim { position: open.position, row, index, assembly: open.assembly.clone() })
    }

    fn open_next(&mut self, sampler: &Sampler) {
        let assembly = Assembly::new(self.next, sampler.batch(self.next));
        let rows = assembly.wanted();
        let assembly = Arc::new(Mutex::new(assembly));
        self.open.push_back(OpenBatch { position: self.next, rows, claimed: 0, assembly, done: None });
        self.next = sampler.next(self.next);
    }
}

/// Reports the end of its worker, also after a panic, so that the consumer never waits for a thread that has ended.
struct WorkerGuard<'a>(&'a Shared);

impl Drop for WorkerGuard<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.worker_lost("it panicked outside of a sample".to_string());
        } else {
            lock(&self.0.state).workers -= 1;
            self.0.batch_ready.notify_all();
        }
    }
}

/// Prepares rows until there are no more.
pub(super) fn worker(shared: &Shared, job: &Job) {
    let _guard = WorkerGuard(shared);
    while let Some(claim) = shared.claim(job) {
        let prepared = prepare(&claim, job);
        // Rows are copied without the lock, so that workers on the same batch do not wait for each other.
        let written = prepared.map(|sample| {
            let rows = lock(&claim.assembly).rows(&sample, job);
            rows.and_then(|rows| rows.write(claim.row, sample))
        });
        let mut assembly = lock(&claim.assembly);
        let complete = match written {
            Ok(Ok(())) => assembly.put(claim.row),
            Ok(Err(problem)) => {
                let location = job.dataset.location(claim.index as usize);
                assembly.fail(claim.row, DataError::Sample { index: claim.index, location, problem })
            }
            Err(error) if job.config.corrupt == Corrupt::Skip => {
                lock(&job.skipped).push(Skipped { index: claim.index, reason: error.to_string() });
                assembly.skip()
            }
            Err(error) => assembly.fail(claim.row, error),
        };
        if complete {
            let result = assembly.finish(job);
            drop(assembly);
            shared.deliver(&claim.assembly, result);
        }
    }
}

/// Reads and transforms one sample. A panic inside is an error of that sample.
fn prepare(claim: &Claim, job: &Job) -> Result<Sample, DataError> {
    let attempt = catch_unwind(AssertUnwindSafe(|| {
        // A sample that comes twice in an epoch is changed differently each time.
        let stream = job.sampler.stream(claim.position, claim.row).unwrap_or(claim.index);
        let mut rng = SampleRng::new(job.config.seed, claim.position.epoch, stream);
        job.transform.prepare(&*job.dataset, claim.index as usize, &mut rng)
    }));
    let problem = match attempt {
        Ok(Ok(sample)) => return Ok(sample),
        Ok(Err(error)) => error.to_string(),
        Err(panic) => format!("preparing it panicked: {}", panic_text(&*panic)),
    };
    let location = job.dataset.location(claim.index as usize);
    Err(DataError::Sample { index: claim.index, location, problem })
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("(no message)")
}
