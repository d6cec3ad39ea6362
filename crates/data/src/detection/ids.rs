//! The numbers that COCO's files know images and classes by. Annotations and predictions must use the same ones, so that there
//! is one rule for all that write them.

use super::coco::{categories, parsed};
use crate::DataError;
use serde_json::Value;
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

/// Numbers that COCO's own annotations leave out between 1 and 90.
const GAPS: [u64; 10] = [12, 26, 29, 30, 45, 66, 68, 69, 71, 83];

/// Numbers for images without an annotation file, in their order: those that their file names are, if all are numbers and no
/// two the same, as COCO's are; else counted from 1.
pub fn image_ids<P: AsRef<Path>>(paths: &[P]) -> Vec<u64> {
    let number = |path: &P| -> Option<u64> { path.as_ref().file_stem()?.to_str()?.parse().ok() };
    let numbers: Option<Vec<u64>> = paths.iter().map(number).collect();
    let distinct = |numbers: &Vec<u64>| numbers.iter().collect::<HashSet<_>>().len() == numbers.len();
    numbers.filter(distinct).unwrap_or_else(|| (1..=paths.len() as u64).collect())
}

/// The number of a class: that of the category of its name, else COCO's own for its 80 classes, else counted from 1.
pub fn category_id(class: usize, names: &[String], categories: &[(u64, String)]) -> u64 {
    let named = names.get(class).and_then(|name| categories.iter().find(|(_, known)| known == name));
    if let Some((id, _)) = named.or_else(|| categories.get(class).filter(|_| names.is_empty())) {
        return *id;
    }
    let is_coco = names.len() == 80 && names[0] == "person" && names[79] == "toothbrush";
    let own = || (1..=90).filter(|number| !GAPS.contains(number)).nth(class);
    is_coco.then(own).flatten().unwrap_or(class as u64 + 1)
}

/// An annotation file as far as results need it.
#[derive(Debug, Clone, Default)]
pub struct CocoIds {
    /// The file.
    pub file: PathBuf,
    /// Images by their file name without folders.
    images: HashMap<String, u64>,
    /// Categories with their names, by number.
    pub categories: Vec<(u64, String)>,
}

impl CocoIds {
    /// Reads an annotation file.
    pub fn read(file: &Path) -> Result<CocoIds, DataError> {
        let json = parsed(file)?;
        let list = |key: &str| json.get(key).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let image = |image: &Value| {
            let name = Path::new(image.get("file_name")?.as_str()?).file_name()?.to_string_lossy().into_owned();
            Some((name, image.get("id")?.as_u64()?))
        };
        let (numbers, names) = categories(file, list("categories"))?;
        let mut categories: Vec<(u64, String)> =
            numbers.into_iter().map(|(id, class)| (id, names[class as usize].clone())).collect();
        categories.sort();
        Ok(CocoIds { file: file.into(), images: list("images").iter().filter_map(image).collect(), categories })
    }

    /// The annotation file of images in COCO's layout, `annotations/instances_PART.json` beside the folder `PART` of images or
    /// above it, if it knows all of them.
    pub fn beside(images: &[PathBuf]) -> Option<CocoIds> {
        let folder = std::path::absolute(images.first()?.parent()?).ok()?;
        let part = folder.file_name()?.to_string_lossy().into_owned();
        let above = folder.ancestors().skip(1).take(2).map(|folder| folder.join("annotations"));
        let files = above.flat_map(|folder| crate::listing::entries(&folder).unwrap_or_default());
        let is_of_part = |path: &PathBuf| {
            let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            let is_json = path.extension().is_some_and(|ending| ending == "json");
            is_json && stem.rsplit('_').next() == Some(&part) && !stem.contains("caption") && !stem.contains("keypoint")
        };
        let read = files.filter(is_of_part).filter_map(|file| CocoIds::read(&file).ok());
        read.into_iter().find(|ids| images.iter().all(|image| ids.image(image).is_some()))
    }

    /// The number of an image file.
    pub fn image(&self, path: &Path) -> Option<u64> {
        self.images.get(&*path.file_name()?.to_string_lossy()).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_images_collided_where_only_some_names_are_numbers() {
        assert_eq!(image_ids(&["2.png", "a.png", "7.png"]), [1, 2, 3]);
        assert_eq!(image_ids(&["a/1.png", "b/1.png"]), [1, 2]);
        assert_eq!(image_ids(&["000000000139.jpg", "000000000285.jpg"]), [139, 285]);
    }

    #[test]
    fn classes_of_coco_have_its_own_numbers() {
        let mut names: Vec<String> = (0..80).map(|class| format!("class {class}")).collect();
        assert_eq!([0, 79].map(|class| category_id(class, &names, &[])), [1, 80]);
        (names[0], names[79]) = ("person".into(), "toothbrush".into());
        assert_eq!([0, 10, 11, 24, 79].map(|class| category_id(class, &names, &[])), [1, 11, 13, 27, 90]);
        let own = [(3, "toothbrush".to_string()), (9, "person".to_string())];
        assert_eq!([0, 79].map(|class| category_id(class, &names, &own)), [9, 3]);
    }
}
