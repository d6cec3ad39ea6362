//! A whole program as functions, and what it may not promise.

use crate::function::Function;
use crate::module::Module;
use crate::{LowerError, LoweringOptions, operation};
use octant_graph::Shape;
use octant_runtime::{Mesh, Program, Sharding};
use std::collections::HashSet;

/// `@main`, and the module with the functions that it calls.
pub fn functions(program: &Program, options: &LoweringOptions) -> Result<(operation::Function, Module), LowerError> {
    check(program)?;
    let kernels = if program.mesh.devices() == 1 { options.kernels } else { &[] };
    let mut module = Module::new(LoweringOptions { kernels, ..*options });
    let graph = &program.graph;
    let main = Function::build(&mut module, Module::MAIN.into(), &graph.input_shapes(), |function, inputs| {
        function.graph(graph, inputs)
    });
    Ok((main, module))
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
