#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use super::*;
use crate::passes::tests::{assert_same_on, inputs};
use octant_graph::{AttentionOptions, Shape};

/// An attention with its gradients; `sums` puts the log-sum-exp into the loss.
fn graph(dtype: DType, sizes: [usize; 4], options: &AttentionOptions, sums: bool) -> Graph {
    let [batch, tokens, heads, features] = sizes;
    let trace = Trace::new();
    let joint = trace.input("x", Shape::new(dtype, [batch, tokens, 3, heads, features]));
    let [result, log_sums] = joint.self_attention(options);
    let loss = (&result * &result).convert(DType::F32).sum_all();
    let loss = if sums { loss + log_sums.convert(DType::F32).sum_all() } else { loss };
    let gradients = trace.gradients(&loss, &[joint]);
    crate::passes::inline_gradients(&trace.finish(&[vec![result], gradients].concat()).unwrap())
}

fn called(graph: &Graph) -> Vec<String> {
    let of = |node: &Node| match &node.op {
        Op::Call { kernel: Some(hint), .. } => Some(hint.name.clone()),
        _ => None,
    };
    let names = graph.nodes().iter().filter_map(of);
    names.filter(|name| CUDNN_NAMES.contains(&name.as_str())).collect()
}

fn cross(dtype: DType) -> Graph {
    let trace = Trace::new();
    let shape = |tokens: usize| Shape::new(dtype, [2, tokens, 2, 16]);
    let [q, k, v] = [5, 7, 7].map(|tokens| trace.input("x", shape(tokens)));
    let [result, _] = q.attention(&k, &v, &AttentionOptions::default());
    let loss = (&result * &result).convert(DType::F32).sum_all();
    let gradients = trace.gradients(&loss, &[q, k, v]);
    crate::passes::inline_gradients(&trace.finish(&[vec![result], gradients].concat()).unwrap())
}

#[test]
fn attention_and_its_gradient_call_cudnn_and_mean_the_same() {
    let causal = AttentionOptions { causal: true, ..AttentionOptions::default() };
    for graph in [
        graph(DType::BF16, [2, 5, 3, 8], &AttentionOptions::default(), false),
        graph(DType::F16, [1, 9, 2, 64], &causal, false),
        cross(DType::BF16),
    ] {
        let made = attend_by_cudnn(&graph, true);
        assert_eq!(called(&made), CUDNN_NAMES);
        assert_same_on(&graph, &made, &inputs(&graph), 1e-6);
    }
}

#[test]
fn a_gradient_through_the_log_sum_exp_is_left_to_the_body() {
    let graph = graph(DType::BF16, [2, 5, 3, 8], &AttentionOptions::default(), true);
    let made = attend_by_cudnn(&graph, true);
    assert_eq!(called(&made), CUDNN_NAMES[..1]);
    assert_same_on(&graph, &made, &inputs(&graph), 1e-6);
}

#[test]
fn a_gradient_that_must_be_repeatable_is_left_to_the_body() {
    let graph = graph(DType::BF16, [2, 5, 3, 8], &AttentionOptions::default(), false);
    let made = attend_by_cudnn(&graph, false);
    assert_eq!(called(&made), CUDNN_NAMES[..1]);
    assert_same_on(&graph, &made, &inputs(&graph), 1e-6);
}

#[test]
fn what_cudnn_refuses_stays_and_is_named() {
    let plain = AttentionOptions::default();
    for (graph, reason) in [
        (graph(DType::F32, [2, 5, 3, 8], &plain, false), "bf16"),
        (graph(DType::BF16, [2, 5, 3, 12], &plain, false), "multiple of 8"),
        (graph(DType::BF16, [2, 5, 3, 136], &plain, false), "at most 128"),
    ] {
        assert!(called(&attend_by_cudnn(&graph, true)).is_empty());
        let refused = refused(&graph);
        assert!(refused.iter().all(|(_, why)| why.contains(reason)) && !refused.is_empty(), "{refused:?}");
    }
}

#[test]
fn the_body_of_a_cudnn_call_returns_what_cudnn_does() {
    let made = attend_by_cudnn(&graph(DType::BF16, [2, 5, 3, 8], &AttentionOptions::default(), false), true);
    let calls = made.nodes().iter().filter(|node| attention(node).is_none());
    let bodies: Vec<_> = calls.flat_map(|node| node.op.bodies()).map(|(_, body)| body).collect();
    let of_heads = Shape::new(DType::BF16, [2, 3, 5, 8]);
    assert_eq!(bodies[0].output_shapes(), [of_heads.clone(), Shape::new(DType::F32, [2, 3, 5])]);
    assert_eq!(bodies[1].output_shapes(), vec![of_heads; 3]);
    assert_eq!(bodies[1].input_shapes().len(), 6);
}
