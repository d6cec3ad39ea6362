//! One model or recipe: training steps or predictions.

use crate::error::{MeasureError, Result, refusal, refuse};
use crate::subject::{SLOTS, Subject, synthetic_batch};
use crate::{Sample, int8, peaks};
use octant_data::Batch;
use octant_nn::Precision;
use octant_recipe::{Cores, Recipe};
use octant_runtime::{
    Backend, Buffer, CompileOptions, Cost, Executable, MemoryPlan, Mesh, PartTiming, Recording, RuntimeError, Sharding,
    Timeline,
};
use octant_tensor::HostTensor;
use octant_train::step::{StepOptions, StepPlan, prediction};
use octant_train::{InFlight, Session};
use serde_json::{Value, json};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Instant;

/// What a step does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepMode {
    /// Forward, backward and the optimizer.
    Train,
    /// Forward alone.
    Infer,
}

impl StepMode {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            StepMode::Train => "train",
            StepMode::Infer => "infer",
        }
    }
}

impl FromStr for StepMode {
    type Err = MeasureError;

    fn from_str(name: &str) -> Result<StepMode> {
        match name {
            "train" => Ok(StepMode::Train),
            "infer" => Ok(StepMode::Infer),
            other => refuse!("there is no mode \"{other}\"; use train or infer"),
        }
    }
}

/// How steps are measured.
#[derive(Debug, Clone)]
pub struct StepRequest {
    /// What a step does.
    pub mode: StepMode,
    /// What layers compute in, by name: f32, bf16, or int8 for predictions.
    pub precision: String,
    /// Devices that work on every batch together; for training steps.
    pub cores: Cores,
    /// Steps that are measured, after the first one.
    pub steps: usize,
    /// Predictions are timed one by one, from pixels on the host to numbers on the host, as a caller waits for them.
    pub latency: bool,
    /// Whether to record where the time goes.
    pub profile: bool,
    /// When the process began, for the time to the first step.
    pub started: Instant,
}

/// What was measured.
pub struct StepFigures {
    /// Seconds per step.
    pub step: Sample,
    /// Seconds of the first step.
    pub first: f64,
    /// Seconds from the start of the process to the end of the first step.
    pub start_to_first: f64,
    /// The largest memory in use, in bytes.
    pub peak_bytes: u64,
    /// The memory that the program was planned with.
    pub memory: MemoryPlan,
    /// The work of a step.
    pub cost: Cost,
    /// The speed of a large matrix product on the same device, in GFLOP/s.
    pub gemm_gflops: f64,
    /// Where the time went, if it was recorded.
    pub timeline: Option<Timeline>,
}

impl StepFigures {
    /// As an object whose `event` is `done`: the line that [`PeerRun`](crate::PeerRun) reads of a process.
    pub fn json(&self, subject: &Subject, device: &str, request: &StepRequest) -> Value {
        let (step, ms) = (&self.step, |seconds: f64| seconds * 1e3);
        let mut object = json!({
            "event": "done", "model": subject.name, "mode": request.mode.name(), "batch_size": subject.batch_size,
            "size": subject.size, "precision": request.precision, "device": device, "peak_rss_bytes": self.peak_bytes,
        });
        let figures = match request.latency {
            true => json!({
                "calls": step.count(), "latency_ms_p50": ms(step.at(0.5)), "latency_ms_p95": ms(step.at(0.95)),
                "latency_ms_p99": ms(step.at(0.99)), "latency_ms_least": ms(step.least()),
                "latency_ms_most": ms(step.at(1.0)),
            }),
            false => json!({
                "optimizer": subject.phase.optimizer.name(), "images_per_second": self.images_per_second(subject),
                "steps": step.count(), "step_ms_median": ms(step.median()), "step_ms_least": ms(step.least()),
                "step_ms_p90": ms(step.at(0.9)), "step_spread": step.spread(), "first_step_s": self.first,
                "start_to_first_step_s": self.start_to_first, "compile_s": self.cost.compile_time.as_secs_f64(),
                "planned_bytes": self.memory.peak(), "gflop_per_second": self.gflops(),
                "gemm_gflop_per_second": self.gemm_gflops, "gemm_share": self.gflops() / self.gemm_gflops,
            }),
        };
        if let (Value::Object(object), Value::Object(figures)) = (&mut object, figures) {
            object.extend(figures);
        }
        object
    }

