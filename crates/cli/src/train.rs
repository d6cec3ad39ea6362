//! The `train` command.

use crate::output::{Bar, Json, bytes, duration};
use crate::rundir::RunDirectory;
use crate::{Ending, device};
use anyhow::{Context, Result, bail};
use octant_data::{Dataset, Glyphs, LastBatch, Loader, LoaderConfig, readers::IdxDataset};
use octant_nn::{Optimizer, Precision};
use octant_runtime::{CompileOptions, Mesh};
use octant_train::{Classify, Metric, Session, step::StepPlan};
use serde_json::{Map, Value, json};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// Train a network
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// What to train: `glyphs` (drawn on the fly, nothing to download) or `fashion-mnist`
    #[arg(default_value = "glyphs")]
    recipe: String,
    /// The folder with the data set
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// The device: auto or cpu
    #[arg(long, default_value = "auto")]
    device: String,
    /// Threads of the CPU engine; all cores if not given
    #[arg(long)]
    threads: Option<usize>,
    /// Pictures per step
    #[arg(long)]
    batch_size: Option<usize>,
    /// Passes over the data
    #[arg(long)]
    epochs: Option<u64>,
    /// Steps of one epoch; a whole pass if not given
    #[arg(long)]
    steps_per_epoch: Option<u64>,
    /// Learning rate
    #[arg(long, default_value_t = 1e-3)]
    lr: f64,
    /// The seed of weights, order and augmentation
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// What layers compute in: f32 or bf16
    #[arg(long, default_value = "f32")]
    precision: String,
    /// The run directory; runs/RECIPE-N if not given
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print one JSON object per line
    #[arg(long)]
    json: bool,
}

/// Data and defaults of a recipe.
struct Recipe {
    train: Arc<dyn Dataset>,
    test: Arc<dyn Dataset>,
    batch_size: usize,
    epochs: u64,
}

pub(crate) fn precision(name: &str) -> Result<Precision> {
    match name {
        "f32" => Ok(Precision::F32),
        "bf16" => Ok(Precision::Bf16),
        other => bail!("there is no precision \"{other}\"; use f32 or bf16"),
    }
}

fn recipe(arguments: &Arguments) -> Result<Recipe> {
    match (arguments.recipe.as_str(), &arguments.data) {
        ("glyphs", None) => Ok(Recipe {
            train: Arc::new(Glyphs::new(12_000, arguments.seed)),
            test: Arc::new(Glyphs::new(2_000, arguments.seed ^ 0x7e57)),
            batch_size: 64,
            epochs: 5,
        }),
        ("glyphs", Some(_)) => bail!("glyphs are drawn on the fly and take no --data; did you mean `octant train fashion-mnist`?"),
        ("fashion-mnist", Some(folder)) => Ok(Recipe {
            train: Arc::new(IdxDataset::open(folder, true)?),
            test: Arc::new(IdxDataset::open(folder, false)?),
            batch_size: 1000,
            epochs: 5,
        }),
        ("fashion-mnist", None) => bail!("fashion-mnist needs --data DIR, the folder with train-images-idx3-ubyte(.gz) and the other three files"),
        (other, _) => bail!("there is no recipe \"{other}\"; there are glyphs and fashion-mnist"),
    }
}

