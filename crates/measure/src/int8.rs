//! Predictions in 8 bits, to measure their speed: between the ranges that activations of random weights have on noise.

use crate::error::Result;
use octant_graph::passes::{Contraction, Int8Ranges, contractions, dead_code, inline_unless};
use octant_graph::{Graph, ValueId};
use octant_runtime::{Backend, Buffer, CompileOptions, Program};
use std::collections::HashMap;
use std::sync::Arc;

/// What the layers of a traced prediction read and make of a batch. Its last input is the images, the others are weights.
pub(crate) fn ranges(backend: &Arc<dyn Backend>, traced: &Graph, inputs: &[Buffer]) -> Result<Int8Ranges> {
    let graph = inline_unless(traced, |_| true);
    let layers = contractions(&graph, &graph.inputs()[graph.inputs().len().saturating_sub(1)..]);
    // What the network returns is not rounded.
    let result = |layer: &Contraction| layer.result.filter(|result| !graph.outputs().contains(result));
    let mut values: Vec<ValueId> =
        layers.iter().flat_map(|layer| [Some(layer.input), result(layer)]).flatten().collect();
    values.sort_unstable();
    values.dedup();
    let program = Program::new("ranges", dead_code(&graph.clone().with_outputs(values.clone())));
    let outputs = backend.compile(&program, &CompileOptions::default())?.execute(inputs)?;
    let mut found = HashMap::new();
    for (value, output) in values.into_iter().zip(&outputs) {
        let numbers = output.to_host()?;
        let range = numbers.to_f64s().into_iter().fold([0.0f64; 2], |[low, high], x| [low.min(x), high.max(x)]);
        found.insert(value, range.map(|limit| limit as f32));
    }
    let of_layer =
        |layer: &Contraction| (layer.name.clone(), (found[&layer.input], result(layer).map(|value| found[&value])));
    Ok(layers.iter().map(of_layer).collect())
}
