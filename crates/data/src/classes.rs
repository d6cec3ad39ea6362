//! A class is its name. The number of a class depends on which other classes a folder happens to hold, so numbers of two
//! data sets are never compared: one is translated into the other's by name.

use crate::decode::ChooseWindow;
use crate::{DataError, Dataset, GroundTruthImage, IGNORED, Sample, Target};
use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

/// A data set whose classes (or columns of values) have the numbers of another list of names.
pub struct Matched {
    inner: Arc<dyn Dataset>,
    names: Vec<String>,
    /// The new number of every class of `inner`.
    numbers: Vec<usize>,
}

impl Matched {
    /// The data set with the numbers of `names`, and a sentence where the two lists are not the same. A name of its own
    /// that is not in the list is an error which shows both lists; `own` and `other` say whose they are, such as "the
    /// validation data". Where one side has numbers instead of names, numbers are all there is to go by.
    pub fn by_name(
        dataset: Arc<dyn Dataset>,
        names: &[String],
        own: &str,
        other: &str,
    ) -> Result<(Arc<dyn Dataset>, Option<String>), DataError> {
        let found = dataset.class_names().to_vec();
        if found == names || found.is_empty() || names.is_empty() {
            return Ok((dataset, None));
        }
        let refuse = |what: String| {
            let lists = format!("{other}: {}\n  {own}: {}", listed(names), listed(&found));
            Err(DataError::request(format!("{what}\n  {lists}")))
        };
        let fits = found.len() == names.len() || (found.len() < names.len() && are_numbers(&found));
        if fits && (are_numbers(&found) || are_numbers(names)) {
            let remark = match are_numbers(&found) && are_numbers(names) {
                true => format!("{own} lacks {}", listed(&names[found.len()..])),
                false => format!("{own} and {other} are matched by number: one of them has no names of classes"),
            };
            let numbers = (0..found.len()).collect();
            return Ok((Arc::new(Matched { inner: dataset, names: names.to_vec(), numbers }), Some(remark)));
        }
        let positions: HashMap<&str, usize> = names.iter().enumerate().map(|(at, name)| (name.as_str(), at)).collect();
        let known: HashSet<&str> = found.iter().map(String::as_str).collect();
        if positions.len() < names.len() || known.len() < found.len() {
            return refuse(format!("{own} and {other} have different classes, and a name occurs twice"));
        }
        let extra: Vec<String> = found.iter().filter(|name| !positions.contains_key(name.as_str())).cloned().collect();
        if !extra.is_empty() {
            return refuse(format!(
                "{own} has classes that {other} lacks: {}; give both the same names",
                listed(&extra)
            ));
        }
        let absent: Vec<String> = names.iter().filter(|name| !known.contains(name.as_str())).cloned().collect();
        if !absent.is_empty() && !dataset.is_empty() && matches!(dataset.first()?.target, Target::Values(_)) {
            return refuse(format!("{own} has no column {}", listed(&absent)));
        }
        let numbers = found.iter().map(|name| positions[name.as_str()]).collect();
        let remark =
            (!absent.is_empty()).then(|| format!("{own} lacks {}; the others are matched by name", listed(&absent)));
        Ok((Arc::new(Matched { inner: dataset, names: names.to_vec(), numbers }), remark))
    }

    /// An error with both lists where images of one class each are validated without a class of the training data. An
    /// empty folder is a class too: it says that the lack is meant. Numbers without names are not compared, since a
    /// reader of shards only knows those that it has met.
    pub fn refuse_unevaluated_classes(train: &dyn Dataset, valid: &dyn Dataset) -> Result<(), DataError> {
        let [learned, evaluated] = [train, valid].map(|set| set.class_names());
        let is_classified = !train.is_empty() && matches!(train.first()?.target, Target::Class(_));
        if !is_classified || evaluated.is_empty() || are_numbers(evaluated) || are_numbers(learned) {
            return Ok(());
        }
        let absent: Vec<String> = learned.iter().filter(|name| !evaluated.contains(name)).cloned().collect();
        if absent.is_empty() {
            return Ok(());
        }
        Err(DataError::request(format!(
            "the validation data has no class {}; add images of it, or an empty folder of that name if it is meant\n  \
             the training data: {}\n  the validation data: {}",
            listed(&absent),
            listed(learned),
            listed(evaluated)
        )))
    }

