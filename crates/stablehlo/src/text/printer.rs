//! The operations of a function, line by line.

use super::attributes as text;
use super::names::Names;
use crate::operation::{ElementOrder, Function, Kind, Operation, Region, shapes};
use crate::types::{self, list};
use std::sync::Arc;

/// One line of a function: text and the layer it belongs to. Lines that only open or close a region have no layer.
#[derive(Debug, Clone)]
pub struct Line {
    pub text: String,
    pub path: Option<Arc<str>>,
}

/// The lines of a function without its signature.
pub fn lines(function: &Function) -> Vec<Line> {
    let mut printer = Printer { lines: Vec::new(), names: Names::arguments(&function.arguments), indent: 2 };
    printer.operations(&function.body);
    printer.lines
}

struct Printer {
    lines: Vec<Line>,
    names: Names,
    indent: usize,
}

impl Printer {
    fn operations(&mut self, operations: &[Operation]) {
        operations.iter().for_each(|operation| self.operation(operation));
    }

    /// A line that may end in a location.
    fn line(&mut self, operation: &Operation, text: String) {
        self.push(text, Some(operation.path.clone()));
    }

    /// A line that opens or continues a region.
    fn open(&mut self, text: String) {
        self.push(text, None);
    }

    fn push(&mut self, text: String, path: Option<Arc<str>>) {
        self.lines.push(Line { text: format!("{}{text}", "  ".repeat(self.indent)), path });
    }

    fn operation(&mut self, op: &Operation) {
        match op.kind {
            Kind::Return => return self.end(op, "stablehlo.return"),
            Kind::FunctionReturn => return self.end(op, "return"),
            Kind::While => return self.while_loop(op),
            _ => (),
        }
        // Operands are read before results are named; regions name their values after that.
        let x = self.names.list(&op.operands);
        let head = self.names.results(&op.results);
        let (taken, made) = (types::tuple(&shapes(&op.operands)), types::results(&shapes(&op.results)));
        let typed = |name: &str, attributes: String| format!("stablehlo.{name} {x}{attributes} : {taken} -> {made}");
        let types_of_operands = || types::join(op.operands.iter().map(|operand| types::tensor(&operand.shape)));
        let text = match &op.kind {
            Kind::Return | Kind::FunctionReturn | Kind::While => unreachable!("printed above"),
            Kind::Elementwise(name) => format!("stablehlo.{name} {x} : {}", types::tensor(&op.operands[0].shape)),
            Kind::Typed(name) => typed(name, String::new()),
            Kind::Constant(tensor) => {
                format!("stablehlo.constant {} : {made}", text::literal(tensor, &op.results[0].shape))
            }
            Kind::Iota { axis } => format!("stablehlo.iota dim = {axis} : {made}"),
            Kind::Broadcast { axes } => typed("broadcast_in_dim", format!(", dims = {}", list(axes))),
            Kind::Transpose { permutation } => typed("transpose", format!(", dims = {}", list(permutation))),
            Kind::Reverse { axes } => format!("stablehlo.reverse {x}, dims = {} : {made}", list(axes)),
            Kind::Slice { starts, limits, strides } => typed("slice", text::ranges(starts, limits, strides)),
            Kind::DynamicSlice { sizes } => typed("dynamic_slice", format!(", sizes = {}", list(sizes))),
            Kind::Pad { low, high, interior } => {
                let [low, high, interior] = [list(low), list(high), list(interior)];
                typed("pad", format!(", low = {low}, high = {high}, interior = {interior}"))
            }
            Kind::Concatenate { axis } => typed("concatenate", format!(", dim = {axis}")),
            Kind::Compare { direction, order } => {
                let order = match order {
                    ElementOrder::Float => "FLOAT",
                    ElementOrder::Signed => "SIGNED",
                    ElementOrder::Unsigned => "UNSIGNED",
                };
                format!("stablehlo.compare {direction}, {x}, {order} : {taken} -> {made}")
            }
            Kind::Select => {
                let [condition, on_true] = [0, 1].map(|i| types::tensor(&op.operands[i].shape));
                format!("stablehlo.select {x} : {condition}, {on_true}")
            }
            Kind::Dot(dot, precision) => typed("dot_general", text::dot(dot, *precision)),
            Kind::Convolution(conv, precision) => {
                let attributes = text::convolution(conv, *precision, op.operands[0].shape.rank());
                format!("stablehlo.convolution({x}) {attributes} : {taken} -> {made}")
            }
            Kind::Gather(gather) => {
                format!("\"stablehlo.gather\"({x}) <{{{}}}> : {taken} -> {made}", text::gather(gather))
            }
            Kind::Barrier => format!("stablehlo.optimization_barrier {x} : {}", types_of_operands()),
            Kind::Call(name) => format!("call @{name}({x}) : {taken} -> {made}"),
            Kind::CustomCall { target, attributes } => {
                format!("stablehlo.custom_call @{target}({x}) {{{attributes}}} : {taken} -> {made}")
            }
            Kind::ExtendedErf => format!("chlo.erf {x} : {made} -> {made}"),
            Kind::Reduce { axes } => match &op.regions[..] {
                // A region of one operation is written by its name.
                [Region { body, .. }] if op.operands.len() == 2 => {
                    let (names, axes) = ([0, 1].map(|i| self.names.of(&op.operands[i])), list(axes));
                    let [x, start] = names;
                    let combine = text::combining(body);
                    format!(
                        "stablehlo.reduce({x} init: {start}) applies stablehlo.{combine} across dimensions = {axes} : \
                         {taken} -> {made}"
                    )
                }
                _ => return self.generic(op, &head, "reduce", &format!(" <{{dimensions = {}}}>", types::array(axes))),
            },
            Kind::ReduceWindow(window) => {
                return self.generic(op, &head, "reduce_window", &format!(" <{{{}}}>", text::window(window)));
            }
            Kind::SelectAndScatter(window) => {
                return self.generic(
                    op,
                    &head,
                    "select_and_scatter",
                    &format!(" <{{{}}}>", text::plain_window(window)),
                );
            }
            Kind::Scatter(scatter) => {
                return self.generic(op, &head, "scatter", &format!(" <{{{}}}>", text::scatter(scatter)));
            }
            Kind::Sort { axis } => {
                let attributes = format!(" <{{dimension = {axis} : i64, is_stable = true}}>");
                return self.generic(op, &head, "sort", &attributes);
            }
            Kind::If => return self.generic(op, &head, "if", ""),
        };
        self.line(op, format!("{head} = {text}"));
    }

