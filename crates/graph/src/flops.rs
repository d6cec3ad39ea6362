//! How much arithmetic a graph is: what throughput is measured with.

use crate::{Graph, Op};
use octant_tensor::Shape;

impl Op {
    /// Floating-point operations of a product or convolution of these operands, a multiply–add counted as two; all else
    /// counts nothing. Bodies of loops, whose length is known only at run time, count once.
    pub fn flops(&self, inputs: &[&Shape], output: &Shape) -> f64 {
        if let Op::Convolution(conv) = self {
            let features = inputs[1].dims()[conv.kernel.output].max(1);
            2.0 * output.elements() as f64 * (inputs[1].elements() / features) as f64
        } else if let Op::Dot(dot) = self {
            let summed: usize = dot.left_contract.iter().map(|&axis| inputs[0].dims()[axis]).product();
            2.0 * output.elements() as f64 * summed as f64
        } else if let Op::If { then, otherwise } = self {
            then.flops().max(otherwise.flops())
        } else {
            self.bodies().iter().map(|(_, body)| body.flops()).sum()
        }
    }
}

impl Graph {
    /// The floating-point operations of all its products and convolutions; see [`Op::flops`].
    pub fn flops(&self) -> f64 {
        let shape = |value: &crate::ValueId| &self.values[value.index()].shape;
        let of_node = |node: &crate::Node| {
            let inputs: Vec<&Shape> = node.inputs.iter().map(shape).collect();
            node.outputs.first().map_or(0.0, |output| node.op.flops(&inputs, shape(output)))
        };
        self.nodes.iter().map(of_node).sum()
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