    /// By the median step.
    pub fn images_per_second(&self, subject: &Subject) -> f64 {
        subject.batch_size as f64 / self.step.median()
    }

    /// Arithmetic per second of the median step.
    pub fn gflops(&self) -> f64 {
        self.cost.flops / self.step.median() / 1e9
    }
}

/// Calls before the first that counts: caches and clocks settle.
const LATENCY_WARM_UP: usize = 10;

/// A recording of steps. The CPU engine measures its parts itself, compiled programs are watched.
struct Profile(Option<Box<dyn Recording>>);

impl Profile {
    /// All steps must be over.
    fn finish(self, work: &dyn Steps) -> Result<Timeline> {
        match self.0 {
            Some(recording) => Ok(recording.finish()?),
            None => Ok(Timeline::of_parts("cpu", &work.profile())),
        }
    }
}

/// Measures the steps of a subject on a device.
pub fn measure_step(subject: &Subject, backend: &Arc<dyn Backend>, request: &StepRequest) -> Result<StepFigures> {
    let precision = request.precision()?;
    let mut work = request.prepare(subject, backend)?;
    let begun = Instant::now();
    work.queue()?;
    work.wait()?;
    let (first, start_to_first) = (begun.elapsed().as_secs_f64(), request.started.elapsed().as_secs_f64());
    // Accelerators run behind the host, as in training, so that a few steps are timed together, once as many are queued as
    // may be: before that, the host would not have to wait for as many as it queues. The processor is the host, and each
    // of its steps is timed to its end.
    let is_host = backend.name() == "cpu";
    let (together, before) = match (request.latency, is_host) {
        (true, _) => (1, LATENCY_WARM_UP),
        (false, true) => (1, 1),
        (false, false) => (5, 2),
    };
    let mut steps = || -> Result<f64> {
        let begun = Instant::now();
        match request.latency {
            true => work.call()?,
            false => (0..together).try_for_each(|_| work.queue())?,
        }
        if is_host {
            work.wait()?;
        }
        Ok(begun.elapsed().as_secs_f64() / together as f64)
    };
    (0..before).try_for_each(|_| steps().map(drop))?;
    // A recording has only the steps after it.
    let recording = || match backend.record() {
        Ok(recording) => Ok(Some(recording)),
        // Its programs know the times of their parts themselves.
        Err(RuntimeError::Unsupported { .. }) => Ok(None),
        Err(error) => Err(error),
    };
    let profile = request.profile.then(recording).transpose()?.map(Profile);
    let times: Result<Vec<f64>> = (0..request.steps.div_ceil(together)).map(|_| steps()).collect();
    work.wait()?;
    let (memory, cost) = work.cost();
    let step = Sample::new(times?);
    let peak_bytes = backend.memory()?.first().and_then(|memory| memory.peak).unwrap_or(0);
    let timeline = profile.map(|profile| profile.finish(&*work)).transpose()?;
    let gemm_gflops = peaks::product(&**backend, precision.dtype())?;
    Ok(StepFigures { step, first, start_to_first, peak_bytes, memory, cost, gemm_gflops, timeline })
}

impl StepRequest {
    /// Whether convolutions and linear layers compute in 8 bits.
    fn is_int8(&self) -> bool {
        self.precision == "int8"
    }

    /// What layers compute in, if it is not 8 bits.
    fn precision(&self) -> Result<Precision> {
        if self.is_int8() && self.mode != StepMode::Infer {
            refuse!("networks are not trained in 8 bits; add --mode infer");
        }
        Ok(if self.is_int8() { Precision::F32 } else { octant_recipe::precision(&self.precision)? })
    }

    /// The compiled step with its batch.
    fn prepare(&self, subject: &Subject, backend: &Arc<dyn Backend>) -> Result<Box<dyn Steps>> {
        let image = [subject.size, subject.size, subject.entry.preprocessing.input[2]];
        let recipe = Recipe { max_boxes: SLOTS.min(subject.recipe.max_boxes), ..subject.recipe.clone() };
        let task = octant_recipe::task(&recipe, subject.classes(), image, false)?;
        if self.latency && self.mode != StepMode::Infer {
            refuse!("the latency is that of predictions; add --mode infer");
        }
        let mesh = octant_recipe::mesh(self.cores, &subject.recipe.step, &**backend)?;
        if mesh.devices() > 1 && self.mode == StepMode::Infer {
            refuse!("predictions run on one device; leave `cores` at 1");
        }
        let step = StepOptions {
            batch_size: subject.batch_size,
            batch_schedule: Default::default(),
            precision: self.precision()?,
            ..subject.recipe.step.clone()
        };
        let plan = StepPlan { task, evaluation: None, mesh, step, phase: subject.phase.clone(), int8: None };
        let batch = synthetic_batch(subject);
        Ok(match self.mode {
            StepMode::Train => Box::new(Training::new(backend, &plan, &batch, self.profile)?),
            StepMode::Infer => Box::new(Predicting::new(backend, plan, &batch, self)?),
        })
    }
}

