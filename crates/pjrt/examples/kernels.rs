//! Our kernels for NVIDIA GPUs against the CPU engine:
//! `cargo run --release -p octant-pjrt --example kernels [PLUGIN|auto]`.
//!
//! Every line is a convolution layer with the gradients of both operands. It names the kernels that the program calls and the
//! largest difference relative to the largest value. `octant selftest` makes the same checks beside the conformance suite.

use octant_conformance::layers::{LAYERS, check_magnitudes, check_nan};
use octant_pjrt::discover::{self, PluginKind};
use octant_pjrt::{Client, NamedValues, PjrtBackend, Plugin, environment};
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    environment::prepare();
    let path = match std::env::args().nth(1).filter(|path| path != "auto") {
        Some(path) => path.into(),
        None => discover::plugin(&PluginKind::KNOWN)?.path,
    };
    let device = PjrtBackend::new(Client::new(&Plugin::load(&path)?, &NamedValues::default())?)?;
    let cpu = octant_cpu::CpuBackend::new()?;
    let mut failed = 0;
    let mut report = |is_right: bool, what: String| {
        failed += usize::from(!is_right);
        println!("{}: {what}", if is_right { "ok" } else { "WRONG" });
    };
    for layer in LAYERS {
        let difference = layer.check(&device, &cpu)?;
        let kernels = octant_cuda::called_kernels(&layer.program()?.0.graph);
        let kernels = if kernels.is_empty() { "no kernel of ours".to_string() } else { kernels.join(", ") };
        report(difference.is_right(), format!("{}: {:.1e} by {kernels}", layer.describe(), difference.found));
    }
    let magnitudes = check_magnitudes(&device, &cpu)?;
    report(magnitudes.is_right(), format!("numbers of all sizes: {:.1e}", magnitudes.found));
    let [found, expected] = check_nan(&device)?;
    report(found == expected, format!("NaN spoils {found} results of {expected}"));
    if failed > 0 { Err(format!("{failed} checks failed").into()) } else { Ok(()) }
}
