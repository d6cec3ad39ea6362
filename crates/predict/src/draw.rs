//! Predictions drawn onto images.

use octant_data::LabeledBox;
use octant_imaging::palette::class_color;
use octant_imaging::{Image, font};
use octant_metrics::boxes::PredictedBox;

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
    let mut canvas = enlarged(image, factor);
    let scaled = |value: f64| (value * factor as f64).round().max(0.0) as usize;
    for object in truth {
        let corners = [object.x0, object.y0, object.x1, object.y1].map(|corner| scaled(f64::from(corner)));
        frame(&mut canvas, corners, 1, TRUTH);
    }
    let thickness = (canvas.height().max(canvas.width()) / 400).clamp(2, 6);
    // The highest score last, so that it is not painted over.
    for prediction in found.iter().rev() {
        let rectangle = prediction.rectangle;
        let corners =
            [rectangle.x, rectangle.y, rectangle.x + rectangle.width, rectangle.y + rectangle.height].map(scaled);
        let color = COLORS[prediction.class % COLORS.len()];
        frame(&mut canvas, corners, thickness, color);
        let name = names.get(prediction.class).cloned().unwrap_or_else(|| prediction.class.to_string());
        let text = format!("{name} {:.2}", prediction.score);
        let size = (canvas.height() / 40).clamp(12, 60);
        let top = corners[1].saturating_sub(size + 2);
        label(&mut canvas, [corners[0], top], &text, size, color);
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
