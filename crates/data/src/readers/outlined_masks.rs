//! Masks drawn from outlines: COCO's polygons and runs, and the polygons of Ultralytics' label files, as a class per pixel.
//!
//! Larger objects are drawn first, so that smaller ones lie over them; of equally large ones the later lies over the earlier. COCO's
//! outlines cover the pixels that pycocotools gives them, and those of label files the pixels whose centers lie inside. What no
//! outline covers is background, the class 0, and groups (`iscrowd`) are ignored where no object covers them.

use super::Split;
use super::mask_form::{MOST_CLASSES, MaskRules};
use super::masks_of_folder::holds_masks;
use crate::decode::{DecodeOptions, read_image};
use crate::detection::{self, DetectionSet, LabelRule, LabeledImage};
use crate::{DataError, Dataset, GroundTruthImage, GroundTruthObject, IGNORED};
use crate::{LabelKind, LabelMask, LabeledBox, ObjectDetail, Sample, Target};
use octant_imaging::Image;
use octant_imaging::rle::Rle;
use std::cmp::Reverse;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;

const BACKGROUND: &str = "background";

/// Images with masks that are drawn from the outlines of objects when a sample is read.
pub struct OutlinedMasks {
    set: DetectionSet,
    /// What pixels without an object are, and then those of every class of the outlines.
    labels: Vec<u8>,
    /// The mask marks a single class.
    is_marked: bool,
    classes: Vec<String>,
    options: DecodeOptions,
}

/// Whether masks can be drawn from what is there, and there are none already.
pub fn holds_outlines(path: &Path) -> bool {
    detection::holds_boxes(path) && !holds_masks(path)
}

/// Opens one part of a data set of outlines: a `.yaml` of Ultralytics' form, a COCO `.json`, or a folder with either. A single class
/// is marked, unless `rules` give two, or there are groups to be ignored. The values that `rules` speak of are 0 without an
/// object, and the classes of the data from 1 on; a class that the data calls background is 0 itself.
pub fn open_outlined_masks(
    path: impl AsRef<Path>,
    split: Split,
    rules: &MaskRules,
    options: DecodeOptions,
) -> Result<OutlinedMasks, DataError> {
    let set = detection::open_as(path.as_ref(), split, LabelRule::DropLabel, LabelKind::Outlines)?;
    let (values, names) = numbered(set.class_names());
    let has_groups = set.images().iter().any(|image| groups(image).next().is_some());
    let counted = names.len() - usize::from(rules.from_one);
    let is_marked = match rules.classes {
        Some(1) if names.len() == 2 && has_groups => {
            return Err(DataError::request(
                "groups of objects (`iscrowd`) are ignored, which masks of a single class cannot say; set `classes = 2`",
            ));
        }
        Some(1) => names.len() == 2,
        None => names.len() == 2 && !has_groups,
        Some(_) => false,
    };
    if is_marked && *rules != (MaskRules { classes: rules.classes, ..MaskRules::default() }) {
        return Err(DataError::request(
            "the masks mark a single class, so `data.ignore` and `data.from_one` have no effect; remove them",
        ));
    }
    if let Some(given) = rules.classes.filter(|&given| given != counted && !is_marked) {
        let problem = match rules.from_one {
            true => format!("`classes` is {given}, but the outlines have {counted} classes"),
            false => format!("`classes` is {given}, but the outlines and their background have {counted} classes"),
        };
        return Err(DataError::request(problem));
    }
    if counted > MOST_CLASSES {
        return Err(DataError::request(format!("masks of 8 bits have at most {MOST_CLASSES} classes, not {counted}")));
    }
    let ignore = usize::from(rules.ignore);
    if rules.ignore != IGNORED && ignore >= names.len() {
        let last = names.len() - 1;
        return Err(DataError::request(format!(
            "`data.ignore = {ignore}` is none of the values of the masks, 0 to {last}; remove it"
        )));
    }
    let label = |value: usize| match value.checked_sub(usize::from(rules.from_one)) {
        Some(class) if value != ignore => class as u8,
        _ => IGNORED,
    };
    let labels = std::iter::once(0).chain(values).map(label).collect();
    let classes = names.into_iter().skip(usize::from(rules.from_one)).collect();
    Ok(OutlinedMasks { set, labels, is_marked, classes, options })
}

/// The value of every class, and the names of values: 0 is the background, whether or not the data names it.
fn numbered(classes: &[String]) -> (Vec<usize>, Vec<String>) {
    let named = classes.iter().position(|name| name.eq_ignore_ascii_case(BACKGROUND));
    let mut names = vec![named.map_or(BACKGROUND.to_string(), |at| classes[at].clone())];
    let mut value = |(class, name): (usize, &String)| {
        if Some(class) == named {
            return 0;
        }
        names.push(name.clone());
        names.len() - 1
    };
    let values = classes.iter().enumerate().map(&mut value).collect();
    (values, names)
}

