//! Several data sets as one, one after the other.

use crate::decode::ChooseWindow;
use crate::{DataError, Dataset, Matched, Sample};
use std::sync::Arc;

/// The samples of several data sets, such as both splits of one. The classes are those of all of them, by name; the
/// first one's come first.
pub struct Joined {
    parts: Vec<Arc<dyn Dataset>>,
    names: Vec<String>,
    len: usize,
}

impl Joined {
    /// One data set after the other.
    pub fn new(parts: Vec<Arc<dyn Dataset>>) -> Joined {
        let len = parts.iter().map(|part| part.len()).sum();
        let mut names: Vec<String> = Vec::new();
        for name in parts.iter().flat_map(|part| part.class_names()) {
            if !names.contains(name) {
                names.push(name.clone());
            }
        }
        // Every name is in the list, so that only columns of values can be missing; such parts stay as they are.
        let matched = |part: Arc<dyn Dataset>| {
            Matched::by_name(part.clone(), &names, "this part", "the whole").map_or(part, |(matched, _)| matched)
        };
        Joined { parts: parts.into_iter().map(matched).collect(), names, len }
    }

    /// The number of the part that a sample is in, and its number there.
    pub fn part_of(&self, index: usize) -> (usize, usize) {
        let mut left = index;
        for (number, part) in self.parts.iter().enumerate() {
            match left.checked_sub(part.len()) {
                Some(beyond) => left = beyond,
                None => return (number, left),
            }
        }
        panic!("sample {index} was requested, but there are only {}", self.len)
    }
}

impl Dataset for Joined {
    fn len(&self) -> usize {
        self.len
    }

    fn source(&self, index: usize) -> Option<(&dyn Dataset, usize)> {
        let (part, index) = self.part_of(index);
        Some((self.parts[part].as_ref(), index))
    }

    fn left_out(&self) -> Vec<String> {
        self.parts.iter().flat_map(|part| part.left_out()).collect()
    }

    fn get(&self, index: usize) -> Result<Sample, DataError> {
        let (part, index) = self.part_of(index);
        self.parts[part].get(index)
    }

    fn window(&self, index: usize, choose: &mut ChooseWindow) -> Option<Result<Sample, DataError>> {
        let (part, index) = self.part_of(index);
        self.parts[part].window(index, choose)
    }

    fn class_names(&self) -> &[String] {
        &self.names
    }
}
