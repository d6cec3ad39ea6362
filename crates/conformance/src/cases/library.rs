//! The composites that come with the graph: each as a backend meets it, on f32 and on bf16.

use crate::{Case, Tolerance, values};
use octant_graph::composites::{PaddingCounts, Pool};
use octant_graph::{DType, HostTensor, Tensor};

pub fn cases() -> Vec<Case> {
    let both = [DType::F32, DType::BF16].into_iter();
    let mut cases: Vec<Case> =
        both.flat_map(|dtype| [activations(dtype), sums(dtype), norms(dtype), pools(dtype), resizes(dtype)]).collect();
    cases.push(lookups());
    cases.push(random());
    cases
}

fn case(name: &str, dtype: DType, inputs: Vec<HostTensor>, build: impl FnOnce(&[Tensor]) -> Vec<Tensor>) -> Case {
    Case::new(format!("composite/{name}/{dtype}"), inputs, Tolerance::chain(30.0, 3.0), |_, x| build(x))
}

fn activations(dtype: DType) -> Case {
    case("activations", dtype, vec![values::between(-4.0, 4.0, dtype, &[5, 77])], |x| {
        let x = &x[0];
        vec![
            x.relu(),
            x.relu6(),
            x.leaky_relu(0.1),
            x.silu(),
            x.gelu(),
            x.gelu_tanh(),
            x.hard_sigmoid(),
            x.hard_swish(),
            x.softplus(),
        ]
    })
}

fn sums(dtype: DType) -> Case {
    case("sums", dtype, vec![values::ordinary(dtype, &[4, 3, 10])], |x| {
        let x = &x[0];
        vec![
            x.softmax(2),
            x.softmax(0),
            x.softmax_mean(x, 2),
            x.log_softmax(1),
            x.logsumexp(2),
            x.cumsum(2),
            x.cumsum(0),
            x.sum_keep(&[1]),
            x.mean_keep(&[0, 2]),
            x.max_keep(&[2]),
            x.shifted(2, 2),
            x.shifted(1, -1),
            x.square(),
        ]
    })
}

fn norms(dtype: DType) -> Case {
    let channels = || values::between(0.5, 1.5, DType::F32, &[6]);
    case("norms", dtype, vec![values::ordinary(dtype, &[3, 4, 5, 6]), channels(), channels()], |x| {
        vec![
            x[0].layer_norm(&x[1], &x[2], 1e-3),
            x[0].group_norm(2, &x[1], &x[2], 1e-3),
            x[0].batch_norm(&x[1], &x[2], &x[2], &x[1], 1e-3),
            x[0].standardize(&[0, 1, 2], 1e-3),
            x[0].moments(&[0, 1, 2]).1,
        ]
    })
}

fn pools(dtype: DType) -> Case {
    case("pools", dtype, vec![values::ordinary(dtype, &[2, 9, 8, 3])], |x| {
        let pool = || Pool::square(3, 2).padded(1);
        vec![
            x[0].max_pool(pool()),
            x[0].avg_pool(pool(), PaddingCounts::Yes),
            x[0].avg_pool(pool(), PaddingCounts::No),
            x[0].adaptive_avg_pool(3, 2),
            x[0].global_avg_pool(),
            x[0].global_max_pool(),
        ]
    })
}

fn resizes(dtype: DType) -> Case {
    case("resizes", dtype, vec![values::ordinary(dtype, &[2, 5, 4, 3])], |x| {
        vec![x[0].upsample_nearest(2), x[0].resize_bilinear(9, 7, false), x[0].resize_bilinear(3, 8, true)]
    })
}

fn lookups() -> Case {
    let inputs = vec![values::with_ties(DType::F32, &[4, 9]), values::between(0.0, 8.0, DType::I32, &[4])];
    case("lookups", DType::F32, inputs, |x| {
        let (best, positions) = x[0].top_k(3);
        vec![best, positions, x[1].one_hot(9, DType::F32), x[0].pick(&x[1])]
    })
}

fn random() -> Case {
    let inputs =
        vec![HostTensor::new([2], &[3u32, 9]).expect("two words make a key"), values::ordinary(DType::F32, &[6, 5])];
    case("random", DType::F32, inputs, |x| {
        let key = x[0].fold_in(5);
        vec![key.uniform(&[7, 11]), key.normal(&[7, 11]), x[1].dropout(0.3, &key, &[6, 1]), key]
    })
}
