//! A persistent thread pool for loops that last microseconds to milliseconds.
//!
//! The workers have one job at a time: [`ThreadPool::run`] publishes a closure and a number of chunks, the caller and the
//! workers claim chunk indices from one counter until none are left. A caller that finds the workers busy computes its chunks
//! itself instead of waiting, and so do all callers when there are as many of them as threads. Workers spin for a few tens of microseconds after a job, because
//! the next one usually follows at once, and then sleep until they are woken.
//!
//! Which thread computes a chunk is not deterministic, so the result of a chunk must depend on its index only.
//! Kernels divide their work by shape and never by [`ThreadPool::threads`], which makes results bitwise independent of the
//! number of threads.

use std::any::Any;
use std::cell::{Cell, UnsafeCell};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long an idle worker watches for the next job before it sleeps.
const SPIN: Duration = Duration::from_micros(40);

/// Worker threads that live as long as the pool.
pub struct ThreadPool {
    shared: Arc<Shared>,
    /// Held while the workers have a job: a second caller does without them.
    turn: Mutex<()>,
    /// Programs that run now and call the pool, each from a thread of its own.
    callers: AtomicUsize,
    workers: Vec<JoinHandle<()>>,
}

/// A job as the workers see it; only read between joining and leaving (see [`Shared::join`]).
#[derive(Clone, Copy)]
struct Job {
    work: *const (dyn Fn(usize) + Sync),
    chunks: usize,
}

struct Shared {
    job: UnsafeCell<Option<Job>>,
    /// Number of the job that may be joined now, 0 when there is none.
    open: AtomicU64,
    /// Jobs published so far.
    published: AtomicU64,
    /// The next unclaimed chunk.
    next: AtomicUsize,
    /// Workers that are inside the current job, or finding out that there is none.
    active: AtomicUsize,
    stop: AtomicBool,
    /// Workers that sleep or are about to; changed under `lock`.
    sleepers: AtomicUsize,
    caller_waits: AtomicBool,
    lock: Mutex<()>,
    wake_workers: Condvar,
    wake_caller: Condvar,
    panic: Mutex<Option<Box<dyn Any + Send>>>,
}

// SAFETY: `job` is written by the caller only while no worker is inside a job (`open` is 0 and `active` was seen as 0
// after that), and read by workers only after they have joined an open one; everything else is atomic or locked. The
// closure behind `work` is Sync, and the caller keeps it alive until every worker has left.
unsafe impl Sync for Shared {}
// SAFETY: as above; the raw pointer in `job` is never used outside an open job.
unsafe impl Send for Shared {}

