//! Variables: what lives between steps.

use crate::{Init, WeightLayout};
use octant_graph::{HostTensor, Shape, Tensor};

/// What a variable is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum VariableKind {
    /// Learned through gradients.
    Parameter,
    /// Followed by the forward pass in training, such as the running mean of a batch norm; never differentiated.
    Statistic,
}

/// Everything about a variable that can be known without a graph.
#[derive(Debug, Clone, PartialEq)]
pub struct VariableSpec {
    /// The key in the reference's state dict, such as `layer1.0.conv2.weight`.
    pub path: String,
    /// Element type and dimensions in Octant's layout (NHWC, HWIO, rows × columns).
    pub shape: Shape,
    /// Learned or followed.
    pub kind: VariableKind,
    /// Where its first value comes from.
    pub init: Init,
    /// How the reference lays it out in files.
    pub layout: WeightLayout,
    /// How deep it lies: 0 in front of the first block, then the number of its block, then one more than the last block's.
    /// Layer-wise learning rates go by it.
    pub layer: usize,
    /// It belongs to training alone, such as a discriminator's: kept in checkpoints, but not in the model's file.
    pub companion: bool,
}

impl VariableSpec {
    /// The first value: a function of the seed and the path only, whatever else the model contains.
    pub fn initial(&self, seed: u64) -> HostTensor {
        self.init.sample(&self.shape, seed, &self.path)
    }

    /// The dimensions that the reference's file has.
    pub fn reference_dims(&self) -> Vec<usize> {
        self.layout.reference_dims(self.shape.dims())
    }

    /// Whether this is a matrix or kernel; biases and the scales of norms, which common recipes exempt from weight
    /// decay, are not.
    pub fn is_matrix(&self) -> bool {
        self.kind == VariableKind::Parameter && self.shape.rank() > 1
    }
}

/// A variable as it takes part in a graph.
#[derive(Debug, Clone)]
pub struct Variable {
    /// What it is.
    pub spec: VariableSpec,
    /// The graph's input that carries it, always f32.
    pub value: Tensor,
    /// Its value after what was traced so far: of a statistic that the forward pass followed, or of a parameter that an
    /// update inside of the step has moved.
    pub updated: Option<Tensor>,
}

impl Variable {
    /// The value that is read from now on.
    pub fn current(&self) -> Tensor {
        self.updated.as_ref().unwrap_or(&self.value).clone()
    }
}
