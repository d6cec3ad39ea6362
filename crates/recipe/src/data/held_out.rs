//! A data set without a validation split gets one, the same on every machine and in every run.

use crate::Result;
use crate::error::refuse;
use octant_data::decode::ChooseWindow;
use octant_data::{DataError, Dataset, Sample};
use std::collections::BTreeMap;
use std::sync::Arc;

/// One of every this many samples is held out for validation.
const EVERY: usize = 5;

/// Whether both splits are the same samples.
pub(super) fn is_needed(train: &dyn Dataset, valid: &dyn Dataset) -> bool {
    train.len() == valid.len() && (0..train.len()).all(|index| train.location(index) == valid.location(index))
}

/// Both splits as they are, or, where both are the same samples, a fifth of them held out from the rest.
pub(super) fn split(train: Arc<dyn Dataset>, valid: Arc<dyn Dataset>) -> Result<[Arc<dyn Dataset>; 2]> {
    if !is_needed(&*train, &*valid) {
        return Ok([train, valid]);
    }
    let held_out = held_out(&*train);
    if held_out.is_empty() {
        refuse!("the data set has no validation split, and {} samples are too few to hold some out", train.len());
    }
    let rest = (0..train.len()).filter(|index| held_out.binary_search(index).is_err()).collect();
    Ok([Arc::new(Subset { of: train.clone(), indices: rest }), Arc::new(Subset { of: train, indices: held_out })])
}

/// The indices that are held out, in order: of every folder the same share, chosen by the names of the files alone. A
/// file that is added or removed later moves few of the others.
fn held_out(dataset: &dyn Dataset) -> Vec<usize> {
    let mut folders: BTreeMap<String, Vec<(u64, usize)>> = BTreeMap::new();
    for index in 0..dataset.len() {
        let path = dataset.path(index);
        let (folder, name) = path.rsplit_once(['/', '\\']).unwrap_or(("", &path));
        folders.entry(folder.to_string()).or_default().push((hash(name), index));
    }
    let mut held_out = Vec::new();
    for samples in folders.values_mut() {
        samples.sort_unstable();
        // A folder with one sample keeps it: a class that is never learned cannot be evaluated.
        let count = (samples.len() / EVERY).max(usize::from(samples.len() > 1));
        held_out.extend(samples.iter().take(count).map(|(_, index)| *index));
    }
    held_out.sort_unstable();
    held_out
}

/// FNV-1a: short, and the same everywhere and for ever, which the standard library's hashes do not promise.
fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf29ce484222325, |hash, byte| (hash ^ byte as u64).wrapping_mul(0x100000001b3))
}

/// Some samples of a data set.
struct Subset {
    of: Arc<dyn Dataset>,
    indices: Vec<usize>,
}

impl Dataset for Subset {
    fn len(&self) -> usize {
        self.indices.len()
    }

    fn left_out(&self) -> Vec<String> {
        self.of.left_out()
    }

    fn source(&self, index: usize) -> Option<(&dyn Dataset, usize)> {
        Some((self.of.as_ref(), self.indices[index]))
    }

    fn get(&self, index: usize) -> Result<Sample, DataError> {
        self.of.get(self.indices[index])
    }

    fn window(&self, index: usize, choose: &mut ChooseWindow) -> Option<Result<Sample, DataError>> {
        self.of.window(self.indices[index], choose)
    }

    fn class_names(&self) -> &[String] {
        self.of.class_names()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use octant_data::{AnyImage, Target};
    use octant_imaging::Image;

    struct Named(Vec<String>);

    impl Dataset for Named {
        fn len(&self) -> usize {
            self.0.len()
        }

        fn get(&self, index: usize) -> Result<Sample, DataError> {
            let image = Image::from_fn(1, 1, 1, |_, _, _| index as u8);
            Ok(Sample { image: AnyImage::U8(image), target: Target::Class(0) })
        }

        fn location(&self, index: usize) -> String {
            self.0[index].clone()
        }
    }

    fn named(root: &str, counts: &[(&str, usize)]) -> Arc<dyn Dataset> {
        let files =
            counts.iter().flat_map(|(class, count)| (0..*count).map(move |n| format!("{root}/{class}/{n}.png")));
        Arc::new(Named(files.collect()))
    }

    fn names(dataset: &dyn Dataset, root: &str) -> Vec<String> {
        (0..dataset.len()).map(|index| dataset.location(index).trim_start_matches(root).to_string()).collect()
    }

    #[test]
    fn a_data_set_without_validation_is_split_the_same_way_wherever_it_lies() {
        let counts = [("cat", 50), ("dog", 10), ("newt", 1)];
        let [here, there] = ["/here", "/over/there"].map(|root| {
            let all = named(root, &counts);
            let [train, valid] = split(all.clone(), all).unwrap();
            assert_eq!((train.len(), valid.len()), (49, 12));
            (names(&*train, root), names(&*valid, root))
        });
        assert_eq!(here, there);
        assert!(here.0.iter().all(|name| !here.1.contains(name)), "no sample is in both");
        assert_eq!(here.1.iter().filter(|name| name.contains("dog")).count(), 2);
        assert!(here.0.contains(&"/newt/0.png".to_string()));
    }

    #[test]
    fn splits_that_are_there_stay_as_they_are() {
        let [train, valid] = split(named("/t", &[("a", 3)]), named("/v", &[("a", 2)])).unwrap();
        assert_eq!((train.len(), valid.len()), (3, 2));
    }
}
