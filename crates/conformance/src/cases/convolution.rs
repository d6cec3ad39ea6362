//! Convolutions: the forms of forward passes and of both gradients.

use super::FLOATS;
use crate::{Case, Tolerance, values};
use octant_graph::op::{ImageAxes, KernelAxes};
use octant_graph::{Convolution, DType};

/// A form: its name, the dimensions of input and kernel, and how they are put together.
type Form = (&'static str, Vec<usize>, Vec<usize>, Convolution);

pub fn cases() -> Vec<Case> {
    let mut cases: Vec<Case> = forms().into_iter().map(|form| case(form, DType::F32, DType::F32)).collect();
    for dtype in FLOATS.into_iter().filter(|&dtype| dtype != DType::F32) {
        cases
            .extend(forms().into_iter().filter(|(name, ..)| TYPED.contains(name)).map(|form| case(form, dtype, dtype)));
    }
    let widened = forms().into_iter().filter(|(name, ..)| TYPED.contains(name));
    cases.extend(widened.map(|form| case(form, DType::BF16, DType::F32)));
    cases
}

/// The forms that are tried in every float type; the others differ in their index arithmetic only.
const TYPED: [&str; 10] = [
    "same-3x3",
    "stride-2",
    "pointwise",
    "depthwise",
    "depthwise-whole-vectors",
    "depthwise-5x5-stride-2",
    "gradient-of-input",
    "gradient-of-kernel",
    "gradient-of-depthwise-input-whole-vectors",
    "gradient-of-plain-depthwise-kernel",
];

fn case((name, input, kernel, conv): Form, dtype: DType, result: DType) -> Case {
    let inputs = vec![values::ordinary(dtype, &input), values::ordinary(dtype, &kernel)];
    let terms: usize = kernel.iter().product();
    let conv = Convolution { dtype: result, ..conv };
    Case::new(format!("convolution/{name}/{dtype}/{result}"), inputs, Tolerance::sum(terms), |_, x| {
        vec![x[0].convolution(&x[1], conv)]
    })
}

fn images() -> Convolution {
    Convolution::nhwc(2, DType::F32)
}

fn padded(by: i64) -> Convolution {
    Convolution { padding: vec![(by, by); 2], ..images() }
}

fn forms() -> Vec<Form> {
    [forward_forms(), shape_forms(), layout_forms(), grouped_forms(), gradient_forms()].concat()
}

fn forward_forms() -> Vec<Form> {
    vec![
        ("same-3x3", vec![2, 7, 6, 5], vec![3, 3, 5, 4], padded(1)),
        ("wide-features", vec![1, 9, 7, 17], vec![3, 3, 17, 37], padded(1)),
        ("many-features", vec![2, 5, 5, 64], vec![3, 3, 64, 48], padded(1)),
        ("pointwise", vec![3, 5, 6, 9], vec![1, 1, 9, 35], images()),
        ("pointwise-stride-2", vec![2, 6, 7, 9], vec![1, 1, 9, 5], Convolution { strides: vec![2, 2], ..images() }),
        ("stride-2", vec![2, 8, 9, 3], vec![3, 3, 3, 8], Convolution { strides: vec![2, 2], ..padded(1) }),
        ("stem-7x7", vec![1, 15, 14, 3], vec![7, 7, 3, 6], Convolution { strides: vec![2, 2], ..padded(3) }),
        ("stride-beyond-kernel", vec![1, 11, 10, 2], vec![2, 2, 2, 3], Convolution { strides: vec![4, 3], ..images() }),
        (
            "uneven-padding",
            vec![1, 6, 5, 2],
            vec![3, 2, 2, 3],
            Convolution { padding: vec![(0, 2), (3, 1)], ..images() },
        ),
        (
            "negative-padding",
            vec![1, 9, 8, 2],
            vec![2, 3, 2, 3],
            Convolution { padding: vec![(-2, 1), (1, -3)], ..images() },
        ),
        (
            "kernel-dilation",
            vec![1, 10, 9, 2],
            vec![3, 3, 2, 3],
            Convolution { kernel_dilation: vec![2, 3], ..padded(2) },
        ),
        ("input-dilation", vec![1, 4, 5, 2], vec![3, 3, 2, 3], Convolution { input_dilation: vec![2, 3], ..padded(1) }),
        (
            "both-dilations",
            vec![1, 5, 4, 2],
            vec![3, 2, 2, 3],
            Convolution {
                input_dilation: vec![2, 3],
                kernel_dilation: vec![2, 2],
                strides: vec![1, 2],
                padding: vec![(1, 0), (-1, 2)],
                ..images()
            },
        ),
        ("reversed", vec![1, 6, 5, 2], vec![3, 2, 2, 3], Convolution { reversed: true, ..padded(1) }),
    ]
}

fn shape_forms() -> Vec<Form> {
    let line = Convolution { padding: vec![(2, 2)], ..Convolution::nhwc(1, DType::F32) };
    let volume = Convolution {
        strides: vec![1, 2, 1],
        padding: vec![(1, 1), (0, 1), (2, 0)],
        ..Convolution::nhwc(3, DType::F32)
    };
    vec![
        ("one-element", vec![1, 1, 1, 1], vec![1, 1, 1, 1], images()),
        ("no-images", vec![0, 5, 5, 3], vec![3, 3, 3, 4], padded(1)),
        ("no-features-out", vec![2, 5, 5, 3], vec![3, 3, 3, 0], padded(1)),
        ("no-features-in", vec![2, 4, 5, 0], vec![3, 3, 0, 3], padded(1)),
        ("kernel-beyond-input", vec![1, 2, 2, 3], vec![3, 3, 3, 2], images()),
        ("line", vec![2, 12, 3], vec![5, 3, 4], line),
        ("volume", vec![1, 4, 5, 6, 2], vec![2, 3, 3, 2, 3], volume),
        (
            "no-space",
            vec![3, 4],
            vec![4, 5],
            Convolution { input: axes(0, 1, &[]), ..Convolution::nhwc(0, DType::F32) },
        ),
    ]
}

fn axes(batch: usize, feature: usize, spatial: &[usize]) -> ImageAxes {
    ImageAxes { batch, feature, spatial: spatial.to_vec() }
}

fn kernel_axes(input: usize, output: usize, spatial: &[usize]) -> KernelAxes {
    KernelAxes { input, output, spatial: spatial.to_vec() }
}

fn layout_forms() -> Vec<Form> {
    let nchw = Convolution {
        input: axes(0, 1, &[2, 3]),
        kernel: kernel_axes(1, 0, &[2, 3]),
        output: axes(0, 1, &[2, 3]),
        ..padded(1)
    };
    let mixed = Convolution {
        input: axes(2, 0, &[3, 1]),
        kernel: kernel_axes(3, 1, &[0, 2]),
        output: axes(3, 1, &[0, 2]),
        strides: vec![2, 1],
        ..padded(1)
    };
    vec![("nchw", vec![2, 3, 6, 5], vec![4, 3, 3, 3], nchw), ("mixed-axes", vec![3, 6, 2, 7], vec![3, 4, 2, 3], mixed)]
}

fn grouped_forms() -> Vec<Form> {
    let groups = |feature_groups: usize| Convolution { feature_groups, ..padded(1) };
    let batch_groups = |batch_groups: usize| Convolution { batch_groups, ..padded(1) };
    vec![
        ("two-groups", vec![2, 6, 5, 6], vec![3, 3, 3, 8], groups(2)),
        ("depthwise", vec![2, 6, 7, 19], vec![3, 3, 1, 19], groups(19)),
        ("depthwise-stride-2", vec![1, 8, 7, 6], vec![3, 3, 1, 6], Convolution { strides: vec![2, 2], ..groups(6) }),
        (
            "depthwise-5x5-dilated",
            vec![1, 11, 12, 5],
            vec![5, 5, 1, 5],
            Convolution { kernel_dilation: vec![2, 1], ..groups(5) },
        ),
        ("depthwise-doubled", vec![1, 6, 5, 4], vec![3, 3, 1, 8], groups(4)),
        ("depthwise-whole-vectors", vec![2, 7, 6, 136], vec![3, 3, 1, 136], groups(136)),
        (
            "depthwise-5x5-stride-2",
            vec![2, 9, 8, 24],
            vec![5, 5, 1, 24],
            Convolution { strides: vec![2, 1], padding: vec![(2, 2), (1, 3)], ..groups(24) },
        ),
        ("depthwise-7x7", vec![1, 6, 9, 8], vec![7, 7, 1, 8], Convolution { padding: vec![(3, 3); 2], ..groups(8) }),
        ("batch-groups", vec![6, 5, 5, 2], vec![3, 3, 2, 9], batch_groups(3)),
    ]
}

/// The convolutions that the gradients of convolutions are.
fn gradient_forms() -> Vec<Form> {
    // dx of a stride-2 3×3 convolution: the kernel read backwards with its features exchanged, over a dilated dy.
    let swapped = kernel_axes(3, 2, &[0, 1]);
    let of_input = Convolution {
        kernel: swapped.clone(),
        input_dilation: vec![2, 2],
        padding: vec![(1, 2), (1, 1)],
        reversed: true,
        ..images()
    };
    // dw of the same: x with batch and features exchanged, dy as the kernel with holes, HWIO out.
    let of_kernel = Convolution {
        input: axes(3, 0, &[1, 2]),
        kernel: kernel_axes(0, 3, &[1, 2]),
        output: axes(2, 3, &[0, 1]),
        kernel_dilation: vec![2, 2],
        padding: vec![(1, 0), (1, 1)],
        ..images()
    };
    let pointwise_of_kernel = Convolution {
        input: axes(3, 0, &[1, 2]),
        kernel: kernel_axes(0, 3, &[1, 2]),
        output: axes(2, 3, &[0, 1]),
        ..images()
    };
    // Depthwise: each feature stays alone, by feature groups for dx and by batch groups for dw.
    let depthwise_of_input = Convolution { kernel: kernel_axes(2, 3, &[0, 1]), feature_groups: 6, ..of_input.clone() };
    let depthwise_of_kernel = Convolution { batch_groups: 6, ..of_kernel.clone() };
    let cropped_of_kernel =
        Convolution { padding: vec![(-1, 0), (0, -1)], kernel_dilation: vec![1, 1], ..of_kernel.clone() };
    vec![
        ("gradient-of-input", vec![2, 4, 5, 8], vec![3, 3, 3, 8], of_input),
        ("gradient-of-kernel", vec![2, 8, 9, 3], vec![2, 4, 5, 8], of_kernel),
        ("gradient-of-pointwise-kernel", vec![3, 5, 6, 9], vec![3, 5, 6, 11], pointwise_of_kernel),
        ("gradient-of-depthwise-input", vec![2, 4, 4, 6], vec![3, 3, 1, 6], depthwise_of_input.clone()),
        ("gradient-of-depthwise-kernel", vec![2, 8, 9, 6], vec![2, 4, 5, 6], depthwise_of_kernel.clone()),
        (
            "gradient-of-depthwise-input-whole-vectors",
            vec![2, 4, 4, 72],
            vec![3, 3, 1, 72],
            Convolution { feature_groups: 72, ..depthwise_of_input },
        ),
        (
            "gradient-of-plain-depthwise-kernel",
            vec![3, 8, 9, 72],
            vec![3, 8, 9, 72],
            Convolution {
                batch_groups: 72,
                kernel_dilation: vec![1, 1],
                padding: vec![(1, 1); 2],
                ..depthwise_of_kernel
            },
        ),
        ("gradient-of-cropped-kernel", vec![2, 8, 9, 3], vec![2, 5, 6, 4], cropped_of_kernel),
    ]
}
