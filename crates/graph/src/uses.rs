//! Which nodes read a value.

use crate::{Graph, NodeId, ValueId};

/// The consumers of every value of a graph. The producer is part of the graph itself ([`Graph::producer`]).
#[derive(Debug, Clone)]
pub struct Uses {
    consumers: Vec<Vec<NodeId>>,
    counts: Vec<usize>,
    is_output: Vec<bool>,
}

impl Uses {
    /// The uses of all values.
    pub fn of(graph: &Graph) -> Uses {
        let values = graph.values().len();
        let mut uses =
            Uses { consumers: vec![vec![]; values], counts: vec![0; values], is_output: vec![false; values] };
        for (index, node) in graph.nodes().iter().enumerate() {
            for input in node.inputs.iter().map(|input| input.index()) {
                uses.counts[input] += 1;
                if uses.consumers[input].last() != Some(&index) {
                    uses.consumers[input].push(index);
                }
            }
        }
        for output in graph.outputs().iter().map(|output| output.index()) {
            uses.counts[output] += 1;
            uses.is_output[output] = true;
        }
        uses
    }

    /// The nodes that read a value, each once and in order.
    pub fn consumers(&self, value: ValueId) -> &[NodeId] {
        &self.consumers[value.index()]
    }

    /// The nodes that read a value if nothing else does: none for an output of the graph.
    pub fn only_consumers(&self, value: ValueId) -> &[NodeId] {
        if self.is_output(value) { &[] } else { self.consumers(value) }
    }

    /// How often a value is an operand or an output of the graph.
    pub fn count(&self, value: ValueId) -> usize {
        self.counts[value.index()]
    }

    /// Whether the graph returns a value.
    pub fn is_output(&self, value: ValueId) -> bool {
        self.is_output[value.index()]
    }
}

#[cfg(test)]
mod tests {
    use super::Uses;
    use crate::{DType, Shape, Trace};

    #[test]
    fn operands_count_each_and_consumers_once() {
        let trace = Trace::new();
        let x = trace.input("x", Shape::new(DType::F32, [2]));
        let square = &x * &x;
        let sum = &x + &square;
        let graph = trace.finish(&[sum.clone(), square.clone()]).unwrap();
        let uses = Uses::of(&graph);
        let [x, square, sum] = [x, square, sum].map(|tensor| tensor.id().unwrap());
        assert_eq!((uses.count(x), uses.consumers(x)), (3, &[1, 2][..]));
        assert_eq!((uses.count(square), uses.consumers(square)), (2, &[2][..]));
        assert_eq!((uses.count(sum), uses.is_output(sum)), (1, true));
        assert!(uses.only_consumers(square).is_empty() && uses.only_consumers(x).len() == 2);
    }
}
