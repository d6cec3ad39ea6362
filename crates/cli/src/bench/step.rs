//! One model or recipe: training steps or predictions.

use super::Arguments;
use super::peaks;
use super::statistics::Sample;
use super::subject::{SLOTS, Subject, synthetic_batch};
use crate::output::{Json, bytes, duration};
use crate::timeline::Profile;
use anyhow::{Context, Result, bail};
use octant_data::Batch;
use octant_recipe::Recipe;
use octant_runtime::{Backend, Buffer, CompileOptions, Cost, Executable, MemoryPlan, Mesh, PartTiming, Sharding};
use octant_tensor::HostTensor;
use octant_train::step::{StepOptions, StepPlan, prediction};
use octant_train::{InFlight, Session};
use serde_json::json;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What was measured.
struct Measured {
    step: Sample,
    first: f64,
    start_to_first: f64,
    peak_bytes: u64,
    memory: MemoryPlan,
    cost: Cost,
    gemm_gflops: f64,
}

pub(super) fn run(subject: &Subject, arguments: &Arguments, started: Instant) -> Result<()> {
    let image = [subject.size, subject.size, subject.entry.preprocessing.input[2]];
    let recipe = Recipe { max_boxes: SLOTS.min(subject.recipe.max_boxes), ..subject.recipe.clone() };
    let task = octant_recipe::task(&recipe, subject.classes(), image, false)?;
    let precision = octant_recipe::precision(&arguments.precision)?;
    let backend = arguments.device.open()?;
    let mesh = octant_recipe::mesh(arguments.cores, &*backend)?;
    if mesh.devices() > 1 && arguments.mode == "infer" {
        bail!("predictions run on one device; leave --cores away");
    }
    let step = StepOptions {
        batch_size: subject.batch_size,
        batch_schedule: Default::default(),
        precision,
        ..subject.recipe.step.clone()
    };
    let plan = StepPlan { task, evaluation: None, mesh, step, phase: subject.phase.clone() };
    let batch = synthetic_batch(subject);
    let mut work: Box<dyn Steps> = match arguments.mode.as_str() {
        "train" => Box::new(Training::new(&backend, &plan, &batch, arguments.profile)?),
        "infer" => Box::new(Predicting::new(&*backend, &plan, &batch, arguments.profile)?),
        other => bail!("there is no mode \"{other}\"; use train or infer"),
    };
    let begun = Instant::now();
    work.queue()?;
    work.wait()?;
    let (first, start_to_first) = (begun.elapsed().as_secs_f64(), started.elapsed().as_secs_f64());
    // Accelerators run behind the host, as in training, so that a few steps are timed together, once as many are queued as
    // may be: before that, the host would not have to wait for as many as it queues. The processor is the host, and each
    // of its steps is timed to its end.
    let is_host = backend.name() == "cpu";
    let (together, before) = if is_host { (1, 1) } else { (5, 2) };
    let mut steps = || -> Result<f64> {
        let begun = Instant::now();
        (0..together).try_for_each(|_| work.queue())?;
        if is_host {
            work.wait()?;
        }
        Ok(begun.elapsed().as_secs_f64() / together as f64)
    };
    (0..before).try_for_each(|_| steps().map(drop))?;
    let profile = arguments.profile.then(|| Profile::begin(&*backend));
    let times: Result<Vec<f64>> = (0..arguments.steps.div_ceil(together)).map(|_| steps()).collect();
    work.wait()?;
    let (memory, cost) = work.cost();
    let step = Sample::new(times?);
    let peak_bytes = backend.memory()?.first().and_then(|memory| memory.peak).unwrap_or(0);
    if let Some(profile) = profile {
        profile.show(|| work.profile(), arguments.json)?;
    }
    let gemm_gflops = peaks::product(&*backend, precision.dtype())?;
    let measured = Measured { step, first, start_to_first, peak_bytes, memory, cost, gemm_gflops };
    show(subject, &*backend, &measured, arguments);
    Ok(())
}

