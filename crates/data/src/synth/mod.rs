//! Synthetic data sets from a seed, written as real ones are: infrared scenes with small targets, shapes to classify and
//! to detect, and a regression task.
//!
//! They let every recipe run without a download. An image depends on (seed, number) alone, so a larger set begins with
//! the smaller one.

mod figures;
mod files;
mod infrared;
mod moving;
mod outlines;
mod scenes;
mod shapes;

use crate::{DataError, Detail, LabeledBox, SampleRng};
pub use figures::{FIGURE_CLASSES, VEHICLE_CLASSES, figure_keypoints, figures, instances, vehicles};
use files::{infrared_files, moving_files, object_files, regression_files, semantic_files, shapes_files};
pub use infrared::{Scene, infrared};
pub use moving::{MovingShape, SEEN, moving};
use octant_imaging::polygon;
use octant_imaging::resize::{Method, Resizable};
use octant_imaging::{Filter, Image, Semantics};
pub use outlines::outlines;
pub use scenes::{SCENE_CLASSES, SEMANTIC_CLASSES, scene, semantic};
pub use shapes::shapes;
use std::fmt::Write as _;
use std::path::Path;
use std::str::FromStr;

/// The share of samples that go into the test list.
const TEST_SHARE: f32 = 0.2;

/// Which data set to make up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SynthKind {
    /// `images/`, `masks/`, `trainval.txt` and `test.txt`: infrared scenes.
    Infrared,
    /// Images with several shapes each: `images/` with `labels/` (class, center and size as shares of the image, one object
    /// per line) for detection, and `train/CLASS/` and `val/CLASS/` with single shapes.
    Shapes,
    /// Scenes with boxes in Ultralytics' form: `data.yaml`, `images/train`, `images/val` and `labels/` beside them.
    Scenes,
    /// The same scenes with outlines of the objects.
    Instances,
    /// People as stick figures with keypoints, in the same form.
    Figures,
    /// Ships and trucks with rotated boxes, in the same form.
    Vehicles,
    /// `images/train`, `images/val` and `masks/` beside them with a class per pixel as PNG with a palette; `classes.txt`.
    Semantic,
    /// A sequence in MOTChallenge's form: `img1/`, `gt/gt.txt` and `seqinfo.ini`.
    Moving,
    /// `images/`, `train.csv` and `test.csv`: how many discs there are and how much they cover.
    Regression,
}

impl SynthKind {
    /// Height and width of an image where none are given.
    pub fn usual_side(self) -> usize {
        match self {
            SynthKind::Infrared => 256,
            SynthKind::Scenes | SynthKind::Instances | SynthKind::Figures | SynthKind::Vehicles => 320,
            SynthKind::Moving => 160,
            SynthKind::Semantic | SynthKind::Shapes | SynthKind::Regression => 128,
        }
    }
}

impl FromStr for SynthKind {
    type Err = String;

    fn from_str(text: &str) -> Result<SynthKind, String> {
        match text {
            "irstd" => Ok(SynthKind::Infrared),
            "shapes" => Ok(SynthKind::Shapes),
            "scenes" => Ok(SynthKind::Scenes),
            "instances" => Ok(SynthKind::Instances),
            "figures" => Ok(SynthKind::Figures),
            "vehicles" => Ok(SynthKind::Vehicles),
            "semantic" => Ok(SynthKind::Semantic),
            "moving" => Ok(SynthKind::Moving),
            "regression" => Ok(SynthKind::Regression),
            other => Err(format!(
                "there is no kind {other:?}; choose one of irstd, shapes, scenes, instances, figures, vehicles, semantic, moving, \
                 regression"
            )),
        }
    }
}

/// How many images of which size, from which seed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct SynthSize {
    count: usize,
    side: usize,
    seed: u64,
}

impl SynthSize {
    /// The first image of the test list.
    fn first_test(&self) -> usize {
        self.count - (self.count as f32 * TEST_SHARE).round() as usize
    }

    fn rng(&self, stream: u64, number: usize) -> SampleRng {
        SampleRng::new(self.seed, stream, number as u64)
    }
}

/// Writes `count` images of `side` × `side` pixels with their labels, on all cores. `progress` hears how many are done.
pub fn write(
    kind: SynthKind,
    folder: &Path,
    (count, side, seed): (usize, usize, u64),
    progress: &(dyn Fn(usize) + Sync),
) -> Result<(), DataError> {
    let size = SynthSize { count, side, seed };
    match kind {
        SynthKind::Infrared => infrared_files(folder, size, progress),
        SynthKind::Shapes => shapes_files(folder, size, progress),
        SynthKind::Scenes | SynthKind::Instances | SynthKind::Figures | SynthKind::Vehicles => {
            object_files(kind, folder, size, progress)
        }
        SynthKind::Semantic => semantic_files(folder, size, progress),
        SynthKind::Moving => moving_files(folder, size, progress),
        SynthKind::Regression => regression_files(folder, size, progress),
    }
}

/// [`SynthKind::Infrared`].
pub fn write_infrared(folder: &Path, count: usize, side: usize, seed: u64) -> Result<(), DataError> {
    write(SynthKind::Infrared, folder, (count, side, seed), &|_| {})
}

/// [`SynthKind::Shapes`].
pub fn write_shapes(folder: &Path, count: usize, side: usize, seed: u64) -> Result<(), DataError> {
    write(SynthKind::Shapes, folder, (count, side, seed), &|_| {})
}

/// [`SynthKind::Scenes`].
pub fn write_scenes(folder: &Path, count: usize, side: usize, seed: u64) -> Result<(), DataError> {
    write(SynthKind::Scenes, folder, (count, side, seed), &|_| {})
}

