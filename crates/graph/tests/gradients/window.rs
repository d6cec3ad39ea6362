use crate::{Numbers, check, compare, run, values};
use octant_graph::{DType, HostTensor, Reduction, Shape, Trace, Window};
use proptest::prelude::*;

fn window(
    size: [usize; 2],
    strides: [usize; 2],
    padding: [(i64, i64); 2],
    base: [usize; 2],
    window: [usize; 2],
) -> Window {
    Window {
        size: size.to_vec(),
        strides: strides.to_vec(),
        padding: padding.to_vec(),
        base_dilation: base.to_vec(),
        window_dilation: window.to_vec(),
    }
}

#[test]
fn pooling() {
    for kind in [Reduction::Sum, Reduction::Max, Reduction::Min] {
        check(&[&[2, 4, 6, 3]], |_, x| x[0].reduce_window(kind, Window::new([1, 2, 2, 1])));
        check(&[&[5, 7]], |_, x| x[0].reduce_window(kind, Window::new([2, 3])));
        let overlapping = window([3, 3], [2, 2], [(1, 1), (0, 1)], [1, 1], [1, 1]);
        check(&[&[7, 6]], |_, x| x[0].reduce_window(kind, overlapping.clone()));
    }
}

/// With and without holes in the window.
#[test]
fn of_equal_elements_the_first_gets_the_gradient() {
    for (dilation, expected) in [(1, [1.0, 1.0, 1.0, 0.0]), (2, [1.0, 1.0, 0.0, 0.0])] {
        let trace = Trace::new();
        let x = trace.input("x", Shape::new(DType::F64, [4]));
        let window = Window { strides: vec![1], window_dilation: vec![dilation], ..Window::new([2]) };
        let loss = x.reduce_window(Reduction::Max, window).sum_all();
        let gradients = trace.gradients(&loss, &[x]);
        let graph = trace.finish(&gradients).unwrap();
        assert_eq!(run(&graph, &[values(&[4], &[5.0; 4])]).unwrap()[0].to_f64s(), expected);
    }
}

#[test]
fn the_gradient_of_max_pooling_has_a_gradient() {
    let overlapping = window([2, 3], [1, 2], [(1, 0), (1, 1)], [1, 1], [1, 1]);
    check(&[&[4, 5]], |trace, x| {
        let pooled = x[0].reduce_window(Reduction::Max, overlapping.clone());
        let loss = (&pooled * &pooled).sum_all();
        trace.gradients(&loss, &x[..1]).remove(0)
    });
    check(&[&[4, 5], &[4, 3]], |_, x| x[0].select_and_scatter(&x[1], overlapping.clone()));
}

prop_compose! {
    fn any_window()(
        size in prop::array::uniform2(1usize..4),
        strides in prop::array::uniform2(1usize..4),
        padding in prop::array::uniform2((-2i64..4, -2i64..4)),
        base in prop::array::uniform2(1usize..4),
        inner in prop::array::uniform2(1usize..3),
    ) -> Window {
        window(size, strides, padding, base, inner)
    }
}

/// Whether every window holds at least one element: the maximum of an empty window has no gradient to compare.
fn windows_are_filled(window: &Window, dims: [usize; 2]) -> bool {
    (0..2).all(|axis| {
        let length = (dims[axis] as i64 - 1) * window.base_dilation[axis] as i64 + 1;
        let (low, high) = window.padding[axis];
        let reach = ((window.size[axis] - 1) * window.window_dilation[axis]) as i64;
        let last = length + low + high - reach;
        (0..last.max(0)).step_by(window.strides[axis]).all(|start| {
            (0..window.size[axis]).any(|tap| {
                let position = start + (tap * window.window_dilation[axis]) as i64 - low;
                position >= 0 && position < length && position % window.base_dilation[axis] as i64 == 0
            })
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn any_sum_over_windows(window in any_window(), dims in prop::array::uniform2(1usize..6)) {
        let point: HostTensor = Numbers::new(7).tensor(&dims);
        prop_assert_eq!(compare(&[point], |_, x| x[0].reduce_window(Reduction::Sum, window.clone())), Ok(()));
    }

    #[test]
    fn any_extreme_of_windows(window in any_window(), dims in prop::array::uniform2(1usize..6), largest: bool) {
        prop_assume!(windows_are_filled(&window, dims));
        let kind = if largest { Reduction::Max } else { Reduction::Min };
        let point: HostTensor = Numbers::new(8).tensor(&dims);
        prop_assert_eq!(compare(&[point], |_, x| x[0].reduce_window(kind, window.clone())), Ok(()));
    }
}
