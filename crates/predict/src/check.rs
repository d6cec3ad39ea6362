//! Whether a network predicts the same at every batch size: what `octant selftest models` runs on a device.

use crate::error::{Result, refuse};
use crate::programs::{Key, Layer};
use crate::{ModelChoice, Network, PredictOptions, Predictor};
use octant_nn::Precision;
use octant_runtime::Backend;
use octant_tensor::{DType, Shape};
use octant_zoo::ModelEntry;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// One batch size of a network, compared with its predictions one image at a time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BatchCheck {
    /// Images per run.
    pub batch: usize,
    /// The largest difference between a row and the same image alone, as a share of the largest output.
    pub difference: f64,
    /// To compile the program and run it once.
    pub first: Duration,
    /// The shortest run after that, with its transfers.
    pub run: Duration,
}

/// Different images that fill a batch in turn.
const IMAGES: usize = 3;
/// Runs of which the shortest counts.
const RUNS: usize = 3;

impl Predictor {
    /// Predicts the same synthetic images one at a time and `batch` at a time. An output that is not finite is an error.
    pub fn check_batch(&self, batch: usize) -> Result<BatchCheck> {
        if batch == 0 {
            refuse!("a batch has at least one image");
        }
        let [height, width] = match self.image_size() {
            Some(size) => size,
            None => {
                let [height, width, _] = self.network().entry()?.preprocessing.input;
                [height, width]
            }
        };
        let len = height * width * self.channels();
        let run = |batch: usize, first: usize| {
            let input = Shape::new(DType::U8, [batch, height, width, self.channels()]);
            let rows = |bytes: &mut [u8]| {
                let rows = bytes.chunks_exact_mut(len.max(1)).enumerate();
                rows.for_each(|(row, bytes)| synthetic((first + row) % IMAGES, bytes));
            };
            self.run_key(&Key { layer: Layer::Prediction, input }, rows).map(|output| output.to_f64s())
        };
        let begun = Instant::now();
        let together = run(batch, 0)?;
        let (first, mut shortest) = (begun.elapsed(), Duration::MAX);
        for _ in 0..RUNS {
            let begun = Instant::now();
            run(batch, 0)?;
            shortest = shortest.min(begun.elapsed());
        }
        let alone = (0..IMAGES.min(batch)).map(|image| run(1, image)).collect::<Result<Vec<_>>>()?;
        if together.iter().chain(alone.iter().flatten()).any(|value| !value.is_finite()) {
            refuse!("an output is not finite");
        }
        let largest = alone.iter().flatten().fold(0.0_f64, |most, value| most.max(value.abs()));
        let rows = together.chunks_exact((together.len() / batch).max(1));
        let differences = rows.enumerate().flat_map(|(row, values)| {
            values.iter().zip(&alone[row % IMAGES]).map(|(together, alone)| (together - alone).abs())
        });
        let difference = differences.fold(0.0, f64::max) / largest.max(f64::MIN_POSITIVE);
        Ok(BatchCheck { batch, difference, first, run: shortest })
    }
}

/// Differences between a row of a batch and the same image alone, as a share of the largest output: sums in another order, rounded
/// to 8 bits layer by layer, or to 11 where products of f32 are fast. A row of another image is about 1 away.
const ALLOWED: [(Precision, f64); 2] = [(Precision::Bf16, 0.15), (Precision::F32, 1e-2)];

/// Checks a model with random weights at several batch sizes; what is wrong is a sentence. `observer` sees what was measured.
pub fn check_model(
    entry: &'static ModelEntry,
    backend: &Arc<dyn Backend>,
    precision: Precision,
    batches: &[usize],
    observer: &mut dyn FnMut(BatchCheck),
) -> Vec<Result<(), String>> {
    let choice = ModelChoice { precision, ..ModelChoice::default() };
    let allowed = ALLOWED.iter().find(|(known, _)| *known == precision).map_or(1e-2, |(_, allowed)| *allowed);
    let network = Network::of_model(entry, None, &choice);
    let predictor = network.and_then(|network| Predictor::new(network, backend, PredictOptions::default()));
    let mut check = |&batch: &usize| -> Result<(), String> {
        let predictor = predictor.as_ref().map_err(ToString::to_string)?;
        let check = predictor.check_batch(batch).map_err(|error| error.to_string())?;
        observer(check);
        match check.difference > allowed {
            true => Err(format!("{:.1e} away from one image at a time, {allowed:.1e} is allowed", check.difference)),
            false => Ok(()),
        }
    };
    batches.iter().map(&mut check).collect()
}

/// Pixels of an image that has edges and noise.
fn synthetic(image: usize, pixels: &mut [u8]) {
    let mut state = 0x9e37_79b9_u32.wrapping_mul(image as u32 + 1);
    for (index, pixel) in pixels.iter_mut().enumerate() {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        *pixel = ((state >> 26) as u8).wrapping_add(((index >> (6 + image)) & 3) as u8 * 48);
    }
}
