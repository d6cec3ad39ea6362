//! Every instruction set against the formula in f64.

use super::{AttentionElement, Cotangents, Inputs, attention, attention_gradient};
use crate::kernels::Machine;
use crate::kernels::conv::testing::numbers;
use crate::pool::ThreadPool;
use crate::simd::Simd;
use half::bf16;
use octant_graph::{AttentionKernel, DType};

fn kernel([batch, queries, keys, heads, features]: [usize; 5]) -> AttentionKernel {
    let scale = 1.0 / (features as f64).sqrt();
    AttentionKernel {
        batch,
        queries,
        keys,
        heads,
        features,
        dtype: DType::F32,
        scale,
        causal: false,
        joint: false,
        bias: None,
        trainable_bias: false,
    }
}

/// Operands, bias and cotangents of a kernel, the same for every type.
struct Data {
    operands: [Vec<f32>; 3],
    bias: Vec<f32>,
    of_result: Vec<f32>,
    of_sums: Vec<f32>,
}

impl Data {
    fn of(kernel: &AttentionKernel) -> Data {
        let width = kernel.heads * kernel.features;
        let exact = |len, seed| -> Vec<f32> {
            numbers(len, seed).into_iter().map(|x| bf16::from_f32(2.0 * x).to_f32()).collect()
        };
        let tokens = [kernel.queries, kernel.keys, kernel.keys];
        let operands = match kernel.joint {
            true => std::array::from_fn(|_| exact(kernel.batch * kernel.queries * 3 * width, 1)),
            false => std::array::from_fn(|part| exact(kernel.batch * tokens[part] * width, part as u64 + 1)),
        };
        Data {
            operands,
            bias: exact(kernel.bias.map_or(0, |dims| dims.iter().product::<usize>() * kernel.keys), 5),
            of_result: exact(kernel.batch * kernel.queries * width, 6),
            of_sums: exact(kernel.batch * kernel.heads * kernel.queries, 7),
        }
    }
}

/// Result, log-sum-exp, gradients of the operands and of the bias.
type Results = [Vec<f64>; 6];

fn expected(kernel: &AttentionKernel, data: &Data) -> Results {
    let &AttentionKernel { batch, queries, keys, heads, features, .. } = kernel;
    let tokens = super::Tokens::of_operands(kernel);
    let mut results: Results = [
        vec![0.0; data.of_result.len()],
        vec![0.0; data.of_sums.len()],
        vec![0.0; data.operands[0].len()],
        vec![0.0; data.operands[1].len()],
        vec![0.0; data.operands[2].len()],
        vec![0.0; kernel.bias.map_or(0, |[groups, ..]| groups * heads * queries * keys)],
    ];
    for (b, h, q) in (0..batch * heads * queries).map(|i| (i / heads / queries, i / queries % heads, i % queries)) {
        let at = |part: usize, token: usize| tokens[part].head(b, h) + token * tokens[part].token;
        let number = |part: usize, token: usize, f: usize| data.operands[part][at(part, token) + f] as f64;
        let visible = if kernel.causal { keys.min(q + 1) } else { keys };
        let score = |k: usize| {
            let product: f64 = (0..features).map(|f| number(0, q, f) * number(1, k, f)).sum();
            let bias = kernel.bias.map_or(0.0, |[groups, of_heads, of_queries]| {
                let row = (b % groups * of_heads + h % of_heads) * of_queries + q % of_queries;
                data.bias[row * keys + k] as f64
            });
            product * kernel.scale + bias
        };
        let scores: Vec<f64> = (0..visible).map(score).collect();
        let max = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let log_sum = max + scores.iter().map(|score| (score - max).exp()).sum::<f64>().ln();
        let row = (b * queries + q) * heads * features + h * features;
        let sums_at = (b * heads + h) * queries + q;
        results[1][sums_at] = log_sum;
        let weights: Vec<f64> = scores.iter().map(|score| (score - log_sum).exp()).collect();
        for f in 0..features {
            results[0][row + f] = (0..visible).map(|k| weights[k] * number(2, k, f)).sum();
        }
        let given = |f: usize| data.of_result[row + f] as f64;
        let center: f64 = (0..features).map(|f| given(f) * results[0][row + f]).sum();
        for (k, weight) in weights.iter().enumerate() {
            let of_weight: f64 = (0..features).map(|f| given(f) * number(2, k, f)).sum();
            let of_score = weight * (of_weight - center + data.of_sums[sums_at] as f64);
            if let Some([groups, ..]) = kernel.bias {
                results[5][((b % groups * heads + h) * queries + q) * keys + k] += of_score;
            }
            for f in 0..features {
                results[2][at(0, q) + f] += of_score * kernel.scale * number(1, k, f);
                results[3][at(1, k) + f] += of_score * kernel.scale * number(0, q, f);
                results[4][at(2, k) + f] += weight * given(f);
            }
        }
    }
    results
}

