//! Two domains without pairs: the image by index, its counterpart at random, each transformed by itself.

use crate::{DataError, Dataset, Pipeline, Sample, SampleRng, Target, Transform};
use std::sync::Arc;

/// The transform of training samples of two domains.
pub struct Unpaired {
    /// Where counterparts come from: the targets of any sample.
    pub dataset: Arc<dyn Dataset>,
    /// What happens to either image.
    pub pipeline: Pipeline,
}

/// Streams of random numbers, one per thing that happens.
mod stream {
    pub const PARTNER: u64 = 1;
    pub const FIRST: u64 = 2;
    pub const SECOND: u64 = 3;
}

impl Transform for Unpaired {
    fn apply(&self, sample: Sample, rng: &mut SampleRng) -> Result<Sample, DataError> {
        let partner = rng.fork(stream::PARTNER).below(self.dataset.len());
        let Target::Image(other) = self.dataset.get(partner)?.target else {
            return Err(DataError::request("a data set of two domains has images as targets"));
        };
        let alone = |image, stream: u64| {
            let sample = Sample { image, target: Target::Class(0) };
            Ok::<_, DataError>(self.pipeline.apply(sample, &mut rng.fork(stream))?.image)
        };
        let image = alone(sample.image, stream::FIRST)?;
        let other = alone(crate::AnyImage::U8(other), stream::SECOND)?.to_u8();
        Ok(Sample { image, target: Target::Image(other) })
    }
}
