//! Data sets made up from a seed, written as real ones are: infrared scenes with small targets, shapes to classify and
//! to detect, and a regression task.
//!
//! They let every recipe run without a download. An image depends on (seed, number) alone, so a larger set begins with
//! the smaller one.

mod infrared;
mod noise;
mod outlines;
mod regression;
mod scenes;
mod shapes;

use crate::{DataError, LabeledBox, SampleRng, write_png_u8};
pub use infrared::{Scene, infrared};
use octant_imaging::Image;
pub use outlines::outlines;
pub use regression::regression;
pub use scenes::{SCENE_CLASSES, scene};
pub use shapes::shapes;
use std::fmt::Write as _;
use std::path::Path;

/// The share of samples that go into the test list.
const TEST_SHARE: f32 = 0.2;

/// Writes `images/`, `masks/`, `trainval.txt` and `test.txt`: infrared scenes of `side` × `side` pixels.
pub fn write_infrared(folder: &Path, count: usize, side: usize, seed: u64) -> Result<(), DataError> {
    create(&folder.join("images"))?;
    create(&folder.join("masks"))?;
    let names: Vec<String> = (0..count).map(|number| format!("scene{number:05}")).collect();
    for (number, name) in names.iter().enumerate() {
        let (image, mask) = infrared(side, &mut SampleRng::new(seed, 0, number as u64));
        write_png_u8(folder.join(format!("images/{name}.png")), &image)?;
        write_png_u8(folder.join(format!("masks/{name}.png")), &mask.map(|value| value * 255))?;
    }
    let first_test = count - (count as f32 * TEST_SHARE).round() as usize;
    write_text(&folder.join("trainval.txt"), &names[..first_test].join("\n"))?;
    write_text(&folder.join("test.txt"), &names[first_test..].join("\n"))
}

/// Writes images with several shapes each: `images/` with `labels/` (class, center and size as shares of the
/// image, one object per line) for detection, and `train/CLASS/` and `val/CLASS/` with single shapes.
pub fn write_shapes(folder: &Path, count: usize, side: usize, seed: u64) -> Result<(), DataError> {
    for part in ["images", "labels"] {
        create(&folder.join(part))?;
    }
    for class in shapes::NAMES {
        create(&folder.join("train").join(class))?;
        create(&folder.join("val").join(class))?;
    }
    let first_test = count - (count as f32 * TEST_SHARE).round() as usize;
    for number in 0..count {
        let (image, objects) = shapes(side, 1 + number % 4, &mut SampleRng::new(seed, 0, number as u64));
        write_png_u8(folder.join(format!("images/{number:05}.png")), &image)?;
        write_text(&folder.join(format!("labels/{number:05}.txt")), &label_lines(&objects, side))?;
        let (single, object) = shapes(side, 1, &mut SampleRng::new(seed, 1, number as u64));
        let part = if number < first_test { "train" } else { "val" };
        let class = object.first().map_or(shapes::NAMES[0], |object| shapes::NAMES[object.class as usize]);
        write_png_u8(folder.join(format!("{part}/{class}/{number:05}.png")), &single)?;
    }
    Ok(())
}

/// Writes scenes with boxes in Ultralytics' form: `data.yaml`, `images/train`, `images/val` and `labels/` beside them.
pub fn write_scenes(folder: &Path, count: usize, side: usize, seed: u64) -> Result<(), DataError> {
    for part in ["images/train", "images/val", "labels/train", "labels/val"] {
        create(&folder.join(part))?;
    }
    let first_test = count - (count as f32 * TEST_SHARE).round() as usize;
    for number in 0..count {
        let (image, objects) = scene(side, &mut SampleRng::new(seed, 0, number as u64));
        let part = if number < first_test { "train" } else { "val" };
        write_png_u8(folder.join(format!("images/{part}/{number:05}.png")), &image)?;
        write_text(&folder.join(format!("labels/{part}/{number:05}.txt")), &label_lines(&objects, side))?;
    }
    let mut yaml = String::from("train: images/train\nval: images/val\nnames:\n");
    for (class, name) in SCENE_CLASSES.iter().enumerate() {
        let _ = writeln!(yaml, "  {class}: {name}");
    }
    write_text(&folder.join("data.yaml"), &yaml)
}

/// Class, center and size of every box as shares of the image, one per line.
fn label_lines(objects: &[LabeledBox], side: usize) -> String {
    let mut lines = String::new();
    for object in objects {
        let [x0, y0, x1, y1] = [object.x0, object.y0, object.x1, object.y1].map(|corner| corner / side as f32);
        let (center_x, center_y) = ((x0 + x1) / 2.0, (y0 + y1) / 2.0);
        // Writing to a string cannot fail.
        let _ = writeln!(lines, "{} {center_x:.6} {center_y:.6} {:.6} {:.6}", object.class, x1 - x0, y1 - y0);
    }
    lines
}

/// Writes `images/`, `train.csv` and `test.csv`: how many discs there are and how much they cover.
pub fn write_regression(folder: &Path, count: usize, side: usize, seed: u64) -> Result<(), DataError> {
    create(&folder.join("images"))?;
    let first_test = count - (count as f32 * TEST_SHARE).round() as usize;
    let mut tables = [String::from("path,discs,covered\n"), String::from("path,discs,covered\n")];
    for number in 0..count {
        let (image, [discs, covered]) = regression(side, &mut SampleRng::new(seed, 0, number as u64));
        write_png_u8(folder.join(format!("images/{number:05}.png")), &image)?;
        let _ = writeln!(tables[(number >= first_test) as usize], "images/{number:05}.png,{discs},{covered:.6}");
    }
    write_text(&folder.join("train.csv"), &tables[0])?;
    write_text(&folder.join("test.csv"), &tables[1])
}

fn create(folder: &Path) -> Result<(), DataError> {
    std::fs::create_dir_all(folder).map_err(|error| DataError::io(folder, error))
}

fn write_text(path: &Path, text: &str) -> Result<(), DataError> {
    std::fs::write(path, text).map_err(|error| DataError::io(path, error))
}

/// Floats in 0–1 as bytes.
fn to_bytes(image: &Image<f32>) -> Image<u8> {
    image.map(|value| (value.clamp(0.0, 1.0) * 255.0).round() as u8)
}
