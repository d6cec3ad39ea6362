//! Ultralytics' layout: a yaml file names folders or lists of images, and every image has a text file of labels where
//! `/images/` of its path becomes `/labels/`.

use super::yaml::{self, Yaml};
use super::yolo_label::{Expected, label};
use super::{DetectionSet, Dropped, LabeledImage, RelativeBox, image_ids};
use crate::decode::ImageFileFormat;
use crate::listing::{Split, images_below};
use crate::{DataError, KeypointLayout, LabelKind};
use std::path::{Path, PathBuf};

pub(super) fn open(file: &Path, part: Split, kind: LabelKind) -> Result<DetectionSet, DataError> {
    let text = std::fs::read_to_string(file).map_err(|error| DataError::io(file, error))?;
    let yaml = yaml::parse(&text).map_err(|problem| DataError::malformed(file, problem))?;
    let names = names(file, &yaml)?;
    let keypoints = keypoints(&yaml).map_err(|problem| DataError::malformed(file, problem))?;
    if kind == LabelKind::Keypoints && keypoints.is_none() {
        let problem = "it has no `kpt_shape: [POINTS, 2 or 3]`, so its labels have no keypoints";
        return Err(DataError::malformed(file, problem));
    }
    let expected = Expected { classes: names.len(), kind, keypoints: keypoints.as_ref() };
    let images = image_files(file, &yaml, part)?;
    let mut dropped = Vec::new();
    let ids = image_ids(&images);
    let images = images
        .into_iter()
        .zip(ids)
        .enumerate()
        .map(|(index, (path, id))| {
            let boxes = labels(&label_file(&path), index, &expected, &mut dropped)?;
            Ok(LabeledImage { path, boxes, id, ground_truth: None })
        })
        .collect::<Result<Vec<_>, DataError>>()?;
    Ok(DetectionSet::new(images, names, dropped).of_kind(kind, keypoints))
}

/// Whether a file says how many keypoints every object has.
pub(super) fn has_keypoints(file: &Path) -> bool {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    yaml::parse(&text).is_ok_and(|yaml| yaml.get("kpt_shape").is_some())
}

/// `kpt_shape` and `flip_idx`.
fn keypoints(yaml: &Yaml) -> Result<Option<KeypointLayout>, String> {
    let numbers = |key: &str| -> Result<Option<Vec<usize>>, String> {
        let Some(value) = yaml.get(key) else { return Ok(None) };
        let texts = value.texts().unwrap_or_default();
        let numbers: Option<Vec<usize>> = texts.iter().map(|text| text.parse().ok()).collect();
        numbers.map(Some).ok_or_else(|| format!("`{key}` is not a list of whole numbers"))
    };
    let Some(shape) = numbers("kpt_shape")? else { return Ok(None) };
    let [count, columns @ (2 | 3)] = shape[..] else {
        return Err("`kpt_shape` is not the number of keypoints and 2 or 3, such as [17, 3]".to_string());
    };
    if !(1..=1000).contains(&count) {
        return Err(format!("`kpt_shape` has {count} keypoints; there can be 1 to 1000"));
    }
    let mirrored = numbers("flip_idx")?.filter(|numbers| !numbers.is_empty());
    if let Some(mirrored) = &mirrored {
        let mut sorted = mirrored.clone();
        sorted.sort_unstable();
        if !sorted.into_iter().eq(0..count) {
            return Err(format!("`flip_idx` does not list every number from 0 to {} once", count - 1));
        }
    }
    Ok(Some(KeypointLayout { count, visibility: columns == 3, mirrored }))
}

fn names(file: &Path, yaml: &Yaml) -> Result<Vec<String>, DataError> {
    let count = yaml.get("nc").and_then(Yaml::text).and_then(|text| text.parse::<usize>().ok());
    let Some(listed) = yaml.get("names") else {
        let count =
            count.ok_or_else(|| DataError::malformed(file, "it names no classes; add `names:` with one per class"))?;
        return Ok((0..count).map(|class| format!("class {class}")).collect());
    };
    let names = listed
        .names()
        .filter(|names| !names.is_empty())
        .ok_or_else(|| DataError::malformed(file, "`names` is neither a list nor a map from 0, 1, 2 … to names"))?;
    match count {
        Some(count) if count != names.len() => {
            let problem = format!("nc is {count}, but {} classes are named", names.len());
            Err(DataError::malformed(file, problem))
        }
        _ => Ok(names),
    }
}

