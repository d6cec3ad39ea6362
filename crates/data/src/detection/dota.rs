//! DOTA's layout: a text file of rotated boxes per image in `labelTxt/`, images in `images/`, either in a folder per part or once for
//! all. A line is four corners in pixels, the name of a class, and whether the object is difficult; lines on the source of an image
//! and on its resolution come before.

use super::yolo_label::{Expected, object};
use super::{DetectionSet, Dropped, LabeledImage, RelativeBox, image_ids};
use crate::decode::announced_size;
use crate::listing::{Split, entries, images_below};
use crate::{DataError, LabelKind};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The classes of DOTA by the numbers that weights trained on it have: 15 in its first version, then one more, then two.
const CLASSES: [&str; 18] = [
    "plane",
    "ship",
    "storage-tank",
    "baseball-diamond",
    "tennis-court",
    "basketball-court",
    "ground-track-field",
    "harbor",
    "bridge",
    "large-vehicle",
    "small-vehicle",
    "helicopter",
    "roundabout",
    "soccer-ball-field",
    "swimming-pool",
    "container-crane",
    "airport",
    "helipad",
];

/// How many of them the versions have.
const VERSIONS: [usize; 3] = [15, 16, 18];

/// Images and labels of a part.
struct Part {
    images: PathBuf,
    labels: PathBuf,
}

impl Part {
    /// `images/` and a folder whose name begins with `labelTxt`, which may hold another one.
    fn of(folder: &Path) -> Option<Part> {
        let is_labels = |path: &PathBuf| {
            path.is_dir() && path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("labelTxt"))
        };
        let labels_in = |folder: &Path| entries(folder).ok()?.into_iter().find(is_labels);
        let images = folder.join("images");
        let labels = labels_in(folder).filter(|_| images.is_dir())?;
        Some(Part { images, labels: labels_in(&labels).unwrap_or(labels) })
    }
}

/// The folder of a part; the data set itself where it has no parts.
fn part_of(folder: &Path, part: Split) -> Option<Part> {
    let named = part.names().iter().find_map(|name| Part::of(&folder.join(name)));
    named.or_else(|| Part::of(folder))
}

/// Whether a folder has this layout.
pub(super) fn is_here(folder: &Path) -> bool {
    part_of(folder, Split::Train).is_some()
}

/// Whether a data set has images of that part of their own.
pub(super) fn has_part(folder: &Path, part: Split) -> bool {
    part.names().iter().any(|name| Part::of(&folder.join(name)).is_some())
}

pub(super) fn open(folder: &Path, part: Split, kind: LabelKind) -> Result<DetectionSet, DataError> {
    if kind == LabelKind::Keypoints {
        return Err(DataError::malformed(folder, "DOTA's files have corners and no keypoints"));
    }
    let missing = || DataError::malformed(folder, "it has no images/ and labelTxt/ for this part");
    let Part { images, labels } = part_of(folder, part).ok_or_else(missing)?;
    let names = names(folder)?;
    let images = images_below(&images)?;
    let expected = Expected { classes: names.len(), kind, keypoints: None };
    let mut dropped = Vec::new();
    let ids = image_ids(&images);
    let images = images.into_iter().zip(ids).enumerate().map(|(index, (path, id))| {
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        let file = labels.join(format!("{stem}.txt"));
        let boxes = objects(&path, &file, index, &names, &expected, &mut dropped)?;
        Ok(LabeledImage { path, boxes, id, ground_truth: None })
    });
    let images = images.collect::<Result<Vec<_>, DataError>>()?;
    Ok(DetectionSet::new(images, names, dropped).of_kind(kind, None))
}

/// One line of a label file, if it has an object.
fn marked(line: &str) -> Option<Result<(Vec<f64>, &str), String>> {
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let is_about = |word: &&str| word.starts_with("imagesource:") || word.starts_with("gsd:");
    if words.first().is_none_or(is_about) {
        return None;
    }
    let (9 | 10, Some((numbers, [name, ..]))) = (words.len(), words.split_at_checked(8)) else {
        let problem = format!("it has {} words; four corners, a class and a difficulty are 10", words.len());
        return Some(Err(problem));
    };
    let numbers: Option<Vec<f64>> = numbers.iter().map(|word| word.parse().ok()).collect();
    Some(numbers.map(|numbers| (numbers, *name)).ok_or_else(|| "its corners are not eight numbers".to_string()))
}

/// The classes of all parts: DOTA's own by their numbers, or others by name, so that training and validation agree.
fn names(folder: &Path) -> Result<Vec<String>, DataError> {
    let mut known = BTreeSet::new();
    for Part { labels, .. } in [Split::Train, Split::Val, Split::Test].iter().filter_map(|part| part_of(folder, *part))
    {
        for file in entries(&labels)?.iter().filter(|file| file.extension().is_some_and(|ending| ending == "txt")) {
            let text = read(file)?;
            known.extend(text.lines().filter_map(marked).flatten().map(|(_, name)| name.to_string()));
        }
    }
    if known.is_empty() {
        return Err(DataError::malformed(folder, "its label files name no objects"));
    }
    let has_all = |count: &&usize| known.iter().all(|name| CLASSES[..**count].contains(&name.as_str()));
    Ok(match VERSIONS.iter().find(has_all) {
        Some(&count) => CLASSES[..count].iter().map(ToString::to_string).collect(),
        None => known.into_iter().collect(),
    })
}

fn read(file: &Path) -> Result<String, DataError> {
    let bytes = std::fs::read(file).map_err(|error| DataError::io(file, error))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The objects of the image of that number. No file means that there is nothing to see.
fn objects(
    image: &Path,
    file: &Path,
    index: usize,
    names: &[String],
    expected: &Expected,
    dropped: &mut Vec<Dropped>,
) -> Result<Vec<RelativeBox>, DataError> {
    if !file.is_file() {
        return Ok(Vec::new());
    }
    let (height, width) = announced_size(image)?;
    let mut boxes: Vec<RelativeBox> = Vec::new();
    for (number, line) in read(file)?.lines().enumerate() {
        let Some(marked) = marked(line) else { continue };
        let found = marked.and_then(|(pixels, name)| {
            let class = names.iter().position(|known| known == name).ok_or("its class is unknown")?;
            let sides = [width as f64, height as f64].into_iter().cycle();
            let shares: Vec<f64> = pixels.iter().zip(sides).map(|(pixel, side)| pixel / side).collect();
            object(class as u32, &shares, expected)
        });
        let mut drop = |image, reason| {
            dropped.push(Dropped { file: file.to_path_buf(), image, line: Some(number + 1), reason });
        };
        match found {
            Ok(object) if boxes.contains(&object) => drop(None, "the same label stands there twice".to_string()),
            Ok(object) => boxes.push(object),
            Err(reason) => drop(Some(index), reason),
        }
    }
    Ok(boxes)
}
