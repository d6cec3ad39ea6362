//! Which keys of a recipe matter where nothing is trained: the others are refused there instead of being ignored.

use crate::Result;
use crate::error::refuse;

/// Who reads a recipe besides training.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecipeReader {
    /// The evaluation of a network.
    Evaluation,
    /// A loader of data for a training loop of one's own.
    Loader,
}

/// Keys and tables that evaluations read, and whether loaders do.
const OF_EVALUATION: [(&str, bool); 23] = [
    ("adapters", false),
    ("base_size", true),
    ("batch_size", true),
    ("class_weights", false),
    ("classes", true),
    ("crop_size", true),
    ("data", true),
    ("degrade", true),
    ("eval_transform", true),
    ("gains", false),
    ("gan", false),
    ("image_size", true),
    ("keypoints", true),
    ("label_smoothing", false),
    ("loss", false),
    ("max_boxes", true),
    ("model", true),
    ("normalize", false),
    ("on_corrupt", true),
    ("precision", false),
    ("seed", true),
    ("task", true),
    ("workers", true),
];

/// Parts of phases that change images, or which of them come.
const OF_IMAGES: [&str; 2] = ["transform", "mix"];

/// Keys of the data that only the order of a run's training reads.
const OF_ORDER: [&str; 2] = ["data.streams", "data.window"];

impl RecipeReader {
    /// Refuses a key that changes nothing for this reader; `position` is where it stands in the recipe, such as
    /// `phases.0.schedule.lr`.
    pub fn refuse_unread(self, position: &str) -> Result<()> {
        let mut parts = position.split('.');
        let key = parts.next().unwrap_or_default();
        let listed = OF_EVALUATION.iter().find(|(listed, _)| *listed == key);
        let (is_read, what) = match self {
            RecipeReader::Evaluation => (listed.is_some(), "an evaluation"),
            RecipeReader::Loader => {
                // Batches of training have what a phase makes of images.
                let of_images = key == "phases" && parts.nth(1).is_some_and(|part| OF_IMAGES.contains(&part));
                (listed.is_some_and(|(_, is_read)| *is_read) || key == "augment" || of_images, "a loader")
            }
        };
        match is_read && !OF_ORDER.contains(&position) {
            true => Ok(()),
            false => refuse!("`{position}` is for training and changes nothing in {what}; remove it"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Recipe;
    use octant_train::options::OptionTable;

    /// They were accepted, and nothing came of them.
    #[test]
    fn evaluations_and_loaders_ignored_keys_of_training() {
        for key in [
            "phases.0.schedule.lr",
            "seed",
            "gallery",
            "data.dir",
            "data.streams",
            "data.window",
            "phases.*.mix.mixup",
            "eval_transform",
            "loss",
        ] {
            let read = [RecipeReader::Evaluation, RecipeReader::Loader].map(|reader| reader.refuse_unread(key).is_ok());
            let expected = match key {
                "seed" | "data.dir" | "eval_transform" => [true, true],
                "loss" => [true, false],
                "phases.*.mix.mixup" => [false, true],
                _ => [false, false],
            };
            assert_eq!(read, expected, "{key}");
        }
        let known: Vec<&str> = Recipe::specs().iter().map(|spec| spec.key).collect();
        assert!(OF_EVALUATION.iter().all(|(key, _)| known.contains(key)), "a key was renamed");
    }
}
