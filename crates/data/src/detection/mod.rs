//! Data sets of boxes: Ultralytics' yaml with label files, COCO's json, Pascal VOC's xml, DOTA's text files, and how their images are
//! prepared. Nothing is ever written into a data set.
//!
//! Labels are read and checked as a whole before the first image is decoded ([`DetectionSet`]): what is wrong with them is
//! a list of [`Dropped`] labels with reasons, not a surprise in the third epoch.
//!
//! Start reading at [`open`], then [`DetectionSet`], then [`BoxAugment`].

mod augment;
mod coco;
mod coco_details;
mod convert;
mod convert_masks;
mod convert_tiles;
mod copy_paste;
mod dota;
mod ids;
mod letterbox;
mod mosaic;
mod open;
mod recent;
mod survey;
mod voc;
mod yaml;
mod yolo;
mod yolo_label;

pub use augment::{AugmentSettings, BoxAugment, box_slots};
pub use convert::{BoxForm, Converted, convert, convert_in_tiles};
pub use convert_tiles::ImageTiles;
pub use ids::{CocoIds, category_id, image_ids};
pub use letterbox::{Boxed, Fitted, fit};
pub use open::{LabelRule, apparent_kind, has_part, holds_boxes, open, open_as, open_by};
pub use recent::RecentImages;
pub use survey::{BoxSurvey, survey};
pub use yaml::yaml_settings;

use crate::decode::{DecodeOptions, announced_size, read_image};
use crate::{DataError, Dataset, Detail, GroundTruthImage, GroundTruthObject, ObjectDetail};
use crate::{KeypointLayout, LabelKind, LabeledBox, Sample, Target};
use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

/// An object of an image, in shares of the image's sides.
#[derive(Debug, Clone, PartialEq)]
pub struct RelativeBox {
    /// The number of the class.
    pub class: u32,
    /// Left, top, right, bottom, each from 0 to 1.
    pub corners: [f64; 4],
    /// What else is known of it, in shares too.
    pub detail: Detail,
}

/// An image file and the objects in it.
#[derive(Debug, Clone, PartialEq)]
pub struct LabeledImage {
    /// The file.
    pub path: PathBuf,
    /// Its objects.
    pub boxes: Vec<RelativeBox>,
    /// The number that COCO's files know it by, or would.
    pub id: u64,
    /// What COCO's evaluation counts.
    pub ground_truth: Option<Arc<GroundTruthImage>>,
}

/// A label that is not used, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dropped {
    /// The file that it stands in.
    pub file: PathBuf,
    /// The number of its image in the data set, where it has one and the label is not just a repetition.
    pub image: Option<usize>,
    /// Its line there, from 1 on, where lines mean anything.
    pub line: Option<usize>,
    /// Why, as the rest of a sentence.
    pub reason: String,
}

impl std::fmt::Display for Dropped {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        let line = self.line.map(|line| format!(":{line}")).unwrap_or_default();
        write!(f, "{}{line}: {}", self.file.display(), self.reason)
    }
}

/// Images with boxes.
pub struct DetectionSet {
    images: Vec<LabeledImage>,
    names: Vec<String>,
    dropped: Vec<Dropped>,
    /// The numbers and names that COCO's annotation file has for the classes; empty for other forms.
    categories: Vec<(u64, String)>,
    kind: LabelKind,
    keypoints: Option<KeypointLayout>,
    /// Height and width of every image that was decoded.
    sizes: Vec<OnceLock<[usize; 2]>>,
    options: DecodeOptions,
}

impl DetectionSet {
    fn new(images: Vec<LabeledImage>, names: Vec<String>, dropped: Vec<Dropped>) -> DetectionSet {
        let options = DecodeOptions { eight_bits: true, ..DecodeOptions::default() };
        let sizes = images.iter().map(|_| OnceLock::new()).collect();
        let (categories, kind, keypoints) = (Vec::new(), LabelKind::Boxes, None);
        DetectionSet { images, names, dropped, categories, kind, keypoints, sizes, options }
    }

