//! Which parameters a phase trains, by their paths, and each layer's learning rate.

use super::PhaseOptions;
use crate::options::{OptionError, nearest};
use octant_nn::{Training, VariableKind, VariableSpec, is_under};
use std::collections::BTreeSet;

/// Which parameters learn.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Trainable {
    /// All.
    #[default]
    All,
    /// Those of the head; the rest gets no gradient and no optimizer state.
    Head,
    /// Those of low-rank adapters, and the head.
    Adapters,
    /// Those whose paths begin with one of these.
    Under(Vec<String>),
}

impl Trainable {
    /// Whether a parameter is trainable, given the head's path.
    pub fn includes(&self, spec: &VariableSpec, head: &[String]) -> bool {
        let under = |scope: &String| is_under(&spec.path, scope);
        match self {
            Trainable::All => true,
            Trainable::Head => head.iter().any(under),
            Trainable::Adapters => spec.is_adapter() || head.iter().any(under),
            Trainable::Under(scopes) => scopes.iter().any(under),
        }
    }
}

impl PhaseOptions {
    /// Whether a parameter learns, given the head's paths.
    pub fn trains(&self, spec: &VariableSpec, head: &[String]) -> bool {
        spec.kind == VariableKind::Parameter
            && !self.freeze.iter().any(|frozen| is_under(&spec.path, frozen))
            && self.train.includes(spec, head)
    }

    /// The batch norms of a network by path, and whether each one keeps its running statistics.
    pub fn norms<'s>(&self, specs: &'s [VariableSpec], head: &[String]) -> Vec<(&'s str, bool)> {
        let rule = self.statistics(head);
        let statistics = specs.iter().filter(|spec| spec.kind == VariableKind::Statistic);
        let mut paths: Vec<&str> =
            statistics.map(|spec| spec.path.rsplit_once('.').map_or("", |(norm, _)| norm)).collect();
        paths.dedup();
        paths.into_iter().map(|path| (path, rule.keeps_statistics(path))).collect()
    }

    /// Which batch norms keep their running statistics: those of the frozen part, unless `frozen_statistics` decides for all.
    pub(super) fn statistics(&self, head: &[String]) -> Training {
        let usual = Training::without_randomness();
        let trained = match &self.train {
            Trainable::All => None,
            Trainable::Head | Trainable::Adapters => Some(head.to_vec()),
            Trainable::Under(scopes) => Some(scopes.clone()),
        };
        match self.frozen_statistics {
            Some(all) => Training { frozen_statistics: all, ..usual },
            None => Training { frozen_scopes: self.freeze.clone(), trained_scopes: trained, ..usual },
        }
    }

    /// The first name in `train`, `freeze` or `groups` that no parameter has: it would change nothing.
    pub fn unmatched(&self, specs: &[VariableSpec]) -> Option<OptionError> {
        let trained: &[String] = match &self.train {
            Trainable::Under(paths) => paths,
            Trainable::All | Trainable::Head | Trainable::Adapters => &[],
        };
        let grouped = self.groups.iter().flat_map(|group| &group.under);
        let mut scopes = trained.iter().map(|name| ("train", name));
        let mut others =
            self.freeze.iter().map(|name| ("freeze", name)).chain(grouped.map(|name| ("groups.under", name)));
        let parameters = || specs.iter().filter(|spec| spec.kind == VariableKind::Parameter);
        let is_unknown = |(_, name): &(&str, &String)| !parameters().any(|spec| is_under(&spec.path, name));
        let (key, name) = scopes.find(is_unknown).or_else(|| others.find(is_unknown))?;
        // Every beginning of a path is a name that could have been meant.
        let known: BTreeSet<&str> = parameters()
            .flat_map(|spec| spec.path.match_indices('.').map(|(end, _)| &spec.path[..end]).chain([spec.path.as_str()]))
            .collect();
        let hint = match nearest(name, known.iter().copied()) {
            Some(near) => format!("did you mean \"{near}\"?"),
            None => {
                let first: Vec<&str> = known.into_iter().filter(|name| !name.contains('.')).collect();
                format!("there are {}", first.join(", "))
            }
        };
        Some(OptionError::value(key, format!("names no parameters of the network: \"{name}\"; {hint}")))
    }
}

/// What a parameter's learning rate is multiplied by under layer-wise decay. The layers are the network's blocks, in order,
/// with what comes before them and what comes after; the last one has the full rate.
pub(crate) fn layer_scale(spec: &VariableSpec, last: usize, decay: f64) -> f64 {
    decay.powi(last.saturating_sub(spec.layer) as i32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::step::{Group, PhaseOptions};
    use std::collections::HashMap;

    #[test]
    fn layers_far_from_the_head_learn_slowly() {
        let model = octant_zoo::build("resnet18", Some(10)).expect("a model of the zoo");
        let (specs, _) = octant_zoo::describe(&*model, [64, 64, 3]).expect("it can be traced");
        let last = specs.iter().map(|spec| spec.layer).max().expect("a model has variables");
        let scales: HashMap<&str, f64> =
            specs.iter().map(|spec| (spec.path.as_str(), layer_scale(spec, last, 0.5))).collect();
        // Eight blocks between the stem and the head.
        assert_eq!(scales["fc.weight"], 1.0);
        assert_eq!(scales["layer4.1.conv2.weight"], 0.5);
        assert_eq!(scales["layer1.0.conv1.weight"], 0.5f64.powi(8));
        assert_eq!(scales["conv1.weight"], 0.5f64.powi(9));
    }

    #[test]
    fn a_name_that_matched_nothing_froze_nothing_without_a_word() {
        let model = octant_zoo::build("resnet-tiny", Some(10)).expect("a model of the zoo");
        let (specs, _) = octant_zoo::describe(&*model, [32, 32, 3]).expect("it can be traced");
        let names = |names: &[&str]| names.iter().map(|name| name.to_string()).collect::<Vec<_>>();
        let group = Group { under: names(&["lyer1"]), lr_scale: 0.1, weight_decay: None };
        for (options, sentence) in [
            (
                PhaseOptions { freeze: names(&["bn1", "layr1"]), ..Default::default() },
                "`freeze` names no parameters of the network: \"layr1\"; did you mean \"layer1\"?",
            ),
            (
                PhaseOptions { groups: vec![group], ..Default::default() },
                "`groups.under` names no parameters of the network: \"lyer1\"; did you mean \"layer1\"?",
            ),
            (
                PhaseOptions { train: Trainable::Under(names(&["backbone"])), ..Default::default() },
                "`train` names no parameters of the network: \"backbone\"; there are bn1, conv1, fc, ",
            ),
        ] {
            let error = options.unmatched(&specs).expect("a name matches nothing").to_string();
            assert!(error.starts_with(sentence), "{error}");
        }
        let fits = PhaseOptions { freeze: names(&["bn1", "conv1.weight", "layer1.0"]), ..Default::default() };
        assert_eq!(fits.unmatched(&specs), None);
    }
}
