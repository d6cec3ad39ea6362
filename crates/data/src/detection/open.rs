//! Which form a data set of boxes has, and opening it.

use super::{DetectionSet, coco, dota, voc, yolo};
use crate::listing::Split;
use crate::{DataError, LabelKind};
use std::path::{Path, PathBuf};

/// What happens to a label that cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LabelRule {
    /// It is left out, its image stays.
    #[default]
    DropLabel,
    /// Its whole image is left out, and so are images with a side below 10 pixels: Ultralytics' rule. Labels that stand
    /// there twice are left out by themselves.
    DropImage,
}

/// Opens a data set of boxes: a `.yaml` of Ultralytics' form, a COCO `.json` (images in `images/` beside it or where its
/// file names say), a folder with `Annotations/*.xml`, DOTA's with `images/` and `labelTxt/`, or a folder with one of these.
pub fn open(path: &Path, part: Split) -> Result<DetectionSet, DataError> {
    open_by(path, part, LabelRule::default())
}

/// The same by another rule for labels that cannot be used.
pub fn open_by(path: &Path, part: Split, rule: LabelRule) -> Result<DetectionSet, DataError> {
    open_as(path, part, rule, LabelKind::Boxes)
}

/// The same with labels that say more of every object than its box. Labels without it are left out.
pub fn open_as(path: &Path, part: Split, rule: LabelRule, kind: LabelKind) -> Result<DetectionSet, DataError> {
    let set = open_all(path, part, kind)?;
    match rule {
        LabelRule::DropLabel => Ok(set),
        LabelRule::DropImage => set.without_bad_images(),
    }
}

fn open_all(path: &Path, part: Split, kind: LabelKind) -> Result<DetectionSet, DataError> {
    match ending(path).as_str() {
        "yaml" | "yml" => yolo::open(path, part, kind),
        "json" => coco::open(path, None, kind),
        _ if path.is_dir() => open_folder(path, part, kind),
        _ => Err(DataError::malformed(
            path,
            "a data set of boxes is a .yaml file, a COCO .json file or a folder with one of them, Annotations/ or labelTxt/",
        )),
    }
}

/// The ending of a file's name, in small letters.
fn ending(path: &Path) -> String {
    path.extension().map(|ending| ending.to_string_lossy().to_lowercase()).unwrap_or_default()
}

/// Whether [`open`] would know what to do with it.
pub fn holds_boxes(path: &Path) -> bool {
    ["yaml", "yml", "json"].contains(&ending(path).as_str())
        || path.join("Annotations").is_dir()
        || dota::is_here(path)
        || yaml_in(path).is_some()
        || [Split::Train, Split::Val].iter().any(|part| coco_in(path, *part, LabelKind::Boxes).is_some())
}

/// Whether a data set names a part, which it may do even if the part cannot be opened. Where it names none, every part is all of it.
pub fn has_part(path: &Path, part: Split, kind: LabelKind) -> bool {
    let is_yaml = |path: &&Path| ["yaml", "yml"].contains(&ending(path).as_str());
    let yaml = if path.is_dir() { yaml_in(path) } else { Some(path).filter(is_yaml).map(Path::to_path_buf) };
    match yaml {
        Some(file) => yolo::has_part(&file, part),
        None if path.join("Annotations").is_dir() => voc::has_part(path, part),
        None if dota::is_here(path) => dota::has_part(path, part),
        None if path.is_dir() => coco_in(path, part, kind).is_some(),
        None => true,
    }
}

/// The annotation file of a part in COCO's folder. Keypoints have files of their own there.
fn coco_in(folder: &Path, part: Split, kind: LabelKind) -> Option<PathBuf> {
    let files = crate::listing::entries(&folder.join("annotations")).ok()?;
    let found = |of_keypoints: bool| {
        let is_wanted = |path: &&PathBuf, part_name: &str| {
            let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
            let is_of_kind = name.contains("keypoint") == of_keypoints;
            name.ends_with(".json") && name.contains(part_name) && !name.contains("caption") && is_of_kind
        };
        part.names().iter().find_map(|name| files.iter().find(|path| is_wanted(path, name)).cloned())
    };
    let of_keypoints = (kind == LabelKind::Keypoints).then(|| found(true)).flatten();
    of_keypoints.or_else(|| found(false))
}

/// The kind of labels that a data set seems to have: keypoints where it says how many there are, corners in DOTA's files, else boxes. Outlines and
/// corners look alike, and either is a box to a detector, so these are chosen by the task.
pub fn apparent_kind(path: &Path) -> LabelKind {
    let yaml = if path.is_dir() { yaml_in(path) } else { Some(path.to_path_buf()) };
    match &yaml {
        Some(file) if yolo::has_keypoints(file) => LabelKind::Keypoints,
        None if dota::is_here(path) => LabelKind::Corners,
        _ => LabelKind::Boxes,
    }
}

/// The only yaml file of a folder.
fn yaml_in(folder: &Path) -> Option<PathBuf> {
    let is_yaml = |path: &PathBuf| path.extension().is_some_and(|ending| ending == "yaml" || ending == "yml");
    let mut found = crate::listing::entries(folder).ok()?.into_iter().filter(is_yaml);
    found.next().filter(|_| found.next().is_none())
}

fn open_folder(folder: &Path, part: Split, kind: LabelKind) -> Result<DetectionSet, DataError> {
    if let Some(file) = yaml_in(folder) {
        return yolo::open(&file, part, kind);
    }
    if folder.join("Annotations").is_dir() {
        return match kind {
            LabelKind::Boxes => voc::open(folder, part),
            _ => Err(DataError::malformed(folder, format!("Pascal VOC's files have boxes and no {}", kind.name()))),
        };
    }
    if dota::is_here(folder) {
        return dota::open(folder, part, kind);
    }
    match coco_in(folder, part, kind) {
        Some(file) => coco::open(&file, Some(folder), kind),
        None => Err(DataError::malformed(
            folder,
            "there is no single .yaml file, no Annotations/ with .xml files, no annotations/ with .json files and no images/ \
             with labelTxt/ in it",
        )),
    }
}
