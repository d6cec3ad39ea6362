//! The finished graph: nodes in an order in which every value is made before it is used.

use crate::Op;
use octant_tensor::Shape;
use std::sync::Arc;

/// The index of a node in [`Graph::nodes`].
pub type NodeId = usize;

/// One value of a graph; most nodes make one, some make several.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ValueId(pub(crate) u32);

impl ValueId {
    /// The index of the value in [`Graph::values`].
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// What is known of a value.
#[derive(Debug, Clone, PartialEq)]
pub struct ValueInfo {
    /// Element type and dimensions.
    pub shape: Shape,
    /// The node that makes it.
    pub producer: NodeId,
}

/// One operation: what it does, what it reads, what it makes, and which layer added it.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// The operation with its attributes.
    pub op: Op,
    /// The values it reads.
    pub inputs: Vec<ValueId>,
    /// The values it makes.
    pub outputs: Vec<ValueId>,
    /// The path of the layer that made it, such as `layer1.0.conv2`; empty outside of layers.
    pub path: Arc<str>,
}

/// A program, or the body of a loop, a branch or a called function: inputs, operations, outputs.
///
/// Invariants, checked by the verifier: nodes are in topological order, every value has the shape that inference gives,
/// and nothing is used that is not made in the same graph (bodies receive what they capture as inputs).
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Graph {
    pub(crate) nodes: Vec<Node>,
    pub(crate) values: Vec<ValueInfo>,
    pub(crate) inputs: Vec<ValueId>,
    pub(crate) input_names: Vec<Arc<str>>,
    pub(crate) outputs: Vec<ValueId>,
}

impl Graph {
    /// The operations, in an order in which they can be run.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// What is known of every value.
    pub fn values(&self) -> &[ValueInfo] {
        &self.values
    }

    /// The graph's inputs, in order.
    pub fn inputs(&self) -> &[ValueId] {
        &self.inputs
    }

    /// The names of the inputs, in the same order.
    pub fn input_names(&self) -> &[Arc<str>] {
        &self.input_names
    }

    /// The values returned, in order; one value may be returned twice.
    pub fn outputs(&self) -> &[ValueId] {
        &self.outputs
    }

    /// The shape of a value of this graph.
    pub fn shape(&self, value: ValueId) -> &Shape {
        &self.values[value.index()].shape
    }

    /// The node that makes a value.
    pub fn producer(&self, value: ValueId) -> &Node {
        &self.nodes[self.values[value.index()].producer]
    }

    /// The same graph with other outputs: any of its values.
    pub fn with_outputs(mut self, outputs: Vec<ValueId>) -> Graph {
        debug_assert!(
            outputs.iter().all(|output| output.index() < self.values.len()),
            "outputs are values of the graph"
        );
        self.outputs = outputs;
        self
    }

    /// The same graph with its inputs in another order: the new input `i` is the old input `order[i]`. Tracing declares
    /// inputs as it meets them; a program sorts them by purpose.
    pub fn with_inputs_ordered(mut self, order: &[usize]) -> Graph {
        debug_assert_eq!(order.len(), self.inputs.len(), "the new order names every input");
        self.inputs = order.iter().map(|&old| self.inputs[old]).collect();
        self.input_names = order.iter().map(|&old| self.input_names[old].clone()).collect();
        for (index, input) in self.inputs.iter().enumerate() {
            let producer = self.values[input.index()].producer;
            self.nodes[producer].op = Op::Parameter { index };
        }
        self
    }

    /// The shapes of the inputs.
    pub fn input_shapes(&self) -> Vec<Shape> {
        self.inputs.iter().map(|&input| self.shape(input).clone()).collect()
    }

    /// The shapes of the outputs.
    pub fn output_shapes(&self) -> Vec<Shape> {
        self.outputs.iter().map(|&output| self.shape(output).clone()).collect()
    }
}

impl Graph {
    /// Multiply–adds of all its products and convolutions, which is what papers publish as "FLOPs".
    pub fn multiply_adds(&self) -> u64 {
        let shape = |value: &ValueId| &self.values[value.index()].shape;
        let of_node = |node: &Node| {
            let inputs: Vec<&Shape> = node.inputs.iter().map(shape).collect();
            node.outputs.first().map_or(0, |output| node.op.multiply_adds(&inputs, shape(output)))
        };
        self.nodes.iter().map(of_node).sum()
    }

    /// Floating-point operations of all its products and convolutions, a multiply–add counted as two.
    pub fn flops(&self) -> f64 {
        2.0 * self.multiply_adds() as f64
    }
}

#[cfg(test)]
mod tests {
    use crate::{Convolution, DType, Shape, Trace};

    #[test]
    fn a_convolution_counts_its_taps_and_a_product_its_sums() {
        let trace = Trace::new();
        let x = trace.input("x", Shape::new(DType::F32, [2, 5, 5, 3]));
        let k = trace.input("k", Shape::new(DType::F32, [3, 3, 3, 8]));
        let y = x.convolution(&k, Convolution::nhwc(2, DType::F32));
        let graph = trace.finish(&[y]).unwrap();
        assert_eq!(graph.flops(), 2.0 * (2 * 3 * 3 * 8) as f64 * (3 * 3 * 3) as f64);
    }
}
