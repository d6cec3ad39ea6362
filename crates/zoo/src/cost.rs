//! What a graph costs: the multiply–adds of its convolutions and products, which is what papers publish as "FLOPs".

use octant_graph::{Graph, Op};

/// Multiply–adds of all convolutions and products, bodies of calls included. Loops count once and branches as the dearer
/// one, since their number is known only when the program runs.
pub fn multiply_adds(graph: &Graph) -> u64 {
    graph
        .nodes()
        .iter()
        .map(|node| {
            let shape = |index: usize| graph.shape(node.inputs[index]);
            let results = || node.outputs.iter().map(|&output| graph.shape(output).elements() as u64).sum::<u64>();
            if let Op::Convolution(conv) = &node.op {
                let kernel = shape(1);
                let per_output = kernel.elements() / kernel.dims()[conv.kernel.output].max(1);
                results() * per_output as u64
            } else if let Op::Dot(dot) = &node.op {
                let summed: usize = dot.left_contract.iter().map(|&axis| shape(0).dims()[axis]).product();
                results() * summed as u64
            } else if let Op::If { then, otherwise } = &node.op {
                multiply_adds(then).max(multiply_adds(otherwise))
            } else {
                node.op.bodies().iter().map(|(_, body)| multiply_adds(body)).sum()
            }
        })
        .sum()
}