    /// The data set under the names of a file `classes.txt` in its folder, one per line in the order of the numbers, where
    /// there is one: shards and arrays hold numbers alone.
    pub fn named_by_file(dataset: Arc<dyn Dataset>, folder: &Path) -> Result<Arc<dyn Dataset>, DataError> {
        let path = folder.join(NAMES_FILE);
        if !path.is_file() {
            return Ok(dataset);
        }
        let text = std::fs::read_to_string(&path).map_err(|error| DataError::io(&path, error))?;
        let names: Vec<String> = text.lines().map(|line| line.trim().to_string()).collect();
        let numbers: Vec<usize> = (0..dataset.class_names().len()).collect();
        if names.len() < numbers.len() {
            let problem = format!("it names {} classes, the data has {}", names.len(), numbers.len());
            return Err(DataError::malformed(path, problem));
        }
        Ok(Arc::new(Matched { inner: dataset, names, numbers }))
    }

    fn number(&self, class: u32) -> u32 {
        // A class without a name keeps its number, which is then larger than any that has one.
        self.numbers.get(class as usize).map_or(class, |&number| number as u32)
    }
}

/// Whether names are nothing but their own numbers, as readers of shards and arrays give them.
fn are_numbers(names: &[String]) -> bool {
    names.iter().enumerate().all(|(number, name)| *name == number.to_string())
}

/// The file that names the classes of shards and arrays.
pub const NAMES_FILE: &str = "classes.txt";

/// Names for messages; of long lists, the first ones.
pub fn listed(names: &[String]) -> String {
    const SHOWN: usize = 40;
    let shown = names[..names.len().min(SHOWN)].join(", ");
    if names.len() > SHOWN { format!("{shown} and {} more", names.len() - SHOWN) } else { shown }
}

impl Matched {
    /// A sample with the numbers of the other data's classes.
    fn numbered(&self, mut sample: Sample) -> Sample {
        match &mut sample.target {
            Target::Class(class) => *class = self.number(*class),
            Target::Boxes(boxes) => boxes.iter_mut().for_each(|object| object.class = self.number(object.class)),
            Target::Labels(labels) => {
                let mut all = vec![false; self.names.len()];
                labels.iter().zip(&self.numbers).for_each(|(&has, &label)| all[label] = has);
                *labels = all;
            }
            Target::Values(values) => {
                let old = values.clone();
                old.into_iter().zip(&self.numbers).for_each(|(value, &position)| values[position] = value);
            }
            Target::Mask(mask) if !mask.is_of_one_class() => {
                mask.labels = mask.labels.map(|label| match label {
                    IGNORED => IGNORED,
                    label => self.number(label.into()) as u8,
                });
            }
            Target::Mask(_) | Target::Image(_) => {}
        }
        sample
    }
}

impl Dataset for Matched {
    fn len(&self) -> usize {
        self.inner.len()
    }

    fn source(&self, index: usize) -> Option<(&dyn Dataset, usize)> {
        Some((self.inner.as_ref(), index))
    }

    fn get(&self, index: usize) -> Result<Sample, DataError> {
        Ok(self.numbered(self.inner.get(index)?))
    }

    fn window(&self, index: usize, choose: &mut ChooseWindow) -> Option<Result<Sample, DataError>> {
        Some(self.inner.window(index, choose)?.map(|sample| self.numbered(sample)))
    }

    fn classes_of(&self, index: usize) -> Result<Vec<u32>, DataError> {
        Ok(self.inner.classes_of(index)?.into_iter().map(|class| self.number(class)).collect())
    }

