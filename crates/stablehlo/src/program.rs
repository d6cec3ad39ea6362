//! A whole program: `@main` with donation and sharding, the private functions, and the table of layer paths.

use crate::function::{Function, argument_names};
use crate::module::{Line, Module, symbol};
use crate::{LowerError, LoweringOptions, types};
use octant_graph::Shape;
use octant_runtime::{Mesh, Program, Sharding};
use std::collections::{HashMap, HashSet};
use std::fmt::Write;
use std::sync::Arc;

pub fn lower_program(program: &Program, options: &LoweringOptions) -> Result<String, LowerError> {
    check(program)?;
    let kernels = if program.mesh.devices() == 1 { options.kernels } else { &[] };
    let options = &LoweringOptions { kernels, ..*options };
    let mut module = Module::new(*options);
    let graph = &program.graph;
    let mut main = Function::new(&mut module);
    let results = main.graph(graph, &argument_names(&graph.input_shapes()));
    main.return_values(&results);
    let main = (main_signature(program), main.lines);
    let functions: Vec<(String, Vec<Line>)> = std::iter::once(main).chain(module.functions).collect();
    Ok(print(program, &functions, options))
}

fn check(program: &Program) -> Result<(), LowerError> {
    let graph = &program.graph;
    let count = |what, expected: usize, given: usize| match expected == given {
        true => Ok(()),
        false => Err(LowerError::Count { what, expected, given }),
    };
    count("inputs", graph.inputs().len(), program.inputs.len())?;
    count("outputs", graph.outputs().len(), program.outputs.len())?;
    let (inputs, outputs) = (graph.input_shapes(), graph.output_shapes());
    for (what, shapes, shardings) in [("input", &inputs, &program.inputs), ("output", &outputs, &program.outputs)] {
        for (i, (shape, sharding)) in shapes.iter().zip(shardings).enumerate() {
            check_sharding(|| format!("{what} {i}"), shape, sharding, &program.mesh)?;
        }
    }
    check_donation(program, &inputs, &outputs)
}

fn check_sharding(
    what: impl Fn() -> String,
    shape: &Shape,
    sharding: &Sharding,
    mesh: &Mesh,
) -> Result<(), LowerError> {
    sharding
        .shard_shape(shape, mesh)
        .map(drop)
        .map_err(|error| LowerError::Sharding { what: what(), reason: error.to_string() })
}

fn check_donation(program: &Program, inputs: &[Shape], outputs: &[Shape]) -> Result<(), LowerError> {
    let mut taken = HashSet::new();
    for &(input, output) in &program.donated {
        let described = |shapes: &[Shape], i: usize| shapes.get(i).map_or("not there".to_string(), Shape::to_string);
        let reason = match (inputs.get(input), outputs.get(output)) {
            (None, _) | (_, None) => Some("there is no such input or output"),
            (Some(from), Some(to)) if from != to => Some("their shapes differ"),
            _ if program.inputs[input] != program.outputs[output] => {
                Some("they are spread over the devices differently")
            }
            _ if !taken.insert(("input", input)) || !taken.insert(("output", output)) => {
                Some("one of them is already taken")
            }
            _ => None,
        };
        if let Some(reason) = reason {
            let (input_shape, output_shape) = (described(inputs, input), described(outputs, output));
            return Err(LowerError::Donation { input, input_shape, output, output_shape, reason });
        }
    }
    Ok(())
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

fn print(program: &Program, functions: &[(String, Vec<Line>)], options: &LoweringOptions) -> String {
    let devices = program.mesh.devices();
    let mut locations = Locations::default();
    let mut text = format!(
        "module @{} attributes {{mhlo.num_partitions = {devices} : i32, mhlo.num_replicas = 1 : i32}} {{\n",
        symbol(&program.name, "program")
    );
    let mut put = |line: std::fmt::Arguments| text.write_fmt(line).expect("writing to a string does not fail");
    if devices > 1 {
        let axes = program.mesh.axes().iter().map(|(axis, length)| format!("\"{}\"={length}", axis.name()));
        put(format_args!("  sdy.mesh @mesh = <[{}]>\n", types::join(axes)));
    }
    for (signature, lines) in functions {
        put(format_args!("  {signature} {{\n"));
        for line in lines {
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
