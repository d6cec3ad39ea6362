//! Small networks: what fusion, layout and memory planning meet in practice.

use super::FLOATS;
use crate::{Case, Tolerance, values};
use octant_graph::{Convolution, DType, Reduction, Shape, Tensor, Window};

pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for dtype in FLOATS {
        cases.extend([
            softmax(dtype),
            normalized(dtype),
            gelu(dtype),
            attention(dtype),
            convolutional(dtype),
            shared(dtype),
        ]);
    }
    cases.push(mixed_precision());
    cases.push(top_k());
    cases.push(dropout());
    cases.push(elementwise_tower());
    cases
}

fn softmax(dtype: DType) -> Case {
    let inputs =
        [&[4, 10][..], &[3, 1], &[2, 3, 1000], &[0, 5]].map(|dims| values::between(-4.0, 4.0, dtype, dims)).to_vec();
    Case::new(format!("composite/softmax/{dtype}"), inputs, Tolerance::chain(16.0, 1.0), |_, x| {
        x.iter().map(softmax_of).collect()
    })
}

fn softmax_of(x: &Tensor) -> Tensor {
    let last = x.rank() - 1;
    let mut kept = x.dims().to_vec();
    kept[last] = 1;
    let powers = (x - &x.reduce_max(&[last]).reshape(&kept)).exp();
    &powers / &powers.sum(&[last]).reshape(&kept)
}

fn normalize(x: &Tensor, axes: &[usize], scale: &Tensor, shift: &Tensor) -> Tensor {
    let mut kept = x.dims().to_vec();
    axes.iter().for_each(|&axis| kept[axis] = 1);
    let centered = x - &x.mean(axes).reshape(&kept);
    let variance = (&centered * &centered).mean(axes).reshape(&kept);
    &(&centered * &(variance + 1e-3).rsqrt()) * scale + shift
}

fn normalized(dtype: DType) -> Case {
    let inputs =
        vec![values::ordinary(dtype, &[4, 5, 6, 7]), values::ordinary(dtype, &[7]), values::ordinary(dtype, &[7])];
    Case::new(format!("composite/normalized/{dtype}"), inputs, Tolerance::chain(30.0, 2.0), |_, x| {
        vec![
            normalize(&x[0], &[0, 1, 2], &x[1], &x[2]),
            normalize(&x[0], &[3], &x[1], &x[2]),
            normalize(&x[0], &[1, 2], &x[1], &x[2]),
        ]
    })
}

fn gelu(dtype: DType) -> Case {
    Case::new(
        format!("composite/gelu/{dtype}"),
        vec![values::between(-4.0, 4.0, dtype, &[3, 333])],
        Tolerance::chain(20.0, 1.0),
        |_, x| {
            let exact = &(&(&x[0] * 0.5f64.sqrt()).erf() + 1.0) * &(&x[0] * 0.5);
            let swish = &x[0] * &x[0].logistic();
            vec![exact, swish, x[0].max(&x[0].scalar_like(0.0))]
        },
    )
}

fn attention(dtype: DType) -> Case {
    let inputs = ["q", "k", "v"].map(|_| values::ordinary(dtype, &[2, 3, 9, 8])).to_vec();
    Case::new(format!("composite/attention/{dtype}"), inputs, Tolerance::chain(40.0, 2.0), |_, x| {
        let scores = x[0].matmul(&x[1].transpose(&[0, 1, 3, 2])) * 8f64.powf(-0.5);
        let mixed = softmax_of(&scores).matmul(&x[2]);
        vec![mixed.transpose(&[0, 2, 1, 3]).reshape(&[2, 9, 24])]
    })
}

fn same(dtype: DType) -> Convolution {
    Convolution { padding: vec![(1, 1); 2], ..Convolution::nhwc(2, dtype) }
}

