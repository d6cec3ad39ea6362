//! Joined steps against the single ones, at every instruction set and bf16 unit.

use super::super::{ConvGeometry, conv2d, conv2d_weights_gradient};
use super::*;
use crate::kernels::conv::testing::numbers;
use crate::kernels::{PoolReduction, max_pool2d_gradient, pool2d};
use crate::pool::ThreadPool;
use crate::simd::Simd;

fn cases() -> Vec<(ConvGeometry, Pool2d)> {
    let plain = |channels, size, window| {
        let conv = ConvGeometry::new(3, size, channels, [3, 3]).padded(1, 1);
        let pool = Pool2d::square(3, conv.output, conv.out_channels, window, window, 0);
        (conv, pool)
    };
    let mut grouped = plain([8, 24], [9, 12], 3);
    grouped.0.groups = 4;
    // Windows of few numbers have kernels of their own: with edges, strides, distances, and channels for all their widths.
    let mut spread = plain([2, 112], [19, 23], 2);
    spread.0.kernel_dilation = [2, 1];
    spread.0.stride = [1, 2];
    spread.0.pad_low = [-1, 2];
    spread.0.output = [12, 9];
    spread.1 = Pool2d::square(3, spread.0.output, 112, 2, 2, 0);
    vec![
        plain([1, 64], [26, 28], 2),
        plain([3, 48], [10, 13], 2),
        spread,
        plain([17, 37], [11, 7], 2),
        plain([3, 5], [8, 8], 4),
        grouped,
    ]
}

#[test]
fn pooling_at_once_is_pooling_afterwards() {
    for (conv, pool) in cases() {
        let (x, w) = (numbers(conv.input_len(), 1), numbers(conv.weights_len(), 2));
        let pooled = numbers(pool.output_len(), 3);
        for simd in Simd::all() {
            let machine = Machine { pool: ThreadPool::new(2), simd };
            let mut between = vec![0.0; conv.output_len()];
            let mut expected = vec![0.0; pool.output_len()];
            conv2d(&machine, &conv, &x, Weights::hwio(&w, &conv), &mut between, None);
            pool2d(&machine, &pool, PoolReduction::Max, f32::NEG_INFINITY, &between, &mut expected);
            let (mut y, mut selected) = (vec![0.0; expected.len()], vec![0; expected.len()]);
            ForwardConv::new(&conv).run_pooled(
                &machine,
                &x,
                Weights::hwio(&w, &conv),
                &pool,
                &mut y,
                &mut selected,
                &|_, _| (),
            );
            assert_eq!(y, expected, "{simd:?} {conv:?}");

            let mut dy = vec![0.0; between.len()];
            max_pool2d_gradient(&machine, &pool, 0.0, &between, &pooled, &mut dy);
            let mut scattered = vec![f32::NAN; dy.len()];
            crate::kernels::scatter_selected(&machine, &pool, &selected, &pooled, &mut scattered);
            assert_eq!(scattered, dy, "{simd:?} {conv:?}");

            let (mut dw, mut expected) = (vec![0.0; w.len()], vec![0.0; w.len()]);
            conv2d_weights_gradient(&machine, &conv, &x, &dy, &mut expected);
            WeightsGradient::new(&conv).run_unpooled(&machine, &x, &pool, &pooled, &selected, &mut dw);
            // The order of the sums may be another.
            let largest = expected.iter().fold(0.0f32, |largest, value| largest.max(value.abs()));
            let close = |(a, b): (&f32, &f32)| (a - b).abs() <= 1e-5 * largest;
            assert!(dw.iter().zip(&expected).all(close), "{simd:?} {conv:?}");
        }
    }
}

#[test]
fn bf16_is_pooled_as_its_sums_are() {
    let narrow = |values: Vec<f32>| -> Vec<bf16> { values.into_iter().map(bf16::from_f32).collect() };
    for (conv, pool) in cases() {
        let (x, w) = (narrow(numbers(conv.input_len(), 1)), narrow(numbers(conv.weights_len(), 2)));
        for simd in Simd::all() {
            let machine = Machine { pool: ThreadPool::new(2), simd };
            let plan = ForwardConv::new(&conv);
            let mut between = vec![bf16::ZERO; conv.output_len()];
            plan.run_bf16(&machine, &x, Weights::hwio(&w, &conv), Output::Bf16(&mut between), None);
            let mut expected = vec![bf16::ZERO; pool.output_len()];
            pool2d(&machine, &pool, PoolReduction::Max, f32::NEG_INFINITY, &between, &mut expected);
            let (mut y, mut selected) = (vec![bf16::ZERO; expected.len()], vec![0; expected.len()]);
            plan.run_pooled_bf16(&machine, &x, Weights::hwio(&w, &conv), &pool, &mut y, &mut selected, &|_, _| ());
            // The order of the sums may differ, and with it the rounding.
            let close = |(a, b): (&bf16, &bf16)| (a.to_f32() - b.to_f32()).abs() <= b.to_f32().abs() / 128.0 + 1e-5;
            assert!(y.iter().zip(&expected).all(close), "{simd:?} {conv:?}");
        }
    }
}
