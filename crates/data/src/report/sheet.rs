//! A contact sheet: samples in a grid, with their labels, masks and boxes.

use crate::objects::widened;
use crate::{DataError, Dataset, Detail, LabelMask, LabeledBox, Sample, Target};
use octant_imaging::geometry::Border;
use octant_imaging::palette::class_color;
use octant_imaging::resize::{Method, Resizable, resize_with_pad};
use octant_imaging::{Filter, Image, Semantics, font, pen};

/// The layout of the sheet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SheetOptions {
    /// Rows of samples.
    pub rows: usize,
    /// Columns of samples.
    pub columns: usize,
    /// Pixels per sample, height and width.
    pub cell: usize,
    /// Draw masks and boxes over the images.
    pub overlay: bool,
}

impl Default for SheetOptions {
    fn default() -> SheetOptions {
        SheetOptions { rows: 10, columns: 10, cell: 96, overlay: true }
    }
}

/// Space below an image for its label.
const LABEL: usize = HEIGHT + 4;
const GAP: usize = 2;

/// Samples at equal distances over the whole set, as an RGB image. Samples that cannot be read are named in place.
pub fn contact_sheet(dataset: &dyn Dataset, options: SheetOptions) -> Result<Image<u8>, DataError> {
    if dataset.is_empty() {
        return Err(DataError::request("there is nothing to show: the data set is empty"));
    }
    let count = (options.rows * options.columns).clamp(1, dataset.len());
    let rows = count.div_ceil(options.columns.max(1));
    let (wide, tall) = (options.cell + GAP, options.cell + LABEL);
    let mut sheet = Image::filled(rows * tall, options.columns.max(1) * wide, 3, 24u8);
    for number in 0..count {
        let index = number * dataset.len() / count;
        let (top, left) = (number / options.columns * tall, number % options.columns * wide);
        let label = match dataset.get(index) {
            Ok(sample) => {
                paste(&mut sheet, &cell(&sample, options), top, left);
                label(&sample.target, dataset.class_names())
            }
            Err(_) => "unreadable".to_string(),
        };
        write_text(&mut sheet, &label, top + options.cell + 2, left + 1, options.cell);
    }
    Ok(sheet)
}

fn label(target: &Target, classes: &[String]) -> String {
    match target {
        Target::Class(class) => classes.get(*class as usize).cloned().unwrap_or_else(|| class.to_string()),
        Target::Mask(mask) if mask.is_of_one_class() => {
            format!("{} px", mask.labels.values().iter().filter(|&&value| value != 0).count())
        }
        Target::Mask(mask) => {
            let counts = mask.counts();
            let name = |class: &u32| classes.get(*class as usize).cloned().unwrap_or_else(|| class.to_string());
            // What an image shows is more than its background.
            let shown: Vec<String> =
                counts.keys().filter(|class| **class != 0 || counts.len() == 1).map(name).collect();
            shown.join(" ")
        }
        Target::Labels(_) => {
            let name = |class: u32| classes.get(class as usize).cloned().unwrap_or_else(|| class.to_string());
            target.classes().into_iter().map(name).collect::<Vec<_>>().join(" ")
        }
        Target::Values(values) => values.iter().map(|value| format!("{value:.3}")).collect::<Vec<_>>().join(" "),
        Target::Boxes(boxes) if boxes.len() == 1 => "1 box".to_string(),
        Target::Boxes(boxes) => format!("{} boxes", boxes.len()),
        Target::Image(image) => format!("to {} x {}", image.height(), image.width()),
    }
}

/// One sample at the size of a cell, in color, with its target drawn over it.
fn cell(sample: &Sample, options: SheetOptions) -> Image<u8> {
    let side = options.cell;
    let rgb = to_rgb(&sample.image.clone().to_u8());
    // Tiny images look better with their pixels visible.
    let filter = if rgb.height().max(rgb.width()) * 2 <= side { Filter::Nearest } else { Filter::Bilinear };
    let method = Method::new(filter, Semantics::Pil);
    let (mut cell, placement) =
        resize_with_pad(&rgb, side, side, method, Border::Constant(0)).expect("Pillow has both filters");
    match &sample.target {
        _ if !options.overlay => {}
        Target::Mask(mask) if !mask.is_of_one_class() => {
            let inner = Method::new(Filter::Nearest, Semantics::Pil);
            let height = (mask.labels.height() as f64 * placement.scale_y).round().max(1.0) as usize;
            let width = (mask.labels.width() as f64 * placement.scale_x).round().max(1.0) as usize;
            let labels = mask.labels.resize(height, width, inner).expect("Pillow has nearest neighbors");
            paint_classes(&mut cell, &labels, placement.top, placement.left);
        }
        Target::Mask(LabelMask { labels: mask, .. }) => {
            let inner = Method::new(Filter::Area, Semantics::Pil);
            let height = (mask.height() as f64 * placement.scale_y).round() as usize;
            let width = (mask.width() as f64 * placement.scale_x).round() as usize;
            // Averaged, so that targets of a few pixels stay visible when the image shrinks.
            let visible = mask.map(|value| if value != 0 { 255u8 } else { 0 }).resize(height, width, inner);
            overlay(&mut cell, &visible.expect("Pillow averages areas"), placement.top, placement.left);
        }
        Target::Boxes(boxes) => {
            for object in boxes {
                let x = |x: f32| (x as f64 * placement.scale_x) as usize + placement.left;
                let y = |y: f32| (y as f64 * placement.scale_y) as usize + placement.top;
                let placed = object.moved(|[x, y]| {
                    let place = |v: f32, scale: f64, before: usize| (f64::from(v) * scale + before as f64) as f32;
                    [place(x, placement.scale_x, placement.left), place(y, placement.scale_y, placement.top)]
                });
                draw_detail(&mut cell, &placed);
                if !matches!(object.detail, Detail::Corners(_)) {
                    draw_box(&mut cell, object, [x(object.x0), y(object.y0), x(object.x1), y(object.y1)]);
                }
            }
        }
        Target::Class(_) | Target::Labels(_) | Target::Values(_) | Target::Image(_) => {}
    }
    cell
}

