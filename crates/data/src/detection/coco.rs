//! COCO's json: images, categories and annotations in one file.

use super::coco_details::{Details, keypoint_layout};
use super::{DetectionSet, Dropped, LabeledImage, RelativeBox, checked};
use crate::{DataError, GroundTruthImage, GroundTruthObject, LabelKind};
use serde_json::Value;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

struct Described {
    path: PathBuf,
    width: f64,
    height: f64,
}

/// Opens an annotation file; `root` is where the folders of images lie, else it is guessed from the file's folder.
pub(super) fn open(file: &Path, root: Option<&Path>, kind: LabelKind) -> Result<DetectionSet, DataError> {
    let json = parsed(file)?;
    let list = |key: &str| {
        json.get(key).and_then(Value::as_array).ok_or_else(|| {
            DataError::malformed(
                file,
                format!("it has no list \"{key}\"; a COCO file has images, categories and annotations"),
            )
        })
    };
    let (classes, names) = categories(file, list("categories")?)?;
    let keypoints = match kind {
        LabelKind::Keypoints => {
            let layout = keypoint_layout(list("categories")?).map_err(|problem| DataError::malformed(file, problem))?;
            Some(layout)
        }
        _ => None,
    };
    let mut ids: Vec<(u64, String)> = classes.iter().map(|(id, class)| (*id, names[*class as usize].clone())).collect();
    ids.sort();
    let folders = image_folders(file, root);
    let mut images: Vec<(u64, Described)> = Vec::new();
    for image in list("images")? {
        images.push(described(file, image, &folders)?);
    }
    let positions: HashMap<u64, usize> = images.iter().enumerate().map(|(position, (id, _))| (*id, position)).collect();
    let mut boxes: Vec<Vec<RelativeBox>> = vec![Vec::new(); images.len()];
    let mut ground_truth: Vec<Vec<GroundTruthObject>> = vec![Vec::new(); images.len()];
    let mut dropped = Vec::new();
    for annotation in list("annotations")? {
        match object(annotation, &classes, &positions) {
            Ok((position, mut object)) => {
                let image = &images[position].1;
                let size = [image.height, image.width];
                let found = Details::of(annotation, kind, keypoints.as_ref(), size, object.crowd);
                let learned = found.and_then(|details| {
                    object.detail = details.ground_truth;
                    let learned = learned(&object, image, classes.len())?;
                    Ok(RelativeBox { detail: details.learned, ..learned })
                });
                match learned {
                    _ if object.crowd => {}
                    Ok(learned) => boxes[position].push(learned),
                    Err(reason) => dropped.push(left_out(file, annotation, Some(position), &reason)),
                }
                ground_truth[position].push(object);
            }
            Err(reason) => dropped.push(left_out(file, annotation, image_of(annotation, &positions), &reason)),
        }
    }
    let labeled = images.into_iter().zip(boxes).zip(ground_truth).map(|(((id, image), boxes), objects)| {
        let ground_truth = GroundTruthImage { height: image.height as usize, width: image.width as usize, objects };
        LabeledImage { path: image.path, boxes, id, ground_truth: Some(Arc::new(ground_truth)) }
    });
    Ok(DetectionSet {
        categories: ids,
        ..DetectionSet::new(labeled.collect(), names, dropped).of_kind(kind, keypoints)
    })
}

/// The content of an annotation file.
pub(super) fn parsed(file: &Path) -> Result<Value, DataError> {
    let bytes = std::fs::read(file).map_err(|error| DataError::io(file, error))?;
    serde_json::from_slice(&bytes).map_err(|error| DataError::malformed(file, format!("it is not JSON: {error}")))
}

/// The position of an annotation's image.
fn image_of(annotation: &Value, positions: &HashMap<u64, usize>) -> Option<usize> {
    positions.get(&annotation.get("image_id")?.as_u64()?).copied()
}

fn left_out(file: &Path, annotation: &Value, image: Option<usize>, reason: &str) -> Dropped {
    let id = annotation.get("id").map(Value::to_string).unwrap_or_default();
    Dropped { file: file.to_path_buf(), image, line: None, reason: format!("annotation {id}: {reason}") }
}

