//! Burn on the work that `octant bench` does: one JSON line with the same keys.
//!
//! Built on its own, for the machine it runs on: `RUSTFLAGS="-C target-cpu=native" cargo build --release` in this folder.
//! The backend is flex, Burn's fastest on processors. `models` holds the networks.

mod models;

use burn::optim::{AdamConfig, GradientsParams, ModuleOptimizer, SgdConfig, momentum::MomentumConfig};
use burn::tensor::{Device, Distribution, Int, Tensor, TensorData, activation::log_softmax};
use clap::Parser;
use models::{FashionCnn, Network, ResNet};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// The flags of `octant bench`.
#[derive(Parser)]
struct Arguments {
    /// fashion-cnn, resnet18 or resnet50
    model: String,
    #[arg(long, default_value_t = 32)]
    batch_size: usize,
    #[arg(long, default_value_t = 224)]
    size: usize,
    /// train or infer
    #[arg(long, default_value = "train")]
    mode: String,
    /// Only f32
    #[arg(long, default_value = "f32")]
    precision: String,
    /// Only flex
    #[arg(long, default_value = "flex")]
    variant: String,
    #[arg(long, default_value_t = 1)]
    threads: usize,
    #[arg(long, default_value_t = 30)]
    steps: usize,
}

fn main() -> Result<(), String> {
    let started = std::env::var("OCTANT_BENCH_STARTED").ok().and_then(|text| text.parse().ok()).unwrap_or_else(now);
    let arguments = Arguments::parse();
    if arguments.precision != "f32" || arguments.variant != "flex" {
        return Err("this peer only has f32 on the flex backend".into());
    }
    // SAFETY: no other thread runs yet; the pool of threads that reads this is made at the first operation.
    unsafe { std::env::set_var("RAYON_NUM_THREADS", arguments.threads.to_string()) };
    let device = match arguments.mode.as_str() {
        "train" => Device::flex().autodiff(),
        "infer" => Device::flex(),
        other => return Err(format!("there is no mode \"{other}\"; use train or infer")),
    };
    let sgd = || SgdConfig::new().with_momentum(Some(MomentumConfig::new().with_momentum(0.9))).init();
    match arguments.model.as_str() {
        "fashion-cnn" => measure(FashionCnn::new(&device), AdamConfig::new().init(), &device, &arguments, started),
        "resnet18" => measure(ResNet::resnet18(&device), sgd(), &device, &arguments, started),
        "resnet50" => measure(ResNet::resnet50(&device), sgd(), &device, &arguments, started),
        other => return Err(format!("there is no {other} for Burn; there are fashion-cnn, resnet18 and resnet50")),
    }
    Ok(())
}

/// One first step, one that does not count, then the steps whose median is printed.
fn measure<N: Network>(model: N, optimizer: ModuleOptimizer, device: &Device, arguments: &Arguments, started: f64) {
    let (batch, size) = (arguments.batch_size, arguments.size);
    let images = Tensor::<4>::random([batch, N::CHANNELS, size, size], Distribution::Default, device);
    let labels: Vec<i64> = (0..batch).map(|image| (image % N::CLASSES) as i64).collect();
    let labels = Tensor::<2, Int>::from_data(TensorData::new(labels, [batch, 1]), device);
    let mut state = Some((model, optimizer));
    let mut step = || {
        let begun = Instant::now();
        state = state.take().map(|(model, mut optimizer)| {
            let outputs = model.forward(images.clone());
            if arguments.mode == "infer" {
                // Reading a number waits for all of them.
                let _ = outputs.into_data();
                return (model, optimizer);
            }
            let loss = log_softmax(outputs, 1).gather(1, labels.clone()).mean().neg();
            let gradients = GradientsParams::from_grads(loss.backward(), &model);
            let model = optimizer.step(1e-3, model, gradients);
            (model, optimizer)
        });
        begun.elapsed().as_secs_f64()
    };
    let first = step();
    let start_to_first = now() - started;
    step();
    let mut times: Vec<f64> = (0..arguments.steps).map(|_| step()).collect();
    times.sort_by(f64::total_cmp);
    let median = (times[(times.len() - 1) / 2] + times[times.len() / 2]) / 2.0;
    let line = serde_json::json!({
        "event": "done", "peer": "Burn", "variant": arguments.variant, "model": arguments.model,
        "images_per_second": batch as f64 / median, "step_ms_median": median * 1e3, "first_step_s": first,
        "start_to_first_step_s": start_to_first, "peak_rss_bytes": peak_bytes(),
    });
    println!("{line}");
}

fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}

/// The most memory that the process has had.
fn peak_bytes() -> i64 {
    // SAFETY: all-zero is a valid value of this plain record, which the call fills.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &mut usage);
        usage
    };
    usage.ru_maxrss * 1024
}
