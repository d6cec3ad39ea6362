//! An order of samples in which every class comes equally often.

use crate::{DataError, Dataset, Permutation};

/// The samples of every class. An epoch takes as many of each: those of rare classes several times, those of frequent ones in
/// turns, so that all of them are seen over the epochs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Balance {
    /// By class; classes without samples are left out.
    groups: Vec<Vec<u64>>,
}

impl Balance {
    /// The samples of a data set by class. A sample with several labels belongs to all of them; those without any are a class
    /// of their own.
    pub fn of(dataset: &dyn Dataset) -> Result<Balance, DataError> {
        let mut groups = vec![Vec::new(); dataset.class_names().len() + 1];
        for index in 0..dataset.len() {
            let classes = dataset.classes_of(index)?;
            let none = groups.len() - 1;
            for class in classes.iter().map(|&class| class as usize).chain(classes.is_empty().then_some(none)) {
                groups.get_mut(class.min(none)).into_iter().for_each(|group| group.push(index as u64));
            }
        }
        groups.retain(|group| !group.is_empty());
        Ok(Balance { groups })
    }

    /// How many samples each class has.
    pub fn counts(&self) -> impl Iterator<Item = usize> {
        self.groups.iter().map(Vec::len)
    }

    /// The sample for a slot of an epoch of `slots`: slots take the classes in turn. A class continues in the next epoch where
    /// this one ended, and is shuffled anew whenever all of its samples were taken.
    pub(crate) fn at(&self, slot: u64, slots: u64, seed: u64, epoch: u64) -> u64 {
        let classes = self.groups.len() as u64;
        let (class, round) = (slot % classes, slot / classes);
        let group = &self.groups[class as usize];
        let len = group.len() as u64;
        let of_epoch = slots / classes + u64::from(class < slots % classes);
        let taken = epoch.wrapping_mul(of_epoch).wrapping_add(round);
        // The seed of a class: those of two classes are never in step.
        let order = Permutation::new(len, seed ^ (class + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15), taken / len);
        group[order.at(taken % len) as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LastBatch, Position, SampleOrder, Sampler};
    use std::collections::HashMap;
    use std::sync::Arc;

    #[test]
    fn every_class_comes_equally_often_and_every_sample_of_a_frequent_one_comes() {
        // 90, 9 and 1 samples.
        let groups = vec![(0..90).collect(), (90..99).collect(), vec![99u64]];
        let order = SampleOrder::Balanced(Arc::new(Balance { groups }));
        let sampler = Sampler::new(100, 10, 3, true, LastBatch::Drop).unwrap().ordered(order).unwrap();
        let mut counts: HashMap<u64, u64> = HashMap::new();
        let epochs = 30;
        for epoch in 0..epochs {
            let batches = (0..10).flat_map(|batch| sampler.batch(Position::new(epoch, batch)));
            batches.flatten().for_each(|sample| *counts.entry(sample).or_default() += 1);
        }
        let of = |range: std::ops::Range<u64>| range.map(|sample| counts.get(&sample).copied().unwrap_or(0));
        let totals = [of(0..90).sum::<u64>(), of(90..99).sum(), of(99..100).sum()];
        assert_eq!(totals, [34 * epochs, 33 * epochs, 33 * epochs]);
        // Each sample of a class comes as often as the others of it, but for the last round.
        for range in [0..90, 90..99] {
            let (least, most) = (of(range.clone()).min().unwrap(), of(range).max().unwrap());
            assert!(least > 0 && most - least <= 1, "{least} {most}");
        }
        let streams: Vec<_> = (0..10).map(|row| sampler.stream(Position::new(0, 1), row)).collect();
        assert_eq!((streams[0], streams[9]), (Some(110), Some(119)), "rows have random numbers of their own");
    }
}
