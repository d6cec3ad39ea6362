//! Tiny variants of the zoo's families, traced, with weights that no layer ignores.

#![allow(dead_code, reason = "every test takes what it needs")]

use octant_graph::evaluate::evaluate;
use octant_graph::{DType, Graph, GraphError, HostTensor, Shape, Trace};
use octant_nn::{Context, Mode, Precision, VariableSpec};
use octant_zoo::ModelEntry;
use std::collections::HashMap;

/// The network on a batch of normalized images, and its variables.
pub fn traced(entry: &ModelEntry, batch: usize) -> Result<(Graph, Vec<VariableSpec>), GraphError> {
    let trace = Trace::new();
    let [height, width, channels] = entry.preprocessing.input;
    let images = trace.input("images", Shape::new(DType::F32, [batch, height, width, channels]));
    let context = Context::new(&trace, Mode::Evaluate, Precision::F32);
    let output = (entry.build)(entry.classes).forward(&context.root(), &images);
    let specs = context.variables().into_iter().map(|variable| variable.spec).collect();
    Ok((trace.finish(&[output])?, specs))
}

/// Weights that no layer ignores: running statistics differ from their initial values, too.
pub fn weights(specs: &[VariableSpec]) -> HashMap<String, HostTensor> {
    let changed = |spec: &VariableSpec| {
        let initial = spec.initial(3);
        let numbers = initial.to_f64s();
        let varied = numbers.iter().enumerate().map(|(index, number)| match initial.dtype().is_float() {
            true => number * (1.0 + 0.1 * (index as f64).sin()) + 0.02 * (index as f64).cos().abs(),
            false => *number,
        });
        let varied: Vec<f64> = varied.collect();
        (spec.path.clone(), HostTensor::from_f64s(initial.shape().clone(), &varied).unwrap())
    };
    specs.iter().map(changed).collect()
}

/// Images, and what the reference evaluator makes of them.
pub fn expected(entry: &ModelEntry, batch: usize, weights: &HashMap<String, HostTensor>) -> (HostTensor, HostTensor) {
    let [height, width, channels] = entry.preprocessing.input;
    let (graph, _) = traced(entry, batch).unwrap();
    let count = batch * height * width * channels;
    let images: Vec<f32> = (0..count).map(|index| ((index * 7919 % 1009) as f32 / 504.5 - 1.0) * 1.5).collect();
    let images = HostTensor::new([batch, height, width, channels], &images).unwrap();
    let inputs: Vec<HostTensor> = graph
        .input_names()
        .iter()
        .map(|name| weights.get(&**name).cloned().unwrap_or_else(|| images.clone()))
        .collect();
    let output = evaluate(&graph, &inputs).unwrap().remove(0);
    (images, output)
}

/// The variants that are small enough for the reference evaluator.
pub fn tiny() -> impl Iterator<Item = &'static ModelEntry> {
    octant_zoo::registry::ENTRIES.iter().filter(|entry| entry.name.ends_with("-tiny") || entry.name.ends_with("-test"))
}
