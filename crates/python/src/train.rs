//! Training: a run on a thread of its own, whose events Python takes out of a queue.
//!
//! The thread never touches Python, so a slow callback delays the run at most, and Ctrl-C is seen by the caller that takes events.

use crate::error::refused;
use crate::library::{Library, open_device, refuse_fork};
use crate::settings;
use crate::value::from_json;
use octant_run::{Observer, RunError, RunEvent, Stop, TrainJob};
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use serde_json::Value;
use std::cell::Cell;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Events that may wait to be taken; the run waits then, too.
const QUEUE: usize = 4096;
/// How often Python looks whether Ctrl-C was pressed.
const GLANCE: Duration = Duration::from_millis(50);
/// How often a run reports where an epoch stands. Reading numbers makes the host wait for the device.
const PROGRESS: Duration = Duration::from_millis(200);

enum Message {
    Event(Value),
    Over(Result<Value, Failure>),
}

/// How a run ended that did not come to its end.
enum Failure {
    /// Stopped before there was anything to keep.
    Stopped,
    Failed(String),
}

/// Sends events as JSON. It ends the run when nobody is left to receive them.
struct Sender {
    events: SyncSender<Message>,
    stop: Stop,
    reported: Cell<Option<Instant>>,
}

impl Observer for Sender {
    fn event(&mut self, event: &RunEvent) {
        if self.events.send(Message::Event(event.json())).is_err() {
            self.stop.stop();
        }
    }

    fn is_due(&self) -> bool {
        let is_due = self.reported.get().is_none_or(|reported| reported.elapsed() >= PROGRESS);
        if is_due {
            self.reported.set(Some(Instant::now()));
        }
        is_due
    }
}

/// A run that trains on a thread of its own. Iterating over it yields its events as dictionaries, whose `event` names them, until
/// it is over; `result` is what it came to. Dropping it stops the run, with a checkpoint.
#[pyclass(frozen, weakref, module = "octant")]
pub(crate) struct Training {
    events: Mutex<Option<Receiver<Message>>>,
    result: Mutex<Option<Value>>,
    stop: Stop,
}

/// Starts a run: see `octant.start`.
#[pyfunction]
#[pyo3(signature = (recipe, settings, *, out=None, fresh=false, allow_changed=false, strict=false, time=None, profile=false, dump=None, threads=None))]
pub(crate) fn start_training(
    recipe: PathBuf,
    settings: &Bound<PyDict>,
    out: Option<PathBuf>,
    fresh: bool,
    allow_changed: bool,
    strict: bool,
    time: Option<f64>,
    profile: bool,
    dump: Option<PathBuf>,
    threads: Option<usize>,
) -> PyResult<Training> {
    const OPTIONS: [&str; 10] =
        ["out", "fresh", "allow_changed", "strict", "time", "profile", "dump", "threads", "on_event", "progress"];
    refuse_fork()?;
    let recipe = recipe.to_string_lossy();
    let job = settings::job(&recipe, settings, &OPTIONS)?;
    if let (Some(out), Some(_)) = (&out, &job.directory) {
        let out = out.display();
        return Err(refused(format!(
            "{recipe} is a run directory and resumes there, so `out` = {out} has no effect; remove it"
        )));
    }
    let time = time.map(|seconds| match Duration::try_from_secs_f64(seconds) {
        Ok(time) => Ok(time),
        Err(_) => Err(refused(format!("`time` is a number of seconds, not {seconds}"))),
    });
    let stop = Stop::default();
    let job = TrainJob {
        directory: job.directory.clone().or(out),
        fresh,
        allow_changed,
        strict,
        time: time.transpose()?,
        profile,
        dump,
        stop: stop.clone(),
        ..job
    };
    let (events, received) = sync_channel(QUEUE);
    let sender = Sender { events: events.clone(), stop: stop.clone(), reported: Cell::new(None) };
    let run = move || {
        let result = trained(job, threads, sender);
        // Nobody may be left who wants to know.
        let _ = events.send(Message::Over(result));
    };
    std::thread::Builder::new().name("octant-train".into()).spawn(run).map_err(refused)?;
    Ok(Training { events: Mutex::new(Some(received)), result: Mutex::default(), stop })
}

fn trained(job: TrainJob, threads: Option<usize>, mut sender: Sender) -> Result<Value, Failure> {
    let failed = |error: RunError| match error {
        RunError::Stopped => Failure::Stopped,
        error => Failure::Failed(error.to_string()),
    };
    let prepared = job.prepare(&Library).map_err(failed)?;
    // Nothing is left to be done in a finished run, so no device is needed.
    if let Some(outcome) = prepared.finished().map_err(failed)? {
        sender.event(&RunEvent::Ended(&outcome));
        return Ok(outcome.json());
    }
    let name = prepared.recipe().device.clone();
    let device = open_device(&name, threads).map_err(Failure::Failed)?;
    prepared.train(&device, &mut sender).map(|outcome| outcome.json()).map_err(failed)
}

#[pymethods]
impl Training {
    fn __iter__(slf: PyRef<Self>) -> PyRef<Self> {
        slf
    }

    /// The next event. Ctrl-C raises KeyboardInterrupt here, and the run continues until `stop()`.
    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        loop {
            // Before an event is taken, so that none is lost.
            py.check_signals()?;
            let message = py.detach(|| {
                let mut events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
                let Some(receiver) = &*events else { return Ok(None) };
                match receiver.recv_timeout(GLANCE) {
                    Ok(message) => {
                        if matches!(message, Message::Over(_)) {
                            *events = None;
                        }
                        Ok(Some(message))
                    }
                    Err(RecvTimeoutError::Timeout) => Err(()),
                    Err(RecvTimeoutError::Disconnected) => Ok(None),
                }
            });
            match message {
                Err(()) => continue,
                Ok(None) => return Ok(None),
                Ok(Some(Message::Event(event))) => return from_json(py, &event).map(Some),
                Ok(Some(Message::Over(Ok(result)))) => {
                    *self.result.lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
                    return Ok(None);
                }
                Ok(Some(Message::Over(Err(Failure::Stopped)))) => {
                    return Err(PyKeyboardInterrupt::new_err("stopped before the first step; nothing was changed"));
                }
                Ok(Some(Message::Over(Err(Failure::Failed(text))))) => return Err(refused(text)),
            }
        }
    }

    /// Ends the run after the step that is running, with a checkpoint. Events come until it is over.
    fn stop(&self) {
        self.stop.stop();
    }

    /// What the run came to, once it is over.
    #[getter]
    fn result<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let result = self.result.lock().unwrap_or_else(PoisonError::into_inner).clone();
        result.map(|result| from_json(py, &result)).transpose()
    }
}
