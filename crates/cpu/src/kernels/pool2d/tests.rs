//! Poolings and their gradients against the definition, at every instruction set.

use super::*;
use crate::kernels::conv::testing::{assert_close, machines, numbers};
use half::bf16;
use proptest::prelude::*;

fn any_pool() -> impl Strategy<Value = Pool2d> {
    let pair = |range: Range<usize>| [range.clone(), range];
    let channels = prop_oneof![0usize..5, 14usize..70];
    (0usize..3, pair(0..9), pair(0..6), channels, pair(1..7), pair(1..4), pair(1..3), [-2i64..3, -2i64..3]).prop_map(
        |(batch, input, output, channels, window, stride, dilation, pad_low)| Pool2d {
            batch,
            input,
            output,
            channels,
            window,
            stride,
            dilation,
            pad_low,
        },
    )
}

/// Windows that lie side by side, with some rows and columns left over.
fn any_tiling() -> impl Strategy<Value = Pool2d> {
    let channels = prop_oneof![0usize..5, 14usize..70];
    (0usize..3, [0usize..4, 0..4], [0usize..3, 0..3], channels, [1usize..4, 1..4]).prop_map(
        |(batch, output, rest, channels, window)| Pool2d {
            batch,
            input: [0, 1].map(|axis| output[axis] * window[axis] + rest[axis]),
            output,
            channels,
            window,
            stride: window,
            dilation: [1; 2],
            pad_low: [0; 2],
        },
    )
}

/// The input indices of every window, in order, by the definition.
fn windows(pool: &Pool2d) -> Vec<Vec<usize>> {
    let mut windows = Vec::new();
    let [rows, columns] = pool.output;
    for index in 0..pool.output_len() {
        let (channel, pixel) = (index % pool.channels, index / pool.channels);
        let (image, row, column) = (pixel / columns / rows, pixel / columns % rows, pixel % columns);
        let mut window = Vec::new();
        for tap in 0..pool.window[0] * pool.window[1] {
            let at = |axis: usize, output: usize, tap: usize| {
                (output * pool.stride[axis] + tap * pool.dilation[axis]) as i64 - pool.pad_low[axis]
            };
            let (line, across) = (at(0, row, tap / pool.window[1]), at(1, column, tap % pool.window[1]));
            if (0..pool.input[0] as i64).contains(&line) && (0..pool.input[1] as i64).contains(&across) {
                let pixel = (image * pool.input[0] + line as usize) * pool.input[1] + across as usize;
                window.push(pixel * pool.channels + channel);
            }
        }
        windows.push(window);
    }
    windows
}

proptest! {
    #[test]
    fn any_pooling_follows_the_definition(pool in prop_oneof![any_pool(), any_tiling()]) {
        // Few distinct values, so that windows have several maxima.
        let x: Vec<f32> = numbers(pool.input_len(), 1).iter().map(|x| (4.0 * x).round()).collect();
        let dy = numbers(pool.output_len(), 2);
        let windows = windows(&pool);
        let mut scattered = vec![0.25f64; x.len()];
        let mut spread = vec![0.0f64; x.len()];
        for (window, dy) in windows.iter().zip(&dy) {
            let first_maximum = window.iter().copied().reduce(|best, at| if x[best] >= x[at] { best } else { at });
            if let Some(at) = first_maximum {
                scattered[at] += f64::from(*dy);
            }
            window.iter().for_each(|&at| spread[at] += f64::from(*dy));
        }
        let expect = |reduce: fn(f64, f64) -> f64, initial: f64| -> Vec<f64> {
            windows.iter().map(|window| window.iter().fold(initial, |all, &at| reduce(all, f64::from(x[at])))).collect()
        };
        for machine in machines() {
            let mut y = vec![f32::NAN; dy.len()];
            pool2d(&machine, &pool, PoolReduction::Max, -1.0, &x, &mut y);
            assert_close(&y, &expect(f64::max, -1.0), "max");
            pool2d(&machine, &pool, PoolReduction::Min, 1.0, &x, &mut y);
            assert_close(&y, &expect(f64::min, 1.0), "min");
            pool2d(&machine, &pool, PoolReduction::Sum, 0.5, &x, &mut y);
            assert_close(&y, &expect(|a, b| a + b, 0.5), "sum");
            let mut dx = vec![f32::NAN; x.len()];
            max_pool2d_gradient(&machine, &pool, 0.25, &x, &dy, &mut dx);
            assert_close(&dx, &scattered, "gradient of max");
            sum_pool2d_gradient(&machine, &pool, &dy, &mut dx);
            assert_close(&dx, &spread, "gradient of sum");
            check_bf16(&machine, &pool, &x, &dy);
        }
    }
}

/// Poolings of bf16 numbers are those of the same numbers in f32, rounded once.
fn check_bf16(machine: &Machine, pool: &Pool2d, x: &[f32], dy: &[f32]) {
    let narrow = |values: &[f32]| -> Vec<bf16> { values.iter().map(|&value| bf16::from_f32(value)).collect() };
    let widen = |values: &[bf16]| -> Vec<f32> { values.iter().map(|value| value.to_f32()).collect() };
    let (x, dy) = (narrow(x), narrow(dy));
    let (wide_x, wide_dy) = (widen(&x), widen(&dy));
    for reduction in [PoolReduction::Max, PoolReduction::Min, PoolReduction::Sum] {
        let (mut y, mut expected) = (vec![bf16::NAN; dy.len()], vec![f32::NAN; dy.len()]);
        pool2d(machine, pool, reduction, 0.5, &x, &mut y);
        pool2d(machine, pool, reduction, 0.5, &wide_x, &mut expected);
        assert_eq!(y, narrow(&expected), "{reduction:?}");
    }
    let (mut dx, mut expected) = (vec![bf16::NAN; x.len()], vec![f32::NAN; x.len()]);
    max_pool2d_gradient(machine, pool, 0.25, &x, &dy, &mut dx);
    max_pool2d_gradient(machine, pool, 0.25, &wide_x, &wide_dy, &mut expected);
    assert_eq!(dx, narrow(&expected), "gradient of max");
}

#[test]
fn nan_is_the_maximum_and_the_minimum() {
    let pool = Pool2d::square(1, [2, 2], 1, 2, 2, 0);
    for machine in machines() {
        for position in 0..4 {
            let mut x = [1.0, 2.0, 3.0, 4.0];
            x[position] = f32::NAN;
            for reduction in [PoolReduction::Max, PoolReduction::Min] {
                let mut y = [0.0];
                pool2d(&machine, &pool, reduction, 0.0, &x, &mut y);
                assert!(y[0].is_nan(), "{reduction:?} {position}");
                for nan in [bf16::NAN, -bf16::NAN] {
                    let mut x = x.map(bf16::from_f32);
                    x[position] = nan;
                    let mut y = [bf16::ZERO];
                    pool2d(&machine, &pool, reduction, 0.0, &x, &mut y);
                    assert!(y[0].is_nan(), "{reduction:?} {position} in bf16");
                }
            }
        }
    }
}