pub(crate) fn run(arguments: Arguments) -> Result<Ending> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [libc::SIGINT, libc::SIGTERM] {
        // The second signal ends the process at once.
        signal_hook::flag::register_conditional_shutdown(signal, 130, stop.clone()).context("cannot watch for signals")?;
        signal_hook::flag::register(signal, stop.clone()).context("cannot watch for signals")?;
    }
    let recipe = recipe(&arguments)?;
    let batch_size = arguments.batch_size.unwrap_or(recipe.batch_size);
    let epochs = arguments.epochs.unwrap_or(recipe.epochs);
    if recipe.train.is_empty() || recipe.test.is_empty() {
        bail!("the data set has no pictures");
    }
    let classes = recipe.train.class_names().len();
    let first = recipe.train.get(0)?;
    let task = Classify {
        model: octant_zoo::registry::build("fashion-cnn", Some(classes))?,
        picture: first.picture.dims(),
        normalise: None,
        smoothing: 0.0,
    };
    let backend = device::open(&arguments.device, arguments.threads)?;
    let plan = StepPlan {
        task: &task,
        optimizer: Optimizer::named("adam").expect("adam is a known optimizer"),
        weight_decay: 0.0,
        precision: precision(&arguments.precision)?,
        batch_size,
        mesh: Mesh::single(),
        trainable: &|_| true,
    };
    let config = |last, shuffle| LoaderConfig { batch_size, seed: arguments.seed, shuffle, last, ..LoaderConfig::default() };
    let train = Loader::new(recipe.train.clone(), Arc::new(()), config(LastBatch::Drop, true))?;
    let test = Loader::new(recipe.test.clone(), Arc::new(()), config(LastBatch::Pad, false))?;
    let steps = arguments.steps_per_epoch.unwrap_or(train.batches_per_epoch());
    if steps == 0 {
        bail!("a batch of {batch_size} is larger than the data set of {} pictures; give a smaller --batch-size", recipe.train.len());
    }
    let session = Session::new(&*backend, &plan, &CompileOptions::default(), arguments.seed)?;
    let mut run = RunDirectory::create(arguments.out.as_deref(), &arguments.recipe, &resolved(&arguments, batch_size, epochs, steps))?;
    introduce(&arguments, &recipe, &session, &mut run)?;
    let mut training = Run { session, run, train, test, epochs, steps, rate: arguments.lr, stop, json: arguments.json };
    let (ending, metrics) = training.epochs()?;
    training.finish(ending, &metrics)
}

/// The configuration as it was finally used.
fn resolved(arguments: &Arguments, batch_size: usize, epochs: u64, steps: u64) -> String {
    let mut table = toml::Table::new();
    let mut set = |key: &str, value: toml::Value| drop(table.insert(key.into(), value));
    set("recipe", arguments.recipe.clone().into());
    if let Some(data) = &arguments.data {
        set("data", data.display().to_string().into());
    }
    set("model", "fashion-cnn".into());
    set("optimizer", "adam".into());
    set("device", arguments.device.clone().into());
    set("precision", arguments.precision.clone().into());
    set("batch_size", (batch_size as i64).into());
    set("epochs", (epochs as i64).into());
    set("steps_per_epoch", (steps as i64).into());
    set("lr", arguments.lr.into());
    set("seed", (arguments.seed as i64).into());
    table.to_string()
}

fn introduce(arguments: &Arguments, recipe: &Recipe, session: &Session, run: &mut RunDirectory) -> Result<()> {
    let parameters: usize = session.variables().iter().map(|spec| spec.shape.elements()).sum();
    let (memory, cost) = session.cost();
    let text = format!(
        "fashion-cnn, {parameters} parameters, on {} training and {} test pictures; compiled in {}, {} at the peak",
        recipe.train.len(),
        recipe.test.len(),
        duration(cost.compile_time),
        bytes(memory.peak()),
    );
    run.log(&text)?;
    match arguments.json {
        true => Json::line(json!({
            "event": "start", "recipe": arguments.recipe, "model": "fashion-cnn", "parameters": parameters,
            "peak_bytes": memory.peak(), "run": run.path(),
        })),
        false => println!("{text}"),
    }
    Ok(())
}

/// A training under way.
struct Run<'a> {
    session: Session<'a>,
    run: RunDirectory,
    train: Loader,
    test: Loader,
    epochs: u64,
    steps: u64,
    rate: f64,
    stop: Arc<AtomicBool>,
    json: bool,
}