fn convolutional(dtype: DType) -> Case {
    let inputs = vec![
        values::ordinary(dtype, &[2, 12, 10, 3]),
        values::between(-0.4, 0.4, dtype, &[3, 3, 3, 16]),
        values::ordinary(dtype, &[16]),
        values::between(-0.4, 0.4, dtype, &[3, 3, 1, 16]),
        values::between(-0.4, 0.4, dtype, &[1, 1, 16, 8]),
        values::between(-0.4, 0.4, dtype, &[8, 5]),
    ];
    Case::new(format!("composite/convolutional/{dtype}"), inputs, Tolerance::chain(60.0, 2.0), |_, x| {
        let zero = x[0].scalar_like(0.0);
        let first = (x[0].convolution(&x[1], same(dtype)) + &x[2]).max(&zero);
        let pooled = first.reduce_window(Reduction::Max, Window::new([1, 2, 2, 1]));
        let depthwise = pooled.convolution(&x[3], Convolution { feature_groups: 16, ..same(dtype) });
        let joined = (&depthwise + &pooled).convolution(&x[4], Convolution::nhwc(2, dtype)).max(&zero);
        vec![joined.mean(&[1, 2]).matmul(&x[5]), joined]
    })
}

/// A value with several readers of different kinds, some of them outputs.
fn shared(dtype: DType) -> Case {
    Case::new(
        format!("composite/shared/{dtype}"),
        vec![values::ordinary(dtype, &[8, 24])],
        Tolerance::chain(30.0, 8.0),
        |_, x| {
            let root = &x[0] * 0.75 + 0.25;
            let transposed = root.transpose(&[1, 0]);
            let total = root.sum(&[0]);
            vec![root.tanh(), transposed.clone(), &root - &total, total, root.matmul(&transposed), root]
        },
    )
}

/// Parameters in f32, computation in bf16, sums in f32.
fn mixed_precision() -> Case {
    let inputs = vec![
        values::ordinary(DType::U8, &[4, 8, 8, 3]),
        values::ordinary(DType::F32, &[3, 3, 3, 10]),
        values::ordinary(DType::F32, &[10]),
    ];
    Case::new("composite/mixed-precision", inputs, Tolerance { roundings: 2e5, scale: 0.5, terms: 0.0 }, |_, x| {
        let images = (x[0].convert(DType::F32) / 9.0 - 0.5).convert(DType::BF16);
        let made = images.convolution(&x[1].convert(DType::BF16), same(DType::F32));
        let biased = (made.convert(DType::BF16) + &x[2].convert(DType::BF16)).convert(DType::F32);
        vec![biased.mean(&[0, 1, 2])]
    })
}

fn top_k() -> Case {
    Case::new("composite/top-k", vec![values::with_ties(DType::F32, &[5, 20])], Tolerance::EXACT, |trace, x| {
        let positions = trace.iota(x[0].shape().with_dtype(DType::I32), 1);
        let sorted = Tensor::sort(&[x[0].clone(), positions], 1, true);
        sorted.iter().map(|sorted| sorted.slice_axis(1, 0, 3)).collect()
    })
}

fn dropout() -> Case {
    let key = octant_graph::HostTensor::new([2], &[3u32, 4]).expect("two words make a key");
    Case::new(
        "composite/dropout",
        vec![values::ordinary(DType::F32, &[16, 9]), key],
        Tolerance::ELEMENTWISE,
        |trace, x| {
            let bits = x[1].random_bits(&[16, 9]);
            let nine = trace.full(&Shape::new(DType::U32, [16, 9]), 9.0);
            let unit = bits.shift_right(&nine).convert(DType::F32) * 2f64.powi(-23);
            let kept = unit.less(&unit.full_like(0.8));
            vec![kept.select(&(&x[0] / 0.8), &x[0].zeros_like()), unit]
        },
    )
}

/// Longer than any one fused loop should hold in registers.
fn elementwise_tower() -> Case {
    let inputs = vec![values::ordinary(DType::F32, &[7, 300]), values::ordinary(DType::F32, &[300])];
    Case::new("composite/elementwise-tower", inputs, Tolerance::chain(200.0, 2.0), |_, x| {
        let step = |value: Tensor, i: usize| {
            let mixed = &value * 0.5 + &x[1] * (i as f64 * 0.02);
            let gate = mixed.greater(&mixed.scalar_like(0.25));
            // The gate must not depend on rounding: both sides agree at the threshold.
            gate.select(&(&mixed * 0.5 + 0.125), &mixed)
        };
        let tower: Vec<Tensor> = (0..20)
            .scan(x[0].clone(), |value, i| {
                *value = step(value.clone(), i);
                Some(value.clone())
            })
            .collect();
        vec![tower[19].clone(), tower[10].clone(), tower[19].sum(&[0])]
    })
}