/// Something that can be repeated.
trait Steps {
    /// Queues a step, and waits until no more than a few are left to do.
    fn queue(&mut self) -> Result<()>;
    /// Waits for all of them.
    fn wait(&mut self) -> Result<()>;
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
    executable: Box<dyn Executable>,
    inputs: Vec<Buffer>,
    in_flight: InFlight,
}

impl Predicting {
    fn new(backend: &dyn Backend, plan: &StepPlan, batch: &Batch, profile: bool) -> Result<Predicting> {
        let traced = prediction(plan)?;
        let executable = backend.compile(&traced.program, &options(profile))?;
        let upload = |tensor: &HostTensor| backend.upload(tensor, &Mesh::single(), &Sharding::Replicated);
        let variables = traced.variables.iter().map(|spec| upload(&spec.initial(0)));
        let inputs: Result<Vec<Buffer>, _> = variables.chain([upload(&batch.images)]).collect();
        Ok(Predicting { executable, inputs: inputs?, in_flight: InFlight::default() })
    }
}

impl Steps for Predicting {
    fn queue(&mut self) -> Result<()> {
        let mut outputs = self.executable.execute(&self.inputs)?;
        Ok(self.in_flight.push(outputs.pop().context("a prediction has an output")?)?)
    }

    fn wait(&mut self) -> Result<()> {
        Ok(self.in_flight.wait()?)
    }

    fn cost(&self) -> (MemoryPlan, Cost) {
        (self.executable.memory(), self.executable.cost())
    }

    fn profile(&self) -> Vec<PartTiming> {
        self.executable.profile()
    }
}

fn show(subject: &Subject, backend: &dyn Backend, measured: &Measured, arguments: &Arguments) {
    let Subject { name, batch_size, size, .. } = subject;
    let optimizer = subject.phase.optimizer.name();
    let Measured { step, first, start_to_first, peak_bytes, memory, cost, gemm_gflops } = measured;
    let median = step.median();
    let per_second = *batch_size as f64 / median;
    let gflops = cost.flops / median / 1e9;
    let share = gflops / gemm_gflops;
    if arguments.json {
        return Json::line(json!({
            "event": "done", "model": name, "mode": arguments.mode, "batch_size": batch_size, "size": size,
            "precision": arguments.precision, "device": backend.name(), "optimizer": optimizer,
            "images_per_second": per_second, "steps": step.count(), "step_ms_median": median * 1e3,
            "step_ms_least": step.least() * 1e3, "step_ms_p90": step.at(0.9) * 1e3, "step_spread": step.spread(),
            "first_step_s": first, "start_to_first_step_s": start_to_first,
            "compile_s": cost.compile_time.as_secs_f64(), "peak_rss_bytes": peak_bytes, "planned_bytes": memory.peak(),
            "gflop_per_second": gflops, "gemm_gflop_per_second": gemm_gflops, "gemm_share": share,
        }));
    }
    let with = if arguments.mode == "train" { format!(" with {optimizer}") } else { String::new() };
    println!(
        "{name} {} in {}{with}: {batch_size} images of {size}×{size} per step on {}",
        arguments.mode,
        arguments.precision,
        backend.name()
    );
    let time = |seconds: f64| duration(Duration::from_secs_f64(seconds));
    println!("  {:<14} {per_second:.1} images/s", "speed");
    println!(
        "  {:<14} {} (median of {}, ± {:.1} %; least {}, 90 % below {})",
        "step",
        time(median),
        step.count(),
        100.0 * step.spread(),
        time(step.least()),
        time(step.at(0.9))
    );
    println!("  {:<14} {} after {} of preparation", "first step", time(*first), time(start_to_first - first));
    println!("  {:<14} {} (planned {})", "peak memory", bytes(*peak_bytes), bytes(memory.peak()));
    println!(
        "  {:<14} {gflops:.0} GFLOP/s, {:.0} % of the {gemm_gflops:.0} of a large matrix product",
        "work",
        100.0 * share
    );
}