    /// The same with labels of another kind, and for keypoints with what they are.
    fn of_kind(self, kind: LabelKind, keypoints: Option<KeypointLayout>) -> DetectionSet {
        let keypoints = keypoints.filter(|_| kind == LabelKind::Keypoints);
        DetectionSet { kind, keypoints, ..self }
    }

    /// The images and their objects.
    pub fn images(&self) -> &[LabeledImage] {
        &self.images
    }

    /// Labels that are not used.
    pub fn dropped(&self) -> &[Dropped] {
        &self.dropped
    }

    /// The most objects that any image has.
    pub fn most_boxes(&self) -> usize {
        self.images.iter().map(|image| image.boxes.len()).max().unwrap_or(0)
    }

    /// Without the images that have a label which cannot be used, or a side below 10 pixels.
    fn without_bad_images(mut self) -> Result<DetectionSet, DataError> {
        const SHORTEST: usize = 10;
        let is_bad = |label: &&Dropped| !label.reason.ends_with(NO_AREA);
        let mut bad: BTreeSet<usize> = self.dropped.iter().filter(is_bad).filter_map(|label| label.image).collect();
        for (index, image) in self.images.iter().enumerate() {
            let (height, width) = announced_size(&image.path)?;
            if height.min(width) < SHORTEST {
                let reason = format!("the image is {height}×{width}; a side is below {SHORTEST} pixels");
                self.dropped.push(Dropped { file: image.path.clone(), image: Some(index), line: None, reason });
                bad.insert(index);
            }
        }
        for label in self.dropped.iter_mut().filter(|label| label.image.is_some_and(|image| bad.contains(&image))) {
            label.reason += "; its whole image is left out (`data.bad_labels = \"drop-image\"`)";
        }
        let mut index = 0..;
        self.images.retain(|_| index.next().is_some_and(|index| !bad.contains(&index)));
        match self.images.is_empty() {
            true => Err(DataError::request("every image has a label that cannot be used; nothing is left")),
            false => Ok(self),
        }
    }

    /// Every object as one class, or only objects of some classes; numbers of classes stay.
    pub fn restricted(mut self, only: &[u32], single: bool) -> DetectionSet {
        for image in &mut self.images {
            image.boxes.retain(|object| only.is_empty() || only.contains(&object.class));
            if single {
                image.boxes.iter_mut().for_each(|object| object.class = 0);
            }
            if let Some(ground_truth) = image.ground_truth.as_mut().map(Arc::make_mut) {
                ground_truth.objects.retain(|object| only.is_empty() || only.contains(&object.class));
                ground_truth.objects.iter_mut().filter(|_| single).for_each(|object| object.class = 0);
            }
        }
        if single {
            self.names = vec!["object".to_string()];
        }
        self
    }
}

impl Dataset for DetectionSet {
    fn len(&self) -> usize {
        self.images.len()
    }

    fn get(&self, index: usize) -> Result<Sample, DataError> {
        let labeled = &self.images[index];
        let image = read_image(&labeled.path, &self.options)?;
        let [height, width, _] = image.dims();
        self.sizes[index].get_or_init(|| [height, width]);
        let boxes = labeled.boxes.iter().map(|object| object.in_pixels(height, width)).collect();
        Ok(Sample { image, target: Target::Boxes(boxes) })
    }

    fn class_names(&self) -> &[String] {
        &self.names
    }

    fn box_count(&self, index: usize) -> Option<usize> {
        Some(self.images[index].boxes.len())
    }

