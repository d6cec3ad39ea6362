//! Transforms of samples before batching: a list of steps that a recipe can name.
//!
//! Steps that move pixels move masks and boxes with them. Every step has its own random stream, so that a
//! step added or removed does not change what the others do.

mod automatic;
mod color;
mod crops;
mod degrade;
mod joint;
mod placed;
mod presets;
mod ranges;
mod scaled;
mod step;

use crate::{AnyImage, DataError, Dataset, Sample, SampleRng, Transform};
pub use placed::Placed;
use serde::{Deserialize, Serialize};
use step::StepGroup;
pub use step::{Eraser, Policy, STEPS, StepEntry, TransformStep};

/// A list of steps, applied in order.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Pipeline {
    /// The steps.
    pub steps: Vec<TransformStep>,
}

impl Pipeline {
    /// A pipeline of these steps.
    pub fn new(steps: impl Into<Vec<TransformStep>>) -> Pipeline {
        Pipeline { steps: steps.into() }
    }
}

impl Pipeline {
    /// Applies the steps from this one on.
    fn apply_from(&self, first: usize, mut sample: Sample, rng: &SampleRng) -> Result<Sample, DataError> {
        for (number, step) in self.steps.iter().enumerate().skip(first) {
            step.apply(&mut sample, &mut rng.fork(number as u64)).map_err(DataError::Request)?;
        }
        Ok(sample)
    }
}

impl Transform for Pipeline {
    fn apply(&self, sample: Sample, rng: &mut SampleRng) -> Result<Sample, DataError> {
        self.apply_from(0, sample, rng)
    }

    /// Where the first step cuts a window out of the image, only that is decoded, if the data set can do so.
    fn prepare(&self, dataset: &dyn Dataset, index: usize, rng: &mut SampleRng) -> Result<Sample, DataError> {
        if let Some(first) = self.steps.first().filter(|step| step.begins_with_window()) {
            first.check().map_err(DataError::Request)?;
            let mut stream = rng.fork(0);
            if let Some(sample) = dataset.window(index, &mut |height, width| first.window(height, width, &mut stream)) {
                let mut sample = sample?;
                first.finish_window(&mut sample).map_err(DataError::Request)?;
                return self.apply_from(1, sample, rng);
            }
        }
        self.apply(dataset.get(index)?, rng)
    }
}

impl TransformStep {
    /// Applies the step. The error is a sentence.
    pub fn apply(&self, sample: &mut Sample, rng: &mut SampleRng) -> Result<(), String> {
        self.check()?;
        match self.group() {
            StepGroup::Geometry => crops::apply(self, sample, rng),
            StepGroup::Color => color::apply(self, eight_bit(sample)?, rng),
            StepGroup::Degradation => degrade::apply(self, sample, rng),
            StepGroup::Automatic => automatic::apply(self, sample, rng),
            StepGroup::Conversion => {
                let empty = AnyImage::U8(octant_imaging::Image::filled(1, 1, 1, 0));
                sample.image = AnyImage::U8(std::mem::replace(&mut sample.image, empty).to_u8());
                Ok(())
            }
        }
    }
}

/// The image of a sample, which the step needs in 8 bits.
fn eight_bit(sample: &mut Sample) -> Result<&mut octant_imaging::Image<u8>, String> {
    match &mut sample.image {
        AnyImage::U8(image) => Ok(image),
        other => Err(format!("a step needs 8-bit images, but this one is {}; put to-u8 before it", other.dtype())),
    }
}
