//! Every convolution against a loop that follows the definition, in f64, at every instruction set.

use super::testing::{assert_close, machines, numbers};
use super::*;
use crate::kernels::Machine;
use crate::kernels::bf16::Output;
use crate::pool::ThreadPool;
use crate::simd::Simd;
use half::bf16;
use proptest::prelude::*;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Calls `visit(x index, w index, y index)` for every product in the definition; `w` is HWIO.
fn products(conv: &ConvGeometry, mut visit: impl FnMut(usize, usize, usize)) {
    let (inputs, outputs) = (conv.group_inputs(), conv.group_outputs());
    let hit = |axis: usize, output: usize, tap: usize| {
        let at = (output * conv.stride[axis] + tap * conv.kernel_dilation[axis]) as i64 - conv.pad_low[axis];
        let dilation = conv.input_dilation[axis] as i64;
        let inside = at >= 0 && at % dilation == 0 && at / dilation < conv.input[axis] as i64;
        inside.then_some((at / dilation) as usize)
    };
    let stored = |axis: usize, tap: usize| if conv.reversed { conv.kernel[axis] - 1 - tap } else { tap };
    for n in 0..conv.batch {
        for (oh, ow) in grid(conv.output) {
            for (kh, kw) in grid(conv.kernel) {
                let (Some(ih), Some(iw)) = (hit(0, oh, kh), hit(1, ow, kw)) else { continue };
                let x = ((n * conv.input[0] + ih) * conv.input[1] + iw) * conv.in_channels;
                let y = ((n * conv.output[0] + oh) * conv.output[1] + ow) * conv.out_channels;
                let w = (stored(0, kh) * conv.kernel[1] + stored(1, kw)) * inputs * conv.out_channels;
                for o in 0..conv.out_channels {
                    for i in 0..inputs {
                        visit(x + o / outputs * inputs + i, w + i * conv.out_channels + o, y + o);
                    }
                }
            }
        }
    }
}

fn grid(extents: [usize; 2]) -> impl Iterator<Item = (usize, usize)> {
    (0..extents[0]).flat_map(move |row| (0..extents[1]).map(move |column| (row, column)))
}

fn check(conv: &ConvGeometry) {
    let x = numbers(conv.input_len(), 1);
    let w = numbers(conv.weights_len(), 2);
    let dy = numbers(conv.output_len(), 3);
    let (mut y, mut dx, mut dw) = (vec![0.0; dy.len()], vec![0.0; x.len()], vec![0.0; w.len()]);
    products(conv, |xi, wi, yi| {
        y[yi] += f64::from(x[xi]) * f64::from(w[wi]);
        dx[xi] += f64::from(dy[yi]) * f64::from(w[wi]);
        dw[wi] += f64::from(x[xi]) * f64::from(dy[yi]);
    });
    for machine in machines() {
        let level = machine.simd.level();
        let mut actual = vec![f32::NAN; y.len()];
        conv2d(&machine, conv, &x, Weights::hwio(&w, conv), &mut actual, None);
        assert_close(&actual, &y, &format!("y at {level:?} of {conv:?}"));
        let mut actual = vec![f32::NAN; x.len()];
        conv2d(&machine, &conv.backward_data(), &dy, Weights::transposed(&w, conv), &mut actual, None);
        assert_close(&actual, &dx, &format!("dx at {level:?} of {conv:?}"));
        let mut actual = vec![f32::NAN; w.len()];
        conv2d_weights_gradient(&machine, conv, &x, &dy, &mut actual);
        assert_close(&actual, &dw, &format!("dw at {level:?} of {conv:?}"));
    }
}