    /// Every form of labels is evaluated in pixels of the files, so that its figures are those of its COCO form.
    fn ground_truth(&self, index: usize) -> Option<Arc<GroundTruthImage>> {
        let labeled = &self.images[index];
        if labeled.ground_truth.is_some() {
            return labeled.ground_truth.clone();
        }
        let size = &self.sizes[index];
        if size.get().is_none() {
            // Its samples come from a cache.
            self.get(index).ok()?;
        }
        let &[height, width] = size.get()?;
        if self.kind != LabelKind::Boxes {
            let objects: Vec<LabeledBox> = labeled.boxes.iter().map(|object| object.in_pixels(height, width)).collect();
            return Some(Arc::new(GroundTruthImage::of_labels(&objects, height, width)));
        }
        let object = |object: &RelativeBox| {
            let [x0, y0, x1, y1] = object.corners;
            let corners = [x0 * width as f64, y0 * height as f64, x1 * width as f64, y1 * height as f64];
            let area = (corners[2] - corners[0]) * (corners[3] - corners[1]);
            let detail = ObjectDetail::None;
            GroundTruthObject { class: object.class, corners, area, crowd: false, detail }
        };
        Some(Arc::new(GroundTruthImage { height, width, objects: labeled.boxes.iter().map(object).collect() }))
    }

    fn label_kind(&self) -> LabelKind {
        self.kind
    }

    fn keypoints(&self) -> Option<KeypointLayout> {
        self.keypoints.clone()
    }

    fn coco_id(&self, index: usize) -> Option<u64> {
        Some(self.images[index].id)
    }

    fn coco_categories(&self) -> Vec<(u64, String)> {
        self.categories.clone()
    }

    fn label_hash(&self, index: usize) -> Option<u64> {
        let mut hasher = DefaultHasher::new();
        for object in &self.images[index].boxes {
            object.class.hash(&mut hasher);
            object.corners.map(f64::to_bits).hash(&mut hasher);
            object.detail.numbers().into_iter().for_each(|number| number.to_bits().hash(&mut hasher));
        }
        Some(hasher.finish())
    }

    fn left_out(&self) -> Vec<String> {
        self.dropped.iter().map(ToString::to_string).collect()
    }

    fn location(&self, index: usize) -> String {
        self.images[index].path.display().to_string()
    }
}

impl RelativeBox {
    /// In pixels of an image of that size.
    pub fn in_pixels(&self, height: usize, width: usize) -> LabeledBox {
        let [x0, y0, x1, y1] = self.corners;
        let (height, width) = (height as f64, width as f64);
        let corners = [x0 * width, y0 * height, x1 * width, y1 * height].map(|corner| corner as f32);
        let pixels = |[x, y]: [f32; 2]| [(f64::from(x) * width) as f32, (f64::from(y) * height) as f32];
        LabeledBox::new(self.class, corners).with(self.detail.map(pixels))
    }
}

/// Refuses coordinates that do not lie in the image, but for a hundredth: Ultralytics' tolerance.
fn within_image(coordinates: &[f64]) -> Result<(), String> {
    if coordinates.iter().any(|coordinate| !coordinate.is_finite()) {
        return Err("a coordinate is not a number".to_string());
    }
    match coordinates.iter().find(|coordinate| !(-0.01..=1.01).contains(*coordinate)) {
        Some(outside) => Err(format!(
            "a coordinate is {outside:.3}, outside of the image; coordinates are shares of the image's sides"
        )),
        None => Ok(()),
    }
}

/// Such a label is no reason to leave out its image.
const NO_AREA: &str = "the box has no area";

/// A box from corners in shares of the image, or why it cannot be used. Boxes are clipped to the image.
fn checked(class: u32, corners: [f64; 4], classes: usize) -> Result<RelativeBox, String> {
    if classes > 0 && class as usize >= classes {
        return Err(format!("class {class} is not among the {classes} that the data set names"));
    }
    if corners.iter().any(|corner| !corner.is_finite()) {
        return Err("a coordinate is not a number".to_string());
    }
    let [x0, y0, x1, y1] = corners.map(|corner| corner.clamp(0.0, 1.0));
    if x1 <= x0 || y1 <= y0 {
        return Err(NO_AREA.to_string());
    }
    Ok(RelativeBox { class, corners: [x0, y0, x1, y1], detail: Detail::None })
}
