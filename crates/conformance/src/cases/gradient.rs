//! Gradients against finite differences: the differences are taken by the reference evaluator in f64, the gradients are
//! computed by the backend in f32.

use crate::{Case, Tolerance, values};
use octant_graph::evaluate::evaluate;
use octant_graph::op::{ImageAxes, KernelAxes};
use octant_graph::{
    Binary, Convolution, DType, DotGeneral, Graph, HostTensor, Op, Reduction, Scatter, ScatterKind, Shape, Tensor,
    Trace, Unary, Window,
};

type Function = Box<dyn Fn(&[Tensor]) -> Tensor>;

pub fn cases() -> Vec<Case> {
    let sets =
        [unary(), binary(), movement(), reductions(), windows(), products(), convolutions(), positions(), control()];
    sets.into_iter().flatten().map(|(name, inputs, function)| gradient_case(&name, &inputs, &*function)).collect()
}

/// A differentiable function: its name, inputs that keep away from its kinks, and itself.
type Differentiable = (String, Vec<HostTensor>, Function);

fn differentiable(
    name: &str,
    inputs: Vec<HostTensor>,
    function: impl Fn(&[Tensor]) -> Tensor + 'static,
) -> Differentiable {
    (name.to_string(), inputs, Box::new(function))
}

fn gradient_case(name: &str, inputs: &[HostTensor], function: &dyn Fn(&[Tensor]) -> Tensor) -> Case {
    let case = Case::new(format!("gradient/{name}"), inputs.to_vec(), Tolerance::chain(500.0, 2.0), |trace, x| {
        trace.gradients(&loss(function, x), x)
    });
    case.with_known(finite_differences(inputs, function))
}

/// A scalar: the elements of the result, weighted differently.
fn loss(function: &dyn Fn(&[Tensor]) -> Tensor, x: &[Tensor]) -> Tensor {
    let result = function(x);
    let weights = values::between(0.5, 1.5, DType::F32, result.dims());
    let weights = result.trace().constant(weights).convert(result.dtype());
    (&result * &weights).sum_all()
}

fn finite_differences(inputs: &[HostTensor], function: &dyn Fn(&[Tensor]) -> Tensor) -> Vec<HostTensor> {
    const STEP: f64 = 1e-5;
    let trace = Trace::new();
    let symbol = |input: &HostTensor| trace.input("x", input.shape().with_dtype(DType::F64));
    let symbols: Vec<Tensor> = inputs.iter().map(symbol).collect();
    let loss = loss(function, &symbols);
    let graph = trace.finish(&[loss]).expect("the function is well typed in f64 too");
    let exact: Vec<Vec<f64>> = inputs.iter().map(HostTensor::to_f64s).collect();
    let moved = |which: usize, position: usize, by: f64| {
        let mut moved = exact.clone();
        moved[which][position] += by;
        evaluate_loss(&graph, inputs, &moved)
    };
    let difference =
        |which: usize, position: usize| (moved(which, position, STEP) - moved(which, position, -STEP)) / (2.0 * STEP);
    let gradient = |which: usize| {
        let differences: Vec<f64> = (0..exact[which].len()).map(|position| difference(which, position)).collect();
        values::tensor(DType::F32, inputs[which].dims(), &differences)
    };
    (0..inputs.len()).map(gradient).collect()
}

fn evaluate_loss(graph: &Graph, inputs: &[HostTensor], elements: &[Vec<f64>]) -> f64 {
    let wide = inputs.iter().zip(elements).map(|(input, elements)| values::tensor(DType::F64, input.dims(), elements));
    let results = evaluate(graph, &wide.collect::<Vec<_>>()).expect("the inputs have the shapes of the graph");
    results[0].to_f64s()[0]
}

fn numbers(dims: &[usize]) -> HostTensor {
    values::ordinary(DType::F32, dims)
}

fn positive(dims: &[usize]) -> HostTensor {
    values::between(0.5, 2.0, DType::F32, dims)
}

/// Numbers that differ by at least 0.1 from one another and from multiples of 0.5, so that no kink is near.
fn spread_out(dims: &[usize]) -> HostTensor {
    let count: usize = dims.iter().product();
    let order = values::between(0.0, 1e6, DType::I32, dims).to_f64s();
    let mut positions: Vec<usize> = (0..count).collect();
    positions.sort_by(|&x, &y| order[x].total_cmp(&order[y]).then(x.cmp(&y)));
    let mut spread = vec![0.0; count];
    positions
        .iter()
        .enumerate()
        .for_each(|(rank, &position)| spread[position] = (rank as f64 - count as f64 / 2.0) * 0.2 + 0.07);
    values::tensor(DType::F32, dims, &spread)
}

