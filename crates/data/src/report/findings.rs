//! What is wrong with a data set, by kind.

use super::Survey;
use crate::readers::NamedSplit;
use crate::{Dataset, Joined, Matched, Target};

/// One kind of finding.
#[derive(Debug, Clone)]
pub struct FindingKind {
    /// Its name.
    pub name: &'static str,
    /// What it means.
    pub about: &'static str,
    /// Whether it has to be repaired.
    pub is_error: bool,
    /// A line for each finding.
    pub lines: Vec<String>,
}

/// Labels and files that training would leave out, and why.
fn left_out(splits: &[NamedSplit]) -> FindingKind {
    let mut lines: Vec<String> = splits.iter().flat_map(|(_, set)| set.left_out()).collect();
    lines.sort();
    lines.dedup();
    FindingKind { name: "left out", about: "labels and files that would not be learned", is_error: true, lines }
}

/// Classes that one split has and the other lacks: nothing to train on, or nothing to evaluate on.
fn class_differences(splits: &[NamedSplit]) -> [Vec<String>; 2] {
    let [(_, train), (_, test)] = splits else { return Default::default() };
    let lacks = |set: &dyn Dataset, other: &dyn Dataset| -> Vec<String> {
        set.class_names().iter().filter(|name| !other.class_names().contains(name)).cloned().collect()
    };
    [lacks(&**test, &**train), lacks(&**train, &**test)]
}

/// The only class of images that are classified.
fn class_alone(dataset: &Joined) -> Vec<String> {
    let is_classified = || dataset.first().is_ok_and(|sample| matches!(sample.target, Target::Class(_)));
    match dataset.class_names() {
        [only] if is_classified() => vec![only.clone()],
        _ => Vec::new(),
    }
}

/// Everything that a survey found in the samples of these splits, which `dataset` joins.
pub fn findings(survey: &Survey, dataset: &Joined, splits: &[NamedSplit]) -> Vec<FindingKind> {
    // Most reasons begin with the path already.
    let reasons = |list: &[(String, String)]| {
        let line = |(position, why): &(String, String)| {
            if why.contains(position) { why.clone() } else { format!("{position}: {why}") }
        };
        list.iter().map(line).collect()
    };
    let is_leak =
        |samples: &[usize]| samples.iter().any(|&sample| dataset.part_of(sample).0 != dataset.part_of(samples[0]).0);
    let (mut contradictions, mut leaks, mut duplicates) = (Vec::new(), Vec::new(), Vec::new());
    for twins in &survey.duplicates {
        let list = match (twins.contradict, is_leak(&twins.samples)) {
            (true, _) => &mut contradictions,
            (false, true) => &mut leaks,
            (false, false) => &mut duplicates,
        };
        list.push(twins.positions.join(" = "));
    }
    let kind = |name, about, is_error, lines| FindingKind { name, about, is_error, lines };
    let [unlearned, unevaluated] = class_differences(splits);
    let is_refused = match splits {
        [(_, train), (_, test)] => Matched::refuse_unevaluated_classes(&**train, &**test).is_err(),
        _ => false,
    };
    vec![
        kind("class alone", "classification needs two; training refuses it", true, class_alone(dataset)),
        kind("classes only in test", "no sample of them to learn from; training refuses them", true, unlearned),
        kind(
            "classes only in train",
            "no sample of them to evaluate on; training refuses them unless there is an empty folder",
            is_refused,
            unevaluated,
        ),
        kind("corrupt", "cannot be decoded", true, reasons(&survey.corrupt)),
        kind("mismatched", "mask and image do not belong together", true, reasons(&survey.mismatched)),
        kind("contradicting", "equal images with different targets", true, contradictions),
        kind("in both splits", "equal images to train on and to evaluate on", false, leaks),
        kind("duplicate", "equal images", false, duplicates),
        kind("empty masks", "nothing is marked", false, survey.empty_masks.clone()),
        kind("empty classes", "no sample has this class", false, survey.empty_classes.clone()),
        left_out(splits),
    ]
}
