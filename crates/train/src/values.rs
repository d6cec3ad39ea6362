//! Host copies of a state in the layout of the step, and how weights of a file become them.

use crate::TrainError;
use crate::options::nearest;
use crate::step::{StateEntry, StepPlan, evaluation};
use octant_archive::Archive;
use octant_graph::HostTensor;
use octant_nn::VariableSpec;
use std::collections::HashMap;
use std::ops::Deref;

/// Host copies of a state by name, in the layout of the step: kernels HWIO, matrices `[in, out]`.
///
/// Weights of a file are an [`Archive`], in PyTorch's layout. A square matrix has the same dimensions in both, so the two are
/// different types: [`Values::import`] converts, and tensors of an archive cannot be collected into this type unconverted.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Values(HashMap<String, HostTensor>);

impl Values {
    /// No values: everything starts as it is initialized.
    pub fn new() -> Values {
        Values::default()
    }

    /// One value per variable, in the variable's own shape.
    pub fn of(specs: &[VariableSpec], values: Vec<HostTensor>) -> Values {
        Values(specs.iter().map(|spec| spec.path.clone()).zip(values).collect())
    }

    /// The model's variables from weights with the reference's names and layouts. All of them must be there and no other
    /// tensor may be: the error names what is missing, unknown or of another shape, with the nearest right name.
    pub fn import(weights: &Archive, plan: &StepPlan) -> Result<Values, TrainError> {
        Values::of_archive(weights, &evaluation(plan)?.variables)
    }

    pub(crate) fn of_archive(weights: &Archive, specs: &[VariableSpec]) -> Result<Values, TrainError> {
        Ok(Values::of(specs, octant_zoo::weights::load_exactly(weights, specs)?))
    }

    /// Entries of a state that are in the step's layout already, as a checkpoint keeps them.
    pub(crate) fn of_state(entries: impl IntoIterator<Item = (String, HostTensor)>) -> Values {
        Values(entries.into_iter().collect())
    }

    /// Replaces the value of an entry, which is in the step's layout.
    pub(crate) fn set(&mut self, name: String, value: HostTensor) {
        self.0.insert(name, value);
    }

    /// Gives a variable its initial value of that seed.
    pub fn reset(&mut self, spec: &VariableSpec, seed: u64) {
        self.0.insert(spec.path.clone(), spec.initial(seed));
    }

    /// All values, to be changed in place.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut HostTensor> {
        self.0.values_mut()
    }

    /// One value, to be changed in place.
    pub fn get_mut(&mut self, name: &str) -> Option<&mut HostTensor> {
        self.0.get_mut(name)
    }

    /// Keeps the entries whose names satisfy a condition.
    pub fn retain(&mut self, keeps: impl Fn(&str) -> bool) {
        self.0.retain(|name, _| keeps(name));
    }

    /// The variables alone, without the optimizer's slots, averages and sums, under a scope: `fc.bias` as `teacher.fc.bias`.
    pub fn under(&self, scope: &str) -> Values {
        let variables = self.0.iter().filter(|(name, _)| !name.contains('#'));
        Values(variables.map(|(name, value)| (format!("{scope}.{name}"), value.clone())).collect())
    }

    /// Refuses a name that is none of these entries': it would have no effect.
    pub(crate) fn check_names(&self, entries: &[StateEntry]) -> Result<(), TrainError> {
        let known = || entries.iter().map(|entry| entry.name.as_str());
        let mut unknown: Vec<&str> =
            self.0.keys().map(String::as_str).filter(|name| known().all(|k| k != *name)).collect();
        unknown.sort_unstable();
        let Some(first) = unknown.first() else { return Ok(()) };
        let hint = nearest(first, known()).map(|name| format!("; did you mean {name}?")).unwrap_or_default();
        let more = if unknown.len() > 1 { format!(" (and {} more)", unknown.len() - 1) } else { String::new() };
        Err(TrainError::Data(format!("the step has no variable or state {first}{more}{hint}")))
    }
}

impl Deref for Values {
    type Target = HashMap<String, HostTensor>;

    fn deref(&self) -> &HashMap<String, HostTensor> {
        &self.0
    }
}