/// Whether an object of COCO's file was not left out for a box without an area.
fn has_area(object: &GroundTruthObject, truth: &GroundTruthImage) -> bool {
    let sides = [truth.width, truth.height].map(|side| side as f64);
    let [x0, y0, x1, y1] = std::array::from_fn(|axis| object.corners[axis].clamp(0.0, sides[axis % 2]));
    x1 > x0 && y1 > y0
}

/// The groups of objects in an image.
fn groups(image: &LabeledImage) -> impl Iterator<Item = &GroundTruthObject> {
    image.ground_truth.iter().flat_map(|truth| &truth.objects).filter(|object| object.crowd)
}

/// The pixels of an object of a label file, which are looked at inside of its box alone.
fn pixels(object: &LabeledBox, [height, width]: [usize; 2]) -> Rle {
    let [x0, y0, x1, y1] = object.corners();
    let within = |low: f32, high: f32, side: usize| {
        let side = side as f32;
        let low = low.floor().clamp(0.0, side) as usize;
        (low, high.ceil().clamp(0.0, side) as usize - low)
    };
    let ((left, columns), (top, rows)) = (within(x0, x1, width), within(y0, y1, height));
    let outline = object.detail.map(|[x, y]| [x - left as f32, y - top as f32]);
    let mask = outline.mask(rows, columns, 1.0);
    let is_on: Vec<bool> = mask.values().iter().map(|&value| value > 0).collect();
    Rle::of_window([height, width], [left, top], columns, &is_on)
}

impl OutlinedMasks {
    /// The images and their outlines.
    pub fn outlines(&self) -> &DetectionSet {
        &self.set
    }

    /// Whether the masks mark a single class.
    pub(crate) fn is_marked(&self) -> bool {
        self.is_marked
    }

    /// What is drawn into an image, in that order: labels with pixels.
    fn drawn(&self, image: &LabeledImage, size: [usize; 2]) -> Result<Vec<(u8, Rle)>, DataError> {
        let label = |class: u32| self.labels[class as usize + 1];
        let mut groups = Vec::new();
        let mut objects: Vec<(u8, Rle)> = Vec::new();
        match &image.ground_truth {
            Some(truth) if [truth.height, truth.width] != size => {
                let problem = format!(
                    "the image is {}×{}, and its outlines are for {}×{}",
                    size[0], size[1], truth.height, truth.width
                );
                return Err(DataError::Mismatch { path: image.path.clone(), problem });
            }
            Some(truth) => {
                for object in &truth.objects {
                    match object.detail.mask(size[0], size[1]) {
                        Some(mask) if object.crowd => groups.push((IGNORED, mask)),
                        Some(mask) if has_area(object, truth) => objects.push((label(object.class), mask)),
                        _ => {}
                    }
                }
            }
            None => {
                let of_labels = image.boxes.iter().map(|object| object.in_pixels(size[0], size[1]));
                objects.extend(of_labels.map(|object| (label(object.class), pixels(&object, size))));
            }
        }
        objects.sort_by_cached_key(|(_, mask)| Reverse(mask.area()));
        groups.extend(objects);
        Ok(groups)
    }
}

impl Dataset for OutlinedMasks {
    fn len(&self) -> usize {
        self.set.len()
    }

    fn get(&self, index: usize) -> Result<Sample, DataError> {
        let labeled = &self.set.images()[index];
        let image = read_image(&labeled.path, &self.options)?;
        let [height, width, _] = image.dims();
        let mut labels = Image::filled(height, width, 1, self.labels[0]);
        for (label, mask) in self.drawn(labeled, [height, width])? {
            // Runs go down the columns.
            for position in mask.spans().flat_map(|[start, end]| start as usize..end as usize) {
                labels.row_mut(position % height)[position / height] = label;
            }
        }
        let mask = if self.is_marked { LabelMask::marked(labels) } else { LabelMask::of_classes(labels) };
        Ok(Sample { image, target: Target::Mask(mask) })
    }

    fn class_names(&self) -> &[String] {
        &self.classes
    }

    fn location(&self, index: usize) -> String {
        self.set.location(index)
    }

    /// The labels that are not drawn, and groups without pixels that can be ignored.
    fn left_out(&self) -> Vec<String> {
        let has_pixels = |group: &GroundTruthObject| group.detail != ObjectDetail::None;
        let lost = self.set.images().iter().filter(|image| !groups(image).all(has_pixels));
        let line = |image: &LabeledImage| format!("{}: a group of objects has no mask", image.path.display());
        self.set.left_out().into_iter().chain(lost.map(line)).collect()
    }

    /// Outlines may change while their image stays.
    fn label_hash(&self, index: usize) -> Option<u64> {
        let mut hash = DefaultHasher::new();
        (self.set.label_hash(index), &self.labels, self.is_marked).hash(&mut hash);
        for group in groups(&self.set.images()[index]) {
            format!("{:?}", group.detail).hash(&mut hash);
        }
        Some(hash.finish())
    }
}