fn computed<T: AttentionElement>(machine: &Machine, kernel: &AttentionKernel, data: &Data) -> Results {
    let narrow = |values: &[f32]| -> Vec<T> { values.iter().map(|&value| T::rounded(value)).collect() };
    let operands = data.operands.each_ref().map(|operand| narrow(operand));
    let bias = kernel.bias.map(|_| &data.bias[..]);
    let inputs = Inputs { kernel, operands: operands.each_ref().map(|operand| &operand[..]), bias };
    let of_result = narrow(&data.of_result);
    let mut result = vec![T::rounded(f32::NAN); of_result.len()];
    let mut log_sums = vec![f32::NAN; data.of_sums.len()];
    attention(machine, inputs, &mut result, &mut log_sums);
    let mut gradients = operands.each_ref().map(|operand| vec![T::rounded(f32::NAN); operand.len()]);
    let mut of_bias = vec![f32::NAN; kernel.bias.map_or(0, |[g, ..]| g * kernel.heads * kernel.queries * kernel.keys)];
    let [a, b, c] = &mut gradients;
    let pointers = match kernel.joint {
        true => [a.as_mut_ptr(); 3],
        false => [a.as_mut_ptr(), b.as_mut_ptr(), c.as_mut_ptr()],
    };
    let cotangents =
        Cotangents { result: &result, log_sums: &log_sums, of_result: &of_result, of_log_sums: &data.of_sums };
    let wanted = kernel.trainable_bias.then_some(&mut of_bias[..]);
    attention_gradient(machine, inputs, cotangents, pointers, wanted);
    let wide = |values: &[T]| -> Vec<f64> { values.iter().map(|value| value.wide() as f64).collect() };
    let doubles = |values: &[f32]| -> Vec<f64> { values.iter().map(|&value| value as f64).collect() };
    let [a, b, c] = gradients.each_ref().map(|gradient| wide(gradient));
    [wide(&result), doubles(&log_sums), a, b, c, doubles(&of_bias)]
}

fn compare(name: &str, found: &Results, expected: &Results, kernel: &AttentionKernel, tolerance: f64) {
    const NAMES: [&str; 6] = ["result", "log-sum-exp", "queries", "keys", "values", "bias"];
    for (part, (found, expected)) in found.iter().zip(expected).enumerate() {
        let skipped = (kernel.joint && (3..5).contains(&part)) || (part == 5 && !kernel.trainable_bias);
        if skipped {
            continue;
        }
        let largest = expected.iter().fold(0.1f64, |largest, value| largest.max(value.abs()));
        for (at, (found, expected)) in found.iter().zip(expected).enumerate() {
            let error = (found - expected).abs() / largest;
            assert!(error < tolerance, "{name} {}: {found} for {expected} at {at} of {kernel:?}", NAMES[part]);
        }
    }
}

fn check(kernel: &AttentionKernel) {
    let data = Data::of(kernel);
    let mut expected = expected(kernel, &data);
    if kernel.joint {
        let [a, b, c] = [2, 3, 4].map(|part| expected[part].clone());
        expected[2] = a.iter().zip(b).zip(c).map(|((a, b), c)| a + b + c).collect();
    }
    for simd in Simd::all() {
        let machine = Machine { pool: ThreadPool::new(2), simd };
        let name = format!("{simd:?}");
        compare(&name, &computed::<f32>(&machine, kernel, &data), &expected, kernel, 2e-5);
        compare(&name, &computed::<bf16>(&machine, kernel, &data), &expected, kernel, 0.02);
    }
}

#[test]
fn heads_of_all_sizes_follow_the_formula() {
    for sizes in [[1, 1, 1, 1, 1], [2, 3, 5, 2, 7], [1, 70, 33, 2, 40], [1, 197, 197, 1, 64], [1, 140, 20, 1, 32]] {
        check(&kernel(sizes));
        check(&AttentionKernel { causal: true, ..kernel(sizes) });
    }
    for sizes in [[2, 17, 17, 3, 32], [1, 49, 49, 2, 96], [1, 130, 130, 1, 128]] {
        check(&AttentionKernel { joint: true, ..kernel(sizes) });
    }
}

#[test]
fn biases_of_all_groups_follow_the_formula() {
    for bias in [[1, 3, 49], [2, 3, 49], [4, 3, 49]] {
        let trainable = AttentionKernel { bias: Some(bias), trainable_bias: true, ..kernel([4, 49, 49, 3, 32]) };
        check(&trainable);
        check(&AttentionKernel { joint: true, trainable_bias: false, causal: true, ..trainable });
    }
    for bias in [[1, 1, 1], [4, 1, 1], [2, 3, 1]] {
        check(&AttentionKernel { bias: Some(bias), ..kernel([4, 5, 37, 3, 16]) });
        check(&AttentionKernel { bias: Some(bias), ..kernel([4, 20, 37, 3, 16]) });
    }
}

#[test]
fn results_do_not_depend_on_the_number_of_threads() {
    let kernel = AttentionKernel { bias: Some([1, 2, 40]), trainable_bias: true, ..kernel([6, 40, 40, 2, 32]) };
    let data = Data::of(&kernel);
    for simd in Simd::all() {
        let results = [1, 2, 3].map(|threads| {
            let machine = Machine { pool: ThreadPool::new(threads), simd };
            [computed::<f32>(&machine, &kernel, &data), computed::<bf16>(&machine, &kernel, &data)]
        });
        assert!(results[0] == results[1] && results[1] == results[2], "{simd:?}");
    }
}
