//! Heartbeats: who is lost, and who is stuck.
//!
//! A thread of each process writes a beat into the store: how often it has done so, how many steps it began, and what it is at.
//! Rank 0 reads all beats; the others watch rank 0 and read what it found. Elapsed times are those of the reader's own
//! clock, so that clocks need not agree. A process whose beats end is lost. One that beats but begins no step is stuck, and
//! as all others wait for it inside of their steps, it is the one that began the fewest.

mod beat;
mod monitor;

pub use beat::Activity;

use crate::error::{ClusterError, Result, ranks};
use crate::exit::ExitCode;
use crate::stop::StopPoint;
use crate::store::{Store, StoreError};
use beat::Beat;
use monitor::Monitor;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long what may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Between two beats.
    pub beat: Duration,
    /// A process without a beat for this time is lost.
    pub lost: Duration,
    /// A process that begins no step for this time is stuck; or for ten times its longest step, if that is longer.
    pub stuck: Duration,
    /// The same for what may take long: compiling, saving, the first steps.
    pub busy: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        let seconds = Duration::from_secs;
        Limits { beat: seconds(1), lost: seconds(15), stuck: seconds(25), busy: seconds(3600) }
    }
}

impl Limits {
    /// The usual limits where a process that begins no step for `stuck` is stuck; one without a beat is lost a little sooner.
    pub fn of_steps(stuck: Duration) -> Limits {
        let usual = Limits::default();
        let scaled = |limit: Duration| limit.mul_f64(stuck.as_secs_f64() / usual.stuck.as_secs_f64()).min(limit);
        Limits { beat: scaled(usual.beat), lost: scaled(usual.lost), stuck, busy: usual.busy }
    }
}

/// Why a run of several processes cannot continue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// What this process should exit with.
    pub exit: ExitCode,
    /// Whose fault it is, where that is known.
    pub ranks: Vec<usize>,
    /// The same in a sentence.
    pub sentence: String,
}

/// The heartbeat of this process.
pub struct Watch {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

pub(crate) struct Shared {
    store: Arc<dyn Store>,
    rank: usize,
    hosts: Vec<String>,
    limits: Limits,
    mine: Mutex<Mine>,
    woken: Condvar,
    stop: Arc<StopPoint>,
}

/// What this process is at.
struct Mine {
    steps: u64,
    activity: Activity,
}

impl Watch {
    /// Begins to beat. `on_failure` is called once, on a thread of its own, when the run cannot continue: the caller's own
    /// threads may be waiting inside of a step that never ends.
    pub(crate) fn start(
        store: Arc<dyn Store>,
        rank: usize,
        hosts: Vec<String>,
        limits: Limits,
        on_failure: impl FnOnce(Failure) + Send + 'static,
    ) -> Result<Watch> {
        let mine = Mutex::new(Mine { steps: 0, activity: Activity::Busy("starting") });
        let stop = Arc::new(StopPoint::default());
        let shared = Arc::new(Shared { store, rank, hosts, limits, mine, woken: Condvar::new(), stop });
        let of_thread = shared.clone();
        let work = move || {
            if let Some(failure) = of_thread.beat_to_the_end() {
                of_thread.stop.void();
                on_failure(failure);
            }
        };
        let thread = std::thread::Builder::new().name("heartbeat".into()).spawn(work);
        let thread = thread.map_err(|error| {
            ClusterError::Store(StoreError::Unreachable(format!("no thread for the heartbeat: {error}")))
        })?;
        Ok(Watch { shared, thread: Mutex::new(Some(thread)) })
    }

    /// Something that may take long begins, or steps do.
    pub fn enter(&self, activity: Activity) {
        self.shared.mine().activity = activity;
    }

    /// A step of training or of evaluation begins.
    pub fn step(&self) {
        self.shared.mine().steps += 1;
    }

    /// Where all processes stop.
    pub fn stop_point(&self) -> &StopPoint {
        &self.shared.stop
    }

    /// Ends the heartbeat: this process is done, or has failed as this sentence says, which the others then report.
    pub fn end(&self, outcome: std::result::Result<(), String>) {
        {
            let mut mine = self.shared.mine();
            if !mine.activity.is_over() {
                mine.activity = outcome.err().map_or(Activity::Done, Activity::Failed);
            }
        }
        self.shared.woken.notify_all();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        // A panic of the heartbeat was printed; the process is ending anyway.
        thread.into_iter().for_each(|thread| drop(thread.join()));
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.end(Err("it ended before it was done".into()));
    }
}

impl Shared {
    fn mine(&self) -> MutexGuard<'_, Mine> {
        self.mine.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sleeps until the next beat is due, or this process is done.
    fn pause(&self, time: Duration) {
        let mine = self.mine();
        if !mine.activity.is_over() {
            drop(self.woken.wait_timeout(mine, time));
        }
    }

