//! One model: training steps or predictions.

use super::Arguments;
use super::peaks;
use super::statistics::Sample;
use crate::output::{Json, bytes, duration};
use crate::recipes::Recipe;
use crate::timeline::Profile;
use crate::{device, plan, prepare, recipes};
use anyhow::{Context, Result, bail};
use octant_data::{Batch, Position, Targets};
use octant_nn::Optimizer;
use octant_nn::optimizer::Sgd;
use octant_runtime::{Backend, Buffer, CompileOptions, Cost, Executable, MemoryPlan, Mesh, PartTiming, Sharding};
use octant_tensor::{Element, HostTensor};
use octant_train::options::Options;
use octant_train::step::{StepOptions, StepPlan, prediction};
use octant_train::{Ahead, PhaseOptions, Session};
use octant_zoo::{ModelEntry, ModelTask};
use serde_json::json;
use std::time::{Duration, Instant};
use toml::{Table, Value};

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

pub(super) fn run(entry: &ModelEntry, arguments: &Arguments, started: Instant) -> Result<()> {
    let [height, _, channels] = entry.preprocessing.input;
    let size = arguments.size.unwrap_or(height);
    let image = [size, size, channels];
    let recipe = Recipe { label_smoothing: 0.0, ..recipe_of(entry)? };
    let task = prepare::task(&recipe, classes(entry), image, false)?;
    let precision = device::precision(&arguments.precision)?;
    let optimizer = optimizer(&recipe, arguments.optimizer.as_deref())?;
    let backend = device::open(&arguments.device, arguments.threads)?;
    let mesh = device::mesh(arguments.cores, &*backend)?;
    if mesh.devices() > 1 && arguments.mode == "infer" {
        bail!("predictions run on one device; leave --cores away");
    }
    let given = given(&recipe, arguments)?;
    let step = StepOptions { batch_size: arguments.batch_size, precision, ..given.step };
    let phase = PhaseOptions { optimizer, ..given.phases[0].options.clone() };
    let plan = StepPlan { task: &*task, mesh, step, phase };
    let batch = synthetic(arguments.batch_size, image, entry);
    let mut work: Box<dyn Steps> = match arguments.mode.as_str() {
        "train" => Box::new(Training::new(&*backend, &plan, &batch, arguments.profile)?),
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
    show(entry, size, plan.phase.optimizer.name(), &*backend, &measured, arguments);
    Ok(())
}

/// How many classes a model distinguishes; models without a head of their own get one.
fn classes(entry: &ModelEntry) -> usize {
    const WITHOUT_HEAD: usize = 1000;
    if entry.classes == 0 { WITHOUT_HEAD } else { entry.classes }
}

/// The recipe that trains this very model, or one that trains its kind.
fn recipe_of(entry: &ModelEntry) -> Result<Recipe> {
    match recipes::built_in().find(|recipe| recipe.model == entry.name) {
        Some(recipe) => Ok(Recipe { classes: Some(classes(entry)), ..recipe }),
        None => plan::recipe_for(entry),
    }
}

/// The recipe with one phase of defaults, except for the number of steps from the command line.
fn given(recipe: &Recipe, arguments: &Arguments) -> Result<Recipe> {
    let phase = Table::from_iter([
        ("epochs".to_string(), Value::Integer(1)),
        ("schedule".to_string(), Value::Table(Table::from_iter([("lr".to_string(), Value::Float(1e-3))]))),
    ]);
    let mut table = recipe.to_table();
    recipes::set(&mut table, "phases", Value::Array(vec![Value::Table(phase)]))?;
    arguments.flags.apply(&mut table)?;
    Ok(recipes::check(table)?)
}

/// The optimizer of the recipe's longest phase in its usual settings, so that peers can do the same work.
fn optimizer(recipe: &Recipe, asked: Option<&str>) -> Result<Optimizer> {
    let longest = recipe.phases.iter().max_by_key(|phase| phase.epochs);
    let name = asked.or(longest.map(|phase| phase.options.optimizer.name())).unwrap_or("sgd");
    let found = Optimizer::named(name);
    let names = Optimizer::NAMES.join(", ");
    Ok(match found.with_context(|| format!("there is no optimizer \"{name}\"; there are {names}"))? {
        Optimizer::Sgd(sgd) => Optimizer::Sgd(Sgd { momentum: 0.9, ..sgd }),
        other => other,
    })
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

struct Training<'a> {
    session: Session<'a>,
    batch: Vec<Buffer>,
}

fn options(profile: bool) -> CompileOptions {
    CompileOptions { profile, ..CompileOptions::default() }
}

impl<'a> Training<'a> {
    fn new(backend: &'a dyn Backend, plan: &StepPlan<'a>, batch: &Batch, profile: bool) -> Result<Training<'a>> {
        let session = Session::new(backend, plan, &options(profile), 0)?;
        let batch = session.upload_batch(batch)?;
        Ok(Training { session, batch })
    }
}

