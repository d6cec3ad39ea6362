//! A model and a task of your own: a network that predicts the missing middle of an image from its edges.
//!
//!     cargo run --release -p octant-train --example own_task

use octant_cpu::CpuBackend;
use octant_data::{Glyphs, Loader, LoaderConfig};
use octant_graph::{DType, HostTensor, Tensor};
use octant_metrics::vector;
use octant_nn::layers::Conv2d;
use octant_nn::{Context, loss};
use octant_runtime::{Backend, CompileOptions};
use octant_train::step::StepPlan;
use octant_train::{Inputs, Metric, Outcome, Session, Task};
use std::sync::Arc;

/// The model: an ordinary function. Variables are declared where they are used.
fn inpaint(cx: &Context, images: &Tensor) -> Tensor {
    let root = cx.root();
    let features = Conv2d::new(16, 5).apply(&root.at("see"), images).relu();
    let features = Conv2d::new(16, 5).apply(&root.at("think"), &features).relu();
    Conv2d::new(1, 5).apply(&root.at("paint"), &features)
}

/// The task: hide the middle, paint it again, compare.
struct Inpaint;

impl Inpaint {
    /// 1 in the middle third, 0 around it.
    fn hole(images: &Tensor) -> Tensor {
        let hidden = |row: usize, column: usize| (10..18).contains(&row) && (10..18).contains(&column);
        let values: Vec<f32> = (0..28 * 28).map(|position| hidden(position / 28, position % 28) as u8 as f32).collect();
        images.trace().constant(HostTensor::new([1, 28, 28, 1], &values).expect("784 values"))
    }
}

impl Task for Inpaint {
    fn inputs(&self, batch_size: usize) -> Inputs {
        Inputs::images(batch_size, [28, 28, 1])
    }

    fn outcome(&self, cx: &Context, batch: &[Tensor]) -> Outcome {
        let images = batch[0].convert(DType::F32) / 255.0;
        let hole = Inpaint::hole(&images);
        let painted = self.predict(cx, &batch[0]);
        let losses = loss::squared_error(&(&painted * &hole), &(&images * &hole));
        let sums = vector(&[losses.sum_all(), losses.full_like(1.0).sum_all()]);
        Outcome::new(losses.mean_all(), sums)
    }

    fn metrics(&self, sums: &[f64], _: bool) -> Vec<Metric> {
        vec![("loss".into(), sums[0] / sums[1].max(1.0))]
    }

    fn predict(&self, cx: &Context, images: &Tensor) -> Tensor {
        let images = images.convert(DType::F32) / 255.0;
        let hole = Inpaint::hole(&images);
        inpaint(cx, &(&images * (1.0 - hole)))
    }
}

/// Three short epochs; the loss of each.
pub fn train() -> Result<Vec<f64>, Box<dyn std::error::Error>> {
    let backend = CpuBackend::new()?.shared();
    let plan = StepPlan::new(Arc::new(Inpaint), 32);
    let mut session = Session::new(&backend, &plan, &CompileOptions::default(), 1)?;
    let config = LoaderConfig { batch_size: 32, ..LoaderConfig::default() };
    let loader = Loader::new(Arc::new(Glyphs::new(640, 1)), Arc::new(()), config)?;
    let mut losses = Vec::new();
    for epoch in 0..3 {
        session.reset()?;
        for batch in loader.epoch(epoch) {
            session.train(&batch?, 2e-3)?;
        }
        losses.push(session.metrics()?[0].1);
    }
    Ok(losses)
}

#[allow(dead_code, reason = "the tests call `train`")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    train()?.iter().enumerate().for_each(|(epoch, loss)| println!("epoch {epoch}: loss {loss:.5}"));
    Ok(())
}
