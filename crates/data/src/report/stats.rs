//! The figures of a data set.

use crate::{AnyImage, Sample, Target};
use std::collections::BTreeMap;
use std::fmt;

/// Sums over samples; figures follow from them.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Statistics {
    /// Samples counted.
    pub samples: usize,
    /// How many images have which height, width and channels.
    pub sizes: BTreeMap<[usize; 3], usize>,
    /// How many samples (labels, boxes, or pixels of masks) have which class.
    pub classes: BTreeMap<u32, usize>,
    /// Pixels that masks mark, and all pixels of masks.
    pub marked: (u64, u64),
    /// Pixels of masks of several classes that have one of them; the others are ignored.
    pub labeled: u64,
    /// Per channel: values, their sum and the sum of their squares, in units of the full range.
    channels: Vec<(u64, f64, f64)>,
}

impl Statistics {
    /// Counts a sample.
    pub fn add(&mut self, sample: &Sample) {
        self.samples += 1;
        *self.sizes.entry(sample.image.dims()).or_default() += 1;
        match &sample.target {
            Target::Class(_) | Target::Labels(_) => {
                let classes = sample.target.classes();
                classes.into_iter().for_each(|class| *self.classes.entry(class).or_default() += 1);
            }
            Target::Boxes(boxes) => boxes.iter().for_each(|object| *self.classes.entry(object.class).or_default() += 1),
            Target::Mask(mask) => {
                self.marked.0 += mask.objects().values().iter().filter(|&&value| value != 0).count() as u64;
                self.marked.1 += mask.labels.values().len() as u64;
                if !mask.is_of_one_class() {
                    let counts = mask.counts();
                    self.labeled += counts.values().map(|&count| count as u64).sum::<u64>();
                    counts.into_iter().for_each(|(class, count)| *self.classes.entry(class).or_default() += count);
                }
            }
            Target::Values(_) | Target::Image(_) => {}
        }
        match &sample.image {
            AnyImage::U8(image) => self.add_values(image.values(), image.channels(), |v| v as f64 / 255.0),
            AnyImage::U16(image) => self.add_values(image.values(), image.channels(), |v| v as f64 / 65535.0),
            AnyImage::F32(image) => self.add_values(image.values(), image.channels(), f64::from),
        }
    }

    fn add_values<T: Copy>(&mut self, values: &[T], channels: usize, scaled: impl Fn(T) -> f64) {
        if self.channels.len() < channels {
            self.channels.resize(channels, (0, 0.0, 0.0));
        }
        for pixel in values.chunks_exact(channels) {
            for (sums, &value) in self.channels.iter_mut().zip(pixel) {
                let value = scaled(value);
                *sums = (sums.0 + 1, sums.1 + value, sums.2 + value * value);
            }
        }
    }

    /// Adds what another thread counted.
    pub fn merge(&mut self, other: &Statistics) {
        self.samples += other.samples;
        other.sizes.iter().for_each(|(size, count)| *self.sizes.entry(*size).or_default() += count);
        other.classes.iter().for_each(|(class, count)| *self.classes.entry(*class).or_default() += count);
        self.marked = (self.marked.0 + other.marked.0, self.marked.1 + other.marked.1);
        self.labeled += other.labeled;
        if self.channels.len() < other.channels.len() {
            self.channels.resize(other.channels.len(), (0, 0.0, 0.0));
        }
        for (own, other) in self.channels.iter_mut().zip(&other.channels) {
            *own = (own.0 + other.0, own.1 + other.1, own.2 + other.2);
        }
    }

    /// Mean per channel, in units of the full range.
    pub fn mean(&self) -> Vec<f64> {
        self.channels.iter().map(|(count, sum, _)| sum / *count as f64).collect()
    }

    /// Standard deviation per channel, in units of the full range.
    pub fn std(&self) -> Vec<f64> {
        let variance = |(count, sum, squares): &(u64, f64, f64)| {
            let (count, mean) = (*count as f64, sum / *count as f64);
            (squares / count - mean * mean).max(0.0)
        };
        self.channels.iter().map(|sums| variance(sums).sqrt()).collect()
    }

    /// The balance of the classes as text: a bar, a count and a name per line, at most `rows` of them.
    pub fn class_plot(&self, names: &[String], rows: usize) -> String {
        let largest = self.classes.values().copied().max().unwrap_or(1).max(1);
        let lines = self.classes.iter().take(rows).map(|(class, &count)| {
            let bar = "█".repeat((count * 40).div_ceil(largest));
            let number = class.to_string();
            format!("{bar:40} {count:7}  {}\n", names.get(*class as usize).unwrap_or(&number))
        });
        let mut text: String = lines.collect();
        if self.classes.len() > rows {
            text.push_str(&format!("… and {} more classes\n", self.classes.len() - rows));
        }
        text
    }
}

impl fmt::Display for Statistics {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let rounded =
            |values: Vec<f64>| values.iter().map(|value| format!("{value:.4}")).collect::<Vec<_>>().join(", ");
        writeln!(f, "{} samples", self.samples)?;
        writeln!(f, "mean {}", rounded(self.mean()))?;
        writeln!(f, "std  {}", rounded(self.std()))?;
        for ([height, width, channels], count) in self.sizes.iter().take(10) {
            writeln!(f, "{count:7} of {height}×{width}×{channels}")?;
        }
        if self.sizes.len() > 10 {
            writeln!(f, "        and {} more sizes", self.sizes.len() - 10)?;
        }
        let share = |pixels: u64| 100.0 * pixels as f64 / self.marked.1 as f64;
        match (self.marked.1, self.labeled) {
            (0, _) => {}
            (_, 0) => writeln!(f, "masks mark {:.4} % of all pixels", share(self.marked.0))?,
            (all, labeled) => writeln!(f, "{:.4} % of the pixels of masks are ignored", share(all - labeled))?,
        }
        Ok(())
    }
}