impl Steps for Training<'_> {
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
    ahead: Ahead,
}

impl Predicting {
    fn new(backend: &dyn Backend, plan: &StepPlan, batch: &Batch, profile: bool) -> Result<Predicting> {
        let traced = prediction(plan)?;
        let executable = backend.compile(&traced.program, &options(profile))?;
        let upload = |tensor: &HostTensor| backend.upload(tensor, &Mesh::single(), &Sharding::Replicated);
        let variables = traced.variables.iter().map(|spec| upload(&spec.initial(0)));
        let inputs: Result<Vec<Buffer>, _> = variables.chain([upload(&batch.images)]).collect();
        Ok(Predicting { executable, inputs: inputs?, ahead: Ahead::default() })
    }
}

impl Steps for Predicting {
    fn queue(&mut self) -> Result<()> {
        let mut outputs = self.executable.execute(&self.inputs)?;
        Ok(self.ahead.queued(outputs.pop().context("a prediction has an output")?)?)
    }

    fn wait(&mut self) -> Result<()> {
        Ok(self.ahead.wait()?)
    }

    fn cost(&self) -> (MemoryPlan, Cost) {
        (self.executable.memory(), self.executable.cost())
    }

    fn profile(&self) -> Vec<PartTiming> {
        self.executable.profile()
    }
}

fn show(
    entry: &ModelEntry,
    size: usize,
    optimizer: &str,
    backend: &dyn Backend,
    measured: &Measured,
    arguments: &Arguments,
) {
    let Measured { step, first, start_to_first, peak_bytes, memory, cost, gemm_gflops } = measured;
    let median = step.median();
    let per_second = arguments.batch_size as f64 / median;
    let gflops = cost.flops / median / 1e9;
    let share = gflops / gemm_gflops;
    if arguments.json {
        return Json::line(json!({
            "event": "done", "model": entry.name, "mode": arguments.mode, "batch_size": arguments.batch_size, "size": size,
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
        "{} {} in {}{with}: {} images of {size}×{size} per step on {}",
        entry.name,
        arguments.mode,
        arguments.precision,
        arguments.batch_size,
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

/// Box slots per image: the default without a data set.
const SLOTS: usize = 128;

/// A batch of noise with targets of the model's kind.
fn synthetic(count: usize, [height, width, channels]: [usize; 3], entry: &ModelEntry) -> Batch {
    let noise = |elements: usize| -> Vec<u8> {
        (0..elements as u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect()
    };
    fn tensor<T: Element>(dims: &[usize], elements: &[T]) -> HostTensor {
        HostTensor::new(dims, elements).expect("as many elements as the shape has")
    }
    let targets = match entry.task {
        ModelTask::Classify => {
            let labels: Vec<i32> = (0..count).map(|i| (i % classes(entry)) as i32).collect();
            Targets::Classes(tensor(&[count], &labels))
        }
        ModelTask::Segment => {
            let mask: Vec<u8> = (0..count * height * width).map(|i| (i % 97 == 0) as u8).collect();
            Targets::Masks(tensor(&[count, height, width, 1], &mask))
        }
        ModelTask::Translate => {
            let factor = (entry.build)(entry.classes).enlarges();
            let dims = [count, height * factor, width * factor, entry.classes];
            Targets::Images(tensor(&dims, &noise(dims.iter().product())))
        }
        ModelTask::Detect => {
            // A few boxes per image, which cover the left half.
            let corners = |slot: usize| [0.0, 0.0, (width / 2) as f32 / (slot + 1) as f32, height as f32];
            let boxes: Vec<f32> = (0..count * SLOTS).flat_map(|i| corners(i % SLOTS)).collect();
            let classes: Vec<i32> = (0..count * SLOTS).map(|i| if i % SLOTS < 8 { 0 } else { -1 }).collect();
            let (corners, classes) = (tensor(&[count, SLOTS, 4], &boxes), tensor(&[count, SLOTS], &classes));
            Targets::Boxes { corners, classes, judged: Vec::new() }
        }
    };
    Batch {
        position: Position { epoch: 0, batch: 0 },
        images: tensor(&[count, height, width, channels], &noise(count * height * width * channels)),
        targets,
        mask: tensor(&[count], &vec![1.0f32; count]),
        valid: count,
        indices: (0..count as u64).collect(),
    }
}
