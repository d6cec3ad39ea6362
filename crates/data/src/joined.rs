//! Several data sets as one, one after the other.

use crate::{DataError, Dataset, Sample};
use std::sync::Arc;

/// The samples of several data sets, such as both splits of one. The classes are those of the first.
pub struct Joined {
    parts: Vec<Arc<dyn Dataset>>,
    len: usize,
}

impl Joined {
    /// One data set after the other.
    pub fn new(parts: Vec<Arc<dyn Dataset>>) -> Joined {
        let len = parts.iter().map(|part| part.len()).sum();
        Joined { parts, len }
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
        panic!("sample {index} was asked for, but there are only {}", self.len)
    }
}

impl Dataset for Joined {
    fn len(&self) -> usize {
        self.len
    }

    fn get(&self, index: usize) -> Result<Sample, DataError> {
        let (part, index) = self.part_of(index);
        self.parts[part].get(index)
    }

    fn class_names(&self) -> &[String] {
        self.parts.first().map_or(&[], |part| part.class_names())
    }

    fn location(&self, index: usize) -> String {
        let (part, index) = self.part_of(index);
        self.parts[part].location(index)
    }
}