/// The bf16 forms against the definition, with inputs that are exact in bf16.
fn check_bf16(conv: &ConvGeometry) {
    let exact = |len, seed| -> Vec<bf16> { numbers(len, seed).into_iter().map(bf16::from_f32).collect() };
    let x = exact(conv.input_len(), 1);
    let w = exact(conv.weights_len(), 2);
    let dy = exact(conv.output_len(), 3);
    let (mut y, mut dx, mut dw) = (vec![0.0; dy.len()], vec![0.0; x.len()], vec![0.0; w.len()]);
    products(conv, |xi, wi, yi| {
        y[yi] += x[xi].to_f64() * w[wi].to_f64();
        dx[xi] += dy[yi].to_f64() * w[wi].to_f64();
        dw[wi] += x[xi].to_f64() * dy[yi].to_f64();
    });
    for simd in Simd::all() {
        let machine = Machine { pool: ThreadPool::new(2), simd };
        let what = |name: &str| format!("{name} by {simd:?} of {conv:?}");
        let mut actual = vec![f32::NAN; y.len()];
        let plan = ForwardConv::new(conv);
        plan.run_bf16(&machine, &x, Weights::hwio(&w, conv), Output::F32(&mut actual), None);
        assert_close(&actual, &y, &what("y"));
        let mut rounded = vec![bf16::NAN; y.len()];
        plan.run_bf16(&machine, &x, Weights::hwio(&w, conv), Output::Bf16(&mut rounded), None);
        assert!(actual.iter().zip(&rounded).all(|(y, rounded)| bf16::from_f32(*y) == *rounded), "{}", what("rounding"));
        let mut actual = vec![f32::NAN; x.len()];
        let plan = ForwardConv::new(&conv.backward_data());
        plan.run_bf16(&machine, &dy, Weights::transposed(&w, conv), Output::F32(&mut actual), None);
        assert_close(&actual, &dx, &what("dx"));
        let mut actual = vec![f32::NAN; w.len()];
        WeightsGradient::new(conv).run_bf16(&machine, &x, &dy, Output::F32(&mut actual));
        assert_close(&actual, &dw, &what("dw"));
    }
}

/// One column is a whole phase of every second one, too: the stride between its pixels is still a row.
#[test]
fn an_image_of_one_column_between_the_pixels_of_a_dilated_one() {
    check_bf16(&ConvGeometry {
        batch: 1,
        input: [5, 1],
        in_channels: 1,
        output: [1, 1],
        out_channels: 1,
        kernel: [1, 1],
        stride: [1, 2],
        pad_low: [0, -2],
        input_dilation: [3, 3],
        kernel_dilation: [1, 1],
        groups: 1,
        reversed: false,
    });
}