thread_local! {
    /// Set while this thread executes a chunk: a nested run would wait for itself, so it goes inline.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

impl ThreadPool {
    /// Starts a pool in which `threads` threads compute: the caller of [`ThreadPool::run`] and `threads - 1` workers.
    pub fn new(threads: usize) -> Self {
        let shared = Arc::new(Shared {
            job: UnsafeCell::new(None),
            open: AtomicU64::new(0),
            published: AtomicU64::new(0),
            next: AtomicUsize::new(0),
            active: AtomicUsize::new(0),
            stop: AtomicBool::new(false),
            sleepers: AtomicUsize::new(0),
            caller_waits: AtomicBool::new(false),
            lock: Mutex::new(()),
            wake_workers: Condvar::new(),
            wake_caller: Condvar::new(),
            panic: Mutex::new(None),
        });
        // A system that refuses a thread leaves the pool smaller, not broken: results do not depend on its size.
        let workers = (1..threads)
            .map_while(|index| {
                let shared = Arc::clone(&shared);
                std::thread::Builder::new().name(format!("octant-cpu-{index}")).spawn(move || shared.work()).ok()
            })
            .collect();
        Self { shared, turn: Mutex::new(()), callers: AtomicUsize::new(0), workers }
    }

    /// Cores this process may use: respects affinity masks (`taskset`) and container limits.
    pub fn available() -> usize {
        std::thread::available_parallelism().map_or(1, usize::from)
    }

    /// Threads that compute, the caller included.
    pub fn threads(&self) -> usize {
        self.workers.len() + 1
    }

    /// Calls `work` once with every index in `0..chunks`, on any thread and in any order, and returns when all are done.
    ///
    /// # Panics
    /// With the first panic of a chunk; the chunks that were not started by then are skipped.
    pub fn run(&self, chunks: usize, work: &(dyn Fn(usize) + Sync)) {
        // With a program per thread, more threads would only take turns on the same cores.
        let is_crowded = self.callers.load(SeqCst) >= self.threads();
        let turn = match chunks <= 1 || self.workers.is_empty() || is_crowded || INSIDE.get() {
            true => None,
            false => self.free_workers(),
        };
        let Some(turn) = turn else {
            (0..chunks).for_each(work);
            return;
        };
        // SAFETY: only the lifetime is erased; `close` does not return before every worker has left the job.
        let work: *const (dyn Fn(usize) + Sync + 'static) = unsafe { std::mem::transmute(work) };
        let job = Job { work, chunks };
        self.shared.publish(job, self.workers.len());
        self.shared.compute(job);
        self.shared.close();
        let panic = locked(&self.shared.panic).take();
        drop(turn);
        if let Some(panic) = panic {
            resume_unwind(panic);
        }
    }

    /// The workers, unless another caller has them.
    fn free_workers(&self) -> Option<MutexGuard<'_, ()>> {
        match self.turn.try_lock() {
            Ok(turn) => Some(turn),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Counts this thread among those that run a program, while `program` does.
    pub fn as_caller<T>(&self, program: impl FnOnce() -> T) -> T {
        struct Leave<'a>(&'a AtomicUsize);
        impl Drop for Leave<'_> {
            fn drop(&mut self) {
                self.0.fetch_sub(1, SeqCst);
            }
        }
        self.callers.fetch_add(1, SeqCst);
        let _leave = Leave(&self.callers);
        program()
    }
}

impl Drop for ThreadPool {
    fn drop(&mut self) {
        self.shared.stop.store(true, SeqCst);
        drop(locked(&self.shared.lock));
        self.shared.wake_workers.notify_all();
        for worker in self.workers.drain(..) {
            // A worker catches the panics of its chunks, so there is nothing to report here.
            let _ = worker.join();
        }
    }
}

impl Shared {
    fn publish(&self, job: Job, workers: usize) {
        // SAFETY: no job is open and no worker is active (`close` waited for that), so it is not read now.
        unsafe { *self.job.get() = Some(job) };
        self.next.store(0, SeqCst);
        self.open.store(self.published.fetch_add(1, SeqCst) + 1, SeqCst);
        if self.sleepers.load(SeqCst) > 0 {
            let _guard = locked(&self.lock);
            match job.chunks > workers {
                true => self.wake_workers.notify_all(),
                false => (1..job.chunks).for_each(|_| self.wake_workers.notify_one()),
            }
        }
    }

    /// Claims and computes chunks until none are left.
    fn compute(&self, job: Job) {
        INSIDE.set(true);
        loop {
            let chunk = self.next.fetch_add(1, SeqCst);
            if chunk >= job.chunks {
                break;
            }
            // SAFETY: the closure lives until `run` returns, which waits for this thread.
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| unsafe { (*job.work)(chunk) })) {
                self.next.store(job.chunks, SeqCst);
                locked(&self.panic).get_or_insert(panic);
            }
        }
        INSIDE.set(false);
    }

    /// Ends the job: no worker can join it any more, and all that did have left.
    fn close(&self) {
        self.open.store(0, SeqCst);
        if spin_until(|| self.active.load(SeqCst) == 0) {
            return;
        }
        let mut guard = locked(&self.lock);
        self.caller_waits.store(true, SeqCst);
        while self.active.load(SeqCst) != 0 {
            guard = self.wake_caller.wait(guard).unwrap_or_else(PoisonError::into_inner);
        }
        self.caller_waits.store(false, SeqCst);
    }

    /// The main loop of a worker.
    fn work(&self) {
        let mut seen = 0;
        while !self.stop.load(SeqCst) {
            self.join(&mut seen);
            let ready = || {
                let open = self.open.load(SeqCst);
                self.stop.load(SeqCst) || (open != 0 && open != seen)
            };
            if !spin_until(ready) {
                self.sleep_until(ready);
            }
        }
    }

    /// Enters the open job, if there is one, and computes; `seen` becomes its number.
    fn join(&self, seen: &mut u64) {
        // Count first, then look: either this thread sees that the job was closed, or `close` sees this thread.
        self.active.fetch_add(1, SeqCst);
        let open = self.open.load(SeqCst);
        if open != 0 {
            *seen = open;
            // SAFETY: the job is open and this thread is counted, so `close` has not returned and `job` is not written.
            if let Some(job) = unsafe { *self.job.get() } {
                self.compute(job);
            }
        }
        if self.active.fetch_sub(1, SeqCst) == 1 && self.caller_waits.load(SeqCst) {
            let _guard = locked(&self.lock);
            self.wake_caller.notify_one();
        }
    }

    fn sleep_until(&self, ready: impl Fn() -> bool) {
        let mut guard = locked(&self.lock);
        self.sleepers.fetch_add(1, SeqCst);
        while !ready() {
            guard = self.wake_workers.wait(guard).unwrap_or_else(PoisonError::into_inner);
        }
        self.sleepers.fetch_sub(1, SeqCst);
    }
}