fn to_rgb(image: &Image<u8>) -> Image<u8> {
    Image::from_fn(image.height(), image.width(), 3, |row, column, channel| {
        let pixel = image.pixel(row, column);
        if pixel.len() >= 3 { pixel[channel] } else { pixel[0] }
    })
}

/// Paints every class but the first one in its color, half transparent.
fn paint_classes(cell: &mut Image<u8>, labels: &Image<u8>, top: usize, left: usize) {
    for row in 0..labels.height().min(cell.height() - top) {
        for (column, &label) in labels.row(row).iter().enumerate().take(cell.width() - left) {
            if label != 0 {
                let pixel = &mut cell.row_mut(top + row)[(left + column) * 3..][..3];
                pixel.iter_mut().zip(class_color(label)).for_each(|(value, color)| *value = *value / 2 + color / 2);
            }
        }
    }
}

/// Paints where the mask is in red, half transparent.
fn overlay(cell: &mut Image<u8>, mask: &Image<u8>, top: usize, left: usize) {
    for row in 0..mask.height().min(cell.height() - top) {
        for (column, &value) in mask.row(row).iter().enumerate().take(cell.width() - left) {
            if value > 16 {
                let pixel = &mut cell.row_mut(top + row)[(left + column) * 3..][..3];
                pixel[0] = pixel[0] / 2 + 127;
                pixel[1] /= 2;
                pixel[2] /= 2;
            }
        }
    }
}

/// The color of an object's class.
fn color_of(object: &LabeledBox) -> [u8; 3] {
    const COLORS: [[u8; 3]; 6] =
        [[255, 80, 80], [80, 220, 80], [90, 140, 255], [255, 210, 60], [230, 90, 230], [80, 220, 220]];
    COLORS[object.class as usize % COLORS.len()]
}

/// Outlines and rotated boxes as lines, keypoints as dots: white where they can be seen, gray where they are hidden.
fn draw_detail(cell: &mut Image<u8>, object: &LabeledBox) {
    let color = color_of(object);
    match &object.detail {
        Detail::None => {}
        Detail::Outline(rings) => {
            rings.iter().for_each(|ring| pen::outline(cell, &widened(&ring.points), 1.5, color));
        }
        Detail::Corners(points) => pen::outline(cell, &widened(points), 2.0, color),
        Detail::Keypoints(points) => {
            for point in points.iter().filter(|point| point.visibility > 0) {
                let gray = if point.visibility == 2 { 255 } else { 120 };
                pen::dot(cell, point.at.map(f64::from), 4.0, [gray; 3]);
            }
        }
    }
}

fn draw_box(cell: &mut Image<u8>, object: &LabeledBox, [x0, y0, x1, y1]: [usize; 4]) {
    let color = color_of(object);
    let (right, bottom) = (x1.clamp(1, cell.width()) - 1, y1.clamp(1, cell.height()) - 1);
    for y in y0.min(bottom)..=bottom {
        for x in x0.min(right)..=right {
            if y == y0 || y == bottom || x == x0 || x == right {
                cell.row_mut(y)[x * 3..][..3].copy_from_slice(&color);
            }
        }
    }
}

fn paste(sheet: &mut Image<u8>, cell: &Image<u8>, top: usize, left: usize) {
    for row in 0..cell.height() {
        sheet.row_mut(top + row)[left * 3..][..cell.stride()].copy_from_slice(cell.row(row));
    }
}

/// The height of a line.
pub(super) const HEIGHT: usize = 13;

/// Writes white text; what does not fit is cut off.
pub(super) fn write_text(image: &mut Image<u8>, text: &str, top: usize, left: usize, room: usize) {
    let (channels, size) = (image.channels(), HEIGHT as f32);
    font::draw(&font::fitted(text, size, room as f32), size, |column, row, share| {
        let (Ok(y), Ok(x)) = (usize::try_from(top as i32 + row), usize::try_from(left as i32 + column)) else { return };
        if y < image.height() && x < image.width() {
            for value in &mut image.row_mut(y)[x * channels..][..channels] {
                *value = (*value as f32 + (230.0 - *value as f32) * share) as u8;
            }
        }
    });
}
