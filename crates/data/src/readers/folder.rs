//! A folder per class, images inside.

use super::{Split, listing};
use crate::decode::{ChooseWindow, DecodeOptions, read_image, read_window};
use crate::{DataError, Dataset, Sample, Target};
use std::path::{Path, PathBuf};

/// Images whose class is the folder they lie in.
pub struct FolderDataset {
    samples: Vec<(PathBuf, u32)>,
    classes: Vec<String>,
    options: DecodeOptions,
    /// Files that were left out, each with the reason.
    unread: Vec<String>,
}

impl FolderDataset {
    /// The classes and images of `root`. Classes are numbered in the order of their names. Run directories are no classes.
    pub fn open(root: impl AsRef<Path>, options: DecodeOptions) -> Result<FolderDataset, DataError> {
        let root = root.as_ref();
        let (mut samples, mut classes, mut unread) = (Vec::new(), Vec::new(), Vec::new());
        for folder in listing::entries(root)?.into_iter().filter(|path| path.is_dir()) {
            if listing::is_run(&folder) {
                unread.push(format!("{}: the directory of a run is not a class", folder.display()));
                continue;
            }
            let class = classes.len() as u32;
            let (images, others) = listing::walk(&folder)?;
            samples.extend(images.into_iter().map(|path| (path, class)));
            unread.extend(others);
            classes.push(folder.file_name().unwrap_or_default().to_string_lossy().into_owned());
        }
        if let Some(problem) = other_layout(root, &classes) {
            return Err(DataError::malformed(root, problem));
        }
        match (samples.is_empty(), unread.iter().any(|line| line.contains("directory of a run"))) {
            (true, true) => Err(DataError::malformed(root, "it holds runs, not images; give a folder per class")),
            (true, false) => Err(DataError::malformed(root, "there are no class folders with images in it")),
            (false, _) => Ok(FolderDataset { samples, classes, options, unread }),
        }
    }

    /// The folder of a split; `root` itself when it has none. A folder of that name is a class, not a split, when there
    /// are no folders in it.
    pub fn open_split(
        root: impl AsRef<Path>,
        split: Split,
        options: DecodeOptions,
    ) -> Result<FolderDataset, DataError> {
        let root = root.as_ref();
        let holds_classes =
            |path: &Path| listing::entries(path).is_ok_and(|entries| entries.iter().any(|path| path.is_dir()));
        let other = if split == Split::Train { Split::Val } else { Split::Train };
        let [own, other] = [split, other].map(|split| listing::split_folder(root, split, holds_classes));
        match (own, other) {
            (Some(folder), _) => FolderDataset::open(folder, options),
            (None, Some(_)) => {
                Err(DataError::malformed(root, format!("it has no folder {}/", split.names().join("/ or "))))
            }
            (None, None) => FolderDataset::open(root, options),
        }
    }

    /// The file of every sample.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.samples.iter().map(|(path, _)| path.as_path())
    }
}

/// Why folders of these names are no classes: the layout of another task, with the command for it.
fn other_layout(root: &Path, folders: &[String]) -> Option<String> {
    let has = |names: &[&str]| folders.iter().any(|folder| names.contains(&folder.to_lowercase().as_str()));
    if !has(&["images", "image", "imgs"]) {
        return None;
    }
    let (data, is_table) = (root.display(), |path: &PathBuf| super::table::is_table(path));
    let table = listing::entries(root).ok()?.into_iter().find(is_table);
    if has(&["masks", "mask"]) {
        return Some(format!("images/ and masks/ are no classes; for masks: octant train segment --data {data}"));
    }
    if has(&["labels", "annotations"]) {
        return Some(format!("images/ and labels are no classes; for boxes: octant train detect --data {data}"));
    }
    let name = table?.file_name()?.to_string_lossy().into_owned();
    Some(format!(
        "images/ is not a class: {name} holds the labels; for any number of labels per image: octant train multilabel \
         --data {data}; for columns of numbers: octant train regress --data {data}; for classes, sort the images into a folder per \
         class"
    ))
}

impl Dataset for FolderDataset {
    fn len(&self) -> usize {
        self.samples.len()
    }

    fn get(&self, index: usize) -> Result<Sample, DataError> {
        let (path, class) = &self.samples[index];
        Ok(Sample { image: read_image(path, &self.options)?, target: Target::Class(*class) })
    }

    fn window(&self, index: usize, choose: &mut ChooseWindow) -> Option<Result<Sample, DataError>> {
        let (path, class) = &self.samples[index];
        let image = read_window(path, &self.options, choose);
        Some(image.map(|image| Sample { image, target: Target::Class(*class) }))
    }

    fn classes_of(&self, index: usize) -> Result<Vec<u32>, DataError> {
        Ok(vec![self.samples[index].1])
    }

    fn class_names(&self) -> &[String] {
        &self.classes
    }

    fn left_out(&self) -> Vec<String> {
        self.unread.clone()
    }

    fn location(&self, index: usize) -> String {
        self.samples[index].0.display().to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::write_png_u8;
    use octant_imaging::Image;

    #[test]
    fn images_of_formats_that_are_not_read_were_passed_over_in_silence() {
        let folder = tempfile::tempdir().unwrap();
        let class = folder.path().join("cat");
        std::fs::create_dir(&class).unwrap();
        write_png_u8(class.join("a.png"), &Image::filled(2, 2, 3, 9)).unwrap();
        for name in ["b.jxl", "c.HEIC", "notes.txt"] {
            std::fs::write(class.join(name), "x").unwrap();
        }
        let set = FolderDataset::open(folder.path(), DecodeOptions::default()).unwrap();
        let lines = set.left_out();
        assert!(set.len() == 1 && lines.len() == 2, "{lines:?}");
        assert!(lines[0].contains("b.jxl") && lines[1].contains("c.HEIC"), "{lines:?}");
    }
}
