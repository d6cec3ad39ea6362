//! Medians and what lies around them.

/// Repeated measurements of one thing.
#[derive(Debug, Clone)]
pub struct Sample {
    sorted: Vec<f64>,
}

impl Sample {
    /// At least one measurement.
    pub fn new(mut values: Vec<f64>) -> Sample {
        values.sort_by(f64::total_cmp);
        debug_assert!(!values.is_empty());
        Sample { sorted: values }
    }

    /// How many measurements.
    pub fn count(&self) -> usize {
        self.sorted.len()
    }

    /// The value below which that part of the measurements lies, by the nearest one.
    pub fn at(&self, part: f64) -> f64 {
        let last = self.sorted.len().saturating_sub(1);
        self.sorted.get((part * last as f64).round() as usize).copied().unwrap_or(f64::NAN)
    }

    /// The value in the middle.
    pub fn median(&self) -> f64 {
        let middle = self.sorted.len() / 2;
        match self.sorted.len() % 2 {
            0 if middle > 0 => (self.sorted[middle - 1] + self.sorted[middle]) / 2.0,
            _ => self.at(0.5),
        }
    }

    /// The smallest value.
    pub fn least(&self) -> f64 {
        self.at(0.0)
    }

    /// The largest value.
    pub fn largest(&self) -> f64 {
        self.at(1.0)
    }

    /// Half the distance between the quartiles, as a part of the median.
    pub fn spread(&self) -> f64 {
        (self.at(0.75) - self.at(0.25)) / 2.0 / self.median()
    }
}

#[cfg(test)]
mod tests {
    use super::Sample;

    #[test]
    fn medians_and_quartiles_are_those_of_the_sorted_values() {
        let sample = Sample::new(vec![5.0, 1.0, 4.0, 2.0, 3.0]);
        assert_eq!((sample.median(), sample.least(), sample.largest()), (3.0, 1.0, 5.0));
        assert_eq!(sample.spread(), 1.0 / 3.0);
        assert_eq!(Sample::new(vec![1.0, 2.0]).median(), 1.5);
    }
}
