//! Outlines and keypoints of COCO's annotations.

use crate::{Detail, Keypoint, KeypointLayout, LabelKind, ObjectDetail, Ring};
use octant_imaging::polygon::{self, RotatedRectangle};
use octant_imaging::rle::Rle;
use serde_json::Value;

/// What an annotation says of an object beside its box.
pub(super) struct Details {
    /// What is learned from, in shares of the image.
    pub learned: Detail,
    /// What is evaluated against, in pixels.
    pub ground_truth: ObjectDetail,
}

/// The keypoints of the first category that has any.
pub(super) fn keypoint_layout(categories: &[Value]) -> Result<KeypointLayout, String> {
    let listed = categories.iter().filter_map(|category| category.get("keypoints")?.as_array());
    let names = listed.map(|names| names.iter().map(|name| name.as_str().unwrap_or_default()).collect::<Vec<_>>());
    let mut all = names.filter(|names| !names.is_empty());
    let first = all.next().ok_or("none of its categories lists \"keypoints\"; use the file of keypoints")?;
    if all.any(|other| other.len() != first.len()) {
        return Err("its categories have different numbers of keypoints".to_string());
    }
    // Names say which ones change places, as COCO's left_eye and right_eye.
    let swapped = |name: &str| match name.contains("left") {
        true => name.replace("left", "right"),
        false => name.replace("right", "left"),
    };
    let number = |name: &&str| first.iter().position(|other| *other == swapped(name));
    Ok(KeypointLayout { count: first.len(), visibility: true, mirrored: first.iter().map(number).collect() })
}

/// A list of numbers.
fn numbers(value: &Value) -> Option<Vec<f64>> {
    value.as_array()?.iter().map(Value::as_f64).collect()
}

impl Details {
    /// What belongs to that kind of labels, in an image of that height and width; groups have no more than a mask.
    pub fn of(
        annotation: &Value,
        kind: LabelKind,
        keypoints: Option<&KeypointLayout>,
        size: [f64; 2],
        crowd: bool,
    ) -> Result<Details, String> {
        match (kind, keypoints) {
            (LabelKind::Boxes, _) => Ok(Details { learned: Detail::None, ground_truth: ObjectDetail::None }),
            (LabelKind::Outlines, _) => outline(annotation, size),
            (LabelKind::Keypoints, Some(layout)) => points(annotation, layout, size),
            (LabelKind::Keypoints, None) => Err("its category has no keypoints".to_string()),
            (LabelKind::Corners, _) if crowd => Err("a group has no corners".to_string()),
            (LabelKind::Corners, _) => corners(annotation, size),
        }
    }
}

/// The polygons of an annotation, whose points are pairs.
fn polygons(annotation: &Value) -> Result<Vec<Vec<f64>>, String> {
    let listed = annotation.get("segmentation").and_then(Value::as_array).ok_or("it has no segmentation")?;
    let polygons: Option<Vec<Vec<f64>>> = listed.iter().map(numbers).collect();
    let polygons = polygons.ok_or("its segmentation is no list of lists of numbers")?;
    if polygons.is_empty() {
        return Err("its segmentation is empty".to_string());
    }
    match polygons.iter().find(|polygon| polygon.len() < 6 || !polygon.len().is_multiple_of(2)) {
        Some(short) => {
            Err(format!("an outline has {} numbers; three points or more are pairs of 6 or more", short.len()))
        }
        None => Ok(polygons),
    }
}

fn outline(annotation: &Value, [height, width]: [f64; 2]) -> Result<Details, String> {
    let (rings, ground_truth) = match annotation.get("segmentation") {
        Some(runs @ Value::Object(_)) => {
            let mask = mask(runs, [height, width])?;
            (mask.rings(), ObjectDetail::Mask(mask))
        }
        _ => {
            let polygons = polygons(annotation)?;
            let ring = |polygon: &Vec<f64>| (polygon.as_chunks::<2>().0.to_vec(), false);
            (polygons.iter().map(ring).collect(), ObjectDetail::Polygons(polygons))
        }
    };
    let ring = |(points, is_hole): (Vec<[f64; 2]>, bool)| {
        let inside = polygon::clipped(&points, [0.0, 0.0, width, height]);
        let points: Vec<[f32; 2]> = inside.iter().map(|[x, y]| [(x / width) as f32, (y / height) as f32]).collect();
        Ring { points, is_hole }
    };
    let rings: Vec<Ring> = rings.into_iter().map(ring).filter(|ring| ring.points.len() >= 3).collect();
    if rings.is_empty() {
        return Err("its outline has no part in the image".to_string());
    }
    Ok(Details { learned: Detail::Outline(rings), ground_truth })
}

/// Runs as numbers or as COCO's text.
fn mask(runs: &Value, [height, width]: [f64; 2]) -> Result<Rle, String> {
    let size = runs.get("size").and_then(numbers).unwrap_or_default();
    if size != [height, width] {
        return Err(format!("its mask is for an image of another size than {height}×{width}"));
    }
    let (height, width) = (height as usize, width as usize);
    match runs.get("counts") {
        Some(Value::String(text)) => Rle::of_text(text, height, width),
        Some(listed @ Value::Array(_)) => {
            let counts: Option<Vec<u32>> = numbers(listed)
                .and_then(|numbers| numbers.iter().map(|&n| (0.0..4e9).contains(&n).then_some(n as u32)).collect());
            Rle::new(height, width, counts.ok_or("its runs are not numbers of pixels")?)
        }
        _ => Err("its mask has no counts".to_string()),
    }
}

fn points(annotation: &Value, layout: &KeypointLayout, [height, width]: [f64; 2]) -> Result<Details, String> {
    let listed = annotation.get("keypoints").and_then(numbers).ok_or("it has no keypoints")?;
    if listed.len() != 3 * layout.count {
        return Err(format!(
            "it has {} numbers for keypoints; {} of three are {}",
            listed.len(),
            layout.count,
            3 * layout.count
        ));
    }
    let points = listed.as_chunks::<3>().0.to_vec();
    if let Some([_, _, other]) = points.iter().find(|[_, _, visibility]| ![0.0, 1.0, 2.0].contains(visibility)) {
        return Err(format!("the visibility of a keypoint is {other}; it is 0, 1 or 2"));
    }
    let learned = points.iter().map(|[x, y, visibility]| {
        let is_inside = (0.0..=width).contains(x) && (0.0..=height).contains(y);
        Keypoint {
            at: [(x / width) as f32, (y / height) as f32],
            visibility: if is_inside { *visibility as u8 } else { 0 },
        }
    });
    Ok(Details { learned: Detail::Keypoints(learned.collect()), ground_truth: ObjectDetail::Keypoints(points) })
}

/// A rotated box is a segmentation of one polygon with four points.
fn corners(annotation: &Value, [height, width]: [f64; 2]) -> Result<Details, String> {
    let polygons = polygons(annotation)?;
    let [four] = &polygons[..] else { return Err("its segmentation is not one polygon".to_string()) };
    let points = four.as_chunks::<2>().0;
    if points.len() != 4 {
        return Err(format!("its polygon has {} points; a rotated box has four", points.len()));
    }
    if polygon::crosses_itself(points) {
        return Err("its corners are in an order in which their lines cross; list them around the object".to_string());
    }
    let rectangle = RotatedRectangle::around(points).ok_or(super::NO_AREA)?;
    let learned = points.iter().map(|[x, y]| [(x / width) as f32, (y / height) as f32]).collect();
    Ok(Details { learned: Detail::Corners(learned), ground_truth: ObjectDetail::Rotated(rectangle) })
}
