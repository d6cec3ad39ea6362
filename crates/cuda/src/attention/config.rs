//! The `backend_config` of a call to cuDNN's attention, the JSON form of its `CudnnfMHABackendConfig`.
//!
//! XLA builds cuDNN's graph from it when it compiles the program. Algorithm and workspace are placeholders that it fills in.

use octant_graph::{AttentionKernel, DType};

/// Axes of a product: summed ones and those of batch and heads, left and right.
struct Product {
    name: &'static str,
    summed: [usize; 2],
    batch: [[usize; 2]; 2],
}

/// Of `[batch, tokens, heads, features]`.
const OF_TOKENS: [usize; 2] = [0, 2];
/// Of the scores, `[batch, heads, queries, keys]`.
const OF_SCORES: [usize; 2] = [0, 1];

/// Scores and results.
const FORWARD: [Product; 2] = [
    Product { name: "bmm1", summed: [3, 3], batch: [OF_TOKENS, OF_TOKENS] },
    Product { name: "bmm2", summed: [3, 1], batch: [OF_SCORES, OF_TOKENS] },
];

/// The cotangents of keys, queries, values and weights.
const BACKWARD: [Product; 4] = [
    Product { name: "bmm1_grad_gemm1", summed: [2, 1], batch: [OF_SCORES, OF_TOKENS] },
    Product { name: "bmm1_grad_gemm2", summed: [3, 1], batch: [OF_SCORES, OF_TOKENS] },
    Product { name: "bmm2_grad_gemm1", summed: [2, 1], batch: [OF_SCORES, OF_TOKENS] },
    Product { name: "bmm2_grad_gemm2", summed: [3, 3], batch: [OF_TOKENS, OF_TOKENS] },
];

pub fn forward(kernel: &AttentionKernel) -> String {
    config(kernel, &FORWARD)
}

pub fn backward(kernel: &AttentionKernel) -> String {
    config(kernel, &BACKWARD)
}

fn config(kernel: &AttentionKernel, products: &[Product]) -> String {
    let element = if kernel.dtype == DType::F16 { "F16" } else { "BF16" };
    let mask = if kernel.causal { "CAUSAL" } else { "NO_MASK" };
    let scores = numbers(&[kernel.batch, kernel.heads, kernel.queries, kernel.keys]);
    let products: String = products.iter().map(product).collect();
    let layout = r#"{"minor_to_major": ["3", "2", "1", "0"], "element_size_in_bits": "0", "memory_space": "0"}"#;
    let algorithm = r#"{"algo_id": "0", "math_type": "TENSOR_OP_MATH", "tuning_knobs": {"17": "1", "24": "0"}, "is_cudnn_frontend": true, "workspace_size": "0"}"#;
    format!(
        r#"{{"operation_queue_id": "0", "cudnn_fmha_backend_config": {{"algorithm": {algorithm}, "fmha_scale": {scale}, "intermediate_tensor_shape": {{"element_type": "{element}", "dimensions": {scores}, "layout": {layout}, "is_dynamic_dimension": [false, false, false, false]}}, "is_flash_attention": true, "mask_type": "{mask}", {products}"dropout_rate": 0.0, "seed": 42, "sliding_window_length": 0, "max_seg_per_batch": 1, "is_paged_attention": false}}}}"#,
        scale = kernel.scale,
    )
}

fn product(product: &Product) -> String {
    let Product { name, summed: [left, right], batch: [left_batch, right_batch] } = product;
    let [left, right] = [left, right].map(|axis| numbers(&[*axis]));
    let [left_batch, right_batch] = [left_batch, right_batch].map(|axes| numbers(axes));
    format!(
        r#""{name}_dot_dimension_numbers": {{"lhs_contracting_dimensions": {left}, "rhs_contracting_dimensions": {right}, "lhs_batch_dimensions": {left_batch}, "rhs_batch_dimensions": {right_batch}}}, "#
    )
}

/// Integers of 64 bits are strings in the JSON form of a protocol buffer.
fn numbers(numbers: &[usize]) -> String {
    let quoted: Vec<String> = numbers.iter().map(|number| format!("\"{number}\"")).collect();
    format!("[{}]", quoted.join(", "))
}