fn unary() -> Vec<Differentiable> {
    let from_float_to_float = |unary: &Unary| unary.domain().contains(DType::F32) && *unary != Unary::IsFinite;
    let case = |unary: Unary| {
        let input = if unary.of_float(-2.0).is_nan() { positive(&[7]) } else { spread_out(&[7]) };
        differentiable(unary.name(), vec![input], move |x| x[0].trace().emit_one(Op::Unary(unary), &[&x[0]]))
    };
    Unary::ALL.into_iter().filter(from_float_to_float).map(case).collect()
}

fn binary() -> Vec<Differentiable> {
    let kinds = Binary::ALL.into_iter().filter(|binary| binary.domain().contains(DType::F32));
    let case = |binary: Binary| {
        let inputs = if binary == Binary::Rem {
            vec![
                values::tensor(DType::F32, &[3], &[1.3, -2.2, 0.6]),
                values::tensor(DType::F32, &[3], &[0.9, 1.5, 2.0]),
            ]
        } else {
            vec![positive(&[6]), values::between(0.3, 2.5, DType::F32, &[6]).reshape([6]).expect("six elements")]
        };
        differentiable(binary.name(), inputs, move |x| x[0].binary(binary, &(&x[1] * 1.01)))
    };
    let mut all: Vec<Differentiable> = kinds.map(case).collect();
    all.push(differentiable("broadcast-both-ways", vec![numbers(&[3, 1]), numbers(&[4])], |x| &x[0] * &x[1] + &x[1]));
    all.push(differentiable("select", vec![spread_out(&[5]), numbers(&[5])], |x| {
        x[0].greater(&x[0].scalar_like(0.0)).select(&x[0].exp(), &(&x[1] * &x[0]))
    }));
    all.push(differentiable("clamp", vec![spread_out(&[9])], |x| {
        x[0].clamp(&x[0].scalar_like(-0.5), &x[0].scalar_like(0.5))
    }));
    all.push(differentiable("convert", vec![numbers(&[4])], |x| {
        let wide = x[0].convert(DType::F64);
        (&wide * &wide).convert(x[0].dtype())
    }));
    all
}

fn movement() -> Vec<Differentiable> {
    let position = |x: &Tensor, at: f64| x.trace().scalar(DType::I32, at);
    vec![
        differentiable("broadcast", vec![numbers(&[3])], |x| x[0].broadcast_in_dim(&[2, 3, 4], &[1]).sin()),
        differentiable("reshape-transpose", vec![numbers(&[2, 3, 4])], |x| {
            x[0].transpose(&[2, 0, 1]).reshape(&[8, 3]).sin()
        }),
        differentiable("reverse", vec![numbers(&[2, 3])], |x| &x[0].reverse(&[1]) * &x[0]),
        differentiable("slice", vec![numbers(&[5, 6])], |x| x[0].slice(&[1, 0], &[5, 6], &[2, 5]).sin()),
        differentiable("pad", vec![numbers(&[4]), numbers(&[])], |x| x[0].pad(&x[1], &[-1], &[3], &[1]).sin()),
        differentiable("concatenate", vec![numbers(&[2, 2]), numbers(&[2, 3])], |x| {
            Tensor::concatenate(&[x[0].clone(), x[1].clone(), x[0].sin()], 1).exp()
        }),
        differentiable("dynamic-slice", vec![numbers(&[5, 4])], move |x| {
            x[0].dynamic_slice(&[position(&x[0], 9.0), position(&x[0], 1.0)], &[2, 2]).sin()
        }),
        differentiable("dynamic-update-slice", vec![numbers(&[5]), numbers(&[2])], move |x| {
            x[0].dynamic_update_slice(&x[1], &[position(&x[0], 2.0)]).sin()
        }),
    ]
}

fn reduce(x: &Tensor, kind: Reduction, axes: &[usize]) -> Tensor {
    x.trace().emit_one(Op::Reduce { kind, axes: axes.to_vec() }, &[x])
}

