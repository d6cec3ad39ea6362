//! The receiver operating characteristic: what share of the true and of the false is caught at every threshold.

use crate::{defined_ratio, ratio};
use std::collections::HashMap;

/// More different scores than this are counted in intervals.
const MOST_INTERVALS: usize = 1 << 14;

/// Counts of scores by truth, for scores of any scale. As long as there are few different ones each is counted by itself, and
/// everything that follows is exact. Beyond that, neighbors are counted together: scores whose bits agree but for the last
/// ones, so that intervals are fine around 0 and of equal relative width elsewhere. Memory is bounded however much is
/// observed.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Roc {
    /// How many of the last bits of a score do not count.
    dropped: u32,
    /// How many were false and how many true, by the remaining bits.
    counts: HashMap<u32, [f64; 2]>,
}

/// Bits that are ordered as the numbers are.
fn ordered(score: f32) -> u32 {
    // -0 is 0.
    let bits = (score + 0.0).to_bits();
    if bits >> 31 == 1 { !bits } else { bits | 1 << 31 }
}

/// The number of those bits.
fn unordered(bits: u32) -> f32 {
    f32::from_bits(if bits >> 31 == 1 { bits & !(1 << 31) } else { !bits })
}

/// A probability as log-odds: as fine near 1 as near 0.
fn log_odds(probability: f32) -> f32 {
    let p = f64::from(probability);
    (p.ln() - (-p).ln_1p()) as f32
}

impl Roc {
    /// Adds one score.
    pub fn observe(&mut self, score: f32, truth: bool) {
        let counts = if truth { [0.0, 1.0] } else { [1.0, 0.0] };
        self.add(ordered(score) >> self.dropped, counts);
        self.bound();
    }

    /// Adds one probability.
    pub fn observe_probability(&mut self, probability: f32, truth: bool) {
        self.observe(log_odds(probability), truth);
    }

    fn add(&mut self, bits: u32, [negatives, positives]: [f64; 2]) {
        let counts = self.counts.entry(bits).or_default();
        counts[0] += negatives;
        counts[1] += positives;
    }

    /// Widens the intervals until there are few enough of them.
    fn bound(&mut self) {
        while self.counts.len() > MOST_INTERVALS {
            self.coarsen(self.dropped + 1);
        }
    }

    fn coarsen(&mut self, dropped: u32) {
        let more = dropped - self.dropped;
        for (bits, counts) in std::mem::take(&mut self.counts) {
            self.add(bits >> more, counts);
        }
        self.dropped = dropped;
    }

    /// Adds what another one counted.
    pub fn merge(&mut self, other: &Roc) {
        let mut other = other.clone();
        let dropped = self.dropped.max(other.dropped);
        self.coarsen(dropped);
        other.coarsen(dropped);
        for (bits, counts) in other.counts {
            self.add(bits, counts);
        }
        self.bound();
    }

    /// Whether positives and negatives both occur; the curve is undefined otherwise.
    pub fn is_defined(&self) -> bool {
        [0, 1].iter().all(|&truth| self.counts.values().any(|counts| counts[truth] > 0.0))
    }

    /// Running counts of false and true from the strictest threshold to the loosest.
    fn caught(&self) -> Vec<[f64; 2]> {
        let mut counts: Vec<(&u32, &[f64; 2])> = self.counts.iter().collect();
        counts.sort_unstable_by(|a, b| b.0.cmp(a.0));
        let running = counts.iter().scan([0.0, 0.0], |sums, (_, counts)| {
            *sums = [sums[0] + counts[0], sums[1] + counts[1]];
            Some(*sums)
        });
        running.collect()
    }

    /// Points (false positive rate, true positive rate) from the strictest threshold to the loosest.
    pub fn curve(&self) -> Vec<[f64; 2]> {
        let caught = self.caught();
        let totals = caught.last().copied().unwrap_or_default();
        let points = caught.iter().map(|sums| [0, 1].map(|truth| ratio(sums[truth], totals[truth])));
        std::iter::once([0.0, 0.0]).chain(points).collect()
    }

