//! What a data set is: numbered samples, each an image with a target.

use crate::decode::ChooseWindow;
use crate::{DataError, Detail, KeypointLayout, LabelKind, SampleRng};
use octant_imaging::Image;
use octant_imaging::geometry::PixelWindow;
use octant_imaging::polygon::RotatedRectangle;
use octant_imaging::rle::Rle;
use octant_tensor::DType;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// A decoded image in the precision it was stored with.
#[derive(Debug, Clone, PartialEq)]
pub enum AnyImage {
    /// 8 bits per channel: nearly every image.
    U8(Image<u8>),
    /// 16 bits per channel: infrared and medical images.
    U16(Image<u16>),
    /// Floats, usually in 0–1.
    F32(Image<f32>),
}

impl AnyImage {
    /// Height, width and channels.
    pub fn dims(&self) -> [usize; 3] {
        match self {
            AnyImage::U8(image) => image.dims(),
            AnyImage::U16(image) => image.dims(),
            AnyImage::F32(image) => image.dims(),
        }
    }

    /// The element type of its channels.
    pub fn dtype(&self) -> DType {
        match self {
            AnyImage::U8(_) => DType::U8,
            AnyImage::U16(_) => DType::U16,
            AnyImage::F32(_) => DType::F32,
        }
    }

    /// The values in HWC order as raw bytes.
    pub fn bytes(&self) -> &[u8] {
        match self {
            AnyImage::U8(image) => image.values(),
            AnyImage::U16(image) => bytemuck::cast_slice(image.values()),
            AnyImage::F32(image) => bytemuck::cast_slice(image.values()),
        }
    }

    /// This image with 8 bits per channel: 16-bit values keep their high byte, floats in 0–1 are scaled.
    pub fn to_u8(self) -> Image<u8> {
        match self {
            AnyImage::U8(image) => image,
            AnyImage::U16(image) => image.map(|value| (value >> 8) as u8),
            AnyImage::F32(image) => image.map(|value| (value * 255.0).round_ties_even() as u8),
        }
    }
}

/// One object in an image: its class, its corners in pixels, and what else is known of it.
#[derive(Debug, Clone, PartialEq)]
pub struct LabeledBox {
    /// The number of the class.
    pub class: u32,
    /// Left edge.
    pub x0: f32,
    /// Upper edge.
    pub y0: f32,
    /// Right edge, exclusive.
    pub x1: f32,
    /// Lower edge, exclusive.
    pub y1: f32,
    /// What else is known of it.
    pub detail: Detail,
}

/// What an evaluation compares beside boxes, in pixels of the file.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum ObjectDetail {
    /// Nothing.
    #[default]
    None,
    /// Polygons of x, y, x, y …, whose union is the object's mask as COCO makes it.
    Polygons(Vec<Vec<f64>>),
    /// A mask.
    Mask(Rle),
    /// Column, row and visibility (0, 1 or 2) of every keypoint.
    Keypoints(Vec<[f64; 3]>),
    /// A rotated box.
    Rotated(RotatedRectangle),
}

impl ObjectDetail {
    /// The mask of an outline in an image of that size.
    pub fn mask(&self, height: usize, width: usize) -> Option<Rle> {
        match self {
            ObjectDetail::Polygons(polygons) => {
                let masks: Vec<Rle> = polygons.iter().map(|polygon| Rle::of_polygon(polygon, height, width)).collect();
                Some(if masks.is_empty() { Rle::of(height, width, |_, _| false) } else { Rle::union(&masks) })
            }
            ObjectDetail::Mask(mask) => Some(mask.clone()),
            ObjectDetail::None | ObjectDetail::Keypoints(_) | ObjectDetail::Rotated(_) => None,
        }
    }
}

/// An object as the data set's own evaluation counts it.
#[derive(Debug, Clone, PartialEq)]
pub struct GroundTruthObject {
    /// The number of the class.
    pub class: u32,
    /// Left, top, right, bottom in pixels of the file.
    pub corners: [f64; 4],
    /// What decides whether it is small or large, in pixels of the file: usually the area of its outline.
    pub area: f64,
    /// A group of objects: predictions inside of it are neither right nor wrong.
    pub crowd: bool,
    /// What else is compared.
    pub detail: ObjectDetail,
}

/// The objects of an image as the data set's own evaluation counts them; groups, which nothing is learned from, are among
/// them.
#[derive(Debug, Clone, PartialEq)]
pub struct GroundTruthImage {
    /// The height of the file's image in pixels.
    pub height: usize,
    /// Its width.
    pub width: usize,
    /// The objects.
    pub objects: Vec<GroundTruthObject>,
}