/// Polls `ready` for a short while; returns whether it became true.
fn spin_until(ready: impl Fn() -> bool) -> bool {
    let mut deadline = None;
    loop {
        for _ in 0..64 {
            if ready() {
                return true;
            }
            std::hint::spin_loop();
        }
        // The clock is first read after the quick attempts: most waits end before.
        let now = Instant::now();
        if now >= *deadline.get_or_insert(now + SPIN) {
            return false;
        }
    }
}

/// Ignores poisoning: the locks guard no data that a panic could leave inconsistent.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(pool: &ThreadPool, chunks: usize) -> Vec<usize> {
        let counts: Vec<AtomicUsize> = (0..chunks).map(|_| AtomicUsize::new(0)).collect();
        pool.run(chunks, &|chunk| {
            counts[chunk].fetch_add(1, SeqCst);
        });
        counts.into_iter().map(AtomicUsize::into_inner).collect()
    }

    #[test]
    fn every_chunk_runs_exactly_once() {
        for threads in [1, 2, 3, 8] {
            let pool = ThreadPool::new(threads);
            for chunks in (0..40).chain([1000]) {
                assert_eq!(counts(&pool, chunks), vec![1; chunks], "{threads} threads");
            }
        }
    }

    #[test]
    fn jobs_work_after_the_workers_fell_asleep() {
        let pool = ThreadPool::new(4);
        for _ in 0..5 {
            std::thread::sleep(SPIN * 20);
            assert_eq!(counts(&pool, 16), vec![1; 16]);
        }
    }

    #[test]
    fn nested_runs_go_inline() {
        let pool = ThreadPool::new(3);
        let total = AtomicUsize::new(0);
        pool.run(8, &|_| {
            pool.run(8, &|_| {
                total.fetch_add(1, SeqCst);
            });
        });
        assert_eq!(total.into_inner(), 64);
    }

    #[test]
    fn a_panic_reaches_the_caller_and_the_pool_survives() {
        let pool = ThreadPool::new(3);
        for _ in 0..20 {
            let outcome = catch_unwind(AssertUnwindSafe(|| {
                pool.run(10, &|chunk| assert_ne!(chunk, 7, "chunk seven"));
            }));
            assert!(outcome.is_err());
            assert_eq!(counts(&pool, 10), vec![1; 10]);
        }
    }

    #[test]
    fn a_second_caller_waited_for_the_whole_job_of_the_first() {
        let pool = ThreadPool::new(2);
        let (begun, second_done) = (AtomicBool::new(false), AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                // Every chunk of the first job waits for the second job: with one lock around jobs, neither would end.
                pool.run(2, &|_| {
                    begun.store(true, SeqCst);
                    let deadline = Instant::now() + Duration::from_secs(20);
                    while !second_done.load(SeqCst) && Instant::now() < deadline {
                        std::thread::yield_now();
                    }
                    assert!(second_done.load(SeqCst), "the second job waits for the first");
                });
            });
            while !begun.load(SeqCst) {
                std::thread::yield_now();
            }
            assert_eq!(counts(&pool, 16), vec![1; 16]);
            second_done.store(true, SeqCst);
        });
    }

    #[test]
    fn callers_on_several_threads_do_not_mix_their_jobs() {
        let pool = ThreadPool::new(2);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..200).for_each(|_| assert_eq!(counts(&pool, 5), vec![1; 5])));
            }
        });
    }
}
