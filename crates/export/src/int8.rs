//! Which layers of a network are computed in 8 bits, and between which values.
//!
//! A network is calibrated on images that it will see: a program returns what convolutions and linear layers read and make,
//! [`Histogram`]s count it, and a [`Calibration`] chooses the ranges that 8 bits span. Layers whose result would lose too much
//! stay in f32.

use crate::{ExportError, Network};
use octant_graph::passes::{self, Contraction, Int8Ranges, LayerRange};
use octant_graph::{Graph, HostTensor, ValueId};
use std::collections::HashMap;

/// How the range of a value follows from what was seen of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum RangeRule {
    /// From the smallest to the largest.
    MinMax,
    /// This share of the numbers, in (0, 1]: the rest, of the largest magnitude, is saturated.
    Percentile(f64),
    /// The range whose 8-bit histogram says most about the one that was seen: the least Kullback–Leibler divergence.
    Entropy,
}

/// Bins of a histogram, half of them for negative numbers.
const BINS: usize = 4096;

/// How many numbers fell where, between `-limit` and `limit`.
#[derive(Debug, Clone)]
pub struct Histogram {
    limit: f32,
    counts: Vec<u64>,
    range: LayerRange,
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram { limit: 0.0, counts: vec![0; BINS], range: [f32::INFINITY, f32::NEG_INFINITY] }
    }
}

impl Histogram {
    /// Counts numbers. Where they need more room, the limit is doubled and neighboring bins are joined.
    pub fn add(&mut self, numbers: &[f32]) {
        let (mut low, mut high) = (f32::INFINITY, f32::NEG_INFINITY);
        for &number in numbers.iter().filter(|number| number.is_finite()) {
            (low, high) = (low.min(number), high.max(number));
        }
        self.range = [self.range[0].min(low), self.range[1].max(high)];
        let largest = low.abs().max(high.abs());
        if !largest.is_finite() || largest == 0.0 {
            return;
        }
        if self.limit == 0.0 {
            self.limit = largest;
        }
        while self.limit < largest {
            self.limit *= 2.0;
            let half = BINS / 2;
            let joined: Vec<u64> = self.counts.chunks_exact(2).map(|pair| pair[0] + pair[1]).collect();
            self.counts.fill(0);
            self.counts[half / 2..half / 2 + half].copy_from_slice(&joined);
        }
        let per_unit = (BINS / 2) as f32 / self.limit;
        for &number in numbers.iter().filter(|number| number.is_finite()) {
            let bin = (number * per_unit + (BINS / 2) as f32) as usize;
            self.counts[bin.min(BINS - 1)] += 1;
        }
    }

    /// The range that 8 bits should span.
    pub fn range(&self, rule: RangeRule) -> LayerRange {
        let clipped = |limit: f32| [self.range[0].max(-limit).min(0.0), self.range[1].min(limit).max(0.0)];
        match rule {
            RangeRule::MinMax => clipped(f32::INFINITY),
            RangeRule::Percentile(share) => clipped(self.limit_of_share(share)),
            RangeRule::Entropy => clipped(self.limit_of_entropy()),
        }
    }

    /// Counts by magnitude.
    fn magnitudes(&self) -> Vec<u64> {
        let half = BINS / 2;
        (0..half).map(|bin| self.counts[half + bin] + self.counts[half - 1 - bin]).collect()
    }

    fn limit_of_share(&self, share: f64) -> f32 {
        let counts = self.magnitudes();
        let wanted = share * counts.iter().sum::<u64>() as f64;
        let mut seen = 0.0;
        let bin = counts.iter().position(|&count| {
            seen += count as f64;
            seen >= wanted
        });
        self.limit * (bin.unwrap_or(counts.len() - 1) + 1) as f32 / counts.len() as f32
    }

    /// Limits are tried in steps of a 128th of the bins. What lies beyond one is saturated; what lies below it is spread over
    /// the levels that 8 bits have for magnitudes: 255 where all numbers have one sign, 127 otherwise.
    fn limit_of_entropy(&self) -> f32 {
        let counts = self.magnitudes();
        let levels = if self.range[0] >= 0.0 || self.range[1] <= 0.0 { 255 } else { 127 };
        let divergence = |bins: usize| divergence(&counts, bins, levels);
        let tried = (1..=BINS / 2 / 16).map(|step| step * 16).filter(|&bins| bins >= levels);
        let best = tried.min_by(|&a, &b| divergence(a).total_cmp(&divergence(b)));
        self.limit * best.unwrap_or(counts.len()) as f32 / counts.len() as f32
    }
}

/// The Kullback–Leibler divergence of counts whose first `bins` are joined into `levels`, from the counts with their rest added
/// to the last of these bins.
fn divergence(counts: &[u64], bins: usize, levels: usize) -> f64 {
    let beyond: u64 = counts[bins..].iter().sum();
    let total: f64 = counts.iter().sum::<u64>() as f64;
    let mut sum = 0.0;
    for level in 0..levels {
        let (first, end) = (level * bins / levels, (level + 1) * bins / levels);
        let here = &counts[first..end];
        let inside: u64 = here.iter().sum();
        let filled = here.iter().filter(|&&count| count > 0).count().max(1);
        let coarse = (inside as f64 / filled as f64).max(1e-9);
        for (offset, &count) in here.iter().enumerate() {
            let seen = count + if first + offset + 1 == bins { beyond } else { 0 };
            if seen > 0 {
                sum += seen as f64 / total * (seen as f64 / coarse).ln();
            }
        }
    }
    sum
}

