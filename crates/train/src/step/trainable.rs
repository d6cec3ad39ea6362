//! Which parameters a phase trains, by their paths, and each layer's learning rate.

use octant_nn::VariableSpec;

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

/// Whether a path lies below a scope, or is it. Everything lies below the empty one.
pub(crate) fn is_under(path: &str, scope: &str) -> bool {
    let below = |rest: &str| rest.is_empty() || rest.starts_with('.') || scope.is_empty();
    path.strip_prefix(scope).is_some_and(below)
}

/// What a parameter's learning rate is multiplied by under layer-wise decay. The layers are the network's blocks, in order,
/// with what comes before them and what comes after; the last one has the full rate.
pub(crate) fn layer_scale(spec: &VariableSpec, last: usize, decay: f64) -> f64 {
    decay.powi(last.saturating_sub(spec.layer) as i32)
}

#[cfg(test)]
mod tests {
    use super::*;
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
    fn a_path_lies_below_whole_steps_only() {
        assert!(is_under("head.fc.weight", "head.fc") && is_under("anything", ""));
        assert!(!is_under("header.weight", "head"));
    }
}