    fn class_names(&self) -> &[String] {
        &self.names
    }

    fn ground_truth(&self, index: usize) -> Option<Arc<GroundTruthImage>> {
        let mut image = (*self.inner.ground_truth(index)?).clone();
        image.objects.iter_mut().for_each(|object| object.class = self.number(object.class));
        Some(Arc::new(image))
    }

    fn left_out(&self) -> Vec<String> {
        self.inner.left_out()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::AnyImage;
    use octant_imaging::Image;

    /// One sample per name, with its own number as target.
    struct Numbered(Vec<String>, bool);

    impl Dataset for Numbered {
        fn len(&self) -> usize {
            self.0.len()
        }

        fn get(&self, index: usize) -> Result<Sample, DataError> {
            let values = (0..self.0.len()).map(|column| column as f32).collect();
            let target = if self.1 { Target::Values(values) } else { Target::Class(index as u32) };
            Ok(Sample { image: AnyImage::U8(Image::filled(1, 1, 1, 0)), target })
        }

        fn class_names(&self) -> &[String] {
            &self.0
        }
    }

    fn names(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_string).collect()
    }

    fn matched(own: &str, other: &str, values: bool) -> Result<(Arc<dyn Dataset>, Option<String>), DataError> {
        Matched::by_name(
            Arc::new(Numbered(names(own), values)),
            &names(other),
            "the validation data",
            "the training data",
        )
    }

    #[test]
    fn labels_shift_when_class_folders_differ() {
        let (set, remark) = matched("a c d", "a b c d", false).unwrap();
        assert_eq!(remark.unwrap(), "the validation data lacks b; the others are matched by name");
        let labels: Vec<Target> = (0..3).map(|index| set.get(index).unwrap().target).collect();
        assert_eq!(labels, [Target::Class(0), Target::Class(2), Target::Class(3)]);
        assert_eq!(set.class_names(), names("a b c d"));
    }

    #[test]
    fn classes_that_training_does_not_know_are_refused_with_both_lists() {
        for own in ["a b e", "x y", "a b c d e"] {
            let text = matched(own, "a b c d", false).map(|_| ()).unwrap_err().to_string();
            assert!(text.contains("the training data: a, b, c, d"), "{text}");
            assert!(text.contains(&format!("the validation data: {}", own.replace(' ', ", "))), "{text}");
        }
        assert!(matched("a a", "a b", false).is_err());
    }

    #[test]
    fn a_class_without_validation_images_is_refused_with_both_lists() {
        let set = |list: &str| Numbered(names(list), false);
        let text = Matched::refuse_unevaluated_classes(&set("a b c"), &set("c a")).unwrap_err().to_string();
        assert!(text.contains("no class b") && text.contains("data: a, b, c") && text.contains("data: c, a"), "{text}");
        for (train, valid) in [("a b", "b a"), ("0 1 2", "0 1"), ("a b", "0"), ("a", "a b")] {
            assert!(Matched::refuse_unevaluated_classes(&set(train), &set(valid)).is_ok(), "{train} {valid}");
        }
    }

    #[test]
    fn numbers_stand_for_names_where_a_reader_has_nothing_else() {
        for (own, other) in [("0 1", "cat dog"), ("cat dog", "0 1"), ("0 1", "0 1 2")] {
            let (set, remark) = matched(own, other, false).unwrap();
            assert!(remark.is_some() && set.class_names() == names(other));
            assert_eq!(set.get(1).unwrap().target, Target::Class(1));
        }
        assert!(matched("0 1 2", "cat dog", false).is_err() && matched("0 2", "0 1 2", false).is_ok());
    }

    #[test]
    fn columns_of_a_table_are_matched_by_name_too() {
        let (set, _) = matched("height age", "age height", true).unwrap();
        assert_eq!(set.get(0).unwrap().target, Target::Values(vec![1.0, 0.0]));
        assert!(matched("age", "age height", true).is_err());
    }
}