    fn beat_to_the_end(&self) -> Option<Failure> {
        let mut monitor = Monitor::new(self.hosts.len(), self.limits);
        let mut reached = Instant::now();
        let mut stopping = Stopping::default();
        for count in 1.. {
            let (steps, activity) = {
                let mine = self.mine();
                (mine.steps, mine.activity.clone())
            };
            let is_over = activity.is_over();
            let beat = Beat { count, steps, activity };
            let seen = self.exchange(&beat).and_then(|failure| Ok((failure, self.read(&mut monitor)?)));
            match seen {
                Ok((Some(failure), _)) if !is_over => return Some(self.acknowledge(failure)),
                Ok((_, Some(failure))) if !is_over => return Some(self.acknowledge(self.publish(failure))),
                Ok(_) => reached = Instant::now(),
                Err(error) if !is_over && reached.elapsed() >= self.limits.lost => {
                    return Some(self.unreachable(&error));
                }
                // Rank 0 may have ended: nothing is left to be reported to it.
                Err(_) if is_over => return None,
                Err(_) => {}
            }
            if is_over {
                // One that is done need not learn of the failures of others.
                let _ = self.store.replace(&format!("seen/{:06}", self.rank), &[]);
                self.wait_for_others(&mut monitor);
                return None;
            }
            let is_pending = self.agree_to_stop(&mut stopping).unwrap_or(false);
            self.pause(if is_pending { self.limits.beat / 20 } else { self.limits.beat });
        }
        None
    }

