//! All units give the sums of the definition, to the bit.

use super::*;
use crate::pool::ThreadPool;
use crate::simd::Simd;
use std::sync::Mutex;

fn bytes(len: usize, seed: usize) -> Vec<u8> {
    (0..len).map(|index| ((index + 1) * (seed * 2 + 7919) % 65_537 % 256) as u8).collect()
}

/// Straight from the definition.
fn expected(conv: &ConvGeometry, zero: u8, x: &[u8], w: &[i8]) -> Vec<f32> {
    let mut sums = Vec::new();
    let weights = Weights::hwio(w, conv);
    let at = |axis: usize, output: usize, tap: usize| {
        let at = (output * conv.stride[axis] + tap * conv.kernel_dilation[axis]) as i64 - conv.pad_low[axis];
        (0..conv.input[axis] as i64).contains(&at).then_some(at as usize)
    };
    for pixel in 0..conv.batch * conv.output[0] * conv.output[1] {
        let (image, line, column) =
            (pixel / conv.output[1] / conv.output[0], pixel / conv.output[1] % conv.output[0], pixel % conv.output[1]);
        for output in 0..conv.out_channels {
            let (group, within) = (output / conv.group_outputs(), output % conv.group_outputs());
            let mut sum = 0i64;
            for row in 0..conv.kernel[0] {
                for tap in 0..conv.kernel[1] {
                    let (Some(line), Some(column)) = (at(0, line, row), at(1, column, tap)) else { continue };
                    for input in 0..conv.group_inputs() {
                        let channel = group * conv.group_inputs() + input;
                        let place =
                            ((image * conv.input[0] + line) * conv.input[1] + column) * conv.in_channels + channel;
                        let weight = weights.row * row
                            + weights.column * tap
                            + weights.input * input
                            + weights.output * within
                            + weights.group * group;
                        sum += (i64::from(x[place]) - i64::from(zero)) * i64::from(w[weight]);
                    }
                }
            }
            sums.push(sum as f32);
        }
    }
    sums
}

fn check(conv: &ConvGeometry, zero: u8) {
    let x = bytes(conv.input_len(), 1);
    let w: Vec<i8> = bytes(conv.weights_len(), 5).into_iter().map(|byte| byte as i8).collect();
    let expected = expected(conv, zero, &x, &w);
    let plan = Int8Conv::new(conv, zero);
    for simd in Simd::all() {
        for threads in [1, 3] {
            let machine = Machine { pool: ThreadPool::new(threads), simd };
            let mut packed = vec![0u64; plan.packed_len(&machine).div_ceil(8)];
            let packed = &mut bytemuck::cast_slice_mut(&mut packed)[..plan.packed_len(&machine)];
            plan.pack(&machine, Weights::hwio(&w, conv), packed);
            let sums = Mutex::new(vec![f32::NAN; expected.len()]);
            plan.run(&machine, &x, packed, &|first, part| {
                sums.lock().unwrap()[first..first + part.len()].copy_from_slice(part);
            });
            let sums = sums.into_inner().unwrap();
            let differing = sums.iter().zip(&expected).position(|(a, b)| a != b);
            assert_eq!(differing, None, "{simd:?} with {threads} threads: {conv:?}");
        }
    }
}

#[test]
fn convolutions_of_all_units_have_the_sums_of_the_definition() {
    let conv = |batch, input, channels, kernel| ConvGeometry::new(batch, input, channels, [kernel; 2]);
    for (conv, zero) in [
        (conv(1, [5, 7], [64, 32], 1), 0),
        (conv(2, [9, 9], [24, 40], 1), 7),
        // The images are not the matrix: what is left of a block is multiplied with zeros.
        (conv(1, [6, 6], [68, 33], 1), 3),
        (conv(1, [6, 6], [3, 17], 1), 128),
        (conv(1, [9, 8], [3, 64], 7).padded(3, 2), 114),
        (conv(2, [7, 7], [20, 50], 3).padded(1, 1), 9),
        (conv(1, [8, 8], [64, 64], 3).padded(1, 2), 0),
        (conv(1, [8, 8], [32, 16], 1).padded(0, 2), 1),
        (ConvGeometry { kernel_dilation: [2, 3], output: [6, 3], ..conv(1, [8, 9], [4, 5], 3).padded(1, 1) }, 200),
        // More steps than stay in the first-level cache, and weights for few pixels that do not stay in the second.
        (conv(1, [3, 3], [300, 70], 3).padded(1, 1), 5),
        (conv(1, [7, 7], [640, 1100], 1), 2),
        (conv(3, [1, 1], [256, 1000], 1), 11),
    ] {
        check(&conv, zero);
    }
}

#[test]
fn depthwise_convolutions_too() {
    for (channels, kernel, stride, zero) in [(16, 3, 1, 0), (24, 5, 2, 77), (7, 3, 2, 255), (72, 5, 1, 130)] {
        let conv = ConvGeometry::new(2, [13, 18], [channels; 2], [kernel; 2]).padded(kernel / 2, stride);
        let per_channel = |conv: ConvGeometry| ConvGeometry { groups: channels, ..conv };
        check(&per_channel(conv), zero);
    }
}

#[test]
fn the_largest_sums_do_not_overflow() {
    let conv = ConvGeometry::new(1, [1, 2], [4096, 3], [1; 2]);
    let (x, w) = (vec![255u8; conv.input_len()], vec![-128i8; conv.weights_len()]);
    let plan = Int8Conv::new(&conv, 0);
    for simd in Simd::all() {
        let machine = Machine { pool: ThreadPool::new(1), simd };
        let mut packed = vec![0u64; plan.packed_len(&machine).div_ceil(8)];
        let packed = &mut bytemuck::cast_slice_mut(&mut packed)[..plan.packed_len(&machine)];
        plan.pack(&machine, Weights::hwio(&w, &conv), packed);
        plan.run(&machine, &x, packed, &|_, part| assert!(part.iter().all(|&sum| sum == -133_693_440.0), "{part:?}"));
    }
    assert!(!Int8Conv::fits(&ConvGeometry::new(1, [1, 1], [70_000, 1], [1; 2])));
}

#[test]
fn what_has_no_integer_kernel_is_left_to_others() {
    let conv = ConvGeometry::new(1, [8; 2], [8, 8], [3; 2]);
    assert!(!Int8Conv::fits(&ConvGeometry { groups: 2, ..conv.clone() }));
    assert!(!Int8Conv::fits(&ConvGeometry { input_dilation: [2, 2], ..conv.clone() }));
    assert!(!Int8Conv::fits(&ConvGeometry { reversed: true, ..conv }));
}