impl GroundTruthImage {
    /// The objects of an image of that size from its labels, in its pixels.
    pub fn of_labels(objects: &[LabeledBox], height: usize, width: usize) -> GroundTruthImage {
        let object = |object: &LabeledBox| {
            let corners = object.corners().map(f64::from);
            let (detail, area) = match &object.detail {
                Detail::None => (ObjectDetail::None, None),
                Detail::Outline(_) => {
                    let mask = object.detail.mask(height, width, 1.0);
                    let mask = Rle::of(height, width, |row, column| mask.pixel(row, column)[0] > 0);
                    let area = mask.area() as f64;
                    (ObjectDetail::Mask(mask), Some(area))
                }
                Detail::Keypoints(points) => {
                    let point = |point: &crate::Keypoint| {
                        [f64::from(point.at[0]), f64::from(point.at[1]), f64::from(point.visibility)]
                    };
                    (ObjectDetail::Keypoints(points.iter().map(point).collect()), None)
                }
                Detail::Corners(_) => match object.detail.rectangle() {
                    Some(rectangle) => (ObjectDetail::Rotated(rectangle), Some(rectangle.area())),
                    None => (ObjectDetail::None, None),
                },
            };
            let area = area.unwrap_or((corners[2] - corners[0]) * (corners[3] - corners[1]));
            GroundTruthObject { class: object.class, corners, area, crowd: false, detail }
        };
        GroundTruthImage { height, width, objects: objects.iter().map(object).collect() }
    }
}

/// The label of pixels that no loss and no metric counts.
pub const IGNORED: u8 = 255;

/// One label per pixel of an image: 1 where a single class is marked and 0 elsewhere, or the numbers of several classes.
#[derive(Debug, Clone, PartialEq)]
pub struct LabelMask {
    /// An image of one channel.
    pub labels: Image<u8>,
    /// The label of pixels that a transform adds around the image.
    pub outside: u8,
}

impl LabelMask {
    /// A mask of a single class: 0 and 1. Nothing is marked around the image.
    pub fn marked(labels: Image<u8>) -> LabelMask {
        LabelMask { labels, outside: 0 }
    }

    /// A mask of class numbers and [`IGNORED`], which pixels around the image get too.
    pub fn of_classes(labels: Image<u8>) -> LabelMask {
        LabelMask { labels, outside: IGNORED }
    }

    /// Whether it marks a single class.
    pub fn is_of_one_class(&self) -> bool {
        self.outside != IGNORED
    }

    /// How many pixels each class has, by its number. Pixels that are ignored are left out.
    pub fn counts(&self) -> BTreeMap<u32, usize> {
        let mut counts = [0; 256];
        self.labels.values().iter().for_each(|&label| counts[usize::from(label)] += 1);
        let is_counted = |(label, count): &(u32, usize)| *count > 0 && (*label != u32::from(IGNORED));
        (0..).zip(counts).filter(is_counted).collect()
    }

    /// The largest share that a class has of the labeled pixels of a window; all of them where none is labeled.
    pub(crate) fn largest_share(&self, window: PixelWindow) -> f64 {
        let mut counts = [0usize; 256];
        for row in window.top..window.top + window.height {
            let labels = &self.labels.row(row)[window.left..][..window.width];
            labels.iter().for_each(|&label| counts[usize::from(label)] += 1);
        }
        counts[usize::from(IGNORED)] = 0;
        let (most, all) = (counts.iter().max().copied().unwrap_or(0), counts.iter().sum::<usize>());
        if all == 0 { 1.0 } else { most as f64 / all as f64 }
    }

    /// 1 where a class other than the first is marked: objects, as opposed to their background.
    pub fn objects(&self) -> Image<u8> {
        self.labels.map(|label| u8::from(label != 0 && label != IGNORED))
    }
}

/// What is to be predicted about an image.
#[derive(Debug, Clone, PartialEq)]
pub enum Target {
    /// The number of its class.
    Class(u32),
    /// One label per pixel, of the image's size.
    Mask(LabelMask),
    /// Whether it has each of the labels, of which it may have any number.
    Labels(Vec<bool>),
    /// Numbers to regress.
    Values(Vec<f32>),
    /// The objects in it.
    Boxes(Vec<LabeledBox>),
    /// Another image: what this one should become, or one of the other domain. It moves with the image.
    Image(Image<u8>),
}

impl Target {
    /// The classes of an image as a whole, by their numbers: one, or those of its labels. Other targets have none.
    pub fn classes(&self) -> Vec<u32> {
        match self {
            Target::Class(class) => vec![*class],
            Target::Labels(labels) => (0..).zip(labels).filter(|(_, has)| **has).map(|(label, _)| label).collect(),
            Target::Mask(_) | Target::Values(_) | Target::Boxes(_) | Target::Image(_) => Vec::new(),
        }
    }
}

/// An image and what is to be predicted about it.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// The image.
    pub image: AnyImage,
    /// What is to be predicted.
    pub target: Target,
}

/// A set of samples that can be read in any order, from several threads at once.
pub trait Dataset: Send + Sync {
    /// How many samples there are.
    fn len(&self) -> usize;

