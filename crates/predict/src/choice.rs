//! Which boxes of a detector are kept, as people choose it: by shares, numbers, and names of classes.

use crate::error::{Result, refusal, refuse};
use crate::{Network, Suppression};

/// What is chosen of the rules by which boxes are kept; the usual where nothing is.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct BoxChoice {
    /// Boxes with a lower score are dropped.
    pub conf: Option<f32>,
    /// Of two boxes of a class that overlap more than this, only the one with the higher score is kept.
    pub iou: Option<f32>,
    /// The most boxes per image.
    pub max_det: Option<usize>,
    /// Only these classes, by name or number; all if none is named.
    pub only: Vec<String>,
}

impl BoxChoice {
    /// The rules for boxes that are shown, and those by which an evaluation counts boxes.
    pub fn rules(&self, network: &Network) -> Result<[Suppression; 2]> {
        let (usual, counted) = (Suppression::prediction(), Suppression::evaluation());
        let counted = Suppression {
            score: self.conf.unwrap_or(counted.score),
            overlap: self.iou.unwrap_or(usual.overlap),
            most: self.max_det.unwrap_or(usual.most),
            only: network.classes_named(&self.only)?,
            ..counted
        };
        refuse_box_rules(&counted)?;
        let (score, several_classes) = (self.conf.unwrap_or(usual.score), usual.several_classes);
        Ok([Suppression { score, several_classes, ..counted.clone() }, counted])
    }
}

impl Network {
    /// The numbers of classes, which are given by name or number.
    pub fn classes_named(&self, words: &[String]) -> Result<Vec<usize>> {
        let class = |word: &String| {
            let named = self.names.iter().position(|name| name == word);
            let number = word.parse().ok().filter(|number| *number < self.outputs);
            named.or(number).ok_or_else(|| {
                let names =
                    if self.names.is_empty() { "its classes have no names".into() } else { self.names.join(", ") };
                refusal!("`only = {word}`: the network has {} classes, numbered from 0: {names}", self.outputs)
            })
        };
        words.iter().map(class).collect()
    }
}

/// Refuses rules that would keep no box.
pub fn refuse_box_rules(rules: &Suppression) -> Result<()> {
    let is_share = |value: f32| (0.0..=1.0).contains(&value);
    if !is_share(rules.score) || !is_share(rules.overlap) {
        refuse!("`conf` and `iou` are shares from 0 to 1");
    }
    match rules.most {
        0 => refuse!("`max_det` must be at least 1"),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ModelChoice;

    #[test]
    fn classes_are_named_or_numbered_and_what_is_not_chosen_is_as_usual() {
        let entry = octant_zoo::find("yolo11-tiny").unwrap();
        let mut network = Network::of_model(entry, None, &ModelChoice::default()).unwrap();
        network.names = (0..network.outputs).map(|class| format!("class {class}")).collect();
        let only = vec!["class 1".to_string(), "0".into()];
        let [shown, counted] = BoxChoice { only, ..BoxChoice::default() }.rules(&network).unwrap();
        assert_eq!((&shown.only[..], shown.score), (&[1, 0][..], Suppression::prediction().score));
        assert_eq!((counted.score, counted.several_classes), (Suppression::evaluation().score, true));
        let rules = |choice: BoxChoice| choice.rules(&network).unwrap_err().to_string();
        assert!(rules(BoxChoice { only: vec!["cat".into()], ..BoxChoice::default() }).contains("numbered from 0"));
        assert!(rules(BoxChoice { conf: Some(1.5), ..BoxChoice::default() }).contains("shares from 0 to 1"));
    }
}
