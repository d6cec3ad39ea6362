//! Programs as StableHLO text: `@main` with donation and sharding, the private functions, and the table of layer paths.

mod attributes;
mod names;
mod printer;

use crate::operation::Function;
use crate::{LoweringOptions, types};
use names::Names;
use octant_graph::Shape;
use octant_runtime::{Program, Sharding};
use printer::lines;
use std::collections::HashMap;
use std::fmt::Write;
use std::sync::Arc;

/// What a function is but for its name and the paths of its layers.
pub fn meaning(function: &Function) -> String {
    lines(function).iter().fold(signature(function), |text, line| text + "\n" + &line.text)
}

/// `(%arg0: tensor<f32>) -> (tensor<f32>)`.
fn signature(function: &Function) -> String {
    let arguments = Names::arguments(&function.arguments).typed(&function.arguments);
    format!("({arguments}) -> {}", types::tuple(&function.results.iter().collect::<Vec<_>>()))
}

fn main_signature(program: &Program) -> String {
    let graph = &program.graph;
    let argument = |i: usize, shape: &Shape| {
        let donated = program.donated.iter().find(|(input, _)| *input == i);
        let donated = donated.map(|(_, output)| format!("tf.aliasing_output = {output} : i32"));
        let attributes = [donated, sharding(program, shape, &program.inputs[i])];
        format!("%arg{i}: {}{}", types::tensor(shape), braces(&attributes))
    };
    let result = |i: usize, shape: &Shape| {
        format!("{}{}", types::tensor(shape), braces(&[sharding(program, shape, &program.outputs[i])]))
    };
    let arguments = types::join(graph.input_shapes().iter().enumerate().map(|(i, shape)| argument(i, shape)));
    let results = types::join(graph.output_shapes().iter().enumerate().map(|(i, shape)| result(i, shape)));
    format!("func.func public @main({arguments}) -> ({results})")
}

/// ` {a, b}`, or nothing.
fn braces(attributes: &[Option<String>]) -> String {
    let given: Vec<&String> = attributes.iter().flatten().collect();
    if given.is_empty() { String::new() } else { format!(" {{{}}}", types::join(given)) }
}

/// How a tensor is sharded, as Shardy's attribute; nothing on one device. Axes that the mesh does not have split nothing.
fn sharding(program: &Program, shape: &Shape, sharding: &Sharding) -> Option<String> {
    let mesh = &program.mesh;
    let along = |dimension: usize| {
        let axes = sharding.axes(dimension).iter().filter(|&&axis| mesh.length(axis) > 1);
        format!("{{{}}}", types::join(axes.map(|axis| format!("\"{}\"", axis.name()))))
    };
    let axes = types::list((0..shape.rank()).map(along));
    (mesh.devices() > 1).then(|| format!("sdy.sharding = #sdy.sharding<@mesh, {axes}>"))
}

/// The text of a module: `@main` and the functions that it calls.
pub fn print(program: &Program, main: &Function, functions: &[Function], options: &LoweringOptions) -> String {
    let devices = program.mesh.devices();
    let mut locations = Locations::default();
    let mut text = format!(
        "module @{} attributes {{mhlo.num_partitions = {devices} : i32, mhlo.num_replicas = 1 : i32}} {{\n",
        types::symbol(&program.name, "program")
    );
    let mut put = |line: std::fmt::Arguments| text.write_fmt(line).expect("writing to a string does not fail");
    if devices > 1 {
        let axes = program.mesh.axes().iter().map(|(axis, length)| format!("\"{}\"={length}", axis.name()));
        put(format_args!("  sdy.mesh @mesh = <[{}]>\n", types::join(axes)));
    }
    let private = |function: &Function| format!("func.func private @{}{}", function.name, signature(function));
    let signatures = std::iter::once(main_signature(program)).chain(functions.iter().map(private));
    for (signature, function) in signatures.zip(std::iter::once(main).chain(functions)) {
        put(format_args!("  {signature} {{\n"));
        for line in lines(function) {
            let location = line.path.as_ref().filter(|path| !path.is_empty() && !options.without_locations);
            match location {
                Some(path) => put(format_args!("{} loc(#loc{})\n", line.text, locations.number(path))),
                None => put(format_args!("{}\n", line.text)),
            }
        }
        put(format_args!("  }}\n"));
    }
    put(format_args!("}}\n"));
    for (i, path) in locations.paths.iter().enumerate() {
        put(format_args!("#loc{i} = loc({})\n", types::quoted(path)));
    }
    text
}

/// Layer paths in order of their first appearance.
#[derive(Default)]
struct Locations {
    paths: Vec<Arc<str>>,
    numbers: HashMap<Arc<str>, usize>,
}

impl Locations {
    fn number(&mut self, path: &Arc<str>) -> usize {
        *self.numbers.entry(path.clone()).or_insert_with(|| {
            self.paths.push(path.clone());
            self.paths.len() - 1
        })
    }
}
