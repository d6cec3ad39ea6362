//! The `bench` command: steps on data in memory.

use crate::output::{Json, bytes};
use crate::{Ending, device, train};
use anyhow::{Result, bail};
use octant_data::{Batch, Position, Targets};
use octant_graph::{DType, HostTensor, Shape};
use octant_runtime::CompileOptions;
use octant_train::{Classify, Session, step::StepPlan};
use octant_zoo::registry;
use serde_json::json;
use std::time::Instant;

/// Measure the speed of training steps
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The model; `octant models` lists them
    model: String,
    /// Pictures per step
    #[arg(long, default_value_t = 32)]
    batch_size: usize,
    /// Height and width of the pictures; the model's own size if not given
    #[arg(long)]
    size: Option<usize>,
    /// What is measured: train or infer
    #[arg(long, default_value = "train")]
    mode: String,
    /// The device: auto or cpu
    #[arg(long, default_value = "auto")]
    device: String,
    /// What layers compute in: f32 or bf16
    #[arg(long, default_value = "f32")]
    precision: String,
    /// Threads of the CPU engine; all cores if not given
    #[arg(long)]
    threads: Option<usize>,
    /// Steps that are measured, after the first one
    #[arg(long, default_value_t = 30)]
    steps: usize,
    /// Print one JSON object per line
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: Arguments, started: Instant) -> Result<Ending> {
    let entry = registry::find(&arguments.model)?;
    let [height, _, channels] = entry.preprocessing.input;
    let size = arguments.size.unwrap_or(height);
    let picture = [size, size, channels];
    let task = Classify { model: (entry.build)(entry.classes), picture, normalise: None, smoothing: 0.0 };
    let trains = match arguments.mode.as_str() {
        "train" => true,
        "infer" => false,
        other => bail!("there is no mode \"{other}\"; use train or infer"),
    };
    if arguments.batch_size == 0 || arguments.steps == 0 {
        bail!("--batch-size and --steps must be at least 1");
    }
    let backend = device::open(&arguments.device, arguments.threads)?;
    let precision = train::precision(&arguments.precision)?;
    let plan = StepPlan { precision, ..StepPlan::new(&task, arguments.batch_size) };
    let mut session = Session::new(&*backend, &plan, &CompileOptions::default(), 0)?;
    let batch = synthetic(arguments.batch_size, picture, entry.classes);
    let mut step = || -> Result<f64> {
        let begun = Instant::now();
        match trains {
            true => session.train(&batch, 1e-3)?,
            false => session.evaluate(&batch)?,
        }
        session.wait()?;
        Ok(begun.elapsed().as_secs_f64())
    };
    let first = step()?;
    let start_to_first = train::since(started);
    let times: Result<Vec<f64>> = (0..arguments.steps).map(|_| step()).collect();
    let mut times = times?;
    times.sort_by(f64::total_cmp);
    let (memory, cost) = session.cost();
    let median = times[times.len() / 2];
    let rss = backend.memory()?.first().and_then(|memory| memory.peak).unwrap_or(0);
    let flops = if trains { cost.flops } else { 0.0 };
    match arguments.json {
        true => Json::line(json!({
            "event": "done", "model": entry.name, "mode": arguments.mode, "batch_size": arguments.batch_size, "size": size,
            "images_per_second": arguments.batch_size as f64 / median, "step_ms_median": median * 1e3,
            "step_ms_least": times[0] * 1e3, "step_ms_p90": times[times.len() * 9 / 10] * 1e3,
            "first_step_s": first, "start_to_first_step_s": start_to_first, "peak_rss_bytes": rss,
            "planned_bytes": memory.peak(), "gflop_per_second": flops / median / 1e9,
        })),
        false => {
            println!("{} {} at batch {} of {size}×{size}", entry.name, arguments.mode, arguments.batch_size);
            println!(
                "  {:.0} images/s, {:.2} ms per step (median of {})",
                arguments.batch_size as f64 / median,
                median * 1e3,
                times.len()
            );
            println!("  least {:.2} ms, 90 % below {:.2} ms", times[0] * 1e3, times[times.len() * 9 / 10] * 1e3);
            println!("  first step {first:.2} s, {start_to_first:.2} s after the start; peak memory {}", bytes(rss));
        }
    }
    Ok(Ending::Done)
}

/// A batch of noise with labels in turn.
fn synthetic(count: usize, [height, width, channels]: [usize; 3], classes: usize) -> Batch {
    let shape = Shape::new(DType::U8, [count, height, width, channels]);
    let pixels: Vec<u8> = (0..shape.elements() as u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let labels: Vec<i32> = (0..count).map(|i| (i % classes) as i32).collect();
    let tensor = |result: Result<HostTensor, _>| result.expect("as many elements as the shape has");
    Batch {
        position: Position { epoch: 0, batch: 0 },
        images: tensor(HostTensor::new(shape.dims(), &pixels)),
        targets: Targets::Classes(tensor(HostTensor::new([count], &labels))),
        mask: tensor(HostTensor::new([count], &vec![1.0f32; count])),
        valid: count,
        indices: (0..count as u64).collect(),
    }
}
