//! Two networks and two optimizers in one step: `cargo run --release -p octant-vision --example gan`
use octant::nn::loss::GanLoss::Hinge;
use octant::nn::optimizer::Adam;
use octant::prelude::*;
use std::sync::Arc;
/// The task.
pub struct Gan;
/// The model: noise to drawings.
fn generator(cx: &Context, noise: &Tensor) -> Tensor {
    let (root, batch) = (cx.root(), noise.dim(0));
    let x = Dense::new(7 * 7 * 32).apply(&root.at("fc"), noise).relu().reshape(&[batch, 7, 7, 32]);
    let x = ConvTranspose2d::new(16, 2).kernel(4).padding(1).apply(&root.at("up1"), &x).relu();
    ConvTranspose2d::new(1, 2).kernel(4).padding(1).apply(&root.at("up2"), &x).tanh()
}

/// Its companion, which only training needs: drawings to one logit each.
fn discriminator(cx: &Context, images: &Tensor) -> Tensor {
    let scope = cx.companion("critic");
    let x = Conv2d::new(16, 5).stride(2).apply(&scope.at("conv1"), images).leaky_relu(0.2);
    let x = Conv2d::new(32, 5).stride(2).apply(&scope.at("conv2"), &x).leaky_relu(0.2);
    Dense::new(1).apply(&scope.at("fc"), &x.mean(&[1, 2]))
}

impl Task for Gan {
    fn inputs(&self, batch_size: usize) -> Inputs {
        Inputs::images(batch_size, [28, 28, 1])
    }
    fn predict(&self, cx: &Context, images: &Tensor) -> Tensor {
        generator(cx, &images.convert(DType::F32).reshape(&[images.dim(0), 784]).slice_axis(1, 384, 400))
    }
    fn outcome(&self, cx: &Context, batch: &[Tensor]) -> Outcome {
        let real = batch[0].convert(DType::F32) / 127.5 - 1.0;
        let key = cx.root().at("noise").random_key();
        let made =
            key.map_or_else(|| self.predict(cx, &batch[0]), |key| generator(cx, &key.normal(&[real.dim(0), 16])));
        let fake_loss = Hinge.discriminator_loss(&discriminator(cx, &made.stop_gradient()), false);
        let critic_loss = fake_loss + Hinge.discriminator_loss(&discriminator(cx, &real), true);
        let optimizer = Optimizer::Adam(Adam { betas: [0.5, 0.999], ..Adam::default() });
        let critic = Objective::of("critic", critic_loss.mean_all());
        // The critic moves first and twice as fast; what follows is scored by the updated critic.
        cx.minimize(&[Objective { optimizer: Some(optimizer), rate_scale: 2.0, ..critic }]);
        let generator_loss = Hinge.generator_loss(&discriminator(cx, &made));
        let sums = [generator_loss.sum_all(), critic_loss.sum_all(), generator_loss.full_like(1.0).sum_all()];
        Outcome::new(generator_loss.mean_all(), vector(&sums))
    }
    fn metrics(&self, sums: &[f64], _: bool) -> Vec<Metric> {
        vec![("loss".into(), sums[0] / sums[2].max(1.0)), ("critic_loss".into(), sums[1] / sums[2].max(1.0))]
    }
}

/// A short epoch.
pub fn main() -> Result<(), Box<dyn std::error::Error>> {
    let backend = device::open("auto", &device::Options::default())?;
    let mut session = Session::new(&backend, &StepPlan::new(Arc::new(Gan), 32), &CompileOptions::default(), 1)?;
    let loader = Loader::new(Arc::new(Glyphs::new(640, 1)), Arc::new(()), LoaderConfig::default())?;
    loader.epoch(0).try_for_each(|batch| session.train(&batch?, 1e-3))?;
    println!("{:?}", session.metrics()?);
    Ok(())
}
