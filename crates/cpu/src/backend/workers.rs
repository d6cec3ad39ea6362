//! The threads on which the engine works through its queue.
//!
//! Programs start in the order in which they were queued. Those that only read their inputs run at the same time, up to
//! [`MOST`]: the first of them to reach a loop has the pool's workers, the others compute on their own thread, so that no program
//! waits for the whole of another. A program that takes over donated buffers, as every training step does, runs alone.

use super::buffer::CpuBuffer;
use crate::kernels::Machine;
use octant_runtime::{Result, RuntimeError};
use octant_tensor::AlignedBytes;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// Programs that run at the same time, at most: each has an arena, so this bounds the memory.
const MOST: usize = 4;

/// Runs jobs; their submitters do not wait.
pub(crate) struct Workers {
    machine: Arc<Machine>,
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

struct Shared {
    queue: Mutex<Queue>,
    changed: Condvar,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    running: usize,
    /// A job runs that must run alone.
    is_alone: bool,
    is_closed: bool,
    /// Arenas that no program uses now; the one that was used last is used first.
    arenas: Vec<Arena>,
}

struct Job {
    work: Box<dyn FnOnce(&mut Arena) + Send>,
    alone: bool,
}

/// Memory for intermediate values of the program that runs in it.
pub(crate) struct Arena {
    bytes: AlignedBytes,
}

impl Default for Arena {
    fn default() -> Arena {
        Arena { bytes: AlignedBytes::zeroed(0) }
    }
}

impl Arena {
    /// At least that many bytes. What they hold is left over from earlier runs.
    pub fn reserve(&mut self, bytes: usize) -> *mut u8 {
        if self.bytes.len() < bytes {
            // The old block goes first: both at once could be too much.
            self.bytes = AlignedBytes::zeroed(0);
            self.bytes = AlignedBytes::zeroed(bytes);
        }
        self.bytes.as_mut_ptr()
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        // Jobs catch their panics and run without the lock, so the queue is never left half-changed.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The main loop of a thread.
    fn work(&self) {
        let mut queue = self.lock();
        loop {
            let may_start = |queue: &Queue| match queue.jobs.front() {
                Some(job) if job.alone => queue.running == 0,
                Some(_) => !queue.is_alone,
                None => false,
            };
            while !may_start(&queue) {
                if queue.is_closed && queue.jobs.is_empty() {
                    return;
                }
                queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
            }
            let Some(job) = queue.jobs.pop_front() else { continue };
            let mut arena = queue.arenas.pop().unwrap_or_default();
            queue.running += 1;
            queue.is_alone = job.alone;
            // The next job may be able to start as well.
            self.changed.notify_one();
            drop(queue);
            (job.work)(&mut arena);
            queue = self.lock();
            queue.arenas.push(arena);
            queue.running -= 1;
            queue.is_alone = false;
            self.changed.notify_all();
        }
    }
}

impl Workers {
    pub fn start(threads: usize) -> Result<Workers> {
        let device_error = |error: &dyn std::fmt::Display| RuntimeError::Device(error.to_string());
        let machine = Arc::new(Machine::new(threads).map_err(|error| device_error(&error))?);
        let shared = Arc::new(Shared { queue: Mutex::default(), changed: Condvar::new() });
        let spawn = |index: usize| {
            let shared = shared.clone();
            std::thread::Builder::new().name(format!("octant-run-{index}")).spawn(move || shared.work())
        };
        let first = spawn(0).map_err(|error| device_error(&error))?;
        // A system that refuses more threads runs fewer programs at a time.
        let others = (1..threads.min(MOST)).map_while(|index| spawn(index).ok());
        let threads = std::iter::once(first).chain(others).collect();
        Ok(Workers { machine, shared, threads })
    }

    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// Programs that may run at the same time.
    pub fn count(&self) -> usize {
        self.threads.len()
    }

    /// Bytes of the arenas that no program uses now.
    pub fn arenas(&self) -> Vec<usize> {
        self.shared.lock().arenas.iter().map(|arena| arena.bytes.len()).collect()
    }

    /// Queues a run that computes `outputs`. If it fails or panics, reading them returns the error.
    pub fn submit(
        &self,
        outputs: Vec<CpuBuffer>,
        alone: bool,
        work: impl FnOnce(&mut Arena, &Machine, &[CpuBuffer]) -> Result<()> + Send + 'static,
    ) -> Result<()> {
        let machine = self.machine.clone();
        let work = Box::new(move |arena: &mut Arena| {
            let result = catch_unwind(AssertUnwindSafe(|| work(arena, &machine, &outputs)));
            let error = match result {
                Ok(Ok(())) => return,
                Ok(Err(error)) => error,
                Err(panic) => RuntimeError::Device(format!("the cpu engine failed: {}", panic_message(&*panic))),
            };
            outputs.iter().for_each(|output| output.fail(error.clone()));
        });
        self.shared.lock().jobs.push_back(Job { work, alone });
        self.shared.changed.notify_one();
        Ok(())
    }
}

fn panic_message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| text.to_string());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no reason given".into())
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.shared.lock().is_closed = true;
        self.shared.changed.notify_all();
        for thread in self.threads.drain(..) {
            // The last handle may be dropped by a job on one of the threads, which cannot wait for itself.
            if thread.thread().id() != std::thread::current().id() {
                let _ = thread.join();
            }
        }
    }
}
