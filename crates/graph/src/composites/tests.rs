//! Composites against figures computed by PyTorch 2.15 (given with each case) or by their definition.

use super::{PaddingCounts, Pool};
use crate::evaluate::evaluate;
use crate::{DType, HostTensor, Shape, Tensor, Trace};

/// Runs a function of f32 tensors.
fn run(inputs: &[(&[usize], &[f64])], function: impl FnOnce(&[Tensor]) -> Vec<Tensor>) -> Vec<Vec<f64>> {
    let trace = Trace::new();
    let shapes: Vec<Shape> = inputs.iter().map(|(dims, _)| Shape::new(DType::F32, *dims)).collect();
    let tensors: Vec<Tensor> = shapes.iter().map(|shape| trace.input("x", shape.clone())).collect();
    let graph = trace.clone().finish(&function(&tensors)).unwrap();
    let values: Vec<HostTensor> = shapes
        .iter()
        .zip(inputs)
        .map(|(shape, (_, values))| HostTensor::from_f64s(shape.clone(), values).unwrap())
        .collect();
    evaluate(&graph, &values).unwrap().iter().map(HostTensor::to_f64s).collect()
}

/// Runs a function of one tensor and returns its values and the gradient of their sum.
fn values_and_gradients(dims: &[usize], values: &[f64], function: impl FnOnce(&Tensor) -> Tensor) -> [Vec<f64>; 2] {
    let results = run(&[(dims, values)], |inputs| {
        let y = function(&inputs[0]);
        let gradients = y.trace().gradients(&y.sum_all(), &inputs[..1]);
        vec![y, gradients[0].clone()]
    });
    results.try_into().unwrap()
}

#[track_caller]
fn assert_close(actual: &[f64], expected: &[f64]) {
    assert_eq!(actual.len(), expected.len());
    for (a, e) in actual.iter().zip(expected) {
        assert!((a - e).abs() <= 2e-6 * e.abs().max(1.0), "{actual:?} is not {expected:?}");
    }
}

const POINTS: [f64; 7] = [-4.0, -1.0, -0.25, 0.0, 0.5, 2.0, 7.0];

#[test]
fn activations_and_their_gradients_equal_pytorch() {
    type Case = (fn(&Tensor) -> Tensor, [f64; 7], [f64; 7]);
    let cases: [Case; 7] = [
        (Tensor::relu, [0.0, 0.0, 0.0, 0.0, 0.5, 2.0, 7.0], [0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0]),
        (
            Tensor::silu,
            [-0.0719448, -0.2689414, -0.1094559, 0.0, 0.3112297, 1.7615941, 6.9936228],
            [-0.0526646, 0.0723295, 0.3762900, 0.5, 0.7399612, 1.0907843, 1.0054601],
        ),
        (
            Tensor::gelu,
            [-0.0001265, -0.1586553, -0.1003234, 0.0, 0.3457312, 1.9544997, 7.0],
            [-0.0005036, -0.0833154, 0.3046267, 0.5, 0.8674951, 1.0852319, 1.0],
        ),
        (
            Tensor::gelu_tanh,
            [-0.0000702, -0.1588080, -0.1003246, 0.0, 0.3457140, 1.9545977, 7.0],
            [-0.0003350, -0.0829641, 0.3046459, 0.5, 0.8673699, 1.0860993, 1.0],
        ),
        (
            Tensor::hard_swish,
            [0.0, -0.3333333, -0.1145833, 0.0, 0.2916667, 1.6666666, 7.0],
            [0.0, 0.1666667, 0.4166667, 0.5, 0.6666667, 1.1666666, 1.0],
        ),
        (
            Tensor::hard_sigmoid,
            [0.0, 0.3333333, 0.4583333, 0.5, 0.5833333, 0.8333333, 1.0],
            [0.0, 0.1666667, 0.1666667, 0.1666667, 0.1666667, 0.1666667, 0.0],
        ),
        (
            Tensor::softplus,
            [0.0181499, 0.3132617, 0.5759394, std::f64::consts::LN_2, 0.9740770, 2.1269281, 7.0009117],
            [0.0179862, 0.2689414, 0.4378235, 0.5, 0.6224593, 0.8807971, 0.9990890],
        ),
    ];
    for (function, values, gradients) in cases {
        let [actual_values, actual_gradients] = values_and_gradients(&[7], &POINTS, function);
        assert_close(&actual_values, &values);
        assert_close(&actual_gradients, &gradients);
    }
}

