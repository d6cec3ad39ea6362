//! Four images around a random point (Bochkovskiy et al., "YOLOv4", 2020), and the random motion that follows.

use super::AugmentSettings;
use super::letterbox::{Boxed, Fitted, GRAY, placed};
use crate::{LabeledBox, SampleRng};
use octant_imaging::collage::{Collage, Tile};
use octant_imaging::geometry::PixelWindow;
use octant_imaging::warp::{Finish, Projection, warp_collage};

/// A canvas that need not exist, and its boxes.
pub(super) type Arranged<'a> = (Collage<'a>, Vec<LabeledBox>);

/// A canvas of twice the side with four images that meet at a random point. Boxes are cut at the canvas.
pub(super) fn mosaic<'a>(images: [&'a Boxed; 4], side: usize, rng: &mut SampleRng) -> Arranged<'a> {
    let between = |rng: &mut SampleRng| rng.inclusive(side as i64 / 2, side as i64 * 3 / 2) as usize;
    let (center_y, center_x) = (between(rng), between(rng));
    let mut collage = Collage::new(2 * side, 2 * side, images[0].0.channels(), GRAY);
    let mut all = Vec::new();
    for (quarter, (image, boxes)) in images.into_iter().enumerate() {
        let (is_left, is_top) = (quarter.is_multiple_of(2), quarter < 2);
        let x = along(is_left, center_x, image.width(), 2 * side);
        let y = along(is_top, center_y, image.height(), 2 * side);
        let window = PixelWindow { top: y.from, left: x.from, height: y.length, width: x.length };
        collage.push(Tile { image, window, position: [x.to, y.to] });
        let (dx, dy) = (x.to as f32 - x.from as f32, y.to as f32 - y.from as f32);
        all.extend(boxes.iter().map(|object| object.moved(|[x, y]| [x + dx, y + dy])));
    }
    let limit = 2.0 * side as f32;
    all.iter_mut().for_each(|object| object.clip([0.0, 0.0, limit, limit]));
    all.retain(|object| object.x1 > object.x0 && object.y1 > object.y0);
    (collage, all)
}

/// An image in the middle of a square, with its boxes.
pub(super) fn alone((image, boxes): &Boxed, side: usize) -> Arranged<'_> {
    let offset = Fitted::of(image.height(), image.width(), side).offset;
    let [dx, dy] = offset.map(|offset| offset as f32);
    (placed(image, offset, side), boxes.iter().map(|object| object.moved(|[x, y]| [x + dx, y + dy])).collect())
}

/// Which part of an image lies where on the canvas, along one axis.
struct Along {
    from: usize,
    to: usize,
    length: usize,
}

fn along(before: bool, center: usize, length: usize, limit: usize) -> Along {
    match before {
        true => {
            let visible = length.min(center);
            Along { from: length - visible, to: center - visible, length: visible }
        }
        false => Along { from: 0, to: center, length: length.min(limit - center) },
    }
}

/// Moves a canvas onto a square of `side`: scaled, rotated, sheared and shifted at random around its center. Boxes that
/// are hardly visible afterwards are left out.
pub(super) fn moved(
    (collage, boxes): Arranged,
    side: usize,
    settings: &AugmentSettings,
    rng: &mut SampleRng,
    finish: &Finish,
) -> Boxed {
    let (motion, scale) = motion(&collage, side, settings, rng);
    let output = warp_collage(&collage, &motion, [side, side], finish);
    let boxes = boxes.into_iter().filter_map(|object| moved_box(object, &motion, side as f32, scale as f32));
    (output, boxes.collect())
}

/// A random motion of a canvas onto a square, and by how much it scales.
fn motion(canvas: &Collage, side: usize, settings: &AugmentSettings, rng: &mut SampleRng) -> (Projection, f64) {
    let mut around = |amount: f64| f64::from(rng.between(-amount as f32, amount as f32));
    let matrix = |m: [[f64; 3]; 3]| Projection(m);
    let (height, width) = (canvas.height() as f64, canvas.width() as f64);
    let center = matrix([[1.0, 0.0, -width / 2.0], [0.0, 1.0, -height / 2.0], [0.0, 0.0, 1.0]]);
    let perspective = [around(settings.perspective), around(settings.perspective)];
    let perspective = matrix([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [perspective[0], perspective[1], 1.0]]);
    let (angle, scale) = (around(settings.degrees).to_radians(), 1.0 + around(settings.scale));
    let (sin, cos) = angle.sin_cos();
    let rotation = match settings.degrees == 0.0 {
        true => matrix([[scale, 0.0, 0.0], [0.0, scale, 0.0], [0.0, 0.0, 1.0]]),
        false => matrix([[scale * cos, scale * sin, 0.0], [-scale * sin, scale * cos, 0.0], [0.0, 0.0, 1.0]]),
    };
    let shear = [around(settings.shear).to_radians().tan(), around(settings.shear).to_radians().tan()];
    let shear = matrix([[1.0, shear[0], 0.0], [shear[1], 1.0, 0.0], [0.0, 0.0, 1.0]]);
    let shift = [around(settings.translate), around(settings.translate)].map(|part| (0.5 + part) * side as f64);
    let shift = matrix([[1.0, 0.0, shift[0]], [0.0, 1.0, shift[1]], [0.0, 0.0, 1.0]]);
    (shift.after(&shear).after(&rotation).after(&perspective).after(&center), scale)
}

/// The axis-aligned box around a transformed one, clipped to the image; none when too little of it is left.
fn moved_box(object: LabeledBox, motion: &Projection, side: f32, scale: f32) -> Option<LabeledBox> {
    const SHORTEST: f32 = 2.0;
    const NARROWEST: f32 = 100.0;
    // The box around a rotated box is larger than the one around its outline, of which any visible part can be learned.
    let least_area = if object.detail.bounds().is_some() { 0.01 } else { 0.1 };
    let LabeledBox { x0, y0, x1, y1, .. } = object;
    let mut moved = object.moved(|[x, y]| {
        let (x, y) = motion.apply(f64::from(x), f64::from(y));
        [x as f32, y as f32]
    });
    moved.clip([0.0, 0.0, side, side]);
    let (width, height) = (moved.x1 - moved.x0, moved.y1 - moved.y0);
    let before = (x1 - x0) * scale * (y1 - y0) * scale;
    let ratio = (width / (height + 1e-16)).max(height / (width + 1e-16));
    let stays =
        width > SHORTEST && height > SHORTEST && width * height / (before + 1e-16) > least_area && ratio < NARROWEST;
    stays.then_some(moved)
}