/// [`SynthKind::Semantic`].
pub fn write_semantic(folder: &Path, count: usize, side: usize, seed: u64) -> Result<(), DataError> {
    write(SynthKind::Semantic, folder, (count, side, seed), &|_| {})
}

/// [`SynthKind::Regression`].
pub fn write_regression(folder: &Path, count: usize, side: usize, seed: u64) -> Result<(), DataError> {
    write(SynthKind::Regression, folder, (count, side, seed), &|_| {})
}

/// Class, center and size of every box as shares of the image, one per line.
fn label_lines(objects: &[LabeledBox], side: usize) -> String {
    let mut lines = String::new();
    for object in objects {
        let [x0, y0, x1, y1] = object.corners().map(|corner| corner / side as f32);
        if let Some(points) = line_points(&object.detail) {
            let _ = write!(lines, "{}", object.class);
            for [x, y] in points {
                let _ = write!(lines, " {:.6} {:.6}", x / side as f32, y / side as f32);
            }
            lines.push('\n');
            continue;
        }
        let (center_x, center_y) = ((x0 + x1) / 2.0, (y0 + y1) / 2.0);
        // Writing to a string cannot fail.
        let _ = writeln!(lines, "{} {center_x:.6} {center_y:.6} {:.6} {:.6}", object.class, x1 - x0, y1 - y0);
        if let Detail::Keypoints(points) = &object.detail {
            lines.pop();
            for point in points {
                // What is not known lies nowhere.
                let [x, y] = if point.visibility == 0 { [0.0; 2] } else { point.at.map(|v| v / side as f32) };
                let _ = write!(lines, " {x:.6} {y:.6} {}", point.visibility);
            }
            lines.push('\n');
        }
    }
    lines
}

/// The points of a line for an outline, of which the largest part counts, or for a rotated box.
fn line_points(detail: &Detail) -> Option<Vec<[f32; 2]>> {
    match detail {
        Detail::None | Detail::Keypoints(_) => None,
        Detail::Corners(points) => Some(points.clone()),
        Detail::Outline(rings) => {
            let area = |points: &[[f32; 2]]| polygon::area(&crate::objects::widened(points));
            let parts = rings.iter().filter(|ring| !ring.is_hole);
            parts.max_by(|a, b| area(&a.points).total_cmp(&area(&b.points))).map(|ring| ring.points.clone())
        }
    }
}

fn create(folder: &Path) -> Result<(), DataError> {
    std::fs::create_dir_all(folder).map_err(|error| DataError::write(folder, error))
}

fn write_text(path: &Path, text: &str) -> Result<(), DataError> {
    std::fs::write(path, text).map_err(|error| DataError::write(path, error))
}

/// Floats in 0–1 as bytes.
fn to_bytes(image: &Image<f32>) -> Image<u8> {
    image.map(|value| (value.clamp(0.0, 1.0) * 255.0).round() as u8)
}

/// A field of about zero mean and unit deviation. `cells` are the cells of the coarsest grid (rows, columns); each
/// octave has twice as many and `persistence` times the strength.
fn field(side: usize, cells: (usize, usize), octaves: usize, persistence: f32, rng: &mut SampleRng) -> Image<f32> {
    let method = Method { filter: Filter::Bicubic, semantics: Semantics::Torchvision, antialias: false };
    let mut sum = Image::filled(side, side, 1, 0.0f32);
    let mut strength = 1.0;
    let mut power = 0.0;
    for octave in 0..octaves {
        let rows = (cells.0 << octave).min(side);
        let columns = (cells.1 << octave).min(side);
        let grid = Image::from_fn(rows, columns, 1, |_, _, _| rng.normal());
        let smooth = grid.resize(side, side, method).expect("torchvision has bicubic");
        sum.values_mut().iter_mut().zip(smooth.values()).for_each(|(sum, value)| *sum += strength * value);
        power += strength * strength;
        strength *= persistence;
    }
    let scale = 1.0 / power.sqrt();
    sum.map(|value| value * scale)
}

/// A gray image with up to twelve discs, their number and the share of the image that they cover together.
pub fn regression(side: usize, rng: &mut SampleRng) -> (Image<u8>, [f32; 2]) {
    let ground = field(side, (3, 3), 4, 0.5, rng);
    let level = rng.between(0.2, 0.5);
    let count = rng.below(13);
    let discs: Vec<[f32; 4]> = (0..count)
        .map(|_| {
            let radius = rng.between(0.03, 0.11) * side as f32;
            let position = [0, 1].map(|_| rng.between(radius, side as f32 - radius));
            [position[0], position[1], radius, rng.between(0.15, 0.45)]
        })
        .collect();
    let mut covered = 0usize;
    let image = Image::from_fn(side, side, 1, |row, column, _| {
        let depth = discs.iter().map(|[x, y, radius, heat]| {
            let (dx, dy) = (column as f32 + 0.5 - x, row as f32 + 0.5 - y);
            let inside = (radius + 0.5 - (dx * dx + dy * dy).sqrt()).clamp(0.0, 1.0);
            (inside, inside * heat)
        });
        let (inside, heat) = depth.fold((0.0f32, 0.0f32), |sum, disc| (sum.0.max(disc.0), sum.1.max(disc.1)));
        covered += (inside >= 0.5) as usize;
        level + 0.05 * ground.pixel(row, column)[0] + heat + 0.02 * rng.normal()
    });
    (to_bytes(&image), [count as f32, covered as f32 / (side * side) as f32])
}
