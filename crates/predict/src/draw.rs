//! Predictions drawn onto images.

use crate::track::TrackedBox;
use octant_data::{Detail, LabeledBox, ObjectDetail};
use octant_imaging::palette::class_color;
use octant_imaging::{Image, font, pen};
use octant_metrics::boxes::{PredictedBox, Rectangle};

/// Distinct colors, by class.
const COLORS: [[u8; 3]; 8] = [
    [230, 60, 50],
    [60, 120, 240],
    [240, 170, 20],
    [40, 170, 90],
    [170, 70, 210],
    [20, 180, 190],
    [250, 110, 180],
    [140, 150, 30],
];
const TRUTH: [u8; 3] = [255, 255, 255];

/// The image, enlarged by a whole factor, in color, with predicted boxes as colored frames with names and scores, and
/// ground-truth boxes as thin white ones.
pub fn boxes(
    image: &Image<u8>,
    factor: usize,
    truth: &[LabeledBox],
    found: &[PredictedBox],
    names: &[String],
) -> Image<u8> {
    objects(image, factor, truth, found, &[], names)
}

/// The same with what else was predicted of every object: masks half transparent, keypoints as dots, faint where they are
/// probably hidden, and rotated boxes instead of upright ones.
pub fn objects(
    image: &Image<u8>,
    factor: usize,
    truth: &[LabeledBox],
    found: &[PredictedBox],
    details: &[ObjectDetail],
    names: &[String],
) -> Image<u8> {
    let mut canvas = enlarged(image, factor);
    let scaled = |value: f64| (value * factor as f64).round().max(0.0) as usize;
    for object in truth {
        let corners = [object.x0, object.y0, object.x1, object.y1].map(|corner| scaled(f64::from(corner)));
        match &object.detail {
            Detail::Corners(points) => {
                let points: Vec<[f64; 2]> = points.iter().map(|at| at.map(|v| f64::from(v) * factor as f64)).collect();
                pen::outline(&mut canvas, &points, 1.5, TRUTH);
            }
            _ => frame(&mut canvas, corners, 1, TRUTH),
        }
    }
    let thickness = (canvas.height().max(canvas.width()) / 400).clamp(2, 6);
    // The highest score last, so that it is not painted over.
    for (number, prediction) in found.iter().enumerate().rev() {
        let color = COLORS[prediction.class % COLORS.len()];
        let is_framed = detail(&mut canvas, factor, details.get(number), number, thickness as f64, color);
        let rectangle = prediction.rectangle;
        let corners =
            [rectangle.x, rectangle.y, rectangle.x + rectangle.width, rectangle.y + rectangle.height].map(scaled);
        if !is_framed {
            frame(&mut canvas, corners, thickness, color);
        }
        let name = names.get(prediction.class).cloned().unwrap_or_else(|| prediction.class.to_string());
        let text = format!("{name} {:.2}", prediction.score);
        let size = (canvas.height() / 40).clamp(12, 60);
        let top = corners[1].saturating_sub(size + 2);
        label(&mut canvas, [corners[0], top], &text, size, color);
    }
    canvas
}

/// Draws what was predicted beside a box; returns whether that replaces the box's frame. Masks have a color per object.
fn detail(
    canvas: &mut Image<u8>,
    factor: usize,
    detail: Option<&ObjectDetail>,
    number: usize,
    thickness: f64,
    color: [u8; 3],
) -> bool {
    let scaled = |[x, y]: [f64; 2]| [x * factor as f64, y * factor as f64];
    match detail {
        None | Some(ObjectDetail::None | ObjectDetail::Polygons(_)) => false,
        Some(ObjectDetail::Mask(mask)) => {
            let ([height, width], pixels) = (mask.size(), mask.pixels());
            let own = class_color((number % 20 + 1) as u8);
            for row in 0..canvas.height().min(height * factor) {
                for (column, pixel) in canvas.row_mut(row).chunks_exact_mut(3).enumerate().take(width * factor) {
                    if pixels[row / factor * width + column / factor] {
                        pixel.iter_mut().zip(own).for_each(|(value, color)| *value = *value / 2 + color / 2);
                    }
                }
            }
            false
        }
        Some(ObjectDetail::Rotated(rectangle)) => {
            pen::outline(canvas, &rectangle.corners().map(scaled), thickness, color);
            true
        }
        Some(ObjectDetail::Keypoints(points)) => {
            for (point, &[x, y, visible]) in points.iter().enumerate() {
                let own = class_color((point % 20 + 1) as u8)
                    .map(|channel| if visible >= 0.5 { channel } else { channel / 2 });
                pen::dot(canvas, scaled([x, y]), 3.0 * thickness + 1.0, own);
            }
            false
        }
    }
}

