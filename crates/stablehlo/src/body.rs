//! Writing a graph into a function, node by node.

use crate::function::{Function, Named};
use crate::ops;
use octant_graph::{Graph, Op, Shape};

impl Function<'_> {
    /// Writes a graph over these values.
    pub fn graph(&mut self, graph: &Graph, inputs: &[Named]) -> Vec<Named> {
        let mut values: Vec<Option<Named>> = vec![None; graph.values().len()];
        for (&id, input) in graph.inputs().iter().zip(inputs) {
            values[id.index()] = Some(input.clone());
        }
        const MADE: &str = "a value is made before it is used";
        let outer = self.set_path(&"".into());
        for node in graph.nodes().iter().filter(|node| !matches!(node.op, Op::Parameter { .. })) {
            let operands: Vec<Named> =
                node.inputs.iter().map(|input| values[input.index()].clone().expect(MADE)).collect();
            let shapes: Vec<&Shape> = node.outputs.iter().map(|&output| graph.shape(output)).collect();
            self.set_path(if node.path.is_empty() { &outer } else { &node.path });
            let results = ops::lower_node(self, graph, node, &operands, &shapes);
            for (output, result) in node.outputs.iter().zip(results) {
                values[output.index()] = Some(result);
            }
        }
        self.set_path(&outer);
        graph.outputs().iter().map(|output| values[output.index()].clone().expect(MADE)).collect()
    }
}
