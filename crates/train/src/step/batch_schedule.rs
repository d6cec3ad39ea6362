//! Batch sizes that change from epoch to epoch.

use super::StepOptions;
use crate::options::{OptionError, OptionValue};
use toml::Value;

/// From which epochs on steps take how many images. Every size has a compiled step of its own; the order of samples does
/// not depend on it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BatchSchedule(Vec<(u64, usize)>);

impl BatchSchedule {
    /// Pairs of an epoch of the run, from 0, and the images per step from there on.
    pub fn new(pairs: impl Into<Vec<(u64, usize)>>) -> Result<BatchSchedule, &'static str> {
        let pairs = pairs.into();
        if pairs.windows(2).any(|pair| pair[0].0 >= pair[1].0) {
            return Err("must name later and later epochs");
        }
        if pairs.iter().any(|(_, size)| *size == 0) {
            return Err("must have at least 1 image per step");
        }
        Ok(BatchSchedule(pairs))
    }

    /// Whether there is one size throughout.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl StepOptions {
    /// Images per step in that epoch of the run, from 0.
    pub fn batch_at(&self, epoch: u64) -> usize {
        let begun = self.batch_schedule.0.iter().rev().find(|(from, _)| *from <= epoch);
        begun.map_or(self.batch_size, |(_, size)| *size)
    }

    /// All sizes that a step is compiled for, `batch_size` first.
    pub fn batch_sizes(&self) -> Vec<usize> {
        let mut sizes = vec![self.batch_size];
        for (_, size) in &self.batch_schedule.0 {
            if !sizes.contains(size) {
                sizes.push(*size);
            }
        }
        sizes
    }

    /// The same steps with a schedule that names every size and `batch_size` as the largest of them: what memory is planned
    /// for and evaluations are done with.
    pub fn with_largest_batch(mut self) -> StepOptions {
        let pairs = &mut self.batch_schedule.0;
        if pairs.first().is_some_and(|(from, _)| *from > 0) {
            pairs.insert(0, (0, self.batch_size));
        }
        self.batch_size = pairs.iter().map(|(_, size)| *size).max().unwrap_or(self.batch_size);
        self
    }

    /// Reduces all batches to at most so many images.
    pub fn limit_batch(&mut self, most: usize) {
        let scheduled = self.batch_schedule.0.iter_mut().map(|(_, size)| size);
        scheduled.chain([&mut self.batch_size]).for_each(|size| *size = (*size).min(most));
    }

    /// Makes `size` the largest batch. Sizes of a schedule keep their ratio to it.
    pub fn scale_batch(&mut self, size: usize) {
        let before = self.batch_size.max(1) as f64;
        for (_, scheduled) in &mut self.batch_schedule.0 {
            *scheduled = ((*scheduled as f64 * size as f64 / before).round() as usize).max(1);
        }
        self.batch_size = size;
    }
}

impl OptionValue for BatchSchedule {
    fn expected() -> String {
        "a list of [epoch, images per step]".into()
    }

    fn read(value: &Value, key_path: &str) -> Result<BatchSchedule, OptionError> {
        let pair = |item: &Value| match item.as_array()?.as_slice() {
            [epoch, size] => {
                Some((u64::try_from(epoch.as_integer()?).ok()?, usize::try_from(size.as_integer()?).ok()?))
            }
            _ => None,
        };
        let pairs: Option<Vec<(u64, usize)>> = value.as_array().and_then(|items| items.iter().map(pair).collect());
        let wrong = || OptionError::value(key_path, format!("must be {}, not {value}", BatchSchedule::expected()));
        let problem = |problem: &str| OptionError::value(key_path, format!("{problem}, not {value}"));
        BatchSchedule::new(pairs.ok_or_else(wrong)?).map_err(problem)
    }

    fn write(&self) -> Option<Value> {
        let pair = |(epoch, size): &(u64, usize)| {
            Value::Array(vec![Value::Integer(*epoch as i64), Value::Integer(*size as i64)])
        };
        (!self.is_empty()).then(|| Value::Array(self.0.iter().map(pair).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(batch_size: usize, pairs: &[(u64, usize)]) -> StepOptions {
        let batch_schedule = BatchSchedule::new(pairs).unwrap();
        StepOptions { batch_size, batch_schedule, ..StepOptions::default() }
    }

    #[test]
    fn a_size_holds_until_the_next_one() {
        let step = options(8, &[(2, 16), (5, 4)]);
        let sizes: Vec<usize> = (0..7).map(|epoch| step.batch_at(epoch)).collect();
        assert_eq!(sizes, [8, 8, 16, 16, 16, 4, 4]);
        assert_eq!(options(8, &[]).batch_sizes(), [8]);
    }

    #[test]
    fn the_largest_size_is_the_one_that_is_planned_for() {
        let step = options(8, &[(2, 16), (5, 4)]).with_largest_batch();
        assert_eq!((step.batch_size, step.batch_at(0), step.batch_sizes()), (16, 8, vec![16, 8, 4]));
        assert_eq!(step.clone().with_largest_batch(), step);
        let mut fitted = step;
        fitted.scale_batch(24);
        assert_eq!((fitted.batch_size, fitted.batch_sizes()), (24, vec![24, 12, 6]));
    }

    #[test]
    fn schedules_that_make_no_sense_are_refused() {
        let sentence = |text: &str| {
            let value: toml::Table = format!("a = {text}").parse().unwrap();
            BatchSchedule::read(&value["a"], "batch_schedule").unwrap_err().to_string()
        };
        assert!(sentence("[[0, 4], [0, 8]]").contains("later and later epochs"));
        assert!(sentence("[[0, 0]]").contains("at least 1 image"));
        assert!(sentence("[4, 8]").contains("a list of [epoch, images per step]"));
        assert!(sentence("[[-1, 8]]").contains("a list of [epoch, images per step]"));
    }
}
