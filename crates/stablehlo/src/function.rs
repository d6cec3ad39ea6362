//! Building the body of one function operation by operation.

use crate::constant;
use crate::module::Module;
use crate::operation::{self, ElementOrder, Kind, Operation, Region, Value, shapes};
use octant_graph::{DType, HostTensor, Shape};
use std::sync::Arc;

/// The body of a function being built.
pub struct Function<'m> {
    pub module: &'m mut Module,
    body: Vec<Operation>,
    next: usize,
    path: Arc<str>,
}

impl<'m> Function<'m> {
    /// Builds a function over arguments of these shapes by `write`, which returns its results.
    pub fn build(
        module: &'m mut Module,
        name: String,
        inputs: &[Shape],
        write: impl FnOnce(&mut Function, &[Value]) -> Vec<Value>,
    ) -> operation::Function {
        let mut function = Function { module, body: Vec::new(), next: 0, path: "".into() };
        let arguments = function.values(inputs);
        let results = write(&mut function, &arguments);
        function.set_path(&"".into());
        function.push(Kind::FunctionReturn, &results, vec![], &[]);
        let results = results.into_iter().map(|result| result.shape).collect();
        operation::Function { name, arguments, results, body: function.body }
    }

    /// Adds a private function over arguments of these shapes to the module and returns its name.
    pub fn outlined(
        &mut self,
        hint: &str,
        inputs: &[Shape],
        write: impl FnOnce(&mut Function, &[Value]) -> Vec<Value>,
    ) -> String {
        let function = Function::build(self.module, hint.to_string(), inputs, write);
        self.module.add(function)
    }

    /// A call of a private function by its name.
    pub fn call(&mut self, name: String, operands: &[Value], shapes: &[&Shape]) -> Vec<Value> {
        self.push(Kind::Call(name), operands, vec![], shapes)
    }

    /// Sets the layer path of the following operations. Returns the previous one.
    pub fn set_path(&mut self, path: &Arc<str>) -> Arc<str> {
        std::mem::replace(&mut self.path, path.clone())
    }

    /// New values of these shapes.
    fn values<'s>(&mut self, shapes: impl IntoIterator<Item = &'s Shape>) -> Vec<Value> {
        let value = |shape: &Shape| {
            self.next += 1;
            Value { id: self.next - 1, shape: shape.clone() }
        };
        shapes.into_iter().map(value).collect()
    }

    /// Appends an operation and returns its results.
    pub fn push(&mut self, kind: Kind, operands: &[Value], regions: Vec<Region>, made: &[&Shape]) -> Vec<Value> {
        let results = self.values(made.iter().copied());
        let (operands, path) = (operands.to_vec(), self.path.clone());
        self.body.push(Operation { kind, operands, results: results.clone(), regions, path });
        results
    }

    /// An operation with one result and no regions.
    pub fn op(&mut self, kind: Kind, operands: &[&Value], shape: &Shape) -> Value {
        let operands: Vec<Value> = operands.iter().map(|&operand| operand.clone()).collect();
        self.push(kind, &operands, vec![], &[shape]).remove(0)
    }

    /// A region over arguments of these shapes, whose results `write` returns.
    pub fn region(&mut self, inputs: &[Shape], write: impl FnOnce(&mut Self, &[Value]) -> Vec<Value>) -> Region {
        let outer = std::mem::take(&mut self.body);
        let arguments = self.values(inputs);
        let results = write(self, &arguments);
        self.push(Kind::Return, &results, vec![], &[]);
        Region { arguments, body: std::mem::replace(&mut self.body, outer) }
    }

    /// An operation whose operands and result have one type.
    pub fn same(&mut self, op: &'static str, operands: &[&Value]) -> Value {
        self.op(Kind::Elementwise(op), operands, &operands[0].shape)
    }

    /// An operation without attributes whose types differ.
    pub fn typed(&mut self, op: &'static str, operands: &[&Value], shape: &Shape) -> Value {
        self.op(Kind::Typed(op), operands, shape)
    }

    pub fn constant(&mut self, tensor: &HostTensor) -> Value {
        self.op(Kind::Constant(tensor.clone()), &[], tensor.shape())
    }

    pub fn scalar(&mut self, dtype: DType, value: f64) -> Value {
        self.constant(&constant::scalar(dtype, value))
    }

    /// A splat constant.
    pub fn full(&mut self, shape: &Shape, value: f64) -> Value {
        self.op(Kind::Constant(constant::scalar(shape.dtype(), value)), &[], shape)
    }

    pub fn convert(&mut self, operand: &Value, dtype: DType) -> Value {
        if operand.dtype() == dtype {
            return operand.clone();
        }
        self.typed("convert", &[operand], &operand.shape.with_dtype(dtype))
    }

    /// An optimization barrier: the compiler must not fuse the values with their producers.
    pub fn barrier(&mut self, operands: &[Value]) -> Vec<Value> {
        self.push(Kind::Barrier, operands, vec![], &shapes(operands))
    }

    pub fn compare(&mut self, direction: &'static str, left: &Value, right: &Value) -> Value {
        let order = ElementOrder::of(left.dtype());
        self.op(Kind::Compare { direction, order }, &[left, right], &left.shape.with_dtype(DType::Bool))
    }

    pub fn select(&mut self, condition: &Value, on_true: &Value, on_false: &Value) -> Value {
        self.op(Kind::Select, &[condition, on_true, on_false], &on_true.shape)
    }
}
