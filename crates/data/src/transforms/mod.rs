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
mod step;
mod step_list;

use crate::{AnyImage, DataError, Dataset, Sample, SampleRng, Transform};
use octant_imaging::resize::Method;
use octant_imaging::{Filter, Semantics};
pub use placed::Placed;
use serde::{Deserialize, Serialize};
use step::StepGroup;
pub use step::{Eraser, Policy, TransformStep};
pub use step_list::{STEPS, StepEntry};

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

    /// Steps that make an image of this size `factor` times as large as these do. Sizes that steps name are rounded to multiples
    /// of `multiple`; where no step names one, the image is resized first. A factor of 1 changes nothing.
    pub fn scaled(&self, factor: f64, multiple: usize, [height, width]: [usize; 2]) -> Pipeline {
        if factor == 1.0 {
            return self.clone();
        }
        let side = |side: usize| {
            let units = side as f64 * factor / multiple.max(1) as f64;
            units.round().max(1.0) as usize * multiple.max(1)
        };
        let mut named = false;
        let mut scaled = self.clone();
        for step in &mut scaled.steps {
            match step {
                TransformStep::Resize { size, .. }
                | TransformStep::ResizeWithPad { size, .. }
                | TransformStep::CenterCrop { size } => *size = (side(size.0), side(size.1)),
                TransformStep::ResizeShort { side: length, .. }
                | TransformStep::ResizeLong { side: length, .. }
                | TransformStep::Letterbox { side: length } => *length = side(*length),
                _ => continue,
            }
            named = true;
        }
        if !named {
            let method = Method::new(Filter::Bilinear, Semantics::Pil);
            scaled.steps.insert(0, TransformStep::Resize { size: (side(height), side(width)), method });
        }
        scaled
    }

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_are_larger_and_smaller_by_the_factor() {
        let made = |steps: &str, factor, multiple| {
            let pipeline: Pipeline = serde_json::from_str(steps).unwrap();
            serde_json::to_string(&pipeline.scaled(factor, multiple, [40, 70])).unwrap()
        };
        let fixed = r#"[{"op":"resize-short","side":256},{"op":"center-crop","size":[224,192]},{"op":"to-u8"}]"#;
        assert!(made(fixed, 0.75, 32).contains(r#""side":192"#), "{}", made(fixed, 0.75, 32));
        assert!(made(fixed, 0.75, 32).contains(r#""size":[160,160]"#), "{}", made(fixed, 0.75, 32));
        assert!(made(fixed, 1.25, 1).contains(r#""size":[280,240]"#), "{}", made(fixed, 1.25, 1));
        assert!(made(r#"[{"op":"to-u8"}]"#, 0.5, 16).starts_with(r#"[{"op":"resize","size":[16,32]"#));
        assert!(made(fixed, 0.01, 32).contains(r#""size":[32,32]"#), "no side vanishes");
        let same: Pipeline = serde_json::from_str(fixed).unwrap();
        assert_eq!(same.scaled(1.0, 32, [40, 70]), same);
    }
}