    /// Writes the beat, and reads what rank 0 found.
    fn exchange(&self, beat: &Beat) -> std::result::Result<Option<Failure>, StoreError> {
        self.store.replace(&format!("beat/{:06}", self.rank), &beat.encode())?;
        match self.store.try_get("failure") {
            Ok(found) => Ok(Some(beat::decode_failure(&found))),
            Err(StoreError::NotFound(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Rank 0 looks at all beats, the others at those of rank 0.
    fn read(&self, monitor: &mut Monitor) -> std::result::Result<Option<Failure>, StoreError> {
        let watched = if self.rank == 0 { "beat/" } else { "beat/000000" };
        for (key, value) in self.store.list(watched)? {
            let rank = key.strip_prefix("beat/").and_then(|rank| rank.parse().ok());
            if let (Some(rank), Some(beat)) = (rank, Beat::decode(&value)) {
                monitor.note(rank, beat);
            }
        }
        let lost = if self.rank == 0 { monitor.failure(self.rank) } else { monitor.failure_of(0) };
        Ok(lost.map(|found| found.into_failure(&self.hosts)))
    }

    /// The first failure that is published is the one that all report.
    fn publish(&self, failure: Failure) -> Failure {
        match self.store.put("failure", &beat::encode_failure(&failure)) {
            Err(StoreError::AlreadyExists(_)) => {
                self.store.try_get("failure").map_or(failure, |found| beat::decode_failure(&found))
            }
            // Whether or not the others learn of it.
            Ok(()) | Err(_) => failure,
        }
    }

    /// Rank 0 serves the table, so it waits until all that still run know of the failure.
    fn acknowledge(&self, failure: Failure) -> Failure {
        let begun = Instant::now();
        // An error means that the table is gone: then nobody waits for it.
        let _ = self.store.replace(&format!("seen/{:06}", self.rank), &[]);
        let knows = |rank: usize, seen: &[(String, Vec<u8>)]| {
            // A process that is stuck still beats, and one that is lost reads nothing.
            failure.exit != ExitCode::Stuck && failure.ranks.contains(&rank)
                || seen.iter().any(|(key, _)| *key == format!("seen/{rank:06}"))
        };
        while self.rank == 0 && begun.elapsed() < self.limits.lost {
            match self.store.list("seen/") {
                Ok(seen) if !(0..self.hosts.len()).all(|rank| knows(rank, &seen)) => {
                    std::thread::sleep(self.limits.beat / 20);
                }
                _ => break,
            }
        }
        failure
    }

    fn unreachable(&self, error: &StoreError) -> Failure {
        let host = self.hosts.first().map(String::as_str).unwrap_or_default();
        let seconds = self.limits.lost.as_secs_f64();
        let sentence = format!("rank 0 ({host}) is lost: {error}, {seconds} s ago or more; see the end of its log");
        Failure { exit: ExitCode::PeerLost, ranks: vec![0], sentence }
    }

    /// Rank 0 serves the table, so it ends last. Who does not end in time is reported by its own beats no more.
    fn wait_for_others(&self, monitor: &mut Monitor) {
        let begun = Instant::now();
        while self.rank == 0 && begun.elapsed() < self.limits.lost {
            if self.read(monitor).is_err() || monitor.all_over() {
                return;
            }
            std::thread::sleep(self.limits.beat / 20);
        }
    }

    /// Carries out the stop that some process requested; whether that is still being decided.
    fn agree_to_stop(&self, stopping: &mut Stopping) -> std::result::Result<bool, StoreError> {
        if stopping.decided {
            return Ok(false);
        }
        if self.stop.is_requested() && !stopping.published {
            match self.store.put("stop/request", format!("rank {}", self.rank).as_bytes()) {
                Ok(()) | Err(StoreError::AlreadyExists(_)) => stopping.published = true,
                Err(error) => return Err(error),
            }
        }
        if !stopping.held {
            match self.store.try_get("stop/request") {
                Ok(_) => {}
                Err(StoreError::NotFound(_)) => return Ok(false),
                Err(error) => return Err(error),
            }
            let begun = self.stop.hold();
            self.store.replace(&format!("stop/begun/{:06}", self.rank), begun.to_string().as_bytes())?;
            stopping.held = true;
        }
        let number = |value: &[u8]| std::str::from_utf8(value).ok()?.parse::<u64>().ok();
        if self.rank == 0 {
            let begun = self.store.list("stop/begun/")?;
            if begun.len() == self.hosts.len() {
                let last = begun.iter().filter_map(|(_, value)| number(value)).max().unwrap_or(0);
                self.store.replace("stop/after", last.to_string().as_bytes())?;
            }
        }
        match self.store.try_get("stop/after") {
            Ok(value) => {
                self.stop.decide(number(&value).unwrap_or(0));
                stopping.decided = true;
                Ok(false)
            }
            Err(StoreError::NotFound(_)) => Ok(true),
            Err(error) => Err(error),
        }
    }
}

/// How far a requested stop has come.
#[derive(Default)]
struct Stopping {
    published: bool,
    held: bool,
    decided: bool,
}

/// What a monitor found, before hosts have names.
pub(crate) enum Found {
    Lost { rank: usize, silent: Duration },
    Ended { rank: usize, message: String },
    Stuck { slowest: Vec<usize>, steps: u64, idle: Duration },
    Busy { rank: usize, activity: String, time: Duration },
    AllStuck { steps: u64, idle: Duration },
}

impl Found {
    fn into_failure(self, hosts: &[String]) -> Failure {
        let named = |rank: usize| format!("rank {rank} ({})", hosts.get(rank).map(String::as_str).unwrap_or("?"));
        let seconds = |time: Duration| time.as_secs_f64().round();
        let (exit, whose, sentence) = match self {
            Found::Lost { rank, silent } => {
                let (name, silent) = (named(rank), seconds(silent));
                let text = format!("{name} is lost: no heartbeat for {silent} s; see the end of its log");
                (ExitCode::PeerLost, vec![rank], text)
            }
            Found::Ended { rank, message } => {
                (ExitCode::PeerLost, vec![rank], format!("{} failed: {message}", named(rank)))
            }
            Found::Stuck { slowest, steps, idle } => {
                let name = match slowest[..] {
                    [rank] => named(rank),
                    _ => ranks(&slowest),
                };
                let idle = seconds(idle);
                let text = format!(
                    "{name} is stuck: alive, but no step for {idle} s after its step {steps}, for which the others wait"
                );
                (ExitCode::Stuck, slowest, text)
            }
            Found::Busy { rank, activity, time } => {
                let text = format!("{} is stuck: {activity} for {} s", named(rank), seconds(time));
                (ExitCode::Stuck, vec![rank], text)
            }
            Found::AllStuck { steps, idle } => {
                let text = format!(
                    "all ranks are stuck in step {steps}: alive, but no step for {} s; the network between them may be down",
                    seconds(idle)
                );
                (ExitCode::Stuck, Vec::new(), text)
            }
        };
        Failure { exit, ranks: whose, sentence }
    }
}