#[test]
fn relu_does_not_hide_a_nan() {
    assert!(run(&[(&[1], &[f64::NAN])], |x| vec![x[0].relu()])[0][0].is_nan());
}

#[test]
fn softmax_mean_is_the_mean_by_the_softmax() {
    let x = [(&[2, 3][..], &[1000.0, 1001.0, 999.0, -0.5, 0.25, 2.0][..]), (&[1, 3], &[0.0, 1.0, 2.0])];
    let both = |x: &[Tensor]| [x[0].softmax_mean(&x[1], 1), (x[0].softmax(1) * &x[1]).sum(&[1])];
    let results = run(&x, |x| {
        let gradients = both(x).map(|mean| x[0].trace().gradients(&mean.square().sum_all(), &x[..1]).remove(0));
        both(x).into_iter().chain(gradients).collect()
    });
    for (mean, expected) in [(&results[0], &results[1]), (&results[2], &results[3])] {
        assert!(mean.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-6), "{mean:?} {expected:?}");
    }
}

#[test]
fn softmax_survives_large_values() {
    let [values, gradients] = values_and_gradients(&[1, 3], &[1000.0, 1001.0, 999.0], |x| x.softmax(1));
    assert_close(&values, &[0.2447285, 0.6652410, 0.0900306]);
    assert_close(&gradients, &[0.0; 3]);
    let logarithms = run(&[(&[1, 3], &[1000.0, 1001.0, 999.0])], |x| vec![x[0].log_softmax(1), x[0].logsumexp(1)]);
    assert_close(&logarithms[0], &[-1.4076059, -0.4076060, -2.4076059]);
    assert_close(&logarithms[1], &[1001.4076]);
}

#[test]
fn norms_have_mean_zero_and_deviation_one() {
    let x: Vec<f64> = (0..8).map(|value| (value * value) as f64).collect();
    let scale_and_shift: [(&[usize], &[f64]); 2] = [(&[2], &[1.0, 2.0]), (&[2], &[0.0, 1.0])];
    let inputs = [(&[2, 2, 1, 2][..], &x[..]), scale_and_shift[0], scale_and_shift[1]];
    // torch.nn.functional.group_norm(x.permute(0, 3, 1, 2), 1, …)
    let [group] = &run(&inputs, |x| vec![x[0].group_norm(1, &x[1], &x[2], 1e-5)])[..] else { panic!() };
    assert_close(&group[..4], &[-0.9999996, -0.4285709, 0.1428571, 4.1428561]);
    let [layer] = &run(&inputs, |x| vec![x[0].layer_norm(&x[1], &x[2], 1e-5)])[..] else { panic!() };
    assert_close(&layer[..4], &[-0.9999800, 2.9999600, -0.9999992, 2.9999984]);
}

#[test]
fn one_pass_moments_equal_two_passes() {
    let x: Vec<f64> = (0..24).map(|value| 100.0 + (value * 7 % 11) as f64).collect();
    let results = run(&[(&[4, 3, 2], &x), (&[2], &[101.0, 99.0])], |x| {
        let (mean, variance) = x[0].moments(&[0, 1]);
        let (shifted_mean, shifted_variance) = x[0].shifted_moments(&[0, 1], &x[1]);
        vec![mean, variance, shifted_mean, shifted_variance]
    });
    assert_close(&results[0], &results[2]);
    assert_close(&results[1], &results[3]);
}

#[test]
fn pools_equal_pytorch() {
    let x: Vec<f64> = (0..16).map(|value| (value * 5 % 16) as f64).collect();
    let dims: &[usize] = &[1, 4, 4, 1];
    let pool = Pool::square(3, 2).padded(1);
    let results = run(&[(dims, &x)], |x| {
        vec![
            x[0].max_pool(pool),
            x[0].avg_pool(pool, PaddingCounts::Yes),
            x[0].avg_pool(pool, PaddingCounts::No),
            x[0].adaptive_avg_pool(2, 2),
            x[0].global_avg_pool(),
            x[0].global_max_pool(),
        ]
    });
    assert_close(&results[0], &[9.0, 15.0, 13.0, 14.0]);
    assert_close(&results[1], &[18.0 / 9.0, 56.0 / 9.0, 47.0 / 9.0, 66.0 / 9.0]);
    assert_close(&results[2], &[18.0 / 4.0, 56.0 / 6.0, 47.0 / 6.0, 66.0 / 9.0]);
    assert_close(&results[3], &[4.5, 10.5, 8.5, 6.5]);
    assert_close(&results[4], &[7.5]);
    assert_close(&results[5], &[15.0]);
}

