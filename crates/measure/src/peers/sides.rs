//! Medians, and ratios round by round: what disturbed a round disturbed both sides of its ratio.

use super::turn::Figures;
use crate::Sample;
use serde_json::{Map, Value, json};

/// One side of the comparison with a figure per round.
#[derive(Debug, Clone)]
pub struct Side {
    /// Its name.
    pub label: String,
    /// Its figures, a set per round.
    pub rounds: Vec<Figures>,
    /// Why it takes no further turns.
    pub gave_up: Option<String>,
}

impl Side {
    /// The medians as fields of an object, and those of [`Ratio`] to us.
    pub fn json(&self, ours: &Side) -> Map<String, Value> {
        let ratio = Ratio::of(ours, self);
        let fields = [
            ("side", json!(self.label)),
            ("images_per_second", self.median(|figures| figures.images_per_second).into()),
            ("ratio_median", ratio.speed.median().into()),
            ("ratio_least", ratio.speed.least().into()),
            ("ratio_greatest", ratio.speed.largest().into()),
            ("start_to_first_step_s", self.median(|figures| figures.start_to_first).into()),
            ("peak_rss_bytes", self.median(|figures| figures.peak_bytes).into()),
            ("start_ratio", ratio.start.into()),
            ("memory_ratio", ratio.memory.into()),
        ];
        fields.into_iter().map(|(key, value)| (key.to_string(), value)).collect()
    }

    pub(crate) fn new(label: &str) -> Side {
        Side { label: label.into(), rounds: Vec::new(), gave_up: None }
    }

    /// The median of one figure over all rounds.
    pub fn median(&self, figure: impl Fn(&Figures) -> f64) -> f64 {
        Sample::new(self.rounds.iter().map(figure).collect()).median()
    }
}

/// Who of them was fastest in each round, as a side of its own, and the names.
pub(super) fn best_of<'a>(name: &str, theirs: &'a [Side]) -> (Side, Vec<&'a str>) {
    let mut best = Side::new(&format!("best of {name}"));
    let mut names = Vec::new();
    for round in 0.. {
        let here = theirs.iter().filter_map(|side| Some((side, side.rounds.get(round)?)));
        let speed = |(_, figures): &(&Side, &Figures)| figures.images_per_second;
        let Some((side, figures)) = here.max_by(|a, b| speed(a).total_cmp(&speed(b))) else { break };
        best.rounds.push(*figures);
        names.push(side.label.as_str());
    }
    (best, names)
}

/// How we compare with a side, from the rounds that both took part in.
pub struct Ratio {
    /// Our images per second divided by theirs.
    pub speed: Sample,
    /// Our time to the first step divided by theirs.
    pub start: f64,
    /// Our memory divided by theirs.
    pub memory: f64,
}

impl Ratio {
    /// Us against a side.
    pub fn of(ours: &Side, side: &Side) -> Ratio {
        let pairs = ours.rounds.iter().zip(&side.rounds);
        let ratios = pairs.map(|(ours, theirs)| ours.images_per_second / theirs.images_per_second);
        let medians = |figure: fn(&Figures) -> f64| ours.median(figure) / side.median(figure);
        Ratio {
            speed: Sample::new(ratios.collect()),
            start: medians(|figures| figures.start_to_first),
            memory: medians(|figures| figures.peak_bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_variant_is_chosen_round_by_round_among_those_that_took_part() {
        let side = |label: &str, speeds: &[f64]| {
            let rounds = speeds.iter().map(|&images_per_second| Figures {
                images_per_second,
                start_to_first: 1.0,
                peak_bytes: 1.0,
            });
            Side { rounds: rounds.collect(), ..Side::new(label) }
        };
        let sides = [side("eager", &[5.0, 7.0, 6.0]), side("compile", &[9.0]), side("channels-last", &[6.0, 6.0, 8.0])];
        let (best, names) = best_of("a peer", &sides);
        assert_eq!(names, ["compile", "eager", "channels-last"]);
        assert_eq!(best.rounds.iter().map(|figures| figures.images_per_second).collect::<Vec<_>>(), [9.0, 7.0, 8.0]);
    }
}