/// The image in color, with a frame per track in the track's color, and its class and number.
pub fn tracks(image: &Image<u8>, found: &[TrackedBox], names: &[String]) -> Image<u8> {
    let mut canvas = enlarged(image, 1);
    let thickness = (canvas.height().max(canvas.width()) / 400).clamp(1, 6);
    let size = (canvas.height() / 40).clamp(10, 60);
    for tracked in found {
        let Rectangle { x, y, width, height } = tracked.rectangle;
        let corners = [x, y, x + width, y + height].map(|edge| edge.round().max(0.0) as usize);
        let color = COLORS[(tracked.track % COLORS.len() as u64) as usize];
        frame(&mut canvas, corners, thickness, color);
        let name = names.get(tracked.class).cloned().unwrap_or_else(|| tracked.class.to_string());
        let top = corners[1].saturating_sub(size + 2);
        label(&mut canvas, [corners[0], top], &format!("{name} {}", tracked.track), size, color);
    }
    canvas
}

/// The image, enlarged by a whole factor, in color.
pub fn enlarged(image: &Image<u8>, factor: usize) -> Image<u8> {
    Image::from_fn(image.height() * factor, image.width() * factor, 3, |row, column, channel| {
        let pixel = image.pixel(row / factor, column / factor);
        pixel[channel.min(pixel.len() - 1)]
    })
}

/// The same with marked pixels in red. Where the ground truth is known, those that belong to it are green, and those that are
/// missing are yellow.
pub fn mask(
    image: &Image<u8>,
    factor: usize,
    is_marked: impl Fn(usize, usize) -> bool,
    truth: Option<&Image<u8>>,
) -> Image<u8> {
    let mut canvas = enlarged(image, factor);
    for row in 0..canvas.height() {
        for (column, pixel) in canvas.row_mut(row).chunks_exact_mut(3).enumerate() {
            let (row, column) = (row / factor, column / factor);
            let [red, green, blue] = [pixel[0], pixel[1], pixel[2]];
            let is_true = truth.is_some_and(|truth| truth.pixel(row, column)[0] > 0);
            pixel.copy_from_slice(&match (is_marked(row, column), is_true) {
                (true, true) => [red / 3, 255, blue / 3],
                (true, false) => [255, green / 3, blue / 3],
                (false, true) => [255, 220, blue / 3],
                (false, false) => [red, green, blue],
            });
        }
    }
    canvas
}

/// The image, enlarged by a whole factor, with every class but the first one in its color, half transparent.
pub fn classes(image: &Image<u8>, factor: usize, labels: &Image<u8>) -> Image<u8> {
    let mut canvas = enlarged(image, factor);
    for row in 0..canvas.height() {
        for (column, pixel) in canvas.row_mut(row).chunks_exact_mut(3).enumerate() {
            let label = labels.pixel(row / factor, column / factor)[0];
            if label != 0 {
                pixel.iter_mut().zip(class_color(label)).for_each(|(value, color)| *value = *value / 2 + color / 2);
            }
        }
    }
    canvas
}

fn set(canvas: &mut Image<u8>, row: usize, column: usize, color: [u8; 3]) {
    if row < canvas.height() && column < canvas.width() {
        canvas.row_mut(row)[3 * column..3 * column + 3].copy_from_slice(&color);
    }
}

fn frame(canvas: &mut Image<u8>, [x0, y0, x1, y1]: [usize; 4], thickness: usize, color: [u8; 3]) {
    for inset in 0..thickness {
        let (top, bottom) = (y0 + inset, y1.saturating_sub(1 + inset));
        let (left, right) = (x0 + inset, x1.saturating_sub(1 + inset));
        (x0..x1).for_each(|column| {
            set(canvas, top, column, color);
            set(canvas, bottom, column, color);
        });
        (y0..y1).for_each(|row| {
            set(canvas, row, left, color);
            set(canvas, row, right, color);
        });
    }
}

/// Text of that height on a colored bar.
fn label(canvas: &mut Image<u8>, [left, top]: [usize; 2], text: &str, size: usize, color: [u8; 3]) {
    let width = font::width(text, size as f32).ceil() as usize + 4;
    let left = left.min(canvas.width().saturating_sub(width));
    for row in top..top + size + 1 {
        (left..left + width).for_each(|column| set(canvas, row, column, color));
    }
    font::draw(text, size as f32, |column, row, share| {
        let white = color.map(|channel| (f32::from(channel) + (255.0 - f32::from(channel)) * share) as u8);
        if let (Ok(column), Ok(row)) = (usize::try_from(column), usize::try_from(row)) {
            set(canvas, top + row, left + 2 + column, white);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn galleries_and_predictions_mark_masks_alike() {
        let image = Image::filled(1, 4, 1, 90u8);
        let truth = Image::from_fn(1, 4, 1, |_, column, _| u8::from(column >= 2));
        let is_marked = |_: usize, column: usize| column % 2 == 1;
        let colors = |canvas: &Image<u8>| [0, 2, 4, 6].map(|column| canvas.pixel(1, column).to_vec());
        let [plain, red, yellow, green] = [[90, 90, 90], [255, 30, 30], [255, 220, 30], [30, 255, 30]];
        let with_truth = mask(&image, 2, is_marked, Some(&truth));
        assert_eq!((with_truth.dims(), colors(&with_truth)), ([2, 8, 3], [plain, red, yellow, green].map(Vec::from)));
        assert_eq!(colors(&mask(&image, 2, is_marked, None)), [plain, red, plain, red].map(Vec::from));
    }
}
