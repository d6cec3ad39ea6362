//! What a data set of boxes is like, before anything is learned from it.

use super::DetectionSet;
use crate::{DataError, Dataset};
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hasher};
use std::path::PathBuf;

/// Counts and findings over one or two parts of a data set.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct BoxSurvey {
    /// Images.
    pub images: usize,
    /// Images without objects.
    pub empty: usize,
    /// Objects.
    pub objects: usize,
    /// The most objects in one image.
    pub most: usize,
    /// Objects per class.
    pub per_class: Vec<(String, usize)>,
    /// How many objects have a longer side of at most 1 %, 3 %, 10 %, 30 % and 100 % of the image's.
    pub sizes: [usize; 5],
    /// Images with the same content within a part.
    pub duplicates: Vec<(PathBuf, PathBuf)>,
    /// Images that are in the other part as well.
    pub leaked: Vec<(PathBuf, PathBuf)>,
}

impl BoxSurvey {
    /// The upper bounds of [`BoxSurvey::sizes`].
    pub const SIZES: [f64; 5] = [0.01, 0.03, 0.1, 0.3, 1.0];
}

/// Looks at every label and at the content of every file of `set`; `other` is the part that must not share images with it.
pub fn survey(set: &DetectionSet, other: Option<&DetectionSet>) -> Result<BoxSurvey, DataError> {
    let mut result = BoxSurvey { images: set.images().len(), most: set.most_boxes(), ..BoxSurvey::default() };
    let mut counts = vec![0; set.class_names().len()];
    for image in set.images() {
        result.empty += usize::from(image.boxes.is_empty());
        result.objects += image.boxes.len();
        for object in &image.boxes {
            if let Some(count) = counts.get_mut(object.class as usize) {
                *count += 1;
            }
            let [x0, y0, x1, y1] = object.corners;
            let longer = (x1 - x0).max(y1 - y0);
            let size = BoxSurvey::SIZES.iter().position(|&bound| longer <= bound).unwrap_or(4);
            result.sizes[size] += 1;
        }
    }
    result.per_class = set.class_names().iter().cloned().zip(counts).collect();
    let mut seen: HashMap<u64, PathBuf> = HashMap::new();
    for image in set.images() {
        let hash = content_hash(&image.path)?;
        if let Some(first) = seen.get(&hash) {
            result.duplicates.push((first.clone(), image.path.clone()));
        } else {
            seen.insert(hash, image.path.clone());
        }
    }
    for image in other.iter().flat_map(|other| other.images()) {
        if let Some(own) = seen.get(&content_hash(&image.path)?) {
            result.leaked.push((own.clone(), image.path.clone()));
        }
    }
    Ok(result)
}

fn content_hash(path: &PathBuf) -> Result<u64, DataError> {
    let bytes = std::fs::read(path).map_err(|error| DataError::io(path, error))?;
    let mut hasher = DefaultHasher::new();
    hasher.write(&bytes);
    Ok(hasher.finish())
}
