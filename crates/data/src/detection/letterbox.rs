//! Images into a square without changing their shape: the rest is gray.

use crate::{AnyImage, DataError, LabeledBox, Sample, Target};
use octant_imaging::collage::{Collage, Tile};
use octant_imaging::geometry::PixelWindow;
use octant_imaging::resize::{Method, Resizable};
use octant_imaging::{Filter, Image, Semantics};
use std::borrow::Cow;

/// The gray of what is not part of an image.
pub(super) const GRAY: u8 = 114;

/// Where an image lies in its square: new = scale × old + offset.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Fitted {
    /// Horizontal and vertical scale.
    pub scale: [f64; 2],
    /// Columns and rows before it.
    pub offset: [usize; 2],
}

impl Fitted {
    /// Where an image of that height and width lies in a square of that side.
    pub fn of(height: usize, width: usize, side: usize) -> Fitted {
        let inner = inner_size(height, width, side);
        let before = |length: usize| ((side - length) as f64 / 2.0 - 0.1).round().max(0.0) as usize;
        Fitted {
            scale: [inner[1] as f64 / width as f64, inner[0] as f64 / height as f64],
            offset: [before(inner[1]), before(inner[0])],
        }
    }

    /// A box of the square in pixels of the old image of that height and width, clipped to it.
    pub fn back(&self, corners: [f64; 4], height: usize, width: usize) -> [f64; 4] {
        let limits = [width as f64, height as f64];
        let uncut = self.back_uncut(corners);
        std::array::from_fn(|index| uncut[index].clamp(0.0, limits[index % 2]))
    }

    /// The same without clipping.
    pub fn back_uncut(&self, corners: [f64; 4]) -> [f64; 4] {
        let axis = |index: usize| index % 2;
        std::array::from_fn(|index| (corners[index] - self.offset[axis(index)] as f64) / self.scale[axis(index)])
    }
}

/// The image with its longer side of that length.
pub(super) fn scaled(image: &Image<u8>, side: usize) -> Result<Cow<'_, Image<u8>>, DataError> {
    let [height, width] = inner_size(image.height(), image.width(), side);
    if [height, width] == [image.height(), image.width()] {
        return Ok(Cow::Borrowed(image));
    }
    let method = Method::new(Filter::Bilinear, Semantics::OpenCv);
    let resized = image.resize(height, width, method);
    resized.map(Cow::Owned).map_err(|error| DataError::request(error.to_string()))
}

/// Height and width of an image whose longer side becomes `side`.
fn inner_size(height: usize, width: usize, side: usize) -> [usize; 2] {
    let ratio = side as f64 / height.max(width) as f64;
    [height, width].map(|old| ((old as f64 * ratio).ceil() as usize).clamp(1, side))
}

/// The image in the middle of a square, and where it lies there.
pub fn fit(image: &Image<u8>, side: usize) -> Result<(Image<u8>, Fitted), DataError> {
    let fitted = Fitted::of(image.height(), image.width(), side);
    Ok((placed(&*scaled(image, side)?, fitted.offset, side).to_image(), fitted))
}

/// A square of gray with an image that begins at that column and row.
pub(super) fn placed(image: &Image<u8>, position: [usize; 2], side: usize) -> Collage<'_> {
    let mut collage = Collage::new(side, side, image.channels(), GRAY);
    let window = PixelWindow { top: 0, left: 0, height: image.height(), width: image.width() };
    collage.push(Tile { image, window, position });
    collage
}

/// An image with its boxes.
pub type Boxed = (Image<u8>, Vec<LabeledBox>);

/// The same with a longer side of that length.
pub(super) fn at_side((image, mut boxes): Boxed, side: usize) -> Result<Boxed, DataError> {
    let Cow::Owned(small) = scaled(&image, side)? else { return Ok((image, boxes)) };
    let [sx, sy] =
        [(small.width(), image.width()), (small.height(), image.height())].map(|(new, old)| new as f32 / old as f32);
    boxes.iter_mut().for_each(|object| *object = object.moved(|[x, y]| [x * sx, y * sy]));
    Ok((small, boxes))
}

/// The 8-bit image and the boxes of a sample.
pub(super) fn parts(sample: Sample) -> Result<Boxed, DataError> {
    match (sample.image, sample.target) {
        (AnyImage::U8(image), Target::Boxes(boxes)) => Ok((image, boxes)),
        (_, Target::Boxes(_)) => Err(DataError::request("boxes need images of 8 bits per channel")),
        _ => Err(DataError::request("the data set has no boxes; choose a recipe for classes or masks")),
    }
}

/// A sample with at most so many boxes, the largest ones, in their order.
pub(super) fn finished(image: Image<u8>, mut boxes: Vec<LabeledBox>, most: usize) -> Sample {
    if boxes.len() > most {
        let area = LabeledBox::area;
        let mut areas: Vec<f32> = boxes.iter().map(area).collect();
        areas.sort_by(|a, b| b.total_cmp(a));
        let least = areas[most.saturating_sub(1)];
        boxes.retain(|object| area(object) >= least);
        boxes.truncate(most);
    }
    Sample { image: AnyImage::U8(image), target: Target::Boxes(boxes) }
}
