//! Operations on one element at a time.

use super::proto::Attribute;
use super::writer::{Writer, element_type, int};
use crate::ExportError;
use octant_graph::{Binary, Comparison, DType, Node, Op, Shape, Unary, ValueId};

impl Writer<'_> {
    /// The order of axes of a result: that of the first operand that is stored with all axes, otherwise the graph's.
    pub(super) fn common_order(&mut self, inputs: &[ValueId]) -> Result<Vec<usize>, ExportError> {
        let rank = inputs.iter().map(|&input| self.shape(input).rank()).max().unwrap_or(0);
        for &input in inputs {
            let (base, axes) = self.repeated(input);
            let is_constant = matches!(self.producer(base).op, Op::Constant(_));
            if axes.len() == rank && !is_constant {
                let stored = self.stored(base)?;
                return Ok(stored.order.iter().map(|&axis| axes[axis]).collect());
            }
        }
        Ok((0..rank).collect())
    }

    /// An operation over operands that ONNX repeats to common dimensions.
    pub(super) fn elementwise(
        &mut self,
        node: &Node,
        op: &str,
        inputs: &[ValueId],
        attributes: Vec<Attribute>,
    ) -> Result<(), ExportError> {
        let order = self.common_order(inputs)?;
        let mut operands = Vec::new();
        for &input in inputs {
            operands.push(self.spread(input, &order)?);
        }
        let mut name = self.emit(op, &node.path, operands, attributes);
        // All operands may be repeated: then the result has to be made as large as it is.
        let is_whole = |&input: &ValueId| {
            let (base, axes) = self.repeated(input);
            axes.len() == order.len() && self.shape(base).dims() == self.shape(input).dims()
        };
        if !inputs.iter().any(is_whole) {
            let dims = self.network.dims(node.outputs[0])?;
            let dims: Vec<_> = order.iter().map(|&axis| dims[axis]).collect();
            let shape = self.dims_tensor(&dims)?;
            name = self.emit("Expand", &node.path, vec![name, shape], vec![]);
        }
        self.keep(node.outputs[0], name, order);
        Ok(())
    }

    pub(super) fn unary(&mut self, node: &Node, unary: Unary) -> Result<(), ExportError> {
        let op = match unary {
            Unary::Neg => "Neg",
            Unary::Abs => "Abs",
            Unary::Sign => "Sign",
            Unary::Exp => "Exp",
            Unary::Log => "Log",
            Unary::Sqrt => "Sqrt",
            Unary::Tanh => "Tanh",
            Unary::Logistic => "Sigmoid",
            Unary::Erf => "Erf",
            Unary::Sin => "Sin",
            Unary::Cos => "Cos",
            Unary::Floor => "Floor",
            Unary::Ceil => "Ceil",
            Unary::RoundEven => "Round",
            Unary::Not if self.shape(node.inputs[0]).dtype() == DType::Bool => "Not",
            Unary::Not => "BitwiseNot",
            Unary::Rsqrt => return self.then(node, "Sqrt", "Reciprocal"),
            Unary::Expm1 => return self.with_one(node, true),
            Unary::Log1p => return self.with_one(node, false),
            Unary::IsFinite => return self.is_finite(node),
        };
        self.elementwise(node, op, &node.inputs, vec![])
    }

    fn then(&mut self, node: &Node, first: &str, second: &str) -> Result<(), ExportError> {
        self.elementwise(node, first, &node.inputs, vec![])?;
        let stored = self.stored(node.outputs[0])?;
        let name = self.emit(second, &node.path, vec![stored.name], vec![]);
        self.keep(node.outputs[0], name, stored.order);
        Ok(())
    }

    /// `exp(x) - 1` or `log(1 + x)`; ONNX has no form that is exact near 0.
    fn with_one(&mut self, node: &Node, is_exponential: bool) -> Result<(), ExportError> {
        let stored = self.stored(node.inputs[0])?;
        let one = self.scalar(1.0, self.shape(node.inputs[0]).dtype())?;
        let name = match is_exponential {
            true => {
                let exponential = self.emit("Exp", &node.path, vec![stored.name], vec![]);
                self.emit("Sub", &node.path, vec![exponential, one], vec![])
            }
            false => {
                let sum = self.emit("Add", &node.path, vec![stored.name, one], vec![]);
                self.emit("Log", &node.path, vec![sum], vec![])
            }
        };
        self.keep(node.outputs[0], name, stored.order);
        Ok(())
    }

    /// Neither infinite nor NaN: `x - x` is 0.
    fn is_finite(&mut self, node: &Node) -> Result<(), ExportError> {
        let stored = self.stored(node.inputs[0])?;
        let zero = self.scalar(0.0, self.shape(node.inputs[0]).dtype())?;
        let difference = self.emit("Sub", &node.path, vec![stored.name.clone(), stored.name], vec![]);
        let name = self.emit("Equal", &node.path, vec![difference, zero], vec![]);
        self.keep(node.outputs[0], name, stored.order);
        Ok(())
    }

    pub(super) fn binary(&mut self, node: &Node, binary: Binary) -> Result<(), ExportError> {
        let is_bool = self.shape(node.inputs[0]).dtype() == DType::Bool;
        let op = match binary {
            Binary::Add => "Add",
            Binary::Sub => "Sub",
            Binary::Mul => "Mul",
            Binary::Div => "Div",
            Binary::Max => "Max",
            Binary::Min => "Min",
            Binary::Pow => "Pow",
            Binary::Rem => return self.elementwise(node, "Mod", &node.inputs, vec![int("fmod", 1)]),
            Binary::And if is_bool => "And",
            Binary::Or if is_bool => "Or",
            Binary::Xor if is_bool => "Xor",
            Binary::And => "BitwiseAnd",
            Binary::Or => "BitwiseOr",
            Binary::Xor => "BitwiseXor",
            Binary::ShiftLeft | Binary::ShiftRight | Binary::Atan2 => {
                return Err(self.refusal(node, "ONNX does not have it for all types"));
            }
        };
        self.elementwise(node, op, &node.inputs, vec![])
    }

    pub(super) fn compare(&mut self, node: &Node, comparison: Comparison) -> Result<(), ExportError> {
        let op = match comparison {
            Comparison::Equal => "Equal",
            Comparison::NotEqual => return self.then(node, "Equal", "Not"),
            Comparison::Less => "Less",
            Comparison::LessEqual => "LessOrEqual",
            Comparison::Greater => "Greater",
            Comparison::GreaterEqual => "GreaterOrEqual",
        };
        self.elementwise(node, op, &node.inputs, vec![])
    }

    /// `(low, value, high)`.
    pub(super) fn clamp(&mut self, node: &Node) -> Result<(), ExportError> {
        let [low, value, high] = [0, 1, 2].map(|index| node.inputs[index]);
        if let (Some(low), Some(high)) = (self.constant_number(low), self.constant_number(high)) {
            let stored = self.stored(value)?;
            let dtype = self.shape(value).dtype();
            let bounds = [self.scalar(low, dtype)?, self.scalar(high, dtype)?];
            let inputs = std::iter::once(stored.name).chain(bounds).collect();
            let name = self.emit("Clip", &node.path, inputs, vec![]);
            self.keep(node.outputs[0], name, stored.order);
            return Ok(());
        }
        let order = self.common_order(&[value])?;
        let [value, low, high] = [value, low, high].map(|input| self.spread(input, &order));
        let above = self.emit("Max", &node.path, vec![value?, low?], vec![]);
        let name = self.emit("Min", &node.path, vec![above, high?], vec![]);
        self.keep(node.outputs[0], name, order);
        Ok(())
    }

    pub(super) fn convert(&mut self, node: &Node, dtype: DType) -> Result<(), ExportError> {
        let stored = self.stored(node.inputs[0])?;
        if self.shape(node.inputs[0]).dtype() == dtype {
            self.keep(node.outputs[0], stored.name, stored.order);
            return Ok(());
        }
        let to = vec![int("to", i64::from(element_type(dtype)))];
        let name = self.emit("Cast", &node.path, vec![stored.name], to);
        self.keep(node.outputs[0], name, stored.order);
        Ok(())
    }

    /// Numbers along one axis, repeated along the others.
    pub(super) fn iota(&mut self, node: &Node, shape: &Shape, axis: usize) -> Result<(), ExportError> {
        use crate::network::Dim;
        let dims = self.network.dims(node.outputs[0])?;
        let mut alone = vec![1; dims.len()];
        let counted = match dims[axis] {
            Dim::Fixed(length) => {
                alone[axis] = length;
                let values: Vec<f64> = (0..length).map(|number| number as f64).collect();
                let tensor = octant_graph::HostTensor::from_f64s(Shape::new(shape.dtype(), alone.clone()), &values);
                let tensor = tensor.map_err(|error| ExportError::Refused(error.to_string()))?;
                self.tensor("iota", &alone, shape.dtype(), tensor.bytes())
            }
            Dim::Batch(_) => {
                let [zero, one] = [self.scalar(0.0, DType::I64)?, self.scalar(1.0, DType::I64)?];
                let count = self.dims_tensor(&dims[axis..=axis])?;
                let count = self.emit("Squeeze", &node.path, vec![count], vec![]);
                let counted = self.emit("Range", &node.path, vec![zero, count, one], vec![]);
                let to = vec![int("to", i64::from(element_type(shape.dtype())))];
                let counted = self.emit("Cast", &node.path, vec![counted], to);
                let alone: Vec<i64> = (0..dims.len()).map(|other| if other == axis { -1 } else { 1 }).collect();
                let alone = self.integers(&alone);
                self.emit("Reshape", &node.path, vec![counted, alone], vec![])
            }
        };
        let whole = self.dims_tensor(&dims)?;
        let name = self.emit("Expand", &node.path, vec![counted, whole], vec![]);
        self.keep(node.outputs[0], name, (0..dims.len()).collect());
        Ok(())
    }

    /// The one number that a value consists of, where it is known.
    pub(super) fn constant_number(&self, value: ValueId) -> Option<f64> {
        let (base, _) = self.repeated(value);
        let Op::Constant(tensor) = &self.producer(base).op else { return None };
        let numbers = tensor.to_f64s();
        numbers.first().copied().filter(|first| numbers.iter().all(|number| number == first))
    }
}
