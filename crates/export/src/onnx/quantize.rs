//! Numbers in 8 bits, in the form that runtimes fuse into integer operators: QuantizeLinear and DequantizeLinear around them.

use super::writer::{Writer, int};
use crate::ExportError;
use octant_graph::{DType, HostTensor, Node, Op, QuantizeKernel, ValueId};

impl<'n> Writer<'n> {
    /// One operator for a call of [`octant_graph::Tensor::quantize`] or `dequantize`; whether the node was one.
    pub(super) fn quantization(&mut self, node: &Node) -> Result<bool, ExportError> {
        let Op::Call { kernel: Some(hint), .. } = &node.op else { return Ok(false) };
        let Some(kernel) = QuantizeKernel::decode(hint) else { return Ok(false) };
        let op = if hint.name == QuantizeKernel::QUANTIZE { "QuantizeLinear" } else { "DequantizeLinear" };
        let stored = self.stored(node.inputs[0])?;
        let mut operands = vec![stored.name];
        for &value in &node.inputs[1..] {
            operands.push(self.stored(value)?.name);
        }
        let axis = kernel.axis.and_then(|axis| stored.order.iter().position(|&found| found == axis));
        let attributes = axis.map(|axis| int("axis", axis as i64));
        let name = self.emit(op, &node.path, operands, attributes.into_iter().collect());
        self.keep(node.outputs[0], name, stored.order);
        Ok(true)
    }

    /// Weights in 8 bits, in an order of axes: a transpose behind them would hide them from runtimes.
    pub(super) fn dequantized_constant(&mut self, value: ValueId, order: &[usize]) -> Option<String> {
        let node = self.dequantization(value)?;
        let [stored, scales, zero] = [0, 1, 2].map(|operand| self.constant_at(node.inputs[operand]));
        let (stored, scales, zero) = (stored?, scales?, zero?);
        let path = self.producer(node.inputs[0]).path.clone();
        let name = self.constant(&path, stored, order);
        let scales = self.tensor("scale", scales.dims(), DType::F32, scales.bytes());
        // onnxruntime's `session.x64quantprecision` replaces those of weights one by one, and fails at one that is shared.
        let zero = self.own_tensor("zero", zero.dims(), zero.dtype(), zero.bytes());
        let at = order.iter().position(|found| Some(*found) == self.axis_of(node));
        let attributes = at.map(|at| int("axis", at as i64));
        Some(self.emit("DequantizeLinear", &node.path, vec![name, scales, zero], attributes.into_iter().collect()))
    }

    /// Of a contraction of 8-bit numbers: for each output channel, what a product of one step by one step stands for.
    pub(super) fn steps_of_products(&self, node: &Node) -> Option<Vec<f64>> {
        let of_operand = |operand: usize| -> Option<Vec<f64>> {
            let call = self.dequantization(node.inputs[operand])?;
            Some(self.constant_at(call.inputs[1])?.to_f64s())
        };
        let (activations, weights) = (of_operand(0)?, of_operand(1)?);
        let &[activation] = &activations[..] else { return None };
        Some(weights.into_iter().map(|weight| activation * weight).collect())
    }

    /// A bias in those steps, as whole numbers: runtimes add it to the sums of products.
    pub(super) fn quantized_bias(&mut self, name: &str, offsets: &[f64], steps: &[f64]) -> String {
        let numbers = offsets.iter().zip(steps).map(|(offset, step)| (offset / step).round_ties_even() as i32);
        let bytes: Vec<u8> = numbers.flat_map(i32::to_le_bytes).collect();
        let stored = self.tensor(name, &[offsets.len()], DType::I32, &bytes);
        let scales: Vec<u8> = steps.iter().flat_map(|&step| (step as f32).to_le_bytes()).collect();
        let scales = self.tensor("scale", &[steps.len()], DType::F32, &scales);
        self.emit("DequantizeLinear", name, vec![stored, scales], vec![int("axis", 0)])
    }

    fn dequantization(&self, value: ValueId) -> Option<&'n Node> {
        let node = self.producer(value);
        let is_ours =
            matches!(&node.op, Op::Call { kernel: Some(hint), .. } if hint.name == QuantizeKernel::DEQUANTIZE);
        is_ours.then_some(node)
    }

    fn axis_of(&self, node: &Node) -> Option<usize> {
        match &node.op {
            Op::Call { kernel: Some(hint), .. } => QuantizeKernel::decode(hint)?.axis,
            _ => None,
        }
    }

    fn constant_at(&self, value: ValueId) -> Option<&'n HostTensor> {
        match &self.producer(value).op {
            Op::Constant(tensor) => Some(tensor),
            _ => None,
        }
    }
}
