//! Attention and its gradient: calls whose kernel a backend may run instead of the body.

use crate::{Case, Tolerance, values};
use octant_graph::{AttentionOptions, DType, HostTensor, Tensor};

/// Sizes of a case: batch, queries, keys, heads, features, and the bias but for the keys.
struct Sizes {
    name: &'static str,
    sizes: [usize; 5],
    bias: Option<[usize; 3]>,
    causal: bool,
}

const CASES: [Sizes; 9] = [
    Sizes { name: "one-token", sizes: [1, 1, 1, 1, 8], bias: None, causal: false },
    Sizes { name: "vision", sizes: [2, 50, 50, 3, 64], bias: None, causal: false },
    Sizes { name: "cross", sizes: [2, 5, 37, 2, 40], bias: None, causal: false },
    Sizes { name: "cross-one-query", sizes: [1, 1, 65, 2, 32], bias: None, causal: false },
    Sizes { name: "long", sizes: [1, 131, 131, 1, 32], bias: None, causal: false },
    Sizes { name: "causal", sizes: [1, 37, 37, 2, 16], bias: None, causal: true },
    Sizes { name: "windows", sizes: [4, 9, 9, 3, 32], bias: Some([1, 3, 9]), causal: false },
    Sizes { name: "shifted-windows", sizes: [6, 16, 16, 2, 32], bias: Some([3, 2, 16]), causal: false },
    Sizes { name: "padding", sizes: [3, 20, 20, 2, 128], bias: Some([3, 1, 1]), causal: false },
];

pub fn cases() -> Vec<Case> {
    let of_type = |dtype: DType| CASES.iter().flat_map(move |sizes| [separate(sizes, dtype), joint(sizes, dtype)]);
    let usual = [DType::F32, DType::BF16];
    usual.into_iter().flat_map(of_type).flatten().chain(precise()).chain(usual.map(wide_values)).collect()
}

/// Types that few backends have a kernel for.
fn precise() -> Vec<Case> {
    let with_bias = [DType::F64, DType::F16].into_iter().flat_map(|dtype| separate(&CASES[6], dtype));
    with_bias.chain(joint(&CASES[1], DType::F16)).collect()
}

fn tolerance(dtype: DType) -> Tolerance {
    // Weights and their cotangents are rounded to bf16 by some backends and not by others.
    if dtype == DType::BF16 { Tolerance::chain(12.0, 2.0) } else { Tolerance::chain(200.0, 2.0) }
}

/// Results and gradients of queries, keys, values and a trainable bias; no case where nothing is separate.
fn separate(case: &Sizes, dtype: DType) -> Option<Case> {
    let [batch, queries, keys, heads, features] = case.sizes;
    let operand = |tokens: usize| values::between(-0.8, 0.8, dtype, &[batch, tokens, heads, features]);
    let inputs = vec![operand(queries), operand(keys), operand(keys)];
    let name = format!("attention/{}/{dtype}", case.name);
    Some(made(case, name, inputs, dtype, true, |x, options| x[0].attention(&x[1], &x[2], options)))
}

/// Values with twice the features of queries and keys, as in detectors.
fn wide_values(dtype: DType) -> Case {
    let case = Sizes { name: "wide-values", sizes: [2, 25, 25, 2, 16], bias: None, causal: false };
    let [batch, queries, _, heads, features] = case.sizes;
    let operand = |features: usize| values::between(-0.8, 0.8, dtype, &[batch, queries, heads, features]);
    let inputs = vec![operand(features), operand(features), operand(2 * features)];
    let name = format!("attention/{}/{dtype}", case.name);
    made(&case, name, inputs, dtype, true, |x, options| x[0].attention(&x[1], &x[2], options))
}

/// As [`separate`], with one operand for all three, a bias that gets no gradient, and a loss without the log-sum-exp, as in
/// networks; none for cross-attention.
fn joint(case: &Sizes, dtype: DType) -> Option<Case> {
    let [batch, queries, keys, heads, features] = case.sizes;
    if queries != keys {
        return None;
    }
    let inputs = vec![values::between(-0.8, 0.8, dtype, &[batch, queries, 3, heads, features])];
    let name = format!("attention/{}-joint/{dtype}", case.name);
    Some(made(case, name, inputs, dtype, false, |x, options| x[0].self_attention(options)))
}

fn made(
    case: &Sizes,
    name: String,
    mut inputs: Vec<HostTensor>,
    dtype: DType,
    trainable_bias: bool,
    attend: impl Fn(&[Tensor], &AttentionOptions) -> [Tensor; 2],
) -> Case {
    let operands = inputs.len();
    let keys = case.sizes[2];
    inputs.extend(
        case.bias.map(|[groups, heads, rows]| values::between(-1.0, 1.0, DType::F32, &[groups, heads, rows, keys])),
    );
    Case::new(name, inputs, tolerance(dtype), |trace, x| {
        let bias = x.get(operands);
        let options = AttentionOptions { bias, trainable_bias, causal: case.causal, ..AttentionOptions::default() };
        let [result, sums] = attend(x, &options);
        let weights = trace.constant(values::between(-0.5, 0.5, DType::F32, result.dims())).convert(dtype);
        let loss = (&result * &weights).convert(DType::F32).sum_all();
        let loss = if trainable_bias { loss + sums.convert(DType::F32).sum_all() * 0.1 } else { loss };
        let wanted = if trainable_bias { x } else { &x[..operands] };
        // The bias is f32, but its gradient is only as exact as the type of the operands.
        let gradients = trace.gradients(&loss, wanted).into_iter().map(|gradient| gradient.convert(dtype));
        [result, sums.convert(dtype)].into_iter().chain(gradients).collect()
    })
}
