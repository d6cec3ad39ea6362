//! The thread on which the engine works through its queue.

use super::buffer::CpuBuffer;
use crate::kernels::Machine;
use octant_runtime::{Result, RuntimeError};
use octant_tensor::AlignedBytes;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;

type Job = Box<dyn FnOnce(&mut Arena) + Send>;

/// Runs jobs one after another; their submitters do not wait.
pub(crate) struct Worker {
    machine: Arc<Machine>,
    queue: Option<Sender<Job>>,
    thread: Option<JoinHandle<()>>,
}

/// Memory for intermediate values, shared by all programs because only one runs at a time.
pub(crate) struct Arena {
    bytes: AlignedBytes,
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

impl Worker {
    pub fn start(threads: usize) -> Result<Worker> {
        let device_error = |error: &dyn std::fmt::Display| RuntimeError::Device(error.to_string());
        let machine = Arc::new(Machine::new(threads).map_err(|error| device_error(&error))?);
        let (queue, jobs) = channel::<Job>();
        let thread = std::thread::Builder::new()
            .name("octant-cpu".into())
            .spawn(move || {
                let mut arena = Arena { bytes: AlignedBytes::zeroed(0) };
                jobs.into_iter().for_each(|job| job(&mut arena));
            })
            .map_err(|error| device_error(&error))?;
        Ok(Worker { machine, queue: Some(queue), thread: Some(thread) })
    }

    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// Queues a run that computes `outputs`. If it fails or panics, reading them returns the error.
    pub fn submit(
        &self,
        outputs: Vec<CpuBuffer>,
        work: impl FnOnce(&mut Arena, &Machine, &[CpuBuffer]) -> Result<()> + Send + 'static,
    ) -> Result<()> {
        let machine = self.machine.clone();
        let job: Job = Box::new(move |arena| {
            let result = catch_unwind(AssertUnwindSafe(|| work(arena, &machine, &outputs)));
            let error = match result {
                Ok(Ok(())) => return,
                Ok(Err(error)) => error,
                Err(panic) => RuntimeError::Device(format!("the cpu engine failed: {}", panic_message(&*panic))),
            };
            outputs.iter().for_each(|output| output.fail(error.clone()));
        });
        let gone = || RuntimeError::Device("the cpu engine's thread has ended".into());
        self.queue.as_ref().ok_or_else(gone)?.send(job).map_err(|_| gone())
    }
}

fn panic_message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| text.to_string());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no reason given".into())
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.queue = None;
        if let Some(thread) = self.thread.take() {
            // The last handle may be dropped by a job on the thread itself, which cannot wait for itself.
            if thread.thread().id() != std::thread::current().id() {
                let _ = thread.join();
            }
        }
    }
}
