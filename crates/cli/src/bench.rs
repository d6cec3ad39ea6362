//! The `bench` command: steps on data in memory.

use crate::output::{Json, bytes};
use crate::timeline::{self, Profile};
use crate::{Ending, device, plan, prepare, train};
use anyhow::{Result, bail};
use octant_data::{Batch, Position, Targets};
use octant_runtime::CompileOptions;
use octant_tensor::{Element, HostTensor};
use octant_train::{Session, step::StepPlan};
use octant_zoo::{Entry, Task};
use serde_json::json;
use std::path::Path;
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
    /// The device: auto, cpu, cuda, tpu or the path of a PJRT plugin
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
    /// Show where the time goes, and write trace.json
    #[arg(long)]
    profile: bool,
    /// Print one JSON object per line
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: Arguments, started: Instant) -> Result<Ending> {
    let entry = octant_zoo::find(&arguments.model)?;
    let [height, _, channels] = entry.preprocessing.input;
    let size = arguments.size.unwrap_or(height);
    let picture = [size, size, channels];
    let trains = match arguments.mode.as_str() {
        "train" => true,
        "infer" => false,
        other => bail!("there is no mode \"{other}\"; use train or infer"),
    };
    if arguments.batch_size == 0 || arguments.steps == 0 || size == 0 {
        bail!("--batch-size, --size and --steps must be at least 1");
    }
    let task = prepare::task(&plan::recipe_for(entry)?, entry.classes, picture, false)?;
    let precision = train::precision(&arguments.precision)?;
    let backend = device::open(&arguments.device, arguments.threads)?;
    let plan = StepPlan { precision, ..StepPlan::new(&*task, arguments.batch_size) };
    let options = CompileOptions { profile: arguments.profile, ..CompileOptions::default() };
    let mut session = Session::new(&*backend, &plan, &options, 0)?;
    let batch = synthetic(arguments.batch_size, picture, entry);
    let uploaded = session.upload_batch(&batch)?;
    // Accelerators run ahead of the host, as in training; the processor is the host.
    let queued = if backend.name() == "cpu" { 1 } else { 5 };
    let mut steps = |count: usize| -> Result<f64> {
        let begun = Instant::now();
        for _ in 0..count {
            match trains {
                true => session.train_on(uploaded.clone(), 1e-3)?,
                false => session.evaluate(&batch)?,
            }
        }
        session.wait()?;
        Ok(begun.elapsed().as_secs_f64() / count as f64)
    };
    let first = steps(1)?;
    let start_to_first = started.elapsed().as_secs_f64();
    steps(queued)?;
    let recording = arguments.profile.then(|| Profile::begin(&*backend));
    let times: Result<Vec<f64>> = (0..arguments.steps.div_ceil(queued)).map(|_| steps(queued)).collect();
    let mut times = times?;
    times.sort_by(f64::total_cmp);
    if let Some(recording) = recording {
        let timeline = recording.finish(&session)?;
        timeline::write(Path::new("trace.json"), &timeline)?;
        match arguments.json {
            true => Json::line(json!({ "event": "trace", "path": "trace.json" })),
            false => {
                timeline::show(&timeline.parts());
                println!("trace.json holds the same on a line of time; https://ui.perfetto.dev opens it");
            }
        }
    }
    let (memory, cost) = session.cost();
    let median = times[times.len() / 2];
    let peak = backend.memory()?.first().and_then(|memory| memory.peak).unwrap_or(0);
    let per_second = arguments.batch_size as f64 / median;
    let flops = trains.then_some(cost.flops / median / 1e9);
    match arguments.json {
        true => Json::line(json!({
            "event": "done", "model": entry.name, "mode": arguments.mode, "batch_size": arguments.batch_size, "size": size,
            "precision": arguments.precision, "device": backend.name(),
            "images_per_second": per_second, "step_ms_median": median * 1e3,
            "step_ms_least": times[0] * 1e3, "step_ms_p90": times[times.len() * 9 / 10] * 1e3,
            "first_step_s": first, "start_to_first_step_s": start_to_first, "compile_s": cost.compile_time.as_secs_f64(),
            "peak_rss_bytes": peak, "planned_bytes": memory.peak(), "gflop_per_second": flops,
        })),
        false => {
            println!("{} {} at batch {} of {size}×{size}", entry.name, arguments.mode, arguments.batch_size);
            println!("  {per_second:.0} images/s, {:.2} ms per step (median of {})", median * 1e3, times.len());
            println!("  least {:.2} ms, 90 % below {:.2} ms", times[0] * 1e3, times[times.len() * 9 / 10] * 1e3);
            println!("  first step {first:.2} s, {start_to_first:.2} s after the start; peak memory {}", bytes(peak));
        }
    }
    Ok(Ending::Done)
}

/// A batch of noise with targets of the model's kind.
fn synthetic(count: usize, [height, width, channels]: [usize; 3], entry: &Entry) -> Batch {
    let noise = |elements: usize| -> Vec<u8> {
        (0..elements as u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect()
    };
    fn tensor<T: Element>(dims: &[usize], elements: &[T]) -> HostTensor {
        HostTensor::new(dims, elements).expect("as many elements as the shape has")
    }
    let targets = match entry.task {
        Task::Classify => {
            let labels: Vec<i32> = (0..count).map(|i| (i % entry.classes) as i32).collect();
            Targets::Classes(tensor(&[count], &labels))
        }
        Task::Segment => {
            let mask: Vec<u8> = (0..count * height * width).map(|i| (i % 97 == 0) as u8).collect();
            Targets::Masks(tensor(&[count, height, width, 1], &mask))
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
