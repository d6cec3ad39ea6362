//! A model and a training step of your own: `cargo run --release -p octant-vision --example own_step`
use octant::prelude::*;
use std::sync::Arc;

struct Drawings;
impl Task for Drawings {
    fn inputs(&self, batch_size: usize) -> Inputs {
        Inputs::images(batch_size, [28, 28, 1]).labels(10)
    }
    fn predict(&self, cx: &Context, images: &Tensor) -> Tensor {
        let (root, x) = (cx.root(), images.convert(DType::F32) / 255.0);
        let x = Conv2d::new(16, 5).stride(2).apply(&root.at("conv1"), &x).relu();
        let x = Conv2d::new(32, 5).stride(2).apply(&root.at("conv2"), &x).relu();
        Dense::new(10).apply(&root.at("fc"), &x.reshape(&[images.dim(0), 7 * 7 * 32]))
    }
    fn outcome(&self, cx: &Context, batch: &[Tensor]) -> Outcome {
        let losses = loss::cross_entropy(&self.predict(cx, &batch[0]), &batch[1], 0.0);
        Outcome::new(losses.mean_all(), vector(&[losses.sum_all(), losses.full_like(1.0).sum_all()]))
    }
    fn metrics(&self, sums: &[f64], _: bool) -> Vec<Metric> {
        vec![("loss".into(), sums[0] / sums[1].max(1.0))]
    }
}
/// The losses of three epochs. Chance is 2.30.
pub fn run() -> Result<Vec<f64>, Box<dyn std::error::Error>> {
    let backend = device::open("auto", &device::Options::default())?;
    let mut session = Session::new(&backend, &StepPlan::new(Arc::new(Drawings), 32), &CompileOptions::default(), 1)?;
    let loader = Loader::new(Arc::new(Glyphs::new(6400, 1)), Arc::new(()), LoaderConfig::default())?;
    let epoch = |number| {
        session.reset()?;
        loader.epoch(number).try_for_each(|batch| session.train(&batch?, 3e-3))?;
        Ok(session.metrics()?[0].1)
    };
    (0..3).map(epoch).collect()
}
#[allow(dead_code, reason = "the tests call what it prints")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    run().map(|losses| println!("losses: {losses:.3?}"))
}
