//! Features without labels, as SimCLR learns them: `cargo run --release -p octant-vision --example contrastive`
use octant::prelude::*;
use std::sync::Arc;

struct Contrast;

/// Two views of an image are the same thing; all others of the batch are not (NT-Xent, Chen et al., 2020).
fn nt_xent(first: &Tensor, second: &Tensor, temperature: f64) -> Tensor {
    let all = Tensor::concatenate(&[first.clone(), second.clone()], 0);
    let unit = &all / (all.square().sum_keep(&[1]) + 1e-12).sqrt();
    let (count, half) = (unit.dim(0), first.dim(0));
    let numbers = all.trace().iota(Shape::new(DType::I32, [count]), 0);
    // Nothing is compared with itself.
    let itself = numbers.one_hot(count, DType::F32) * 1e9;
    let alike = unit.matmul(&unit.transpose(&[1, 0])) / temperature - itself;
    let partner = (&numbers + numbers.full_like(half as f64)).rem(&numbers.full_like(count as f64));
    loss::cross_entropy(&alike, &partner, 0.0)
}

/// A view: shifted by a random number of columns, brighter or darker, noisy.
fn view(cx: &Context, images: &Tensor, name: &str) -> Tensor {
    let Some(key) = cx.root().at(name).random_key() else { return images.clone() };
    let level = key.fold_in(1).uniform(&[images.dim(0), 1, 1, 1]) + 0.5;
    let shifted = key.fold_in(2).uniform(&[images.dim(0), 1, 1, 1]).less(&images.scalar_like(0.5));
    let moved = images.shifted(2, 2);
    let moved = shifted.broadcast_to(images.dims()).select(&moved, images);
    moved * level + key.fold_in(3).normal(images.dims()) * 0.1
}

impl Task for Contrast {
    fn inputs(&self, batch_size: usize) -> Inputs {
        Inputs::images(batch_size, [28, 28, 1])
    }
    /// The features, in front of the projection that only the loss sees.
    fn predict(&self, cx: &Context, images: &Tensor) -> Tensor {
        let (root, x) = (cx.root(), images.convert(DType::F32));
        let x = Conv2d::new(16, 5).stride(2).apply(&root.at("conv1"), &x).relu();
        let x = Conv2d::new(32, 5).stride(2).apply(&root.at("conv2"), &x).relu();
        Dense::new(64).apply(&root.at("fc"), &x.flatten_from(1)).relu()
    }
    fn outcome(&self, cx: &Context, batch: &[Tensor]) -> Outcome {
        let images = batch[0].convert(DType::F32) / 255.0;
        let projected = |name: &str| {
            let features = self.predict(cx, &view(cx, &images, name));
            let head = cx.companion("projection");
            let hidden = Dense::new(32).apply(&head.at("fc1"), &features).relu();
            Dense::new(16).apply(&head.at("fc2"), &hidden)
        };
        let losses = nt_xent(&projected("first"), &projected("second"), 0.2);
        let sums = vector(&[losses.sum_all(), losses.full_like(1.0).sum_all()]);
        // One loss moves the model and its companion.
        let objectives = vec![Objective::of_all(["", "projection"], losses.mean_all())];
        Outcome { objectives, ..Outcome::new(losses.mean_all(), sums) }
    }
    fn metrics(&self, sums: &[f64], _: bool) -> Vec<Metric> {
        vec![("loss".into(), sums[0] / sums[1].max(1.0))]
    }
}

/// The losses of three short epochs.
pub fn run() -> Result<Vec<f64>, Box<dyn std::error::Error>> {
    let backend = device::open("auto", &device::Options::default())?;
    let mut session = Session::new(&backend, &StepPlan::new(Arc::new(Contrast), 32), &CompileOptions::default(), 1)?;
    let config = LoaderConfig { batch_size: 32, ..LoaderConfig::default() };
    let loader = Loader::new(Arc::new(Glyphs::new(640, 1)), Arc::new(()), config)?;
    let mut losses = Vec::new();
    for epoch in 0..3 {
        session.reset()?;
        loader.epoch(epoch).try_for_each(|batch| session.train(&batch?, 3e-3))?;
        losses.push(session.metrics()?[0].1);
    }
    println!("{losses:?}");
    Ok(losses)
}

#[allow(dead_code, reason = "the tests call `run`")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    run().map(drop)
}
