//! Whether a network predicts the same at every batch size: what `octant selftest models` runs on a device.

use crate::error::{Result, refuse};
use crate::predictor::Predictor;
use crate::programs::{Key, Layer};
use octant_tensor::{DType, Shape};
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

/// Pixels of an image that has edges and noise.
fn synthetic(image: usize, pixels: &mut [u8]) {
    let mut state = 0x9e37_79b9_u32.wrapping_mul(image as u32 + 1);
    for (index, pixel) in pixels.iter_mut().enumerate() {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        *pixel = ((state >> 26) as u8).wrapping_add(((index >> (6 + image)) & 3) as u8 * 48);
    }
}
