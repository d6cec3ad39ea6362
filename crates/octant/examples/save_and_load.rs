//! Weights of a model of your own in a file: `cargo run --release -p octant-vision --example save_and_load`
use octant::archive::Archive;
use octant::prelude::*;
use octant::train::{Evaluator, Values};
use std::path::Path;
use std::sync::Arc;

/// Ten kinds of line drawings.
struct Drawings;
impl Task for Drawings {
    fn inputs(&self, batch_size: usize) -> Inputs {
        Inputs::images(batch_size, [28, 28, 1]).labels(10)
    }
    fn predict(&self, cx: &Context, images: &Tensor) -> Tensor {
        let (root, x) = (cx.root(), images.convert(DType::F32) / 255.0);
        let x = Conv2d::new(16, 5).stride(4).apply(&root.at("conv"), &x).relu();
        let x = Dense::new(32).apply(&root.at("hidden"), &x.flatten_from(1)).relu();
        Dense::new(10).apply(&root.at("fc"), &x)
    }
    fn outcome(&self, cx: &Context, batch: &[Tensor]) -> Outcome {
        let losses = loss::cross_entropy(&self.predict(cx, &batch[0]), &batch[1], 0.0);
        Outcome::new(losses.mean_all(), vector(&[losses.sum_all(), losses.full_like(1.0).sum_all()]))
    }
    fn metrics(&self, sums: &[f64], _: bool) -> Vec<Metric> {
        vec![("loss".into(), sums[0] / sums[1].max(1.0))]
    }
}

/// The loss over the data with the weights of a file.
fn evaluated(path: &Path, loader: &Loader) -> Result<f64, Box<dyn std::error::Error>> {
    let (backend, plan) = (CpuBackend::new()?.shared(), StepPlan::new(Arc::new(Drawings), 32));
    // From the layout of the file, which is PyTorch's, to that of the step.
    let weights = Values::import(&Archive::open(path)?, &plan)?;
    let evaluator = Evaluator::new(&backend, &plan, &CompileOptions::default(), &weights)?;
    Ok(evaluator.run(loader.epoch(0))?.0[0].1)
}

/// The losses of a trained model, of its file, and of another session that reads the file and trains on.
pub fn run(folder: &Path) -> Result<[f64; 3], Box<dyn std::error::Error>> {
    let (backend, plan) = (CpuBackend::new()?.shared(), StepPlan::new(Arc::new(Drawings), 32));
    let loader = Loader::new(Arc::new(Glyphs::new(1280, 1)), Arc::new(()), LoaderConfig::default())?;
    let mut session = Session::new(&backend, &plan, &CompileOptions::default(), 1)?;
    loader.epoch(0).try_for_each(|batch| session.train(&batch?, 3e-3))?;
    session.save(folder.join("first.safetensors"))?;
    let evaluator = Evaluator::new(&backend, &plan, &CompileOptions::default(), &session.evaluated()?)?;
    let trained = evaluator.run(loader.epoch(0))?.0[0].1;
    let from_file = evaluated(&folder.join("first.safetensors"), &loader)?;

    let mut session = Session::new(&backend, &plan, &CompileOptions::default(), 2)?;
    session.load(folder.join("first.safetensors"))?;
    loader.epoch(1).try_for_each(|batch| session.train(&batch?, 3e-3))?;
    session.save(folder.join("second.safetensors"))?;
    Ok([trained, from_file, evaluated(&folder.join("second.safetensors"), &loader)?])
}

#[allow(dead_code, reason = "the tests call `run`")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    run(&std::env::temp_dir()).map(|losses| println!("losses: {losses:.3?}"))
}