/// The keys that name a part's images, the usual one first.
fn keys(part: Split) -> &'static [&'static str] {
    match part {
        Split::Train => &["train"],
        Split::Val => &["val", "test"],
        Split::Test => &["test"],
    }
}

/// Whether a file names images of that part.
pub(super) fn has_part(file: &Path, part: Split) -> bool {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let names_images = |yaml: Yaml| keys(part).iter().any(|key| yaml.get(key).and_then(Yaml::texts).is_some());
    yaml::parse(&text).is_ok_and(names_images)
}

/// The images of a part, from folders and lists, in the order of names.
fn image_files(file: &Path, yaml: &Yaml, part: Split) -> Result<Vec<PathBuf>, DataError> {
    let is_there = |key: &&&str| yaml.get(key).is_some_and(|value| value.texts().is_some());
    let keys = keys(part);
    let key = *keys.iter().find(is_there).unwrap_or(&keys[0]);
    let listed = yaml
        .get(key)
        .and_then(Yaml::texts)
        .ok_or_else(|| DataError::malformed(file, format!("it has no `{key}:` with a folder or a list of images")))?;
    let roots = roots(file, yaml);
    let mut images = Vec::new();
    for name in listed {
        let candidates: Vec<PathBuf> = roots.iter().map(|root| root.join(name)).collect();
        let Some(found) = candidates.iter().find(|path| path.exists()) else {
            let tried: Vec<String> = candidates.iter().map(|path| path.display().to_string()).collect();
            let problem = format!("`{key}: {name}` is not there; looked for {}", tried.join(" and "));
            return Err(DataError::malformed(file, problem));
        };
        match found.is_dir() {
            true => images.extend(images_below(found)?),
            false => images.extend(listed_images(found)?),
        }
    }
    if images.is_empty() {
        return Err(DataError::malformed(file, format!("`{key}` leads to no images")));
    }
    images.sort();
    images.dedup();
    Ok(images)
}

/// Where relative paths may start: at `path`, itself relative to the yaml file or to the working directory, or beside the
/// yaml file.
fn roots(file: &Path, yaml: &Yaml) -> Vec<PathBuf> {
    let beside = file.parent().map(Path::to_path_buf).unwrap_or_default();
    let Some(path) = yaml.get("path").and_then(Yaml::text) else { return vec![beside] };
    let mut roots = vec![beside.join(path)];
    if Path::new(path).is_relative() {
        roots.push(PathBuf::from(path));
    }
    roots.push(beside);
    roots
}

fn listed_images(list: &Path) -> Result<Vec<PathBuf>, DataError> {
    let text = std::fs::read_to_string(list).map_err(|error| DataError::io(list, error))?;
    let folder = list.parent().unwrap_or(Path::new(""));
    let names = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let images: Vec<PathBuf> = names
        .map(|name| folder.join(name.strip_prefix("./").unwrap_or(name)))
        .filter(|path| ImageFileFormat::has_image_extension(path))
        .collect();
    match images.iter().find(|path| !path.is_file()) {
        Some(missing) => Err(DataError::malformed(list, format!("there is no {}", missing.display()))),
        None => Ok(images),
    }
}

/// The last folder `images` becomes `labels`, the ending `txt`.
pub(super) fn label_file(image: &Path) -> PathBuf {
    let parts: Vec<_> = image.components().collect();
    let last = parts.iter().rposition(|part| part.as_os_str() == "images");
    let path: PathBuf = parts
        .iter()
        .enumerate()
        .map(|(index, part)| if Some(index) == last { "labels".as_ref() } else { part.as_os_str() })
        .collect();
    path.with_extension("txt")
}

/// The labels of the image of that number. No file means that there is nothing to see.
fn labels(
    file: &Path,
    image: usize,
    expected: &Expected,
    dropped: &mut Vec<Dropped>,
) -> Result<Vec<RelativeBox>, DataError> {
    let bytes = match std::fs::read(file) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(DataError::io(file, error)),
    };
    let mut boxes: Vec<RelativeBox> = Vec::new();
    let text = String::from_utf8_lossy(&bytes);
    for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let mut drop = |image, reason| {
            dropped.push(Dropped { file: file.to_path_buf(), image, line: Some(index + 1), reason });
        };
        match label(line, expected) {
            Ok(object) if boxes.contains(&object) => drop(None, "the same label stands there twice".to_string()),
            Ok(object) => boxes.push(object),
            Err(reason) => drop(Some(image), reason),
        }
    }
    Ok(boxes)
}