/// Something that can be repeated.
trait Steps {
    /// Queues a step, and waits until no more than a few are left to do.
    fn queue(&mut self) -> Result<()>;
    /// Waits for all of them.
    fn wait(&mut self) -> Result<()>;
    /// One step alone, with its inputs from the host and its result on the host.
    fn call(&mut self) -> Result<()> {
        self.queue()?;
        self.wait()
    }
    fn cost(&self) -> (MemoryPlan, Cost);
    fn profile(&self) -> Vec<PartTiming>;
}

struct Training {
    session: Session,
    batch: Vec<Buffer>,
}

fn options(profile: bool) -> CompileOptions {
    CompileOptions { profile, ..CompileOptions::default() }
}

impl Training {
    fn new(backend: &Arc<dyn Backend>, plan: &StepPlan, batch: &Batch, profile: bool) -> Result<Training> {
        let session = Session::new(backend, plan, &options(profile), 0)?;
        let batch = session.upload_batch(batch)?;
        Ok(Training { session, batch })
    }
}

impl Steps for Training {
    fn queue(&mut self) -> Result<()> {
        Ok(self.session.train_on(self.batch.clone(), 1e-3)?)
    }

    fn wait(&mut self) -> Result<()> {
        Ok(self.session.wait()?)
    }

    fn cost(&self) -> (MemoryPlan, Cost) {
        self.session.cost()
    }

    fn profile(&self) -> Vec<PartTiming> {
        self.session.profile()
    }
}

struct Predicting {
    backend: Arc<dyn Backend>,
    executable: Box<dyn Executable>,
    images: HostTensor,
    inputs: Vec<Buffer>,
    in_flight: InFlight,
}

impl Predicting {
    fn new(backend: &Arc<dyn Backend>, plan: StepPlan, batch: &Batch, request: &StepRequest) -> Result<Predicting> {
        let mut traced = prediction(&plan)?;
        let upload = |tensor: &HostTensor| backend.upload(tensor, &Mesh::single(), &Sharding::REPLICATED);
        let variables = traced.variables.iter().map(|spec| upload(&spec.initial(0)));
        let inputs: Result<Vec<Buffer>, _> = variables.chain([upload(&batch.images)]).collect();
        let inputs = inputs?;
        if request.is_int8() {
            let ranges = int8::ranges(backend, &traced.program.graph, &inputs)?;
            traced = prediction(&StepPlan { int8: Some(Arc::new(ranges)), ..plan })?;
        }
        let executable = backend.compile(&traced.program, &options(request.profile))?;
        let (backend, images) = (backend.clone(), batch.images.clone());
        Ok(Predicting { backend, executable, images, inputs, in_flight: InFlight::default() })
    }
}

impl Steps for Predicting {
    fn queue(&mut self) -> Result<()> {
        let mut outputs = self.executable.execute(&self.inputs)?;
        Ok(self.in_flight.push(outputs.pop().ok_or_else(|| refusal!("a prediction has an output"))?)?)
    }

    fn wait(&mut self) -> Result<()> {
        Ok(self.in_flight.wait()?)
    }

    fn call(&mut self) -> Result<()> {
        let images = self.backend.upload(&self.images, &Mesh::single(), &Sharding::REPLICATED)?;
        if let Some(last) = self.inputs.last_mut() {
            *last = images;
        }
        let outputs = self.executable.execute(&self.inputs)?;
        for output in &outputs {
            output.to_host()?;
        }
        Ok(())
    }

    fn cost(&self) -> (MemoryPlan, Cost) {
        (self.executable.memory(), self.executable.cost())
    }

    fn profile(&self) -> Vec<PartTiming> {
        self.executable.profile()
    }
}