impl Run<'_> {
    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn epochs(&mut self) -> Result<(Ending, Vec<Metric>)> {
        let mut metrics = Vec::new();
        // One stream over all epochs: with few steps per epoch, the next one goes on where the last one ended.
        let mut batches = self.train.stream(octant_data::Position { epoch: 0, batch: 0 }, u64::MAX);
        for epoch in 1..=self.epochs {
            let mut bar = Bar::new(format!("epoch {epoch}/{}", self.epochs), self.steps);
            self.session.reset()?;
            for step in 1..=self.steps {
                let batch = batches.next().context("the data ended early")??;
                self.session.train(&batch, self.rate)?;
                if !self.json && bar.is_due() {
                    bar.draw(step, &show(&self.session.metrics()?));
                }
                if self.stopped() {
                    return Ok((Ending::Interrupted, metrics));
                }
            }
            let trained = self.session.metrics()?;
            if let Some((_, loss)) = trained.iter().find(|(name, value)| name == "loss" && !value.is_finite()) {
                bail!("the loss became {loss} in epoch {epoch}; try a smaller --lr");
            }
            let per_step = bar.elapsed() / self.steps as u32;
            let validated = self.validate()?;
            metrics = trained.into_iter().chain(validated.into_iter().map(|(name, value)| (format!("val_{name}"), value))).collect();
            self.report(epoch, per_step, &metrics, bar)?;
        }
        Ok((Ending::Done, metrics))
    }

    fn validate(&mut self) -> Result<Vec<Metric>> {
        self.session.reset()?;
        for batch in self.test.epoch(0) {
            self.session.evaluate(&batch?)?;
        }
        Ok(self.session.metrics()?)
    }

    fn report(&mut self, epoch: u64, per_step: std::time::Duration, metrics: &[Metric], bar: Bar) -> Result<()> {
        let row: Vec<Metric> = [("epoch".to_string(), epoch as f64), ("lr".to_string(), self.rate)].into_iter().chain(metrics.iter().cloned()).collect();
        self.run.metrics(&row)?;
        let line = format!("epoch {epoch}/{}  {} steps  {}/step  {}", self.epochs, self.steps, duration(per_step), show(metrics));
        self.run.log(&line)?;
        match self.json {
            true => {
                let mut object = as_json(metrics);
                object.insert("event".into(), "epoch".into());
                object.insert("epoch".into(), epoch.into());
                object.insert("step_ms".into(), (per_step.as_secs_f64() * 1e3).into());
                Json::line(Value::Object(object));
            }
            false => bar.finish(&line),
        }
        Ok(())
    }

    fn finish(mut self, ending: Ending, metrics: &[Metric]) -> Result<Ending> {
        let metadata = [("model".to_string(), "fashion-cnn".to_string()), ("step".to_string(), self.session.steps().to_string())];
        let saved = self.run.save(&self.session.weights()?, &metadata)?;
        let what = match ending {
            Ending::Done => "done",
            Ending::Interrupted => "interrupted",
        };
        self.run.log(&format!("{what} after {} steps", self.session.steps()))?;
        match self.json {
            true => Json::line(json!({ "event": what, "metrics": as_json(metrics), "run": self.run.path(), "weights": saved })),
            false => {
                println!("\n{what} after {} steps", self.session.steps());
                metrics.iter().for_each(|(name, value)| println!("  {name:<14} {value:.4}"));
                println!("  {:<14} {}", "run", self.run.path().display());
                println!("  {:<14} {}", "weights", saved.display());
                println!("\nnext: octant train fashion-mnist --data DIR, or octant bench fashion-cnn");
            }
        }
        Ok(ending)
    }
}

fn show(metrics: &[Metric]) -> String {
    metrics.iter().map(|(name, value)| format!("{name} {value:.4}")).collect::<Vec<_>>().join("  ")
}

fn as_json(metrics: &[Metric]) -> Map<String, Value> {
    metrics.iter().map(|(name, value)| (name.clone(), json!(value))).collect()
}

/// The time since the process began, for commands that measure their own start.
pub(crate) fn since(started: Instant) -> f64 {
    started.elapsed().as_secs_f64()
}
