//! One model or recipe: training steps or predictions.

use crate::error::{MeasureError, Result, refusal, refuse};
use crate::subject::{SLOTS, Subject, synthetic_batch};
use crate::{Sample, peaks};
use octant_data::Batch;
use octant_recipe::{Cores, Recipe};
use octant_runtime::{
    Backend, Buffer, CompileOptions, Cost, Executable, MemoryPlan, Mesh, PartTiming, Recording, Sharding, Timeline,
};
use octant_tensor::HostTensor;
use octant_train::step::{StepOptions, StepPlan, prediction};
use octant_train::{InFlight, Session};
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
    /// What layers compute in, by name: f32 or bf16.
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
    let precision = octant_recipe::precision(&request.precision)?;
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
    // Steps before it do not count where the devices are watched.
    let profile = request.profile.then(|| Profile(backend.record().ok()));
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
    /// The compiled step with its batch.
    fn prepare(&self, subject: &Subject, backend: &Arc<dyn Backend>) -> Result<Box<dyn Steps>> {
        let image = [subject.size, subject.size, subject.entry.preprocessing.input[2]];
        let recipe = Recipe { max_boxes: SLOTS.min(subject.recipe.max_boxes), ..subject.recipe.clone() };
        let task = octant_recipe::task(&recipe, subject.classes(), image, false)?;
        if self.latency && self.mode != StepMode::Infer {
            refuse!("the latency is that of predictions; add --mode infer");
        }
        let mesh = octant_recipe::mesh(self.cores, subject.recipe.step.fsdp, &**backend)?;
        if mesh.devices() > 1 && self.mode == StepMode::Infer {
            refuse!("predictions run on one device; leave `cores` at 1");
        }
        let step = StepOptions {
            batch_size: subject.batch_size,
            batch_schedule: Default::default(),
            precision: octant_recipe::precision(&self.precision)?,
            ..subject.recipe.step.clone()
        };
        let plan = StepPlan { task, evaluation: None, mesh, step, phase: subject.phase.clone(), int8: None };
        let batch = synthetic_batch(subject);
        Ok(match self.mode {
            StepMode::Train => Box::new(Training::new(backend, &plan, &batch, self.profile)?),
            StepMode::Infer => Box::new(Predicting::new(backend, &plan, &batch, self.profile)?),
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
    fn new(backend: &Arc<dyn Backend>, plan: &StepPlan, batch: &Batch, profile: bool) -> Result<Predicting> {
        let traced = prediction(plan)?;
        let executable = backend.compile(&traced.program, &options(profile))?;
        let upload = |tensor: &HostTensor| backend.upload(tensor, &Mesh::single(), &Sharding::REPLICATED);
        let variables = traced.variables.iter().map(|spec| upload(&spec.initial(0)));
        let inputs: Result<Vec<Buffer>, _> = variables.chain([upload(&batch.images)]).collect();
        let (backend, images) = (backend.clone(), batch.images.clone());
        Ok(Predicting { backend, executable, images, inputs: inputs?, in_flight: InFlight::default() })
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
