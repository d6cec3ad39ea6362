//! Loops, branches and barriers.

use crate::function::{Function, Named};
use crate::types;
use octant_graph::{Graph, Shape};

pub fn while_loop(f: &mut Function, condition: &Graph, body: &Graph, operands: &[Named]) -> Vec<Named> {
    let shapes: Vec<Shape> = operands.iter().map(|operand| operand.shape.clone()).collect();
    let carried = f.arguments(&shapes);
    let starts = types::join(carried.iter().zip(operands).map(|(inner, outer)| format!("{inner} = {outer}")));
    let types = types::join(operands.iter().map(Named::ty));
    f.several(&shapes.iter().collect::<Vec<_>>(), |f, head| {
        f.open(format!("{head} = stablehlo.while({starts}) : {types}"));
        f.open("cond {");
        region(f, condition, &carried);
        f.open("} do {");
        region(f, body, &carried);
        f.line("}");
    })
}

/// A region over values that are visible in it: its own arguments or, in a branch, those outside.
fn region(f: &mut Function, graph: &Graph, inputs: &[Named]) {
    f.indented(|f| {
        let results = f.graph(graph, inputs);
        f.region_return(&results);
    });
}

pub fn branch(f: &mut Function, then: &Graph, otherwise: &Graph, operands: &[Named], shapes: &[&Shape]) -> Vec<Named> {
    let (condition, arguments) = operands.split_first().expect("shape inference asks for a condition");
    let results = types::results(shapes);
    f.several(shapes, |f, head| {
        f.open(format!("{head} = \"stablehlo.if\"({condition}) ({{"));
        region(f, then, arguments);
        f.open("}, {");
        region(f, otherwise, arguments);
        f.line(format!("}}) : ({}) -> {results}", condition.ty()));
    })
}

pub fn barrier(f: &mut Function, operands: &[Named]) -> Vec<Named> {
    let shapes: Vec<&Shape> = operands.iter().map(|operand| &operand.shape).collect();
    let (list, types) = (types::join(operands), types::join(operands.iter().map(Named::ty)));
    f.several(&shapes, |f, head| f.line(format!("{head} = stablehlo.optimization_barrier {list} : {types}")))
}
