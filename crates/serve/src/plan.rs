//! How many images a batch takes.

use std::time::Duration;

/// A larger batch is preferred unless it costs this much more per image: measured times vary.
const SLACK: f64 = 1.05;

/// The batch sizes that programs were compiled for, with the time that each took.
#[derive(Debug, Clone, Default)]
pub(crate) struct BatchPlan {
    sizes: Vec<(usize, Duration)>,
}

impl BatchPlan {
    pub fn new(sizes: Vec<(usize, Duration)>) -> BatchPlan {
        BatchPlan { sizes }
    }

    /// The sizes that are compiled for batches of at most so many images: powers of two, and the largest.
    pub fn sizes(most: usize) -> Vec<usize> {
        let powers = (0..).map(|power| 1usize << power).take_while(|&size| size < most);
        powers.chain([most]).collect()
    }

    /// How many of the images that wait the next batch takes. A device that computes eight images as fast as one takes all at
    /// once, with empty rows in its program; one whose time grows with every row takes as many as fill a program.
    pub fn take(&self, waiting: usize) -> usize {
        let served = |size: usize| size.min(waiting);
        let cost = |&(size, time): &(usize, Duration)| time.as_secs_f64() / served(size).max(1) as f64;
        let least = self.sizes.iter().map(cost).fold(f64::INFINITY, f64::min);
        let good = self.sizes.iter().filter(|entry| cost(entry) <= least * SLACK);
        good.map(|&(size, _)| served(size)).max().unwrap_or(waiting)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(times: &[(usize, u64)]) -> BatchPlan {
        BatchPlan::new(times.iter().map(|&(size, time)| (size, Duration::from_micros(time))).collect())
    }

    #[test]
    fn sizes_are_powers_of_two_and_the_largest() {
        assert_eq!(BatchPlan::sizes(1), [1]);
        assert_eq!(BatchPlan::sizes(8), [1, 2, 4, 8]);
        assert_eq!(BatchPlan::sizes(12), [1, 2, 4, 8, 12]);
    }

    #[test]
    fn a_device_whose_time_grows_with_the_rows_computes_no_empty_ones() {
        let processor = plan(&[(1, 1000), (2, 1950), (4, 3900), (8, 7800)]);
        assert_eq!([1, 2, 3, 5, 7, 8, 20].map(|waiting| processor.take(waiting)), [1, 2, 2, 4, 4, 8, 8]);
    }

    #[test]
    fn a_device_that_takes_eight_as_fast_as_one_takes_all_that_wait() {
        let accelerator = plan(&[(1, 1000), (2, 1010), (4, 1050), (8, 1100)]);
        assert_eq!([1, 3, 5, 7, 8, 20].map(|waiting| accelerator.take(waiting)), [1, 3, 5, 7, 8, 8]);
    }
}
