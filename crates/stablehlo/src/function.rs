//! Writing the body of one function line by line.

use crate::module::{Line, Module};
use crate::{constant, types};
use octant_graph::{DType, HostTensor, Shape};
use std::sync::Arc;

/// A value in the text: its name and its type.
#[derive(Debug, Clone)]
pub struct Named {
    pub name: String,
    pub shape: Shape,
}

impl Named {
    /// Its type in MLIR.
    pub fn ty(&self) -> String {
        types::tensor(&self.shape)
    }

    pub fn dtype(&self) -> DType {
        self.shape.dtype()
    }
}

impl std::fmt::Display for Named {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.write_str(&self.name)
    }
}

/// The body of a function being written.
pub struct Function<'m> {
    pub module: &'m mut Module,
    pub lines: Vec<Line>,
    next: usize,
    indent: usize,
    path: Arc<str>,
}

impl<'m> Function<'m> {
    pub fn new(module: &'m mut Module) -> Function<'m> {
        Function { module, lines: Vec::new(), next: 0, indent: 2, path: "".into() }
    }

    /// Writes a private function over arguments of these shapes and returns its name.
    pub fn outlined(
        &mut self,
        hint: &str,
        inputs: &[Shape],
        write: impl FnOnce(&mut Function, &[Named]) -> Vec<Named>,
    ) -> String {
        let mut function = Function::new(self.module);
        let arguments = argument_names(inputs);
        let results = write(&mut function, &arguments);
        function.set_path(&"".into());
        function.return_values(&results);
        let lines = function.lines;
        let shapes: Vec<&Shape> = results.iter().map(|result| &result.shape).collect();
        let list = types::join(arguments.iter().map(|argument| format!("{argument}: {}", argument.ty())));
        self.module.add(hint, format!("({list}) -> {}", types::tuple(&shapes)), lines)
    }

    /// A call of a private function by its name.
    pub fn call(&mut self, name: &str, operands: &[Named], shapes: &[&Shape]) -> Vec<Named> {
        let inputs: Vec<&Shape> = operands.iter().map(|operand| &operand.shape).collect();
        let (inputs, results) = (types::tuple(&inputs), types::results(shapes));
        let operands = types::join(operands);
        self.several(shapes, |function, head| {
            function.line(format!("{head} = call @{name}({operands}) : {inputs} -> {results}"))
        })
    }

    /// The end of the function: `return %0, %1 : tensor<f32>, tensor<i32>`.
    pub fn return_values(&mut self, values: &[Named]) {
        let types = types::join(values.iter().map(Named::ty));
        match values.is_empty() {
            true => self.line("return"),
            false => self.line(format!("return {} : {types}", types::join(values))),
        }
    }

    /// Sets the layer path of the following lines. Returns the previous one.
    pub fn set_path(&mut self, path: &Arc<str>) -> Arc<str> {
        std::mem::replace(&mut self.path, path.clone())
    }

    /// A fresh SSA name.
    pub fn fresh(&mut self) -> String {
        self.next += 1;
        format!("%{}", self.next - 1)
    }

    /// Appends a line that may end in a location.
    pub fn line(&mut self, text: impl AsRef<str>) {
        let text = format!("{}{}", "  ".repeat(self.indent), text.as_ref());
        self.lines.push(Line { text, path: Some(self.path.clone()) });
    }

    /// Appends a line that opens or continues a region.
    pub fn open(&mut self, text: impl AsRef<str>) {
        let text = format!("{}{}", "  ".repeat(self.indent), text.as_ref());
        self.lines.push(Line { text, path: None });
    }

    /// Writes the lines of a region one level deeper.
    pub fn indented(&mut self, write: impl FnOnce(&mut Self)) {
        self.indent += 1;
        write(self);
        self.indent -= 1;
    }

    /// An operation with one result: everything after the `=`.
    pub fn op(&mut self, shape: &Shape, text: impl AsRef<str>) -> Named {
        let name = self.fresh();
        self.line(format!("{name} = {}", text.as_ref()));
        Named { name, shape: shape.clone() }
    }

    /// An operation whose operands and result have one type.
    pub fn same(&mut self, op: &str, operands: &[&Named]) -> Named {
        let shape = operands[0].shape.clone();
        let text = format!("stablehlo.{op} {} : {}", types::join(operands), types::tensor(&shape));
        self.op(&shape, text)
    }

    /// An operation with a full signature; `attributes` follow the operands.
    pub fn typed(&mut self, op: &str, operands: &[&Named], attributes: &str, shape: &Shape) -> Named {
        let shapes: Vec<&Shape> = operands.iter().map(|operand| &operand.shape).collect();
        let (list, types, made) = (types::join(operands), types::tuple(&shapes), types::tensor(shape));
        self.op(shape, format!("stablehlo.{op} {list}{attributes} : {types} -> {made}"))
    }

    pub fn constant(&mut self, tensor: &HostTensor) -> Named {
        let text = format!("stablehlo.constant {} : {}", constant::dense(tensor), types::tensor(tensor.shape()));
        self.op(tensor.shape(), text)
    }

    pub fn scalar(&mut self, dtype: DType, value: f64) -> Named {
        self.constant(&constant::scalar(dtype, value))
    }

    /// A splat constant.
    pub fn full(&mut self, shape: &Shape, value: f64) -> Named {
        let literal = constant::dense(&constant::scalar(shape.dtype(), value));
        let literal = if shape.elements() == 0 { "dense<>".to_string() } else { literal };
        self.op(shape, format!("stablehlo.constant {literal} : {}", types::tensor(shape)))
    }

    pub fn convert(&mut self, operand: &Named, dtype: DType) -> Named {
        if operand.dtype() == dtype {
            return operand.clone();
        }
        self.typed("convert", &[operand], "", &operand.shape.with_dtype(dtype))
    }

    /// An optimization barrier: the compiler must not fuse the value with its producer.
    pub fn barrier(&mut self, x: &Named) -> Named {
        self.op(&x.shape, format!("stablehlo.optimization_barrier {x} : {}", x.ty()))
    }

    pub fn compare(&mut self, direction: &str, left: &Named, right: &Named) -> Named {
        let dtype = left.dtype();
        let kind = match () {
            () if dtype.is_float() => "FLOAT",
            () if dtype.is_signed() => "SIGNED",
            () => "UNSIGNED",
        };
        let shape = left.shape.with_dtype(DType::Bool);
        let (ty, made) = (left.ty(), types::tensor(&shape));
        let text = format!("stablehlo.compare {direction}, {left}, {right}, {kind} : ({ty}, {ty}) -> {made}");
        self.op(&shape, text)
    }

    pub fn select(&mut self, condition: &Named, on_true: &Named, on_false: &Named) -> Named {
        let types = format!("{}, {}", condition.ty(), on_true.ty());
        let text = format!("stablehlo.select {condition}, {on_true}, {on_false} : {types}");
        self.op(&on_true.shape, text)
    }

    /// An operation with several results.
    pub fn several(&mut self, shapes: &[&Shape], write: impl FnOnce(&mut Self, &str)) -> Vec<Named> {
        let name = self.fresh();
        let single = shapes.len() == 1;
        let head = if single { name.clone() } else { format!("{name}:{}", shapes.len()) };
        write(self, &head);
        let named = |(i, shape): (usize, &&Shape)| Named {
            name: if single { name.clone() } else { format!("{name}#{i}") },
            shape: (*shape).clone(),
        };
        shapes.iter().enumerate().map(named).collect()
    }

    /// The end of a region.
    pub fn region_return(&mut self, values: &[Named]) {
        let shapes = types::join(values.iter().map(Named::ty));
        match values.is_empty() {
            true => self.line("stablehlo.return"),
            false => self.line(format!("stablehlo.return {} : {shapes}", types::join(values))),
        }
    }

    /// Fresh names for the arguments of a region.
    pub fn arguments(&mut self, shapes: &[Shape]) -> Vec<Named> {
        shapes.iter().map(|shape| Named { name: self.fresh(), shape: shape.clone() }).collect()
    }

    /// `^bb0(%a: tensor<f32>, …):`, the head of a region in the generic form.
    pub fn block_head(&mut self, arguments: &[Named]) {
        let list = types::join(arguments.iter().map(|argument| format!("{argument}: {}", argument.ty())));
        self.open(format!("^bb0({list}):"));
    }
}

/// `%arg0`, `%arg1`, …: the arguments of a function.
pub fn argument_names(shapes: &[Shape]) -> Vec<Named> {
    let named = |(i, shape): (usize, &Shape)| Named { name: format!("%arg{i}"), shape: shape.clone() };
    shapes.iter().enumerate().map(named).collect()
}