    /// Points (recall, precision) from the strictest threshold to the loosest.
    pub fn precision_recall(&self) -> Vec<[f64; 2]> {
        let caught = self.caught();
        let positives = caught.last().map_or(0.0, |totals| totals[1]);
        caught.iter().map(|[alarms, hits]| [ratio(*hits, positives), ratio(*hits, hits + alarms)]).collect()
    }

    /// The confidences of these points, for scores that are log-odds.
    pub fn confidences(&self) -> Vec<f64> {
        let mut thresholds: Vec<u32> = self.counts.keys().copied().collect();
        thresholds.sort_unstable_by(|a, b| b.cmp(a));
        let confidence = |bits: u32| 1.0 / (1.0 + (-f64::from(unordered(bits << self.dropped))).exp());
        thresholds.into_iter().map(confidence).collect()
    }

    /// Points (confidence, F1) from the strictest threshold to the loosest, for scores that are log-odds.
    pub fn f1_over_confidence(&self) -> Vec<[f64; 2]> {
        let caught = self.caught();
        let positives = caught.last().map_or(0.0, |totals| totals[1]);
        let f1 = |[alarms, hits]: &[f64; 2]| ratio(2.0 * hits, hits + alarms + positives);
        let points = self.confidences().into_iter().zip(&caught).map(|(confidence, counts)| [confidence, f1(counts)]);
        points.filter(|point| point[0].is_finite()).collect()
    }

    /// The mean precision over all positives, each at the threshold that catches it just so (scikit-learn's
    /// `average_precision_score`). NaN without positives.
    pub fn average_precision(&self) -> f64 {
        if self.positives() == 0.0 {
            return f64::NAN;
        }
        let points = self.precision_recall();
        let before = std::iter::once(0.0).chain(points.iter().map(|[recall, _]| *recall));
        points.iter().zip(before).map(|([recall, precision], before)| (recall - before) * precision).sum()
    }

    /// How many were true.
    pub fn positives(&self) -> f64 {
        self.counts.values().map(|counts| counts[1]).sum()
    }

    /// The score from which on the F1 is highest, halfway to the next lower one, and that F1; the strictest of several. None
    /// without positives.
    pub fn best_threshold(&self) -> Option<(f64, f64)> {
        let caught = self.caught();
        let positives = caught.last().map_or(0.0, |totals| totals[1]);
        let mut scores: Vec<u32> = self.counts.keys().copied().collect();
        scores.sort_unstable_by(|a, b| b.cmp(a));
        let mut best: Option<(usize, f64)> = None;
        for (at, [alarms, hits]) in caught.iter().enumerate() {
            let f1 = ratio(2.0 * hits, hits + alarms + positives);
            if *hits > 0.0 && best.is_none_or(|(_, most)| f1 > most) {
                best = Some((at, f1));
            }
        }
        let score = |at: usize| scores.get(at).map(|&bits| f64::from(unordered(bits << self.dropped)));
        let (at, f1) = best?;
        let own = score(at)?;
        // Nothing is lower than the lowest score.
        let next = score(at + 1).unwrap_or(own - 1.0);
        Some(((own + next) / 2.0, f1))
    }

    /// The area under the curve: 1 is perfect, 0.5 is chance. NaN where it is undefined.
    pub fn area(&self) -> f64 {
        if !self.is_defined() {
            return f64::NAN;
        }
        self.curve().windows(2).map(|pair| (pair[1][0] - pair[0][0]) * (pair[0][1] + pair[1][1]) / 2.0).sum()
    }
}

/// Every class against all others.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct OneVersusRest {
    classes: Vec<Roc>,
}