/// A bilinear resize by its definition.
fn bilinear(x: &[f64], from: usize, to: usize, align_corners: bool) -> Vec<f64> {
    (0..to)
        .map(|output| {
            let position = match align_corners {
                true => output as f64 * (from - 1) as f64 / (to - 1) as f64,
                false => ((output as f64 + 0.5) * from as f64 / to as f64 - 0.5).max(0.0),
            };
            let lower = position.floor() as usize;
            let upper = (lower + 1).min(from - 1);
            x[lower] + (x[upper] - x[lower]) * (position - lower as f64)
        })
        .collect()
}

#[test]
fn bilinear_enlarging_follows_its_definition() {
    let x = [3.0, -1.0, 4.0, 1.0, -5.0];
    for (to, align_corners) in [(10, true), (10, false), (20, true), (40, true), (40, false), (7, true), (7, false)] {
        let results = run(&[(&[1, 5, 1, 1], &x)], |x| vec![x[0].resize_bilinear(to, 1, align_corners)]);
        assert_close(&results[0], &bilinear(&x, 5, to, align_corners));
        let results = run(&[(&[1, 1, 5, 1], &x)], |x| vec![x[0].resize_bilinear(1, to, align_corners)]);
        assert_close(&results[0], &bilinear(&x, 5, to, align_corners));
    }
    let single = run(&[(&[1, 1, 1, 1], &[2.5])], |x| vec![x[0].resize_bilinear(3, 2, true)]);
    assert_close(&single[0], &[2.5; 6]);
}

#[test]
fn nearest_enlarging_repeats() {
    let results = run(&[(&[1, 1, 2, 1], &[1.0, 2.0])], |x| vec![x[0].upsample_nearest(2)]);
    assert_close(&results[0], &[1.0, 1.0, 2.0, 2.0, 1.0, 1.0, 2.0, 2.0]);
}

#[test]
fn running_sums_and_greatest_entries() {
    let x = [3.0, 1.0, 4.0, 1.0, 5.0, 9.0, 2.0];
    let results = run(&[(&[1, 7], &x)], |x| {
        let (values, indices) = x[0].top_k(3);
        vec![x[0].cumsum(1), values, indices, indices_of(&x[0])]
    });
    assert_close(&results[0], &[3.0, 4.0, 8.0, 9.0, 14.0, 23.0, 25.0]);
    assert_close(&results[1], &[9.0, 5.0, 4.0]);
    assert_close(&results[2], &[5.0, 4.0, 2.0]);
    assert_close(&results[3], &[5.0]);
}

/// The entry of a row at its own last value, through `pick`.
fn indices_of(x: &Tensor) -> Tensor {
    let label = x.trace().constant(HostTensor::new([1], &[4i32]).unwrap());
    x.pick(&label)
}

#[test]
fn labels_outside_make_rows_of_zeros() {
    let trace = Trace::new();
    let labels = trace.constant(HostTensor::new([3], &[1i32, 7, -1]).unwrap());
    let rows = labels.one_hot(3, DType::F32);
    let graph = trace.finish(&[rows]).unwrap();
    let rows = evaluate(&graph, &[]).unwrap()[0].to_f64s();
    assert_eq!(rows, [0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]);
}

#[test]
fn random_numbers_have_their_distributions() {
    let trace = Trace::new();
    let key = trace.constant(HostTensor::new([2], &[1u32, 2]).unwrap());
    let kept = trace.full(&Shape::new(DType::F32, [4096]), 1.0).dropout(0.25, &key.fold_in(3), &[4096]);
    let outputs = [key.uniform(&[4096]), key.fold_in(1).normal(&[4096]), kept];
    let graph = trace.finish(&outputs).unwrap();
    let [uniform, normal, kept] = &evaluate(&graph, &[]).unwrap()[..] else { panic!() };
    let (uniform, normal, kept) = (uniform.to_f64s(), normal.to_f64s(), kept.to_f64s());
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let square = |values: &[f64]| mean(&values.iter().map(|value| value * value).collect::<Vec<_>>());
    assert!(uniform.iter().all(|value| (0.0..1.0).contains(value)));
    assert!((mean(&uniform) - 0.5).abs() < 0.02 && (square(&uniform) - 1.0 / 3.0).abs() < 0.02);
    assert!(mean(&normal).abs() < 0.05 && (square(&normal) - 1.0).abs() < 0.08);
    assert!(kept.iter().all(|&value| value == 0.0 || (value - 4.0 / 3.0).abs() < 1e-6));
    assert!((mean(&kept) - 1.0).abs() < 0.03);
}
