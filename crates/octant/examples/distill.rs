//! A small network learns from a larger one: `cargo run --release -p octant-vision --example distill`
use octant::nn::Scope;
use octant::prelude::*;
use octant::train::Values;
use std::sync::Arc;

/// A network of that width at a scope.
fn network(scope: &Scope, images: &Tensor, width: usize) -> Tensor {
    let x = Conv2d::new(width, 5).stride(2).apply(&scope.at("conv1"), &(images.convert(DType::F32) / 255.0)).relu();
    let x = Conv2d::new(2 * width, 5).stride(2).apply(&scope.at("conv2"), &x).relu();
    Dense::new(10).apply(&scope.at("fc"), &x.flatten_from(1))
}

struct Learn {
    width: usize,
    /// Whether a teacher is there to learn from.
    has_teacher: bool,
}

impl Task for Learn {
    fn inputs(&self, batch_size: usize) -> Inputs {
        Inputs::images(batch_size, [28, 28, 1]).labels(10)
    }
    fn predict(&self, cx: &Context, images: &Tensor) -> Tensor {
        network(&cx.root(), images, self.width)
    }
    fn outcome(&self, cx: &Context, batch: &[Tensor]) -> Outcome {
        let logits = self.predict(cx, &batch[0]);
        let mut losses = loss::cross_entropy(&logits, &batch[1], 0.0);
        if self.has_teacher && matches!(cx.mode(), Mode::Train(_)) {
            // No objective names the teacher, so it does not learn; its predictions are softened by a temperature of 2.
            let taught = network(&cx.companion("teacher"), &batch[0], 16).stop_gradient();
            let soft = loss::soft_cross_entropy(&(&logits / 2.0), &(taught / 2.0).softmax(1));
            losses = losses * 0.5 + soft * (0.5 * 4.0);
        }
        let right = logits.arg_max(1).1.equal(&batch[1]).convert(DType::F32);
        Outcome::new(losses.mean_all(), vector(&[right.sum_all(), right.full_like(1.0).sum_all()]))
    }
    fn metrics(&self, sums: &[f64], _: bool) -> Vec<Metric> {
        vec![("accuracy".into(), sums[0] / sums[1].max(1.0))]
    }
}

/// Trains a few epochs; the weights, and the accuracy of the last epoch.
fn trained(task: Learn, known: &Values, epochs: u64) -> Result<(Values, f64), Box<dyn std::error::Error>> {
    let backend = device::open("auto", &device::Options::default())?;
    let options = CompileOptions::default();
    let mut session = Session::with_state(&backend, &StepPlan::new(Arc::new(task), 32), &options, 1, known)?;
    let config = LoaderConfig { batch_size: 32, ..LoaderConfig::default() };
    let loader = Loader::new(Arc::new(Glyphs::new(1920, 1)), Arc::new(()), config)?;
    for epoch in 0..epochs {
        session.reset()?;
        loader.epoch(epoch).try_for_each(|batch| session.train(&batch?, 2e-3))?;
    }
    let accuracy = session.metrics()?[0].1;
    Ok((session.values()?, accuracy))
}

/// The accuracies of the teacher and of the student.
pub fn run() -> Result<[f64; 2], Box<dyn std::error::Error>> {
    let (weights, teachers) = trained(Learn { width: 16, has_teacher: false }, &Values::new(), 6)?;
    let (_, students) = trained(Learn { width: 4, has_teacher: true }, &weights.under("teacher"), 6)?;
    println!("teacher {teachers:.3}, student {students:.3}");
    Ok([teachers, students])
}

#[allow(dead_code, reason = "the tests call `run`")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    run().map(drop)
}