    /// True when there is nothing to train on.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The sample of that number, read and decoded now.
    fn get(&self, index: usize) -> Result<Sample, DataError>;

    /// A part of a sample's image, which `choose` names once by the image's height and width, with the sample's target, which
    /// does not move with pixels. Nothing from data sets that can read no part for less than the whole.
    fn window(&self, index: usize, choose: &mut ChooseWindow) -> Option<Result<Sample, DataError>> {
        let _ = (index, choose);
        None
    }

    /// The first sample that can be read, which shows what samples look like. A damaged file at the beginning must not end
    /// a run that leaves such files out; the error is the first one where hundreds of samples cannot be read.
    fn first(&self) -> Result<Sample, DataError> {
        const TRIED: usize = 256;
        self.get(0).or_else(|error| (1..self.len().min(TRIED)).find_map(|index| self.get(index).ok()).ok_or(error))
    }

    /// The data set that a sample comes from and its number there, for one that reads or chooses samples of another: what it
    /// does not know of a sample itself is looked up there.
    fn source(&self, index: usize) -> Option<(&dyn Dataset, usize)> {
        let _ = index;
        None
    }

    /// What is predicted, by number: the names of classes, or of the columns of values; empty when they have none.
    fn class_names(&self) -> &[String] {
        &[]
    }

    /// What labels say of every object, for data sets of boxes.
    fn label_kind(&self) -> LabelKind {
        let first = if self.is_empty() { None } else { self.source(0) };
        first.map(|(set, _)| set.label_kind()).unwrap_or_default()
    }

    /// The keypoints that every object has, where objects have any.
    fn keypoints(&self) -> Option<KeypointLayout> {
        let first = if self.is_empty() { None } else { self.source(0) };
        first.and_then(|(set, _)| set.keypoints())
    }

    /// The classes of a sample as a whole, as [`Target::classes`] has them. The sample is read where they are not known otherwise.
    fn classes_of(&self, index: usize) -> Result<Vec<u32>, DataError> {
        match self.source(index) {
            Some((set, index)) => set.classes_of(index),
            None => Ok(self.get(index)?.target.classes()),
        }
    }

    /// How many boxes a sample has, where that is known without reading it.
    fn box_count(&self, index: usize) -> Option<usize> {
        let (set, index) = self.source(index)?;
        set.box_count(index)
    }

    /// The objects of a sample as the data set's own evaluation counts them, where it has rules of its own (COCO).
    fn ground_truth(&self, index: usize) -> Option<Arc<GroundTruthImage>> {
        let (set, index) = self.source(index)?;
        set.ground_truth(index)
    }

    /// The number that a COCO annotation file knows a sample by.
    fn coco_id(&self, index: usize) -> Option<u64> {
        let (set, index) = self.source(index)?;
        set.coco_id(index)
    }

    /// The numbers and names of categories in a COCO annotation file; empty for other data.
    fn coco_categories(&self) -> Vec<(u64, String)> {
        let first = if self.is_empty() { None } else { self.source(0) };
        first.map(|(set, _)| set.coco_categories()).unwrap_or_default()
    }

    /// A number that changes with the sample's labels, where they lie in another file than its image: what was kept of a
    /// sample is only good as long as they are the same.
    fn label_hash(&self, index: usize) -> Option<u64> {
        let (set, index) = self.source(index)?;
        set.label_hash(index)
    }

    /// Labels and files that are left out, each with the reason, as a line.
    fn left_out(&self) -> Vec<String> {
        Vec::new()
    }

    /// The path of a sample's file within its data set, by which samples are held out. What is packed keeps it, so that
    /// it is split as the files are.
    fn path(&self, index: usize) -> String {
        self.source(index).map_or_else(|| self.location(index), |(set, index)| set.path(index))
    }

    /// The archive that a sample is read from, where many lie in one file.
    fn archive(&self, index: usize) -> Option<&Path> {
        let (set, index) = self.source(index)?;
        set.archive(index)
    }

    /// Where a sample comes from, for messages: usually its path.
    fn location(&self, index: usize) -> String {
        self.source(index).map_or_else(|| format!("number {index}"), |(set, index)| set.location(index))
    }
}

/// A transform of a sample before it is batched. All randomness comes from `rng`, so that a sample looks the
/// same on every worker.
pub trait Transform: Send + Sync {
    /// The transformed sample.
    fn apply(&self, sample: Sample, rng: &mut SampleRng) -> Result<Sample, DataError>;

    /// The transformed sample of that number. A transform that keeps samples for others need not read it again.
    fn prepare(&self, dataset: &dyn Dataset, index: usize, rng: &mut SampleRng) -> Result<Sample, DataError> {
        self.apply(dataset.get(index)?, rng)
    }
}

/// Leaves samples as they are.
impl Transform for () {
    fn apply(&self, sample: Sample, _rng: &mut SampleRng) -> Result<Sample, DataError> {
        Ok(sample)
    }
}