fn reductions() -> Vec<Differentiable> {
    vec![
        differentiable("reduce-sum", vec![numbers(&[3, 4])], |x| x[0].sum(&[0]).sin()),
        differentiable("reduce-product", vec![positive(&[3, 4])], |x| reduce(&x[0], Reduction::Product, &[1])),
        differentiable("reduce-max", vec![spread_out(&[3, 4])], |x| reduce(&x[0], Reduction::Max, &[1]).sin()),
        differentiable("reduce-min", vec![spread_out(&[3, 4])], |x| reduce(&x[0], Reduction::Min, &[0]).sin()),
        differentiable("arg-max", vec![spread_out(&[3, 4])], |x| x[0].arg_max(1).0.sin()),
        differentiable("sort", vec![spread_out(&[6]), numbers(&[6])], |x| {
            let sorted = Tensor::sort(&[x[0].clone(), x[1].clone()], 0, true);
            &sorted[0] * &sorted[1]
        }),
        differentiable("softmax", vec![numbers(&[3, 5])], |x| x[0].softmax(1)),
        differentiable("standardised", vec![numbers(&[3, 5])], |x| {
            let centered = &x[0] - &x[0].mean(&[1]).reshape(&[3, 1]);
            let variance = (&centered * &centered).mean(&[1]).reshape(&[3, 1]);
            &centered * &(variance + 1e-3).rsqrt()
        }),
    ]
}

fn windows() -> Vec<Differentiable> {
    let window = || Window { strides: vec![1, 2], padding: vec![(0, 1), (1, 1)], ..Window::new([2, 3]) };
    let dilated = move || Window { base_dilation: vec![2, 1], window_dilation: vec![1, 2], ..window() };
    vec![
        differentiable("window-sum", vec![numbers(&[4, 5])], move |x| {
            x[0].reduce_window(Reduction::Sum, window()).sin()
        }),
        differentiable("window-sum-dilated", vec![numbers(&[4, 5])], move |x| {
            x[0].reduce_window(Reduction::Sum, dilated()).sin()
        }),
        differentiable("window-max", vec![spread_out(&[4, 5])], move |x| {
            x[0].reduce_window(Reduction::Max, window()).sin()
        }),
        differentiable("window-min", vec![spread_out(&[4, 5])], move |x| {
            x[0].reduce_window(Reduction::Min, window()).sin()
        }),
    ]
}

fn products() -> Vec<Differentiable> {
    vec![
        differentiable("matmul", vec![numbers(&[3, 4]), numbers(&[4, 2])], |x| x[0].matmul(&x[1]).sin()),
        differentiable("dot-general", vec![numbers(&[3, 2, 4]), numbers(&[4, 5, 2])], |x| {
            let dot = DotGeneral {
                left_batch: vec![1],
                right_batch: vec![2],
                left_contract: vec![2],
                right_contract: vec![0],
                dtype: x[0].dtype(),
            };
            x[0].dot_general(&x[1], dot).sin()
        }),
    ]
}

fn convolutions() -> Vec<Differentiable> {
    let plain = || Convolution { padding: vec![(1, 1); 2], ..Convolution::nhwc(2, DType::F32) };
    let forms: Vec<(&str, Vec<usize>, Vec<usize>, Convolution)> = vec![
        ("same", vec![2, 4, 3, 2], vec![3, 3, 2, 3], plain()),
        ("stride", vec![1, 6, 5, 2], vec![3, 3, 2, 2], Convolution { strides: vec![2, 3], ..plain() }),
        (
            "stride-leaving-a-rest",
            vec![1, 6, 6, 1],
            vec![2, 2, 1, 2],
            Convolution { strides: vec![3, 4], padding: vec![(0, 0); 2], ..plain() },
        ),
        (
            "dilations",
            vec![1, 5, 4, 2],
            vec![2, 3, 2, 2],
            Convolution { kernel_dilation: vec![2, 1], input_dilation: vec![1, 2], ..plain() },
        ),
        (
            "negative-padding",
            vec![1, 6, 5, 1],
            vec![2, 2, 1, 2],
            Convolution { padding: vec![(-1, 2), (3, -2)], ..plain() },
        ),
        (
            "groups",
            vec![1, 4, 4, 4],
            vec![3, 3, 2, 6],
            Convolution { feature_groups: 2, strides: vec![2, 1], ..plain() },
        ),
        ("depthwise", vec![2, 4, 3, 3], vec![3, 3, 1, 3], Convolution { feature_groups: 3, ..plain() }),
        (
            "depthwise-doubled",
            vec![1, 4, 3, 2],
            vec![3, 3, 1, 4],
            Convolution { feature_groups: 2, strides: vec![2, 1], ..plain() },
        ),
        ("batch-groups", vec![4, 3, 3, 2], vec![2, 2, 2, 4], Convolution { batch_groups: 2, ..plain() }),
        (
            "reversed",
            vec![1, 4, 4, 2],
            vec![3, 2, 2, 2],
            Convolution { reversed: true, strides: vec![1, 2], ..plain() },
        ),
        (
            "other-axes",
            vec![2, 2, 4, 5],
            vec![3, 2, 2, 3],
            Convolution {
                input: ImageAxes { batch: 0, feature: 1, spatial: vec![2, 3] },
                kernel: KernelAxes { output: 0, input: 1, spatial: vec![2, 3] },
                output: ImageAxes { batch: 1, feature: 0, spatial: vec![3, 2] },
                ..plain()
            },
        ),
    ];
    let case = |(name, input, kernel, conv): (&str, Vec<usize>, Vec<usize>, Convolution)| {
        differentiable(&format!("convolution-{name}"), vec![numbers(&input), numbers(&kernel)], move |x| {
            x[0].convolution(&x[1], Convolution { dtype: x[0].dtype(), ..conv.clone() })
        })
    };
    forms.into_iter().map(case).collect()
}

