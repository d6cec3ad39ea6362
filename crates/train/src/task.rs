//! What is learned.

use crate::TrainError;
use octant_data::Batch;
use octant_graph::{HostTensor, Shape, Tensor};
use octant_nn::Context;

/// A number that people watch, such as `("accuracy", 0.91)`.
pub type Metric = (String, f64);

/// What a task makes of one batch.
pub struct Outcome {
    /// The scalar that is minimised.
    pub loss: Tensor,
    /// What this batch adds to the running sums: f32 `[sums]`.
    pub sums: Tensor,
}

/// A kind of learning: how a batch enters the graph, what is minimised, what is counted.
pub trait Task {
    /// The name of the task, such as `classify`.
    fn name(&self) -> &'static str;

    /// Names and shapes of the tensors that a batch brings to the device.
    fn batch_shapes(&self, batch_size: usize) -> Vec<(String, Shape)>;

    /// The tensors of a batch, in that order.
    fn batch_tensors(&self, batch: &Batch) -> Result<Vec<HostTensor>, TrainError>;

    /// How many running sums there are.
    fn sums(&self) -> usize;

    /// Builds the forward pass, the loss and the sums over a batch.
    fn outcome(&self, cx: &Context, batch: &[Tensor]) -> Outcome;

    /// The metrics that follow from sums over any number of batches.
    fn metrics(&self, sums: &[f64]) -> Vec<Metric>;
}
