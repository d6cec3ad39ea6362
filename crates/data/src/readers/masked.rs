//! Images with masks: pairs of files.

use super::listing;
use super::mask_form::{MaskForm, MaskRules};
use crate::decode::{DecodeOptions, read_image};
use crate::{DataError, Dataset, NAMES_FILE, Sample, Target};
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// Pairs of image and mask files.
pub struct MaskedDataset {
    pairs: Vec<(PathBuf, PathBuf)>,
    options: DecodeOptions,
    form: MaskForm,
    classes: Vec<String>,
    /// Files that belong to no sample.
    left_out: Vec<String>,
}

impl MaskedDataset {
    /// A data set of these pairs. `names` are those of the classes by their numbers, if there are any.
    pub fn new(
        pairs: Vec<(PathBuf, PathBuf)>,
        names: Vec<String>,
        rules: &MaskRules,
        options: DecodeOptions,
    ) -> Result<MaskedDataset, DataError> {
        let masks: Vec<&Path> = pairs.iter().map(|(_, mask)| mask.as_path()).collect();
        let named = Some(names.len()).filter(|&named| named > 0);
        if let (Some(classes), Some(named)) = (rules.classes, named)
            && classes != named
        {
            let problem = format!("`classes` is {classes}, but {named} names of classes are given");
            return Err(DataError::request(problem));
        }
        let (form, classes) = MaskForm::of_files(&masks, named, rules, &options)?;
        let classes = match (&form, names.is_empty()) {
            (MaskForm::Marked, true) => vec!["background".to_string(), "target".to_string()],
            (MaskForm::Marked, false) => vec!["background".to_string(), names.concat()],
            (MaskForm::Classes(_), true) => (0..classes).map(|class| class.to_string()).collect(),
            (MaskForm::Classes(_), false) => names,
        };
        Ok(MaskedDataset::with_form(pairs, classes, form, options))
    }

    /// The same with labels of its own for the values of masks.
    pub(super) fn with_form(
        pairs: Vec<(PathBuf, PathBuf)>,
        classes: Vec<String>,
        form: MaskForm,
        options: DecodeOptions,
    ) -> MaskedDataset {
        MaskedDataset { pairs, options, form, classes, left_out: Vec::new() }
    }

    pub(super) fn with_left_out(self, left_out: Vec<String>) -> MaskedDataset {
        MaskedDataset { left_out, ..self }
    }

    /// The image and the mask file of every sample.
    pub fn pairs(&self) -> &[(PathBuf, PathBuf)] {
        &self.pairs
    }
}

/// The names of classes in a file `classes.txt` of that folder, one per line in the order of their numbers; none where there is
/// no such file.
pub(super) fn names_in_folder(root: &Path) -> Result<Vec<String>, DataError> {
    let path = root.join(NAMES_FILE);
    if path.is_file() { listing::names_in(&path) } else { Ok(Vec::new()) }
}

/// The names of classes in the folder of a shard, and none where there is no such file.
pub(super) fn names_beside(shard: &Path) -> Result<Vec<String>, DataError> {
    names_in_folder(shard.parent().unwrap_or(Path::new("")))
}

impl Dataset for MaskedDataset {
    fn len(&self) -> usize {
        self.pairs.len()
    }

    fn get(&self, index: usize) -> Result<Sample, DataError> {
        let (image_path, mask_path) = &self.pairs[index];
        let image = read_image(image_path, &self.options)?;
        let mask = self.form.read(mask_path, &self.options)?;
        let (size, mask_size) = (&image.dims()[..2], &mask.labels.dims()[..2]);
        if size != mask_size {
            let problem = format!("the mask is {}×{}, its image {}×{}", mask_size[0], mask_size[1], size[0], size[1]);
            return Err(DataError::Mismatch { path: mask_path.clone(), problem });
        }
        Ok(Sample { image, target: Target::Mask(mask) })
    }

    fn class_names(&self) -> &[String] {
        &self.classes
    }

    fn location(&self, index: usize) -> String {
        self.pairs[index].0.display().to_string()
    }

    fn left_out(&self) -> Vec<String> {
        self.left_out.clone()
    }

    /// The mask may change while its image stays.
    fn label_hash(&self, index: usize) -> Option<u64> {
        use std::hash::{DefaultHasher, Hash, Hasher};
        let path = &self.pairs[index].1;
        let facts = std::fs::metadata(path).ok()?;
        let mut hash = DefaultHasher::new();
        (path, facts.len(), facts.modified().ok()).hash(&mut hash);
        if let MaskForm::Classes(labels) = &self.form {
            labels.hash(&mut hash);
        }
        Some(hash.finish())
    }
}

/// Opens the frames of a video with a mask each: `video/` and `mask/` with the same names. Frames are in the order of their
/// names.
pub fn open_frames(
    root: impl AsRef<Path>,
    rules: &MaskRules,
    options: DecodeOptions,
) -> Result<MaskedDataset, DataError> {
    let root = root.as_ref();
    let frames = listing::images_below(&listing::folder_named(root, &["video", "frames", "images"])?)?;
    let mask_folder = listing::folder_named(root, &["mask", "masks"])?;
    let masks = listing::images_below(&mask_folder)?;
    let by_stem: HashMap<_, _> = masks.iter().filter_map(|path| Some((path.file_stem()?, path))).collect();
    let (mut pairs, mut missing) = (Vec::new(), Vec::new());
    for frame in frames {
        match frame.file_stem().and_then(|stem| by_stem.get(stem)) {
            Some(mask) => pairs.push((frame.clone(), mask.to_path_buf())),
            None => missing.push(format!("mask for {}", frame.display())),
        }
    }
    listing::all_there(&mask_folder, &missing)?;
    if pairs.is_empty() {
        return Err(DataError::malformed(root, "there are no frames in it"));
    }
    MaskedDataset::new(pairs, names_in_folder(root)?, rules, options)
}
