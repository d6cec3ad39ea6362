//! Requests that wait for a device.

use crate::error::{Reason, Refusal};
use crate::loaded::Loaded;
use axum::body::Bytes;
use octant_imaging::Image;
use octant_predict::{Prediction, RowShape};
use octant_tensor::HostTensor;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// What a request wants computed.
pub(crate) enum Work {
    /// Rows of a batch; other requests may share it.
    Rows(RowShape, Vec<Bytes>),
    /// An image of any size, which is predicted alone.
    Whole(Image<u8>),
}

/// What was computed.
pub(crate) enum Done {
    /// The result of a batch, and the row where this request's begin.
    Rows(Arc<HostTensor>, usize),
    Whole(Prediction),
}

/// A request, or a part of one that fits into a batch.
pub(crate) struct Job {
    /// The version that the request was prepared with, whatever is loaded later.
    pub loaded: Arc<Loaded>,
    pub work: Work,
    pub deadline: Instant,
    pub queued: Instant,
    pub reply: oneshot::Sender<Result<Done, Refusal>>,
}

impl Job {
    /// The images that it counts as.
    pub fn images(&self) -> usize {
        match &self.work {
            Work::Rows(_, rows) => rows.len(),
            Work::Whole(_) => 1,
        }
    }

    /// Whether two can be in one batch.
    fn goes_with(&self, other: &Job) -> bool {
        match (&self.work, &other.work) {
            (Work::Rows(a, _), Work::Rows(b, _)) => a == b && Arc::ptr_eq(&self.loaded, &other.loaded),
            (Work::Whole(_), _) | (_, Work::Whole(_)) => false,
        }
    }
}

#[derive(Default)]
struct Waiting {
    jobs: VecDeque<Job>,
    images: usize,
    closed: bool,
}

/// A bounded queue. Jobs whose client is gone or whose deadline passed leave it without being computed.
pub(crate) struct Queue {
    waiting: Mutex<Waiting>,
    changed: Condvar,
    /// The most images that wait.
    capacity: usize,
    max_batch: usize,
    max_delay: Duration,
}

impl Queue {
    pub fn new(capacity: usize, max_batch: usize, max_delay: Duration) -> Queue {
        Queue { waiting: Mutex::default(), changed: Condvar::new(), capacity, max_batch, max_delay }
    }

    /// The most rows of one job.
    pub fn max_batch(&self) -> usize {
        self.max_batch
    }

    /// Images that wait now, and that somebody waits for.
    pub fn len(&self) -> usize {
        let mut waiting = self.locked();
        waiting.remove_dead();
        waiting.images
    }

    /// Nothing that the lock guards can be left half-changed by a panic.
    fn locked(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All jobs of a request, or none of them.
    pub fn submit(&self, jobs: Vec<Job>) -> Result<(), Refusal> {
        let images: usize = jobs.iter().map(Job::images).sum();
        if images > self.capacity {
            let text = format!("a request of {images} images never fits: at most {} may wait (--queue)", self.capacity);
            return Err(Refusal::new(Reason::TooLarge, text));
        }
        let mut waiting = self.locked();
        if waiting.closed {
            return Err(Refusal::new(Reason::Unavailable, "the server is stopping"));
        }
        if waiting.images + images > self.capacity {
            // Clients that are gone make room for those that are here.
            waiting.remove_dead();
        }
        if waiting.images + images > self.capacity {
            let text = format!("{} images wait already, the most that may (--queue); try again later", waiting.images);
            return Err(Refusal::new(Reason::Full, text));
        }
        waiting.images += images;
        waiting.jobs.extend(jobs);
        self.changed.notify_one();
        Ok(())
    }

    /// No job is taken from now on; those that wait are still computed.
    pub fn close(&self) {
        self.locked().closed = true;
        self.changed.notify_all();
    }

    /// The jobs of the next batch; `None` once the queue is closed and empty. Waits for the first job, and then as long as
    /// `max_delay` allows for others that go with it.
    pub fn next(&self) -> Option<Vec<Job>> {
        let mut waiting = self.locked();
        loop {
            waiting.remove_dead();
            let Some(first) = waiting.jobs.front() else {
                if waiting.closed {
                    return None;
                }
                waiting = self.changed.wait(waiting).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let images: usize = waiting.jobs.iter().filter(|job| job.goes_with(first)).map(Job::images).sum();
            let left = (first.queued + self.max_delay).saturating_duration_since(Instant::now());
            let is_whole = matches!(first.work, Work::Whole(_));
            if left.is_zero() || images >= self.max_batch || waiting.closed || is_whole {
                return Some(waiting.batch(images.min(self.max_batch)));
            }
            waiting = self.changed.wait_timeout(waiting, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl Waiting {
    /// Removes jobs that are no longer waited for.
    fn remove_dead(&mut self) {
        let now = Instant::now();
        let is_dead = |job: &Job| job.reply.is_closed() || job.deadline <= now;
        if !self.jobs.iter().any(is_dead) {
            return;
        }
        let (dead, alive): (VecDeque<Job>, VecDeque<Job>) =
            std::mem::take(&mut self.jobs).into_iter().partition(is_dead);
        self.jobs = alive;
        self.images -= dead.iter().map(Job::images).sum::<usize>();
        for job in dead {
            let late = Refusal::new(Reason::Late, "the deadline passed while the request waited");
            // A client that is gone needs no reply.
            let _ = job.reply.send(Err(late));
        }
    }

    /// Takes the first job and those that go with it, in their order, as many images as the plan of its program says.
    fn batch(&mut self, images: usize) -> Vec<Job> {
        let Some(first) = self.jobs.pop_front() else { return Vec::new() };
        let most = match &first.work {
            Work::Rows(shape, _) => first.loaded.plan(shape).take(images),
            Work::Whole(_) => 1,
        };
        let (mut taken, mut batch) = (first.images(), vec![first]);
        let mut index = 0;
        while taken < most && index < self.jobs.len() {
            let job = &self.jobs[index];
            let fits = job.goes_with(&batch[0]) && taken + job.images() <= most;
            match if fits { self.jobs.remove(index) } else { None } {
                Some(job) => {
                    taken += job.images();
                    batch.push(job);
                }
                None => index += 1,
            }
        }
        self.images -= taken;
        batch
    }
}