fn indices(x: &Tensor, values: &[i32]) -> Tensor {
    x.trace().constant(HostTensor::new([values.len()], values).expect("one value per element"))
}

fn positions() -> Vec<Differentiable> {
    let scatter = |kind| Scatter {
        update_window_axes: vec![1],
        inserted_window_axes: vec![0],
        scatter_axes: vec![0],
        index_vector_axis: 1,
        kind,
    };
    vec![
        differentiable("gather", vec![numbers(&[4, 3])], |x| x[0].take(&indices(&x[0], &[2, 0, 2, 9])).sin()),
        differentiable("scatter-add", vec![numbers(&[4, 3]), numbers(&[3, 3])], move |x| {
            x[0].scatter(&indices(&x[0], &[1, 3, 1]), &x[1], scatter(ScatterKind::Add)).sin()
        }),
        differentiable("scatter-set", vec![numbers(&[4, 3]), numbers(&[2, 3])], move |x| {
            x[0].scatter(&indices(&x[0], &[1, 3]), &x[1], scatter(ScatterKind::Set)).sin()
        }),
    ]
}

fn control() -> Vec<Differentiable> {
    let layer = |x: &Tensor, w: &Tensor| x.matmul(w).tanh();
    vec![
        differentiable("call", vec![numbers(&[2, 3]), numbers(&[3, 3])], move |x| {
            let once = x[0].trace().call(&[x[0].clone(), x[1].clone()], false, |x| vec![layer(&x[0], &x[1])]);
            layer(&once[0], &x[1])
        }),
        differentiable("call-recomputed", vec![numbers(&[2, 3]), numbers(&[3, 3])], move |x| {
            x[0].trace().call(&x[..1], true, |inner| vec![layer(&layer(&inner[0], &x[1]), &x[1])]).remove(0)
        }),
        differentiable("if", vec![spread_out(&[3]), numbers(&[3])], |x| {
            let positive = x[0].sum_all().greater(&x[0].scalar_like(0.0));
            x[0].trace().cond(&positive, || vec![&x[0] * &x[1]], || vec![x[1].exp()]).remove(0)
        }),
        differentiable("while", vec![numbers(&[2, 3]), numbers(&[3, 3])], move |x| {
            let trace = x[0].trace().clone();
            let carried = [trace.scalar(DType::I32, 0.0), x[0].clone()];
            let three = trace.scalar(DType::I32, 3.0);
            trace
                .while_loop(&carried, Some(5), |c| c[0].less(&three), |c| vec![&c[0] + 1.0, layer(&c[1], &x[1])])
                .remove(1)
        }),
        differentiable("barrier", vec![numbers(&[3])], |x| {
            x[0].trace().barrier(&[x[0].sin(), x[0].exp()]).iter().fold(x[0].clone(), |a, b| &a * b)
        }),
        differentiable("unused-input", vec![numbers(&[3]), numbers(&[2])], |x| x[0].sin()),
        differentiable("iota", vec![numbers(&[4])], |x| &x[0] * &x[0].trace().iota(Shape::new(x[0].dtype(), [4]), 0)),
    ]
}