/// A network under calibration: what of it is counted.
pub struct Calibration {
    graph: Graph,
    layers: Vec<Contraction>,
    /// The values that are returned, in order, and what was seen of each.
    seen: Vec<(ValueId, Histogram)>,
}

impl Calibration {
    /// Of the layers of a network whose only inputs are images.
    pub fn new(network: &Network) -> Result<Calibration, ExportError> {
        let graph = network.graph().clone();
        let layers = passes::contractions(&graph, graph.inputs());
        if layers.is_empty() {
            return Err(ExportError::Refused("the network has no convolution and no linear layer in f32".into()));
        }
        let mut seen: Vec<(ValueId, Histogram)> = Vec::new();
        for value in layers.iter().flat_map(|layer| [Some(layer.input), layer.result]).flatten() {
            if seen.iter().all(|(known, _)| *known != value) {
                seen.push((value, Histogram::default()));
            }
        }
        Ok(Calibration { graph, layers, seen })
    }

    /// The program that returns what is counted, for a batch of [`TRACED_BATCH`](crate::TRACED_BATCH).
    pub fn program(&self) -> Graph {
        let values = self.seen.iter().map(|(value, _)| *value).collect();
        passes::dead_code(&self.graph.clone().with_outputs(values))
    }

    /// Counts what the program returned for a batch.
    pub fn add(&mut self, returned: &[HostTensor]) {
        for ((_, histogram), tensor) in self.seen.iter_mut().zip(returned) {
            if let Ok(numbers) = tensor.elements::<f32>() {
                histogram.add(numbers);
            }
        }
    }

    /// The ranges of all layers. What the network returns is not rounded, so it has no range.
    pub fn ranges(&self, rule: RangeRule) -> Int8Ranges {
        let by_value: HashMap<ValueId, LayerRange> =
            self.seen.iter().map(|(value, histogram)| (*value, histogram.range(rule))).collect();
        let of_layer = |layer: &Contraction| {
            let result = layer.result.filter(|value| !self.graph.outputs().contains(value));
            (layer.name.clone(), (by_value[&layer.input], result.map(|value| by_value[&value])))
        };
        self.layers.iter().map(of_layer).collect()
    }

    /// The names of the layers, in order.
    pub fn layers(&self) -> impl Iterator<Item = &str> {
        self.layers.iter().map(|layer| layer.name.as_str())
    }

    /// The program that measures how much each layer loses, and the names of the layers in the order of its results; see
    /// [`passes::noise_of_layers`].
    pub fn noise_program(&self, ranges: &Int8Ranges) -> Result<(Graph, Vec<String>), ExportError> {
        let inputs: Vec<usize> = (0..self.graph.inputs().len()).collect();
        passes::noise_of_layers(&self.graph, &inputs, ranges).map_err(|error| ExportError::Refused(error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn histogram(numbers: impl Iterator<Item = f32>) -> Histogram {
        let mut histogram = Histogram::default();
        // In parts, so that the limit grows.
        numbers.collect::<Vec<_>>().chunks(100).for_each(|part| histogram.add(part));
        histogram
    }

    #[test]
    fn ranges_hold_what_was_seen_or_nearly_all_of_it() {
        let numbers = || (0..10_000).map(|i| if i == 0 { 50.0 } else { (i % 100) as f32 / 100.0 });
        let seen = histogram(numbers());
        assert_eq!(seen.counts.iter().sum::<u64>(), 10_000);
        assert_eq!(seen.range(RangeRule::MinMax), [0.0, 50.0]);
        let [low, high] = seen.range(RangeRule::Percentile(0.9995));
        assert!(low == 0.0 && (0.98..1.1).contains(&high), "{high}");
        assert_eq!(seen.range(RangeRule::Percentile(1.0)), [0.0, 50.0]);
        // Zero can always be stored.
        assert_eq!(histogram((0..100).map(|i| 3.0 + i as f32 / 100.0)).range(RangeRule::MinMax)[0], 0.0);
        assert_eq!(Histogram::default().range(RangeRule::MinMax), [0.0, 0.0]);
    }

    #[test]
    fn entropy_saturates_rare_outliers_only() {
        let bell =
            |i: usize| ((i * 7919 % 10_007) as f32 / 10_007.0 + (i * 104_729 % 10_009) as f32 / 10_009.0 - 1.0) * 2.0;
        let dense = histogram((0..100_000).map(bell));
        let [low, high] = dense.range(RangeRule::Entropy);
        assert!(low < -1.6 && high > 1.6, "{low} to {high}");
        let outliers = histogram((0..100_000).map(|i| if i % 50_000 == 7 { 40.0 } else { bell(i) }));
        let [_, high] = outliers.range(RangeRule::Entropy);
        assert!((1.6..12.0).contains(&high), "{high}");
    }
}