    /// The end of a region or function: `return %0, %1 : tensor<f32>, tensor<i32>`.
    fn end(&mut self, op: &Operation, name: &str) {
        let types = types::join(op.operands.iter().map(|operand| types::tensor(&operand.shape)));
        let text = match op.operands.is_empty() {
            true => name.to_string(),
            false => format!("{name} {} : {types}", self.names.list(&op.operands)),
        };
        self.line(op, text);
    }

    /// An operation with regions in MLIR's generic form.
    fn generic(&mut self, op: &Operation, head: &str, name: &str, attributes: &str) {
        let (taken, made) = (types::tuple(&shapes(&op.operands)), types::results(&shapes(&op.results)));
        let operands = self.names.list(&op.operands);
        self.open(format!("{head} = \"stablehlo.{name}\"({operands}){attributes} ({{"));
        for (i, region) in op.regions.iter().enumerate() {
            if i > 0 {
                self.open("}, {".into());
            }
            self.names.each(&region.arguments);
            self.region(region, true);
        }
        self.line(op, format!("}}) : {taken} -> {made}"));
    }

    /// Both regions name the values that the loop carries alike.
    fn while_loop(&mut self, op: &Operation) {
        let (condition, body) = (&op.regions[0], &op.regions[1]);
        self.names.each(&condition.arguments);
        self.names.alias(&body.arguments, &condition.arguments);
        let pair = |(inner, outer)| format!("{} = {}", self.names.of(inner), self.names.of(outer));
        let starts = types::join(condition.arguments.iter().zip(&op.operands).map(pair));
        let types = types::join(op.operands.iter().map(|operand| types::tensor(&operand.shape)));
        let head = self.names.results(&op.results);
        self.open(format!("{head} = stablehlo.while({starts}) : {types}"));
        self.open("cond {".into());
        self.region(condition, false);
        self.open("} do {".into());
        self.region(body, false);
        self.line(op, "}".into());
    }

    /// The lines of a region one level deeper, with or without the head of its block.
    fn region(&mut self, region: &Region, with_head: bool) {
        self.indent += 1;
        if with_head && !region.arguments.is_empty() {
            let arguments = self.names.typed(&region.arguments);
            self.open(format!("^bb0({arguments}):"));
        }
        self.operations(&region.body);
        self.indent -= 1;
    }
}
