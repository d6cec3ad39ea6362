//! A network by its blocks: what each of them returns, holds and costs.

use crate::TrainError;
use crate::step::{self, StepPlan};
use octant_graph::Shape;
use octant_nn::VariableKind;
use std::collections::HashMap;

/// A scope of a network: a layer, or the layers below a common path.
#[derive(Debug, Clone, PartialEq)]
pub struct Block {
    /// Its path, such as `layer1.0.conv2`.
    pub path: String,
    /// What it computes last.
    pub output: Shape,
    /// Elements of its parameters.
    pub parameters: usize,
    /// Floating-point operations of its products and convolutions for one image.
    pub flops: f64,
}

/// All blocks of what a phase's network predicts, in the order in which they compute; a block comes before those inside it.
pub fn blocks(plan: &StepPlan) -> Result<Vec<Block>, TrainError> {
    let traced = step::prediction(plan)?;
    let graph = &traced.program.graph;
    let (mut blocks, mut known): (Vec<Block>, HashMap<String, usize>) = Default::default();
    for node in graph.nodes().iter().filter(|node| !node.path.is_empty()) {
        let Some(&output) = node.outputs.first() else { continue };
        let inputs: Vec<&Shape> = node.inputs.iter().map(|&input| graph.shape(input)).collect();
        let flops = node.op.flops(&inputs, graph.shape(output)) / plan.step.batch_size as f64;
        for path in prefixes(&node.path) {
            let index = *known.entry(path.to_string()).or_insert(blocks.len());
            if index == blocks.len() {
                blocks.push(Block {
                    path: path.into(),
                    output: graph.shape(output).clone(),
                    parameters: 0,
                    flops: 0.0,
                });
            }
            blocks[index].output = graph.shape(output).clone();
            blocks[index].flops += flops;
        }
    }
    for spec in traced.variables.iter().filter(|spec| spec.kind == VariableKind::Parameter) {
        for index in prefixes(&spec.path).filter_map(|path| known.get(path)) {
            blocks[*index].parameters += spec.shape.elements();
        }
    }
    Ok(blocks)
}

/// `a`, `a.b` and `a.b.c` of `a.b.c`.
fn prefixes(path: &str) -> impl Iterator<Item = &str> {
    let ends = path.match_indices('.').map(|(end, _)| end).chain([path.len()]);
    ends.map(|end| &path[..end])
}
