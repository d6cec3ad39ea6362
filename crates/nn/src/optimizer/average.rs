//! Averages of weights over steps, which often predict better than the last weights.

use octant_graph::Tensor;

/// The exponential moving average after a step: `average · decay + value · (1 - decay)`. `decay` is a scalar of the graph,
/// so that it can grow over the first steps without a new program.
pub fn moving_average(average: &Tensor, value: &Tensor, decay: &Tensor) -> Tensor {
    average + (value - average) * (1.0 - decay)
}
