//! Events of a run as JSON: the lines of `octant train --json`, and the dictionaries of `octant.train` in Python.

use crate::{PhaseStart, RunEvent, RunOutcome, RunStart, trace_json};
use octant_events::metrics_json;
use octant_train::run::{EpochReport, PhaseMemory, ProgramReport, StepReport};
use serde_json::{Value, json};

impl RunEvent<'_> {
    /// The event as an object whose `event` names it.
    pub fn json(&self) -> Value {
        match self {
            RunEvent::Message(text) => json!({ "event": "message", "text": text }),
            RunEvent::Warning(text) => json!({ "event": "warning", "text": text }),
            RunEvent::Started(start) => start.json(),
            RunEvent::Planned(phases) => {
                let phase = |phase: &PhaseMemory| json!({ "name": phase.phase, "training_bytes": phase.training, "evaluation_bytes": phase.evaluation });
                json!({ "event": "planned", "phases": phases.iter().map(phase).collect::<Vec<_>>() })
            }
            RunEvent::Phase(phase) => phase.json(),
            RunEvent::EpochBegins { epoch, epochs, steps, done } => {
                json!({ "event": "epoch-begins", "epoch": epoch, "epochs": epochs, "steps": steps, "done": done })
            }
            RunEvent::Step(StepReport { done, batch_size, metrics: found, rate, .. }) => {
                json!({ "event": "progress", "done": done, "batch_size": batch_size, "metrics": metrics_json(found), "lr": rate })
            }
            RunEvent::Loss { step, loss } => json!({ "event": "step", "step": step, "loss": loss }),
            RunEvent::Validated { done, batches } => json!({ "event": "validating", "done": done, "batches": batches }),
            RunEvent::Epoch(report) => epoch(report),
            RunEvent::Checkpoint { step } => json!({ "event": "checkpoint", "step": step }),
            RunEvent::Recorded { timeline, trace } => trace_json(trace, timeline),
            RunEvent::Ended(outcome) => outcome.json(),
        }
    }
}

impl RunStart {
    /// What a run begins with.
    fn json(&self) -> Value {
        let (recipe, device) = (&self.recipe, &self.device);
        json!({
            "event": "start", "recipe": recipe.name, "model": recipe.model, "run": self.run,
            "resumed_from_step": self.resumed.as_ref().map(|resumed| resumed.step), "text": self.to_string(),
            "device": device.backend, "device_kind": device.kind, "devices": device.devices,
            "batch_size": device.batch_size, "batch_per_device": device.batch_per_device(),
        })
    }
}

impl PhaseStart {
    fn json(&self) -> Value {
        let PhaseStart { name, epochs, variables, parameters, trainable, .. } = self;
        json!({
            "event": "phase", "name": name, "epochs": epochs, "variables": variables, "parameters": parameters,
            "learning": trainable, "frozen": self.frozen, "peak_bytes": self.peak_bytes,
        })
    }
}

fn epoch(report: &EpochReport) -> Value {
    let mut object = metrics_json(&report.metrics);
    let memory: Vec<u64> = report.memory.iter().map(|memory| memory.used).collect();
    let others = [
        ("event", "epoch".into()),
        ("epoch", report.epoch.into()),
        ("epochs", report.epochs.into()),
        ("steps", report.steps.into()),
        ("phase", report.phase.clone().into()),
        ("lr", report.rate.into()),
        ("step_ms", (report.times.per_step().as_secs_f64() * 1e3).into()),
        ("images_per_second", report.times.images_per_second().into()),
        ("memory_bytes", memory.into()),
        ("verdict", report.bottleneck.clone().into()),
    ];
    object.extend(others.map(|(key, value)| (key.to_string(), value)));
    Value::Object(object)
}

impl RunOutcome {
    /// What the run came to; `event` says how it ended: `done`, `time-up` or `interrupted`.
    pub fn json(&self) -> Value {
        let progress = &self.summary.progress;
        let best = self.best.as_ref().map(|best| {
            json!({ "metric": best.metric, "value": best.value, "epoch": best.epoch, "metrics": metrics_json(&best.metrics) })
        });
        let program = |program: &ProgramReport| {
            json!({
                "name": program.name, "compiled": program.compiled, "loaded_from_cache": program.loaded,
                "compile_seconds": program.compile_time.as_secs_f64(), "runs": program.runs,
                "seconds": program.time.as_secs_f64(),
            })
        };
        json!({
            "event": self.ending(), "metrics": metrics_json(&progress.metrics), "run": self.run, "weights": self.weights,
            "steps": progress.step, "epochs": progress.epoch, "plots": self.plots, "best": best,
            "was_finished": self.was_finished,
            "ignored": self.ignored.iter().map(ToString::to_string).collect::<Vec<_>>(),
            "programs": self.summary.programs.iter().map(program).collect::<Vec<_>>(),
        })
    }
}
