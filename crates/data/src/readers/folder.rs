//! A folder per class, images inside.

use super::{Split, listing};
use crate::decode::{DecodeOptions, read_image};
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
    /// The classes and images of `root`. Classes are numbered in the order of their names.
    pub fn open(root: impl AsRef<Path>, options: DecodeOptions) -> Result<FolderDataset, DataError> {
        let root = root.as_ref();
        let folders: Vec<PathBuf> = listing::entries(root)?.into_iter().filter(|path| path.is_dir()).collect();
        let (mut samples, mut classes, mut unread) = (Vec::new(), Vec::new(), Vec::new());
        for folder in folders {
            let class = classes.len() as u32;
            let (images, others) = listing::walk(&folder)?;
            samples.extend(images.into_iter().map(|path| (path, class)));
            unread.extend(others);
            classes.push(folder.file_name().unwrap_or_default().to_string_lossy().into_owned());
        }
        if samples.is_empty() {
            return Err(DataError::malformed(root, "there are no class folders with images in it"));
        }
        Ok(FolderDataset { samples, classes, options, unread })
    }

    /// The `train` or the `val`/`test` folder of `root`; `root` itself when it has neither.
    pub fn open_split(
        root: impl AsRef<Path>,
        split: Split,
        options: DecodeOptions,
    ) -> Result<FolderDataset, DataError> {
        let root = root.as_ref();
        let names: &[&str] = match split {
            Split::Train => &["train", "training"],
            Split::Test => &["val", "valid", "validation", "test"],
        };
        let has_train = root.join("train").is_dir() || root.join("training").is_dir();
        match listing::folder_named(root, names) {
            Ok(folder) => FolderDataset::open(folder, options),
            Err(error) if has_train => Err(error),
            Err(_) => FolderDataset::open(root, options),
        }
    }

    /// The file of every sample.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.samples.iter().map(|(path, _)| path.as_path())
    }
}

impl Dataset for FolderDataset {
    fn len(&self) -> usize {
        self.samples.len()
    }

    fn get(&self, index: usize) -> Result<Sample, DataError> {
        let (path, class) = &self.samples[index];
        Ok(Sample { image: read_image(path, &self.options)?, target: Target::Class(*class) })
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
        for name in ["b.gif", "c.HEIC", "notes.txt"] {
            std::fs::write(class.join(name), "x").unwrap();
        }
        let set = FolderDataset::open(folder.path(), DecodeOptions::default()).unwrap();
        let lines = set.left_out();
        assert!(set.len() == 1 && lines.len() == 2, "{lines:?}");
        assert!(lines[0].contains("b.gif") && lines[1].contains("c.HEIC"), "{lines:?}");
    }
}
