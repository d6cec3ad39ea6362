//! Motions of a whole sample: image, mask and boxes together.

use crate::{AnyImage, Detail, LabelMask, LabeledBox, Sample, Target};
use octant_imaging::affine::{Affine, transform};
use octant_imaging::geometry::{self, Border, PixelWindow};
use octant_imaging::resize::{Method, Resizable, fit_frame};
use octant_imaging::{Channel, Filter, Image, Unsupported};

/// Runs the same code for an image of any element type.
macro_rules! with_image {
    ($any:expr, $image:ident => $body:expr) => {
        match $any {
            AnyImage::U8($image) => $body,
            AnyImage::U16($image) => $body,
            AnyImage::F32($image) => $body,
        }
    };
}

/// The size of the image, (height, width).
pub(super) fn size(sample: &Sample) -> (usize, usize) {
    let [height, width, _] = sample.image.dims();
    (height, width)
}

pub(super) fn resize(sample: &mut Sample, height: usize, width: usize, method: Method) -> Result<(), String> {
    let (old_height, old_width) = size(sample);
    let problem = |error: Unsupported| error.to_string();
    with_image!(&mut sample.image, image => *image = image.resize(height, width, method).map_err(problem)?);
    let (scale_y, scale_x) = (height as f32 / old_height as f32, width as f32 / old_width as f32);
    match &mut sample.target {
        Target::Mask(mask) => mask.labels = mask.labels.resize(height, width, mask_method(method)).map_err(problem)?,
        Target::Image(image) => *image = image.resize(height, width, method).map_err(problem)?,
        Target::Boxes(boxes) => move_boxes(boxes, |x, y| (x * scale_x, y * scale_y), height, width),
        Target::Class(_) | Target::Labels(_) | Target::Values(_) => {}
    }
    Ok(())
}

/// Labels must not be mixed: masks take the nearest pixel, by the rule of the same library.
fn mask_method(method: Method) -> Method {
    Method::new(Filter::Nearest, method.semantics)
}

pub(super) fn crop(sample: &mut Sample, window: PixelWindow) {
    with_image!(&mut sample.image, image => *image = geometry::crop(image, window));
    let (dx, dy) = (window.left as f32, window.top as f32);
    match &mut sample.target {
        Target::Mask(LabelMask { labels: image, .. }) | Target::Image(image) => *image = geometry::crop(image, window),
        Target::Boxes(boxes) => move_boxes(boxes, |x, y| (x - dx, y - dy), window.height, window.width),
        Target::Class(_) | Target::Labels(_) | Target::Values(_) => {}
    }
}

/// Pads above, left, below, right. Masks get what they have outside.
pub(super) fn pad(sample: &mut Sample, around: [usize; 4], fill: u8) {
    if around == [0; 4] {
        return;
    }
    fn filled<T: Channel>(image: &Image<T>, around: [usize; 4], fill: u8) -> Image<T> {
        // The same share of the full range, whatever the element type.
        let value = T::from_f32(fill as f32 / 255.0 * T::FULL.to_f32());
        geometry::pad(image, around, Border::Constant(value))
    }
    with_image!(&mut sample.image, image => *image = filled(image, around, fill));
    let (height, width) = size(sample);
    match &mut sample.target {
        Target::Mask(mask) => mask.labels = geometry::pad(&mask.labels, around, Border::Constant(mask.outside)),
        Target::Image(image) => *image = filled(image, around, fill),
        Target::Boxes(boxes) => {
            move_boxes(boxes, |x, y| (x + around[1] as f32, y + around[0] as f32), height, width);
        }
        Target::Class(_) | Target::Labels(_) | Target::Values(_) => {}
    }
}

pub(super) fn flip_horizontally(sample: &mut Sample) -> Result<(), String> {
    let (_, width) = size(sample);
    if let Target::Boxes(boxes) = &sample.target
        && boxes.iter().any(|object| matches!(object.detail, Detail::Keypoints(_)))
    {
        return Err("left and right keypoints change places in a flipped image; use `augment.fliplr` for them".into());
    }
    with_image!(&mut sample.image, image => geometry::flip_horizontally(image));
    match &mut sample.target {
        Target::Mask(LabelMask { labels: image, .. }) | Target::Image(image) => geometry::flip_horizontally(image),
        Target::Boxes(boxes) => {
            boxes.iter_mut().for_each(|object| *object = object.mirrored(width as f32, None));
        }
        Target::Class(_) | Target::Labels(_) | Target::Values(_) => {}
    }
    Ok(())
}

pub(super) fn flip_vertically(sample: &mut Sample) {
    let (height, width) = size(sample);
    with_image!(&mut sample.image, image => geometry::flip_vertically(image));
    match &mut sample.target {
        Target::Mask(LabelMask { labels: image, .. }) | Target::Image(image) => geometry::flip_vertically(image),
        Target::Boxes(boxes) => move_boxes(boxes, |x, y| (x, height as f32 - y), height, width),
        Target::Class(_) | Target::Labels(_) | Target::Values(_) => {}
    }
}

/// Rotation and the like, for 8-bit images.
pub(super) fn affine(sample: &mut Sample, map: &Affine, filter: Filter, fill: u8) -> Result<(), String> {
    let image = super::eight_bit(sample)?;
    *image = transform(image, map, filter, fill);
    let (height, width) = size(sample);
    match &mut sample.target {
        Target::Mask(mask) => mask.labels = transform(&mask.labels, map, Filter::Nearest, mask.outside),
        Target::Image(image) => *image = transform(image, map, filter, fill),
        Target::Boxes(boxes) => {
            let moved = |x: f32, y: f32| {
                let (x, y) = map.target(x as f64, y as f64).unwrap_or_default();
                (x as f32, y as f32)
            };
            move_boxes(boxes, moved, height, width);
        }
        Target::Class(_) | Target::Labels(_) | Target::Values(_) => {}
    }
    Ok(())
}

/// Moves the corners, takes the upright box around them, clips it to the image and drops boxes of which less than a
/// pixel is left.
fn move_boxes(boxes: &mut Vec<LabeledBox>, corner: impl Fn(f32, f32) -> (f32, f32), height: usize, width: usize) {
    for object in boxes.iter_mut() {
        *object = object.moved(|[x, y]| corner(x, y).into());
        object.clip([0.0, 0.0, width as f32, height as f32]);
    }
    boxes.retain(|object| object.x1 - object.x0 >= 1.0 && object.y1 - object.y0 >= 1.0);
}

/// Resizes into a frame, keeping the shape.
pub(super) fn resize_with_pad(
    sample: &mut Sample,
    (height, width): (usize, usize),
    method: Method,
    fill: u8,
) -> Result<(), String> {
    let (inner_height, inner_width) = fit_frame(size(sample), (height, width));
    resize(sample, inner_height, inner_width, method)?;
    let (top, left) = ((height - inner_height) / 2, (width - inner_width) / 2);
    pad(sample, [top, left, height - inner_height - top, width - inner_width - left], fill);
    Ok(())
}
