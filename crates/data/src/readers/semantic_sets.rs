//! Class numbers and names of published data sets.

use super::mask_form::MaskForm;
use crate::IGNORED;

/// The classes of PASCAL VOC.
pub(super) const VOC_CLASSES: [&str; 21] = [
    "background",
    "aeroplane",
    "bicycle",
    "bird",
    "boat",
    "bottle",
    "bus",
    "car",
    "cat",
    "chair",
    "cow",
    "diningtable",
    "dog",
    "horse",
    "motorbike",
    "person",
    "pottedplant",
    "sheep",
    "sofa",
    "train",
    "tvmonitor",
];

/// The classes that Cityscapes is trained and evaluated with.
pub(super) const CITYSCAPES_CLASSES: [&str; 19] = [
    "road",
    "sidewalk",
    "building",
    "wall",
    "fence",
    "pole",
    "traffic light",
    "traffic sign",
    "vegetation",
    "terrain",
    "sky",
    "person",
    "rider",
    "car",
    "truck",
    "bus",
    "train",
    "motorcycle",
    "bicycle",
];

/// The values of these classes in Cityscapes' files.
const CITYSCAPES_IDS: [u8; 19] = [7, 8, 11, 12, 13, 17, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 31, 32, 33];
/// The largest value of any object; 255 stands for -1, license plates.
const CITYSCAPES_LAST: u8 = 33;

/// From the values of Cityscapes' files to the classes for training; everything else is ignored.
pub(super) fn cityscapes_form() -> MaskForm {
    let label = |value: usize| match CITYSCAPES_IDS.iter().position(|&id| usize::from(id) == value) {
        Some(class) => Some(class as u8),
        None => (value <= usize::from(CITYSCAPES_LAST) || value == 255).then_some(IGNORED),
    };
    MaskForm::Classes(Box::new(std::array::from_fn(label)))
}
