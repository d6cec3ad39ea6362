//! Fused norm + ReLU: where only our calls read a normalized activation behind its ReLU, they read what was normalized, and
//! scale, shift and rectify it themselves, forward and for the gradients of their kernels. It is never written.

use super::affine::ChannelAffine;
use super::choose::choose_fused;
use super::pairs::Pairs;
use crate::kernels::conv::task::{ConvTask, GpuProfile};
use octant_graph::{Binary, Comparison, Graph, Node, NodeId, Op, Uses, ValueId};
use std::collections::HashMap;

/// The activations of a graph that calls make from what they read.
#[derive(Default)]
pub struct NormRelus {
    norms: HashMap<ValueId, ChannelAffine>,
}

impl NormRelus {
    /// All such activations of a graph.
    pub fn find(graph: &Graph, uses: &Uses, device: &GpuProfile, pairs: &Pairs) -> NormRelus {
        let mut norms = HashMap::new();
        let is_called = |value: ValueId, consumer: NodeId| {
            let node = &graph.nodes()[consumer];
            let choice = ConvTask::of(graph, node).and_then(|task| choose_fused(&task, device));
            choice.is_some() && node.inputs[0] == value && node.inputs[1] != value && pairs.of(consumer).is_none()
        };
        for node in graph.nodes() {
            let Some(norm) = norm(graph, node) else { continue };
            let value = node.outputs[0];
            let consumers = uses.only_consumers(value);
            if !consumers.is_empty() && consumers.iter().all(|&consumer| is_called(value, consumer)) {
                norms.insert(value, norm);
            }
        }
        NormRelus { norms }
    }

    /// How a value is made, if calls make it.
    pub fn of(&self, value: ValueId) -> Option<&ChannelAffine> {
        self.norms.get(&value)
    }
}

/// The norm before a ReLU: `v <= 0 ? 0 : v`.
fn norm(graph: &Graph, node: &Node) -> Option<ChannelAffine> {
    let (Op::Select, &[condition, zero, value]) = (&node.op, &node.inputs[..]) else { return None };
    let condition = graph.producer(condition);
    let below = matches!(condition.op, Op::Compare(Comparison::LessEqual)) && condition.inputs[0] == value;
    if !below || !is_zero(graph, zero) || !is_zero(graph, condition.inputs[1]) {
        return None;
    }
    let norm = ChannelAffine::of(graph, value, &[Binary::Add, Binary::Sub, Binary::Mul]);
    (!norm.steps.is_empty()).then_some(norm)
}

/// Whether a value is zero everywhere.
pub fn is_zero(graph: &Graph, value: ValueId) -> bool {
    let node = graph.producer(value);
    if let Op::Constant(tensor) = &node.op {
        return tensor.to_f64s().iter().all(|&value| value == 0.0);
    }
    matches!(node.op, Op::Broadcast { .. }) && is_zero(graph, node.inputs[0])
}
