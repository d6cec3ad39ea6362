//! How long one prediction of a tiny network takes: what `bench/peers/python_peer.py predict` is compared with.

use octant_cpu::CpuBackend;
use octant_imaging::Image;
use octant_predict::{Cancel, ModelChoice, Network, PredictOptions, Predictor};
use octant_runtime::Backend;
use std::sync::Arc;
use std::time::Instant;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let device: Arc<dyn Backend> = Arc::new(CpuBackend::with_threads(1)?);
    let network = Network::of_model(octant_zoo::find("resnet-tiny")?, None, &ModelChoice::default())?;
    let predictor = Predictor::new(network, &device, PredictOptions::default())?;
    let image = [Image::from_fn(32, 32, 3, |row, column, channel| (row * 7 + column * 5 + channel * 40) as u8)];
    let mut times = Vec::new();
    for _ in 0..2001 {
        let begun = Instant::now();
        predictor.predict_images(&image, &Cancel::never())?;
        times.push(begun.elapsed().as_secs_f64());
    }
    // The first one compiles.
    let times = &mut times[1..];
    times.sort_by(f64::total_cmp);
    println!("one call: median {:.1} µs (resnet-tiny, one thread of the engine)", times[times.len() / 2] * 1e6);
    Ok(())
}