impl OneVersusRest {
    /// For that many classes.
    pub fn new(classes: usize) -> OneVersusRest {
        OneVersusRest { classes: vec![Roc::default(); classes] }
    }

    /// Adds the probabilities of one sample.
    pub fn observe(&mut self, probabilities: &[f32], label: usize) {
        for (class, (roc, &probability)) in self.classes.iter_mut().zip(probabilities).enumerate() {
            roc.observe_probability(probability, class == label);
        }
    }

    /// Adds the scores of one sample that may have any number of the classes.
    pub fn observe_labels(&mut self, scores: &[f32], labels: impl Iterator<Item = bool>) {
        for ((roc, &score), has) in self.classes.iter_mut().zip(scores).zip(labels) {
            roc.observe(score, has);
        }
    }

    /// One curve per class.
    pub fn classes(&self) -> &[Roc] {
        &self.classes
    }

    /// All decisions together, whatever their class: the micro average.
    pub fn pooled(&self) -> Roc {
        let mut all = Roc::default();
        self.classes.iter().for_each(|roc| all.merge(roc));
        all
    }

    /// The mean of the areas of all classes that occur: the macro average. NaN where no area is defined.
    pub fn mean_area(&self) -> f64 {
        let areas: Vec<f64> = self.classes.iter().filter(|roc| roc.is_defined()).map(Roc::area).collect();
        defined_ratio(areas.iter().sum(), areas.len() as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_area_is_one_for_perfect_scores_and_a_half_for_useless_ones() {
        let (mut perfect, mut useless) = (Roc::default(), Roc::default());
        for number in 0..100 {
            let truth = number % 2 == 0;
            perfect.observe(if truth { 0.9 } else { 0.1 }, truth);
            useless.observe((number / 2) as f32 / 50.0, truth);
        }
        assert_eq!(perfect.area(), 1.0);
        assert!((useless.area() - 0.5).abs() < 1e-9);
        assert_eq!(perfect.precision_recall().first(), Some(&[1.0, 1.0]));
        assert_eq!(useless.precision_recall().last(), Some(&[1.0, 0.5]));
    }

    #[test]
    fn an_undefined_area_was_zero() {
        let mut roc = Roc::default();
        assert!(roc.area().is_nan());
        [0.2, 0.7].iter().for_each(|&score| roc.observe(score, true));
        assert!(roc.area().is_nan(), "there is one class");
        let mut scores = OneVersusRest::new(2);
        scores.observe(&[0.6, 0.4], 0);
        assert!(scores.mean_area().is_nan());
        scores.observe(&[0.4, 0.6], 1);
        assert_eq!(scores.mean_area(), 1.0);
    }

    #[test]
    fn f1_is_that_of_every_threshold_on_the_probability() {
        let mut roc = Roc::default();
        for (probability, truth) in [(0.9, true), (0.8, false), (0.6, true), (0.2, false)] {
            roc.observe_probability(probability, truth);
        }
        let expected = [[0.9, 2.0 / 3.0], [0.8, 0.5], [0.6, 0.8], [0.2, 2.0 / 3.0]];
        for (point, expected) in roc.f1_over_confidence().iter().zip(expected) {
            assert!((0..2).all(|axis| (point[axis] - expected[axis]).abs() < 1e-6), "{point:?} {expected:?}");
        }
    }

    #[test]
    fn bits_are_ordered_as_their_numbers_are() {
        let scores = [f32::NEG_INFINITY, -3e30, -1.0, -1e-40, 0.0, 1e-40, 0.5, 2.0, f32::INFINITY];
        assert!(scores.windows(2).all(|pair| ordered(pair[0]) < ordered(pair[1])));
        assert!(scores.iter().all(|&score| unordered(ordered(score)) == score));
        assert_eq!(ordered(-0.0), ordered(0.0));
        assert_eq!((log_odds(0.0), log_odds(1.0)), (f32::NEG_INFINITY, f32::INFINITY));
    }
}
