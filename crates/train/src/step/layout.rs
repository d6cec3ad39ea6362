//! The tensors that live between steps, and the step's inputs and outputs for them.

use octant_graph::{Shape, Tensor, Trace};

/// What one tensor of the state is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The model's variable of that number.
    Variable(usize),
    /// Something the optimizer keeps for a parameter.
    Slot,
    /// The moving average of the variable of that number.
    Average(usize),
    /// Gradients of the batches since the last update.
    Gradient,
    /// Running sums of the task, and a watch for values that are not finite.
    Sums,
}

/// One tensor of the state.
#[derive(Debug, Clone, PartialEq)]
pub struct StateEntry {
    /// Its name in checkpoints: the variable's path, with `#` and what it is where it is not the variable itself.
    pub name: String,
    /// What it is.
    pub role: Role,
    /// Element type and dimensions.
    pub shape: Shape,
    /// The value of all its elements before the first step, unless it is a variable or an average of one.
    pub initial: f64,
}

/// The state's inputs and outputs as they are collected.
#[derive(Default)]
pub(super) struct Layout {
    pub entries: Vec<StateEntry>,
    pub inputs: Vec<Tensor>,
    pub outputs: Vec<Tensor>,
}

impl Layout {
    /// Adds an entry; its output is its input until it is set.
    pub fn add(&mut self, trace: &Trace, name: String, role: Role, shape: &Shape, initial: f64) -> usize {
        let input = trace.input(&name, shape.clone());
        self.entries.push(StateEntry { name, role, shape: shape.clone(), initial });
        self.inputs.push(input.clone());
        self.outputs.push(input);
        self.entries.len() - 1
    }

    /// The entry of that name, added unless it is there.
    pub fn entry(&mut self, trace: &Trace, name: String, role: Role, shape: &Shape, initial: f64) -> usize {
        let there = self.entries.iter().position(|entry| entry.name == name);
        there.unwrap_or_else(|| self.add(trace, name, role, shape, initial))
    }

    pub fn append(&mut self, other: Layout) {
        self.entries.extend(other.entries);
        self.inputs.extend(other.inputs);
        self.outputs.extend(other.outputs);
    }
}
