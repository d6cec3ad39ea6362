//! Prints a training step as XLA's GPU compiler is given it:
//! `cargo run --release -p octant-stablehlo --example lowered MODEL [SIDE] [BATCH] [f32|bf16] [cudnn|plain]`.

use octant_cuda::{GpuAttention, GpuTarget};
use octant_runtime::Program;
use octant_stablehlo::{LoweringOptions, lower};
use octant_train::Classify;
use octant_train::step::{self, StepOptions, StepPlan};
use std::error::Error;
use std::sync::Arc;

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let word = |index: usize, usual: &str| words.get(index).map_or(usual, String::as_str).to_string();
    let entry = octant_zoo::find(&word(0, "vit_b_16"))?;
    let side: usize = word(1, "224").parse()?;
    let image = [side, side, 3];
    let model = (entry.build)(entry.classes);
    let task = Classify::new(model, image);
    let plan = StepPlan::new(Arc::new(task), word(2, "8").parse()?);
    let precision = if word(3, "bf16") == "bf16" { octant_nn::Precision::Bf16 } else { octant_nn::Precision::F32 };
    let plan = StepPlan { step: StepOptions { precision, ..plan.step }, ..plan };
    let program = step::training(&plan)?.program;
    let fused = word(4, "cudnn") == "cudnn";
    let attention = if fused { GpuAttention::CuDnn { gradient: true } } else { GpuAttention::Plain };
    let target = GpuTarget { kernels: None, fast_products: true, attention };
    let graph = octant_cuda::prepare(&program.graph, &target);
    let options = LoweringOptions { kernels: &octant_cuda::CUDNN_NAMES, ..LoweringOptions::default() };
    println!("{}", lower(&Program { graph, ..program }, &options)?);
    Ok(())
}
