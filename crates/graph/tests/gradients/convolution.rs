use crate::{Numbers, check, compare};
use octant_graph::op::{ImageAxes, KernelAxes};
use octant_graph::{Convolution, DType};
use proptest::prelude::*;

#[test]
fn the_layers_of_a_convolutional_network() {
    let conv = Convolution::nhwc(2, DType::F64);
    check(&[&[2, 4, 5, 2], &[3, 3, 2, 3]], |_, x| x[0].convolution(&x[1], conv.clone()));
    let strided = Convolution { strides: vec![2, 2], padding: vec![(1, 1), (0, 1)], ..conv.clone() };
    check(&[&[2, 5, 6, 2], &[3, 3, 2, 2]], |_, x| x[0].convolution(&x[1], strided.clone()));
    let depthwise = Convolution { feature_groups: 3, padding: vec![(1, 1); 2], ..conv.clone() };
    check(&[&[1, 4, 4, 3], &[3, 3, 1, 3]], |_, x| x[0].convolution(&x[1], depthwise.clone()));
    let pointwise = Convolution { feature_groups: 2, ..conv };
    check(&[&[2, 2, 2, 4], &[1, 1, 2, 6]], |_, x| x[0].convolution(&x[1], pointwise.clone()));
}

/// A convolution of small, odd and uneven figures, with the dimensions of its operands.
#[derive(Debug, Clone)]
struct Case {
    conv: Convolution,
    input: Vec<usize>,
    kernel: Vec<usize>,
}

/// Axes in any of the orders that occur, and some that do not.
fn image_axes(order: usize) -> ImageAxes {
    match order {
        0 => ImageAxes { batch: 0, feature: 3, spatial: vec![1, 2] },
        1 => ImageAxes { batch: 0, feature: 1, spatial: vec![2, 3] },
        2 => ImageAxes { batch: 3, feature: 0, spatial: vec![1, 2] },
        _ => ImageAxes { batch: 1, feature: 2, spatial: vec![3, 0] },
    }
}

fn kernel_axes(order: usize) -> KernelAxes {
    match order {
        0 => KernelAxes { input: 2, output: 3, spatial: vec![0, 1] },
        1 => KernelAxes { input: 1, output: 0, spatial: vec![2, 3] },
        2 => KernelAxes { input: 3, output: 2, spatial: vec![0, 1] },
        _ => KernelAxes { input: 0, output: 2, spatial: vec![3, 1] },
    }
}

fn placed(first: (usize, usize), second: (usize, usize), spatial: &[usize], lengths: [usize; 2]) -> Vec<usize> {
    let mut dims = vec![0; 4];
    dims[first.0] = first.1;
    dims[second.0] = second.1;
    (dims[spatial[0]], dims[spatial[1]]) = (lengths[0], lengths[1]);
    dims
}

prop_compose! {
    fn any_case()(
        axes in prop::array::uniform3(0usize..4),
        strides in prop::array::uniform2(1usize..4),
        padding in prop::array::uniform2((-2i64..4, -2i64..4)),
        input_dilation in prop::array::uniform2(1usize..3),
        kernel_dilation in prop::array::uniform2(1usize..3),
        reversed: bool,
        groups in 1usize..4,
        grouped_batch: bool,
        batch in 1usize..3,
        features in (1usize..3, 1usize..3),
        lengths in prop::array::uniform2(1usize..6),
        sizes in prop::array::uniform2(1usize..4),
    ) -> Case {
        let (feature_groups, batch_groups) = if grouped_batch { (1, groups) } else { (groups, 1) };
        let (input, kernel, output) = (image_axes(axes[0]), kernel_axes(axes[1]), image_axes(axes[2]));
        let input_dims = placed(
            (input.batch, batch * batch_groups), (input.feature, features.0 * feature_groups), &input.spatial, lengths,
        );
        let kernel_dims = placed((kernel.input, features.0), (kernel.output, features.1 * groups), &kernel.spatial, sizes);
        let conv = Convolution {
            input, kernel, output,
            strides: strides.to_vec(),
            padding: padding.to_vec(),
            input_dilation: input_dilation.to_vec(),
            kernel_dilation: kernel_dilation.to_vec(),
            reversed, feature_groups, batch_groups,
            dtype: DType::F64,
        };
        Case { conv, input: input_dims, kernel: kernel_dims }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(250))]

    #[test]
    fn any_convolution(case in any_case()) {
        let mut numbers = Numbers::new(5);
        let points = [numbers.tensor(&case.input), numbers.tensor(&case.kernel)];
        prop_assert_eq!(compare(&points, |_, x| x[0].convolution(&x[1], case.conv.clone())), Ok(()));
    }

    /// The gradient of a gradient: the rules apply to the convolutions that they emit.
    #[test]
    fn any_convolution_twice(case in any_case()) {
        let mut numbers = Numbers::new(6);
        let points = [numbers.tensor(&case.input), numbers.tensor(&case.kernel)];
        let squared_gradients = |trace: &octant_graph::Trace, x: &[octant_graph::Tensor]| {
            let y = x[0].convolution(&x[1], case.conv.clone());
            let gradients = trace.gradients(&(&y * &y).sum_all(), x);
            (&gradients[0] * &gradients[0]).sum_all() + (&gradients[1] * &gradients[1]).sum_all()
        };
        prop_assume!(case.input.iter().chain(&case.kernel).product::<usize>() < 2000);
        prop_assert!(compare_roughly(&points, squared_gradients).is_ok());
    }
}

/// Fourth-degree polynomials grow; the differences are as exact as their size allows.
fn compare_roughly(
    points: &[octant_graph::HostTensor],
    model: impl Fn(&octant_graph::Trace, &[octant_graph::Tensor]) -> octant_graph::Tensor,
) -> Result<(), String> {
    compare(points, |trace, x| model(trace, x) * 1e-3)
}