/// Numbers of classes by the file's own, which have gaps, and their names.
pub(super) fn categories(file: &Path, listed: &[Value]) -> Result<(HashMap<u64, u32>, Vec<String>), DataError> {
    let mut named: Vec<(u64, String)> = Vec::new();
    for category in listed {
        let id = category.get("id").and_then(Value::as_u64);
        let name = category.get("name").and_then(Value::as_str);
        let (Some(id), Some(name)) = (id, name) else {
            return Err(DataError::malformed(file, "a category has no id or no name"));
        };
        named.push((id, name.to_string()));
    }
    named.sort();
    if named.is_empty() || named.windows(2).any(|pair| pair[0].0 == pair[1].0) {
        return Err(DataError::malformed(file, "its categories are empty or share an id"));
    }
    let classes = named.iter().enumerate().map(|(class, (id, _))| (*id, class as u32)).collect();
    Ok((classes, named.into_iter().map(|(_, name)| name).collect()))
}

/// Where images may lie: `train2017/` beside `annotations/instances_train2017.json`, `images/`, or beside the file.
fn image_folders(file: &Path, root: Option<&Path>) -> Vec<PathBuf> {
    let beside = file.parent().map(Path::to_path_buf).unwrap_or_default();
    let above = root.map(Path::to_path_buf).or_else(|| beside.parent().map(Path::to_path_buf)).unwrap_or_default();
    let stem = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let part = stem.rsplit('_').next().unwrap_or_default().to_string();
    let mut folders = Vec::new();
    for base in [above, beside] {
        folders.extend([base.join(&part), base.join("images").join(&part), base.join("images"), base.clone()]);
    }
    folders
}

fn described(file: &Path, image: &Value, folders: &[PathBuf]) -> Result<(u64, Described), DataError> {
    let id = image.get("id").and_then(Value::as_u64);
    let name = image.get("file_name").and_then(Value::as_str);
    let side = |key: &str| image.get(key).and_then(Value::as_f64).filter(|side| *side >= 1.0);
    let (Some(id), Some(name), Some(width), Some(height)) = (id, name, side("width"), side("height")) else {
        return Err(DataError::malformed(file, "an image has no id, file_name, width or height"));
    };
    let found = folders.iter().map(|folder| folder.join(name)).find(|path| path.is_file());
    let path = found.ok_or_else(|| {
        let problem = format!("the image {name} is in none of {} and its neighbors", folders[0].display());
        DataError::malformed(file, problem)
    })?;
    Ok((id, Described { path, width, height }))
}

/// An annotation as evaluation counts it, and the position of its image.
fn object(
    annotation: &Value,
    classes: &HashMap<u64, u32>,
    positions: &HashMap<u64, usize>,
) -> Result<(usize, GroundTruthObject), String> {
    let number = |key: &str| annotation.get(key).and_then(Value::as_u64);
    let image = image_of(annotation, positions).ok_or("its image is not in the file")?;
    let class = number("category_id").and_then(|id| classes.get(&id)).ok_or("its category is not in the file")?;
    let numbers: Option<Vec<f64>> =
        annotation.get("bbox").and_then(Value::as_array).and_then(|list| list.iter().map(Value::as_f64).collect());
    let Some(&[x, y, width, height]) = numbers.as_deref() else {
        return Err("its bbox is not four numbers".to_string());
    };
    let area = annotation.get("area").and_then(Value::as_f64).unwrap_or(width * height);
    let crowd = annotation.get("iscrowd").is_some_and(|crowd| crowd.as_u64() == Some(1));
    let detail = Default::default();
    Ok((image, GroundTruthObject { class: *class, corners: [x, y, x + width, y + height], area, crowd, detail }))
}

/// What is learned of an object: boxes may reach over the edge of the image by a part of a pixel.
fn learned(object: &GroundTruthObject, image: &Described, classes: usize) -> Result<RelativeBox, String> {
    let sides = [image.width, image.height];
    let corners = std::array::from_fn(|index| (object.corners[index] / sides[index % 2]).clamp(0.0, 1.0));
    checked(object.class, corners, classes)
}
