//! Samples that are generated on the fly.

use octant_data::{
    AnyImage, DataError, Dataset, GroundTruthImage, KeypointLayout, LabelKind, LabelMask, LabeledBox, Sample,
    SampleRng, Target, synth,
};
use octant_imaging::Image;
use std::sync::Arc;

struct MadeUp {
    len: usize,
    side: usize,
    seed: u64,
    make: fn(usize, &mut SampleRng) -> Sample,
    names: Vec<String>,
    /// What is known of objects, where there are any.
    kind: LabelKind,
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

    fn label_kind(&self) -> LabelKind {
        self.kind
    }

    fn keypoints(&self) -> Option<KeypointLayout> {
        (self.kind == LabelKind::Keypoints).then(synth::figure_keypoints)
    }

    fn ground_truth(&self, index: usize) -> Option<Arc<GroundTruthImage>> {
        match self.get(index).ok()? {
            // Boxes are evaluated as they are.
            Sample { target: Target::Boxes(boxes), .. } if self.kind != LabelKind::Boxes => {
                Some(Arc::new(GroundTruthImage::of_labels(&boxes, self.side, self.side)))
            }
            _ => None,
        }
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
    let names = names.iter().map(|name| name.to_string()).collect();
    Arc::new(MadeUp { len, side, seed, make, names, kind: LabelKind::Boxes })
}

/// Images with objects of which labels say more than their boxes.
fn objects(
    (len, side, seed): (usize, usize, u64),
    make: fn(usize, &mut SampleRng) -> Sample,
    names: &[&str],
    kind: LabelKind,
) -> Arc<dyn Dataset> {
    let names = names.iter().map(|name| name.to_string()).collect();
    Arc::new(MadeUp { len, side, seed, make, names, kind })
}

fn with_boxes((image, boxes): (Image<u8>, Vec<LabeledBox>)) -> Sample {
    Sample { image: AnyImage::U8(image), target: Target::Boxes(boxes) }
}

pub(super) fn instances(len: usize, side: usize, seed: u64) -> Arc<dyn Dataset> {
    let make = |side: usize, rng: &mut SampleRng| with_boxes(synth::instances(side, rng));
    objects((len, side, seed), make, &synth::SCENE_CLASSES, LabelKind::Outlines)
}

pub(super) fn figures(len: usize, side: usize, seed: u64) -> Arc<dyn Dataset> {
    let make = |side: usize, rng: &mut SampleRng| with_boxes(synth::figures(side, rng));
    objects((len, side, seed), make, &synth::FIGURE_CLASSES, LabelKind::Keypoints)
}

pub(super) fn vehicles(len: usize, side: usize, seed: u64) -> Arc<dyn Dataset> {
    let make = |side: usize, rng: &mut SampleRng| with_boxes(synth::vehicles(side, rng));
    objects((len, side, seed), make, &synth::VEHICLE_CLASSES, LabelKind::Corners)
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

pub(super) fn shape_sets(len: usize, side: usize, seed: u64) -> Arc<dyn Dataset> {
    let shapes = |side: usize, rng: &mut SampleRng| {
        let count = (rng.bits() % 4) as usize;
        let (image, objects) = synth::shapes(side, count, rng);
        let labels = (0..4).map(|class| objects.iter().any(|object| object.class == class)).collect();
        Sample { image: AnyImage::U8(image), target: Target::Labels(labels) }
    };
    synthetic((len, side, seed), shapes, &["disc", "ring", "square", "triangle"])
}

pub(super) fn scenes(len: usize, side: usize, seed: u64) -> Arc<dyn Dataset> {
    let scene = |side: usize, rng: &mut SampleRng| {
        let (image, boxes) = synth::scene(side, rng);
        Sample { image: AnyImage::U8(image), target: Target::Boxes(boxes) }
    };
    synthetic((len, side, seed), scene, &synth::SCENE_CLASSES)
}

pub(super) fn moving(len: usize, side: usize, seed: u64) -> Arc<dyn Dataset> {
    let frame = |side: usize, rng: &mut SampleRng| {
        // Any frame of a scene that this sample alone has.
        let frame = rng.below(600);
        let (image, shapes) = synth::moving(side, frame, rng);
        let seen = shapes.into_iter().filter(|shape| shape.visibility >= synth::SEEN);
        Sample { image: AnyImage::U8(image), target: Target::Boxes(seen.map(|shape| shape.place).collect()) }
    };
    synthetic((len, side, seed), frame, &synth::SCENE_CLASSES)
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
