//! Medians, and ratios round by round: what disturbed a round disturbed both sides of its ratio.

use super::Arguments;
use super::process::Figures;
use crate::bench::statistics::Sample;
use crate::bench::subject::Subject;
use crate::output::{Json, bytes};
use serde_json::{Value, json};

/// One side of the comparison with a figure per round.
#[derive(Debug, Clone)]
pub(super) struct Side {
    pub label: String,
    pub rounds: Vec<Figures>,
    /// Why it takes no further turns.
    pub gave_up: Option<String>,
}

impl Side {
    pub fn new(label: &str) -> Side {
        Side { label: label.into(), rounds: Vec::new(), gave_up: None }
    }

    fn median(&self, figure: impl Fn(&Figures) -> f64) -> f64 {
        Sample::new(self.rounds.iter().map(figure).collect()).median()
    }
}

/// Who of them was fastest in each round, as a side of its own, and the names.
fn best_of<'a>(name: &str, theirs: &'a [Side]) -> (Side, Vec<&'a str>) {
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

pub(super) fn show(subject: &Subject, name: &str, ours: &Side, theirs: &[Side], arguments: &Arguments) {
    let (best, names) = best_of(name, theirs);
    if !arguments.json {
        println!(
            "{} {} in {}, batch {}, {} in turn\n{:<24} {:>10} {:>22} {:>12} {:>12}",
            subject.name,
            arguments.mode,
            arguments.precision,
            subject.batch_size,
            if arguments.rounds == 1 { "one round".to_string() } else { format!("{} rounds", arguments.rounds) },
            "",
            "images/s",
            "octant is faster by",
            "first step",
            "memory"
        );
    }
    let measured = theirs.iter().filter(|side| !side.rounds.is_empty());
    for side in std::iter::once(ours).chain(measured) {
        line(subject, ours, side, arguments, json!({ "event": "side", "gave_up": side.gave_up }));
    }
    // With a single variant, the best one needs no mark.
    let tell = theirs.len() > 1;
    if arguments.json || tell {
        line(subject, ours, &best, arguments, json!({ "event": "best", "fastest": names }));
    }
    if !arguments.json && tell {
        println!("fastest, round by round: {}", names.join(", "));
    }
}

fn line(subject: &Subject, ours: &Side, side: &Side, arguments: &Arguments, more: Value) {
    let pairs = ours.rounds.iter().zip(&side.rounds);
    let ratio = Sample::new(pairs.map(|(ours, theirs)| ours.images_per_second / theirs.images_per_second).collect());
    let speed = side.median(|figures| figures.images_per_second);
    let start = side.median(|figures| figures.start_to_first);
    let memory = side.median(|figures| figures.peak_bytes);
    if !arguments.json {
        let range = format!("{:.2} ({:.2} to {:.2})", ratio.median(), ratio.least(), ratio.largest());
        return println!("{:<24} {speed:>10.2} {range:>22} {start:>10.2} s {:>12}", side.label, bytes(memory as u64));
    }
    let mut value = json!({
        "model": subject.name, "mode": arguments.mode, "precision": arguments.precision,
        "batch_size": subject.batch_size, "side": side.label, "images_per_second": speed,
        "ratio_median": ratio.median(), "ratio_least": ratio.least(), "ratio_greatest": ratio.largest(),
        "start_to_first_step_s": start, "peak_rss_bytes": memory,
        "start_ratio": ours.median(|figures| figures.start_to_first) / start,
        "memory_ratio": ours.median(|figures| figures.peak_bytes) / memory,
    });
    if let (Value::Object(value), Value::Object(more)) = (&mut value, more) {
        value.extend(more);
    }
    Json::line(value);
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
