//! Compositions of primitives that ONNX has as one operation.

use super::writer::{Writer, int, text};
use crate::ExportError;
use octant_graph::{AttentionKernel, Binary, Comparison, DType, LayerNormKernel, Node, Op, Reduction, Unary, ValueId};
use std::f64::consts::FRAC_1_SQRT_2;

impl Writer<'_> {
    /// Writes the operation that ends with this node, if it is one; whether it was.
    pub(super) fn pattern(&mut self, _index: usize, node: &Node) -> Result<bool, ExportError> {
        if let Op::Call { kernel: Some(hint), .. } = &node.op
            && let Some(norm) =
                LayerNormKernel::decode(&hint.integers).filter(|_| hint.name == LayerNormKernel::FORWARD)
        {
            return self.layer_norm(node, norm.epsilon).map(|()| true);
        }
        if let Op::Call { kernel: Some(hint), .. } = &node.op
            && let Some(kernel) = AttentionKernel::decode(hint).filter(|_| hint.name == AttentionKernel::FORWARD)
        {
            return self.attention(node, &kernel).map(|()| true);
        }
        if self.quantization(node)? {
            return Ok(true);
        }
        if let Some(x) = self.relu(node) {
            return self.single(node, "Relu", x).map(|()| true);
        }
        if let Some((x, axis)) = self.softmax(node) {
            let stored = self.stored(x)?;
            let at = stored.order.iter().position(|&found| found == axis).unwrap_or(0) as i64;
            let name = self.emit("Softmax", &node.path, vec![stored.name], vec![int("axis", at)]);
            self.keep(node.outputs[0], name, stored.order);
            return Ok(true);
        }
        if let Some(x) = self.hard_swish(node) {
            return self.single(node, "HardSwish", x).map(|()| true);
        }
        if let Some(x) = self.gelu(node) {
            return self.write_gelu(node, x).map(|()| true);
        }
        if let Some((x, factor)) = self.nearest(node) {
            return self.write_nearest(node, x, factor).map(|()| true);
        }
        Ok(false)
    }

    fn single(&mut self, node: &Node, op: &str, x: ValueId) -> Result<(), ExportError> {
        let stored = self.stored(x)?;
        let name = self.emit(op, &node.path, vec![stored.name], vec![]);
        self.keep(node.outputs[0], name, stored.order);
        Ok(())
    }

    /// The operand that is not `number`, of an operation with one that is.
    fn with_number(&self, value: ValueId, binary: Binary, number: f64) -> Option<ValueId> {
        let node = self.producer(value);
        // Constants of half precision were rounded when they were traced.
        let tolerance = if self.shape(value).dtype() == DType::F16 { 4e-3 } else { 1e-6 };
        let is_near = |found: f64| (found - number).abs() <= tolerance * number.abs();
        let is_meant = |value: ValueId| self.constant_number(value).is_some_and(is_near);
        match (&node.op, &node.inputs[..]) {
            (Op::Binary(found), &[a, b]) if *found == binary && is_meant(b) => Some(a),
            (Op::Binary(found), &[a, b]) if *found == binary && is_meant(a) => Some(b),
            _ => None,
        }
    }

    /// `x <= 0 ? 0 : x`.
    fn relu(&self, node: &Node) -> Option<ValueId> {
        let (Op::Select, &[condition, zero, x]) = (&node.op, &node.inputs[..]) else { return None };
        let test = self.producer(condition);
        let is_test = test.op == Op::Compare(Comparison::LessEqual)
            && test.inputs[0] == x
            && self.constant_number(test.inputs[1]) == Some(0.0);
        (is_test && self.constant_number(zero) == Some(0.0) && self.is_float(x)).then_some(x)
    }

    /// `exp(x - max x) / Σ exp(x - max x)` along one axis.
    fn softmax(&self, node: &Node) -> Option<(ValueId, usize)> {
        let (Op::Binary(Binary::Div), &[exponentials, sums]) = (&node.op, &node.inputs[..]) else { return None };
        let axis = self.reduces(sums, Reduction::Sum, exponentials)?;
        let shifted = self.producer(exponentials);
        let difference = match (&shifted.op, &shifted.inputs[..]) {
            (Op::Unary(Unary::Exp), &[difference]) => self.producer(difference),
            _ => return None,
        };
        let (Op::Binary(Binary::Sub), &[x, largest]) = (&difference.op, &difference.inputs[..]) else { return None };
        (self.reduces(largest, Reduction::Max, x)? == axis).then_some((x, axis))
    }

    /// The axis along which `value` repeats a reduction of `of`.
    fn reduces(&self, value: ValueId, kind: Reduction, of: ValueId) -> Option<usize> {
        let mut base = value;
        // Through repetitions, axes of length 1, and bits that hide a maximum from its gradient: the result has the type of
        // what is reduced, so they are read back.
        loop {
            let node = self.producer(base);
            match &node.op {
                Op::Broadcast { .. } | Op::Reshape { .. } | Op::Bitcast(_) => base = node.inputs[0],
                Op::Reduce { kind: found, axes } if *found == kind && node.inputs[0] == of => {
                    let &[axis] = &axes[..] else { return None };
                    // The result must lie along the axes that are left.
                    let kept: Vec<usize> = self.lying_axes(value);
                    let others: Vec<usize> = (0..self.shape(of).rank()).filter(|&other| other != axis).collect();
                    return (kept.iter().all(|found| others.contains(found))).then_some(axis);
                }
                _ => return None,
            }
        }
    }

    /// The axes of a repeated value along which it was not repeated.
    fn lying_axes(&self, value: ValueId) -> Vec<usize> {
        let (base, axes) = self.repeated(value);
        let dims = self.shape(base).dims();
        axes.iter().enumerate().filter(|(axis, _)| dims[*axis] != 1).map(|(_, &to)| to).collect()
    }

    /// `x · clamp(x + 3, 0, 6) / 6`.
    fn hard_swish(&self, node: &Node) -> Option<ValueId> {
        let (Op::Binary(Binary::Mul), &[a, b]) = (&node.op, &node.inputs[..]) else { return None };
        let gate = |x: ValueId, gate: ValueId| {
            let clamped = self.producer(self.with_number(gate, Binary::Mul, 1.0 / 6.0)?);
            let (Op::Clamp, &[low, sum, high]) = (&clamped.op, &clamped.inputs[..]) else { return None };
            let bounds = (self.constant_number(low)?, self.constant_number(high)?);
            (bounds == (0.0, 6.0) && self.with_number(sum, Binary::Add, 3.0)? == x).then_some(x)
        };
        gate(a, b).or_else(|| gate(b, a))
    }

    /// `x / 2 · (erf(x / √2) + 1)`.
    fn gelu(&self, node: &Node) -> Option<ValueId> {
        let (Op::Binary(Binary::Mul), &[half, share]) = (&node.op, &node.inputs[..]) else { return None };
        let x = self.with_number(half, Binary::Mul, 0.5)?;
        let erf = self.producer(self.with_number(share, Binary::Add, 1.0)?);
        let (Op::Unary(Unary::Erf), &[scaled]) = (&erf.op, &erf.inputs[..]) else { return None };
        (self.with_number(scaled, Binary::Mul, FRAC_1_SQRT_2)? == x).then_some(x)
    }

    /// One operation from opset 20 on; before, in the form that onnxruntime fuses.
    fn write_gelu(&mut self, node: &Node, x: ValueId) -> Result<(), ExportError> {
        if self.options.opset >= 20 {
            return self.single(node, "Gelu", x);
        }
        let stored = self.stored(x)?;
        let dtype = self.shape(x).dtype();
        let numbers = [std::f64::consts::SQRT_2, 1.0, 0.5].map(|number| self.scalar(number, dtype));
        let [root, one, half] = numbers;
        let scaled = self.emit("Div", &node.path, vec![stored.name.clone(), root?], vec![]);
        let erf = self.emit("Erf", &node.path, vec![scaled], vec![]);
        let share = self.emit("Add", &node.path, vec![erf, one?], vec![]);
        let product = self.emit("Mul", &node.path, vec![stored.name, share], vec![]);
        let name = self.emit("Mul", &node.path, vec![product, half?], vec![]);
        self.keep(node.outputs[0], name, stored.order);
        Ok(())
    }

    /// Every pixel of images repeated along height and width.
    fn nearest(&self, node: &Node) -> Option<(ValueId, [usize; 2])> {
        let Op::Reshape { dims } = &node.op else { return None };
        let repeated = self.producer(node.inputs[0]);
        let Op::Broadcast { dims: spread, axes } = &repeated.op else { return None };
        let x = repeated.inputs[0];
        let &[n, h, w, c] = self.shape(x).dims() else { return None };
        let &[sn, sh, fh, sw, fw, sc] = &spread[..] else { return None };
        let is_meant = axes == &[0, 1, 3, 5] && [sn, sh, sw, sc] == [n, h, w, c] && dims[..] == [n, h * fh, w * fw, c];
        is_meant.then_some((x, [fh, fw]))
    }

    fn write_nearest(&mut self, node: &Node, x: ValueId, factors: [usize; 2]) -> Result<(), ExportError> {
        let order = super::writer::channels_first(4);
        let name = self.operand(x, &order)?;
        let scales: Vec<u8> = [1.0, 1.0, factors[0] as f32, factors[1] as f32]
            .iter()
            .flat_map(|scale: &f32| scale.to_le_bytes())
            .collect();
        let scales = self.tensor("scales", &[4], DType::F32, &scales);
        let attributes = vec![
            text("mode", "nearest"),
            text("coordinate_transformation_mode", "asymmetric"),
            text("nearest_mode", "floor"),
        ];
        let name = self.emit("Resize", &node.path, vec![name, String::new(), scales], attributes);
        self.keep(node.outputs[0], name, order);
        Ok(())
    }
}