fn any_conv() -> impl Strategy<Value = ConvGeometry> {
    let pair = |range: std::ops::Range<usize>| [range.clone(), range];
    let channels = (1usize..4, prop_oneof![1usize..6, 14usize..40], prop_oneof![1usize..6, 14usize..40]);
    let steps = (pair(1..4), pair(1..4), pair(1..3));
    (0usize..3, pair(0..12), pair(1..12), pair(1..5), steps, [-3i64..5, -3i64..5], channels, any::<bool>()).prop_map(
        |(batch, input, output, kernel, (stride, input_dilation, kernel_dilation), pad_low, channels, reversed)| {
            ConvGeometry {
                batch,
                input,
                in_channels: channels.0 * channels.1,
                output,
                out_channels: channels.0 * channels.2,
                kernel,
                stride,
                pad_low,
                input_dilation,
                kernel_dilation,
                groups: channels.0,
                reversed,
            }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]
    #[test]
    fn any_convolution_follows_the_definition(conv in any_conv()) {
        check(&conv);
    }

    #[test]
    fn any_bf16_convolution_follows_the_definition(conv in any_conv()) {
        check_bf16(&conv);
    }

    #[test]
    fn any_depthwise_convolution_follows_the_definition(conv in any_conv(), channels in 1usize..50) {
        check(&ConvGeometry { in_channels: channels, out_channels: channels, groups: channels, ..conv });
    }
}

#[test]
fn layers_of_real_networks_follow_the_definition() {
    check(&ConvGeometry::new(2, [28, 28], [1, 64], [3, 3]));
    check(&ConvGeometry::new(1, [37, 41], [3, 64], [7, 7]).padded(3, 2));
    check(&ConvGeometry::new(3, [7, 7], [96, 80], [3, 3]).padded(1, 1));
    check(&ConvGeometry::new(2, [15, 15], [64, 48], [1, 1]).padded(0, 2));
    check(&ConvGeometry::new(1, [40, 70], [16, 16], [3, 3]).padded(1, 1));
    check(&ConvGeometry::new(1, [14, 14], [24, 1], [1, 1]));
    check(&ConvGeometry::new(2, [13, 13], [70, 192], [1, 1]));
    check(&ConvGeometry::new(1, [20, 20], [2, 96], [2, 3]).padded(1, 1));
}

#[test]
fn layers_that_multiply_less_often_follow_the_definition() {
    for (size, channels, padding) in
        [([12, 12], [32, 32], 1), ([7, 9], [40, 24], 1), ([9, 4], [25, 70], 0), ([1, 6], [24, 33], 2)]
    {
        let conv = ConvGeometry::new(3, size, channels, [3; 2]).padded(padding, 1);
        check(&conv);
        check(&ConvGeometry { reversed: true, pad_low: [0, 2], ..conv });
    }
    // More than one block of a large gradient.
    check(&ConvGeometry::new(1, [32, 32], [24, 1100], [3; 2]).padded(1, 1));
}

#[test]
fn bf16_layers_of_real_networks_follow_the_definition() {
    check_bf16(&ConvGeometry::new(2, [28, 28], [1, 64], [3, 3]));
    check_bf16(&ConvGeometry::new(1, [37, 41], [3, 64], [7, 7]).padded(3, 2));
    check_bf16(&ConvGeometry::new(3, [7, 7], [96, 80], [3, 3]).padded(1, 1));
    check_bf16(&ConvGeometry::new(2, [15, 15], [64, 48], [1, 1]).padded(0, 2));
    check_bf16(&ConvGeometry::new(1, [40, 70], [16, 16], [3, 3]).padded(1, 1));
    check_bf16(&ConvGeometry::new(4, [14, 14], [48, 33], [1, 1]));
}

/// Weights that leave the second-level cache: jobs are ranges of output channels if images are small, images take turns with a
/// panel if they are large, and 1×1 kernels are matrices.
#[test]
fn bf16_layers_with_large_weights_follow_the_definition() {
    for conv in [
        ConvGeometry::new(1, [5, 4], [256, 272], [3, 3]).padded(1, 1),
        ConvGeometry::new(3, [18, 18], [512, 600], [1, 2]).padded(0, 7),
        ConvGeometry::new(1, [7, 3], [800, 750], [1, 1]),
    ] {
        check_bf16(&conv);
        let (x, w) = (vec![bf16::ONE; conv.input_len()], vec![bf16::ONE; conv.weights_len()]);
        for simd in Simd::all() {
            let machine = Machine { pool: ThreadPool::new(2), simd };
            let seen: Vec<AtomicUsize> = (0..conv.output_len()).map(|_| AtomicUsize::new(0)).collect();
            let finished = |first: usize, count: usize| {
                for seen in &seen[first..first + count] {
                    seen.fetch_add(1, Ordering::Relaxed);
                }
            };
            let mut y = vec![0.0; conv.output_len()];
            let plan = ForwardConv::new(&conv);
            plan.run_bf16(&machine, &x, Weights::hwio(&w, &conv), Output::F32(&mut y), Some(&finished));
            assert!(seen.iter().all(|seen| seen.load(Ordering::Relaxed) == 1), "{simd:?} {conv:?}");
        }
    }
}

#[test]
fn layers_of_very_few_channels_follow_the_definition() {
    for (channels, kernel, padding) in [([2, 1], 7, 3), ([4, 1], 3, 1), ([1, 4], 3, 0), ([3, 2], 9, 6), ([5, 3], 4, 1)]
    {
        for size in [[40, 70], [9, 17]] {
            let conv = ConvGeometry::new(2, size, channels, [kernel; 2]).padded(padding, 1);
            check(&conv);
            check(&ConvGeometry { reversed: true, ..conv.clone() });
            check_bf16(&conv);
        }
    }
}

#[test]
fn depthwise_layers_follow_the_definition() {
    for (channels, multiplier) in [(1, 1), (3, 1), (40, 1), (96, 1), (5, 3), (16, 2)] {
        for (kernel, padding, stride) in
            [(3, 1, 1), (3, 1, 2), (5, 2, 1), (5, 2, 2), (7, 3, 1), (1, 0, 1), (4, 0, 3), (3, 4, 1)]
        {
            let mut conv =
                ConvGeometry::new(2, [13, 11], [channels, channels * multiplier], [kernel; 2]).padded(padding, stride);
            conv.groups = channels;
            check(&conv);
        }
    }
}

/// The layers behind a mean over the image: jobs are parts of the output channels.
#[test]
fn layers_of_very_few_pixels_follow_the_definition() {
    for (batch, channels) in [(1, [200, 264]), (1, [960, 48]), (17, [96, 530])] {
        let conv = ConvGeometry::new(batch, [1, 1], channels, [1, 1]);
        check(&conv);
        check(&conv.flattened().unwrap());
    }
}

/// Pixels of 1×1 kernels are cut anywhere, but so that loops behind them fill their registers.
#[test]
fn pointwise_layers_are_cut_between_pixels() {
    let conv = ConvGeometry::new(2, [7, 7], [300, 24], [1, 1]).flattened().unwrap();
    assert_eq!((conv.input, conv.output), ([98, 1], [98, 1]));
    assert_eq!(ConvGeometry::new(2, [7, 7], [300, 24], [1, 1]).padded(0, 2).flattened(), None);
    assert_eq!(ConvGeometry::new(2, [7, 7], [300, 24], [3, 3]).padded(1, 1).flattened(), None);
    let chunks = std::sync::Mutex::new(Vec::new());
    let machine = Machine { pool: ThreadPool::new(2), simd: Simd::all()[0] };
    ForwardConv::new(&conv).each_chunk(&machine, &|rows| chunks.lock().unwrap().push((rows.start, rows.len())));
    let mut chunks = chunks.into_inner().unwrap();
    chunks.sort_unstable();
    let mut next = 0;
    for (first, count) in chunks {
        assert!(first == next && (count % 2 == 0 || first + count == 98), "{first} {count}");
        next = first + count;
    }
    assert_eq!(next, 98);
}

#[test]
fn nothing_in_nothing_out() {
    for broken in 0..6 {
        let mut conv = ConvGeometry::new(2, [5, 5], [4, 6], [3, 3]).padded(1, 1);
        match broken {
            0 => conv.batch = 0,
            1 => conv.input = [0, 5],
            2 => conv.in_channels = 0,
            3 => conv.out_channels = 0,
            4 => conv.kernel = [0, 3],
            _ => conv.output = [5, 0],
        }
        check(&conv);
    }
}

#[test]
fn the_epilogue_sees_every_pixel_once_when_it_is_finished() {
    let conv = ConvGeometry::new(3, [17, 19], [8, 20], [3, 3]).padded(1, 2).backward_data();
    let (x, w) = (numbers(conv.input_len(), 4), numbers(conv.weights_len(), 5));
    for machine in machines() {
        let mut plain = vec![0.0; conv.output_len()];
        conv2d(&machine, &conv, &x, Weights::hwio(&w, &conv), &mut plain, None);
        let mut doubled = vec![0.0; conv.output_len()];
        let seen = AtomicUsize::new(0);
        let epilogue = |first: usize, values: &mut [f32]| {
            assert!(first.is_multiple_of(conv.out_channels) && values.len().is_multiple_of(conv.out_channels));
            seen.fetch_add(values.len(), Ordering::Relaxed);
            values.iter_mut().for_each(|value| *value = 2.0 * *value + 1.0);
        };
        conv2d(&machine, &conv, &x, Weights::hwio(&w, &conv), &mut doubled, Some(&epilogue));
        assert_eq!(seen.into_inner(), conv.output_len());
        assert!(plain.iter().zip(&doubled).all(|(plain, doubled)| 2.0 * plain + 1.0 == *doubled));
    }
}

#[test]
fn the_number_of_threads_changes_no_bit() {
    let conv = ConvGeometry::new(4, [30, 30], [24, 40], [3, 3]).padded(1, 1);
    let (x, w, dy) = (numbers(conv.input_len(), 6), numbers(conv.weights_len(), 7), numbers(conv.output_len(), 8));
    for simd in Simd::all() {
        let results = [1, 2, 5].map(|threads| {
            let machine = Machine { pool: ThreadPool::new(threads), simd };
            let (mut y, mut dw) = (vec![0.0; dy.len()], vec![0.0; w.len()]);
            conv2d(&machine, &conv, &x, Weights::hwio(&w, &conv), &mut y, None);
            conv2d_weights_gradient(&machine, &conv, &x, &dy, &mut dw);
            (y, dw)
        });
        assert!(results[0] == results[1] && results[0] == results[2], "{:?}", simd.level());
    }
}
