//! Detection of small targets: how many were found (Pd) and how many false alarms there are (Fa).

use crate::masks::{Component, components};
use crate::{Metric, defined_ratio, ratio};

/// Counts over images, by the rule of the official MSHNet and DNANet code: a target is found when a predicted
/// component's center lies within three pixels of its own; each prediction is used once.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Detection {
    /// Targets there were.
    pub targets: usize,
    /// Targets that were found.
    pub found: usize,
    /// Pixels of false alarms as the official code counts them: it drops every predicted component whose *area* equals
    /// that of a matched one. Published figures follow that rule, so ours must.
    pub official_false_pixels: usize,
    /// Pixels of all predicted components that match no target.
    pub false_pixels: usize,
    /// Number of pixels.
    pub pixels: usize,
}

/// Centers at this distance or more are not matched.
const REACH: f64 = 3.0;

impl Detection {
    /// Looks at one image of `width` columns.
    pub fn observe(&mut self, predicted: &[bool], truth: &[bool], width: usize) {
        let targets = components(truth, width);
        let predictions = components(predicted, width);
        let mut free: Vec<&Component> = predictions.iter().collect();
        let mut matched_areas = Vec::new();
        for target in &targets {
            let near = |candidate: &&Component| {
                let [dy, dx] = [0, 1].map(|axis| candidate.center[axis] - target.center[axis]);
                dx.hypot(dy) < REACH
            };
            if let Some(position) = free.iter().position(near) {
                matched_areas.push(free.remove(position).area);
            }
        }
        let unlike = |component: &&Component| !matched_areas.contains(&component.area);
        self.targets += targets.len();
        self.found += matched_areas.len();
        self.false_pixels += free.iter().map(|component| component.area).sum::<usize>();
        self.official_false_pixels += predictions.iter().filter(unlike).map(|component| component.area).sum::<usize>();
        self.pixels += truth.len();
    }

    /// `pd`, `fa` (as published figures count it) and `fa_exact`.
    pub fn metrics(&self) -> Vec<Metric> {
        let share = |pixels: usize| ratio(pixels as f64, self.pixels as f64);
        vec![
            ("pd".into(), defined_ratio(self.found as f64, self.targets as f64)),
            ("fa".into(), share(self.official_false_pixels)),
            ("fa_exact".into(), share(self.false_pixels)),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mask(rows: [&str; 6]) -> Vec<bool> {
        rows.concat().chars().map(|c| c == '#').collect()
    }

    #[test]
    fn a_near_prediction_finds_and_a_far_one_is_a_false_alarm() {
        let truth = mask(["##........", "##........", "..........", "..........", "........##", "........##"]);
        let guess = mask([".##.......", ".##.......", "......#...", "..........", "..........", ".........."]);
        let mut detection = Detection::default();
        detection.observe(&guess, &truth, 10);
        assert_eq!((detection.targets, detection.found, detection.false_pixels), (2, 1, 1));
        assert_eq!(detection.official_false_pixels, 1);
        assert_eq!(detection.metrics()[0], ("pd".to_string(), 0.5));
    }

    #[test]
    fn the_official_code_forgives_false_alarms_as_large_as_a_match() {
        let truth = mask(["#.........", "..........", "..........", "..........", "..........", ".........."]);
        let guess = mask(["#.........", "..........", "..........", "......#...", "..........", ".........."]);
        let mut detection = Detection::default();
        detection.observe(&guess, &truth, 10);
        assert_eq!((detection.false_pixels, detection.official_false_pixels), (1, 0));
    }
}
