//! Pascal VOC: an xml file per image in `Annotations/`, images in `JPEGImages/`, lists in `ImageSets/Main/`. Corners are
//! pixels that count from 1, both included.

use super::{DetectionSet, Dropped, LabeledImage, RelativeBox, checked, image_ids, within_image};
use crate::DataError;
use crate::listing::{Split, entries};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// One object as the file has it.
struct Marked {
    name: String,
    corners: [f64; 4],
}

struct Annotation {
    file: PathBuf,
    image: PathBuf,
    size: [f64; 2],
    objects: Vec<Result<Marked, String>>,
}

pub(super) fn open(folder: &Path, part: Split) -> Result<DetectionSet, DataError> {
    let annotations: Vec<Annotation> =
        files(folder, part)?.iter().map(|file| read(folder, file)).collect::<Result<_, _>>()?;
    // Classes are numbered by name over all parts, so that training and validation agree.
    let mut known = BTreeSet::new();
    for file in all_files(folder)? {
        known.extend(read(folder, &file)?.objects.into_iter().flatten().map(|object| object.name));
    }
    let names: Vec<String> = known.into_iter().collect();
    if annotations.is_empty() || names.is_empty() {
        return Err(DataError::malformed(folder, "its Annotations/ name no objects"));
    }
    let mut dropped = Vec::new();
    let paths: Vec<&Path> = annotations.iter().map(|annotation| annotation.image.as_path()).collect();
    let ids = image_ids(&paths);
    let images = annotations.iter().zip(ids).enumerate().map(|(index, (annotation, id))| {
        let boxes = annotation.objects.iter().filter_map(|object| {
            let result =
                object.as_ref().map_err(String::clone).and_then(|object| relative(object, annotation.size, &names));
            let note = |reason| {
                dropped.push(Dropped { file: annotation.file.clone(), image: Some(index), line: None, reason })
            };
            result.map_err(note).ok()
        });
        LabeledImage { boxes: boxes.collect(), path: annotation.image.clone(), id, ground_truth: None }
    });
    let images: Vec<LabeledImage> = images.collect();
    Ok(DetectionSet::new(images, names, dropped))
}

fn relative(object: &Marked, [width, height]: [f64; 2], names: &[String]) -> Result<RelativeBox, String> {
    let class = names.binary_search(&object.name).map_err(|_| "its class is unknown".to_string())?;
    let [x0, y0, x1, y1] = object.corners;
    let corners = [(x0 - 1.0) / width, (y0 - 1.0) / height, x1 / width, y1 / height];
    within_image(&corners)?;
    checked(class as u32, corners, names.len())
}

fn all_files(folder: &Path) -> Result<Vec<PathBuf>, DataError> {
    let is_xml = |path: &PathBuf| path.extension().is_some_and(|ending| ending == "xml");
    Ok(entries(&folder.join("Annotations"))?.into_iter().filter(is_xml).collect())
}

/// The lists of a part, the first of which counts.
fn lists(part: Split) -> &'static [&'static str] {
    match part {
        Split::Train => &["train.txt", "trainval.txt"],
        Split::Val => &["val.txt", "test.txt"],
        Split::Test => &["test.txt"],
    }
}

fn list(folder: &Path, part: Split) -> Option<PathBuf> {
    lists(part).iter().map(|name| folder.join("ImageSets/Main").join(name)).find(|path| path.is_file())
}

/// Whether a folder has images of that part: without a list of its own it has what no other list names.
pub(super) fn has_part(folder: &Path, part: Split) -> bool {
    part != Split::Test || list(folder, part).is_some()
}

/// The files of a part by its list. Without one, those that are in no other part's list; where all are, or no part has a list, the
/// part has all of them, and training holds some out.
fn files(folder: &Path, part: Split) -> Result<Vec<PathBuf>, DataError> {
    if let Some(list) = list(folder, part) {
        return listed(folder, &list);
    }
    let others: &[Split] = match part {
        Split::Train => &[Split::Val, Split::Test],
        Split::Val => &[Split::Train],
        Split::Test => return Err(DataError::malformed(folder, "it has no ImageSets/Main/test.txt")),
    };
    let mut elsewhere = BTreeSet::new();
    for list in others.iter().filter_map(|other| list(folder, *other)) {
        elsewhere.extend(listed(folder, &list)?);
    }
    let all = all_files(folder)?;
    let rest: Vec<PathBuf> = all.iter().filter(|file| !elsewhere.contains(*file)).cloned().collect();
    Ok(if rest.is_empty() { all } else { rest })
}

fn listed(folder: &Path, list: &Path) -> Result<Vec<PathBuf>, DataError> {
    let text = std::fs::read_to_string(list).map_err(|error| DataError::io(list, error))?;
    let names = text.lines().filter_map(|line| line.split_whitespace().next());
    Ok(names.map(|name| folder.join("Annotations").join(format!("{name}.xml"))).collect())
}

fn read(folder: &Path, file: &Path) -> Result<Annotation, DataError> {
    let bytes = std::fs::read(file).map_err(|error| DataError::io(file, error))?;
    let text = String::from_utf8_lossy(&bytes);
    let number = |text: &str, tag: &str| inner(text, tag).and_then(|text| text.trim().parse::<f64>().ok());
    let size = inner(&text, "size").unwrap_or_default();
    let size = [number(size, "width"), number(size, "height")];
    let ([Some(width), Some(height)], Some(name)) = (size, inner(&text, "filename")) else {
        return Err(DataError::malformed(file, "it has no <filename> or no <size> with width and height"));
    };
    if width < 1.0 || height < 1.0 {
        return Err(DataError::malformed(file, "its image has no size"));
    }
    let name = name.trim();
    let folders = ["JPEGImages", "images", "Annotations", ""];
    let image = folders.iter().map(|part| folder.join(part).join(name)).find(|path| path.is_file());
    let image = image.ok_or_else(|| DataError::malformed(file, format!("there is no image {name} beside it")))?;
    let mut objects = Vec::new();
    let mut rest = &text[..];
    while let Some((object, after)) = inner_and_rest(rest, "object") {
        objects.push(marked(object));
        rest = after;
    }
    Ok(Annotation { file: file.to_path_buf(), image, size: [width, height], objects })
}

fn marked(object: &str) -> Result<Marked, String> {
    let name = inner(object, "name").map(str::trim).filter(|name| !name.is_empty());
    let position = inner(object, "bndbox").ok_or("an object has no <bndbox>")?;
    let corner = |tag: &str| inner(position, tag).and_then(|text| text.trim().parse::<f64>().ok());
    let corners = ["xmin", "ymin", "xmax", "ymax"].map(corner);
    let (Some(name), [Some(x0), Some(y0), Some(x1), Some(y1)]) = (name, corners) else {
        return Err("an object has no name or not four corners".to_string());
    };
    Ok(Marked { name: name.to_string(), corners: [x0, y0, x1, y1] })
}

/// What stands between `<tag>` and `</tag>`; these files have no attributes and nest no tag in itself.
fn inner<'a>(text: &'a str, tag: &str) -> Option<&'a str> {
    inner_and_rest(text, tag).map(|(inner, _)| inner)
}

fn inner_and_rest<'a>(text: &'a str, tag: &str) -> Option<(&'a str, &'a str)> {
    let (open, close) = (format!("<{tag}>"), format!("</{tag}>"));
    let start = text.find(&open)? + open.len();
    let length = text[start..].find(&close)?;
    Some((&text[start..start + length], &text[start + length + close.len()..]))
}
