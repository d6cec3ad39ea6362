//! Samples that are generated on the fly.

use octant_data::{AnyImage, DataError, Dataset, LabelMask, Sample, SampleRng, Target, synth};
use std::sync::Arc;

struct MadeUp {
    len: usize,
    side: usize,
    seed: u64,
    make: fn(usize, &mut SampleRng) -> Sample,
    names: Vec<String>,
}

impl Dataset for MadeUp {
    fn len(&self) -> usize {
        self.len
    }

    fn get(&self, index: usize) -> Result<Sample, DataError> {
        Ok((self.make)(self.side, &mut SampleRng::new(self.seed, 0, index as u64)))
    }

    fn class_names(&self) -> &[String] {
        &self.names
    }

    fn location(&self, index: usize) -> String {
        format!("sample {index} generated from seed {}", self.seed)
    }
}

fn synthetic(
    (len, side, seed): (usize, usize, u64),
    make: fn(usize, &mut SampleRng) -> Sample,
    names: &[&str],
) -> Arc<dyn Dataset> {
    Arc::new(MadeUp { len, side, seed, make, names: names.iter().map(|name| name.to_string()).collect() })
}

pub(super) fn infrared(len: usize, side: usize, seed: u64) -> Arc<dyn Dataset> {
    let scene = |side: usize, rng: &mut SampleRng| {
        let (image, mask) = synth::infrared(side, rng);
        Sample { image: AnyImage::U8(image), target: Target::Mask(LabelMask::marked(mask)) }
    };
    synthetic((len, side, seed), scene, &["background", "target"])
}

pub(super) fn semantic(len: usize, side: usize, seed: u64) -> Arc<dyn Dataset> {
    let scene = |side: usize, rng: &mut SampleRng| {
        let (image, labels) = synth::semantic(side, rng);
        Sample { image: AnyImage::U8(image), target: Target::Mask(LabelMask::of_classes(labels)) }
    };
    synthetic((len, side, seed), scene, &synth::SEMANTIC_CLASSES)
}

pub(super) fn shapes(len: usize, side: usize, seed: u64) -> Arc<dyn Dataset> {
    let shape = |side: usize, rng: &mut SampleRng| {
        let (image, objects) = synth::shapes(side, 1, rng);
        let class = objects.first().map_or(0, |object| object.class);
        Sample { image: AnyImage::U8(image), target: Target::Class(class) }
    };
    synthetic((len, side, seed), shape, &["disc", "ring", "square", "triangle"])
}

pub(super) fn scenes(len: usize, side: usize, seed: u64) -> Arc<dyn Dataset> {
    let scene = |side: usize, rng: &mut SampleRng| {
        let (image, boxes) = synth::scene(side, rng);
        Sample { image: AnyImage::U8(image), target: Target::Boxes(boxes) }
    };
    synthetic((len, side, seed), scene, &synth::SCENE_CLASSES)
}

pub(super) fn outlines(len: usize, side: usize, seed: u64) -> Arc<dyn Dataset> {
    let pair = |side: usize, rng: &mut SampleRng| {
        let (drawing, painting) = synth::outlines(side, rng);
        Sample { image: AnyImage::U8(drawing), target: Target::Image(painting) }
    };
    synthetic((len, side, seed), pair, &[])
}

pub(super) fn paintings(len: usize, side: usize, seed: u64) -> Arc<dyn Dataset> {
    let painting = |side: usize, rng: &mut SampleRng| {
        let (image, _) = synth::scene(side, rng);
        Sample { image: AnyImage::U8(image.clone()), target: Target::Image(image) }
    };
    synthetic((len, side, seed), painting, &[])
}

pub(super) fn discs(len: usize, side: usize, seed: u64) -> Arc<dyn Dataset> {
    let discs = |side: usize, rng: &mut SampleRng| {
        let (image, [count, _]) = synth::regression(side, rng);
        Sample { image: AnyImage::U8(image), target: Target::Values(vec![count]) }
    };
    synthetic((len, side, seed), discs, &["discs"])
}
