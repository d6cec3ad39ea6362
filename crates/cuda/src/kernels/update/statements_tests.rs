#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use super::Statements;
use octant_graph::evaluate::evaluate;
use octant_graph::{DType, Graph, HostTensor, Op, Shape, Tensor, Trace};
use octant_nn::optimizer::{Optimizer, Update};
use std::process::Command;

const ELEMENTS: usize = 64;

/// What an optimizer does to a variable, as the body of a call, under a condition.
fn body(optimizer: &Optimizer, decay: f64) -> Graph {
    let trace = Trace::new();
    let array = |name: &str| trace.input(name, Shape::new(DType::F32, [ELEMENTS]));
    let parameter = array("parameter");
    let slots: Vec<Tensor> = optimizer.slots().iter().map(|slot| array(slot.name)).collect();
    let gradient = array("gradient");
    let [rate, step] = ["rate", "step"].map(|name| trace.input(name, Shape::scalar(DType::F32)));
    let gate = trace.input("gate", Shape::scalar(DType::Bool)).broadcast_to(&[ELEMENTS]);
    let update = Update { parameter: &parameter, gradient: &gradient, slots: &slots, rate: &rate, step: &step, decay };
    let (changed, next) = optimizer.update(update);
    let old = std::iter::once(&parameter).chain(&slots);
    let results: Vec<Tensor> =
        std::iter::once(changed).chain(next).zip(old).map(|(new, old)| gate.select(&new, old)).collect();
    trace.finish(&results).unwrap()
}

/// All operations that no optimizer has.
fn others() -> Graph {
    let trace = Trace::new();
    let [x, y] = ["x", "y"].map(|name| trace.input(name, Shape::new(DType::F32, [ELEMENTS])));
    let gate = trace.input("gate", Shape::scalar(DType::Bool));
    let differs = x.greater(&y).or(&x.less_equal(&y.scalar_like(-0.5)));
    let either = differs.and(&gate.not().broadcast_to(&[ELEMENTS])).convert(DType::F32);
    let extremes =
        x.binary(octant_graph::Binary::Max, &y) + x.binary(octant_graph::Binary::Min, &y).abs() * 3.0 - either;
    let functions = (x.exp() + y.square().log1p()).log() + (-&y).floor() * x.square().rsqrt();
    trace.finish(&[extremes, functions]).unwrap()
}

/// Numbers of both signs, and for the slots of optimizers, which may be sums of squares, of one.
fn inputs(body: &Graph, gate: bool) -> Vec<HostTensor> {
    let names = body.input_names().iter();
    let values = |(shape, name): (Shape, &std::sync::Arc<str>)| {
        let signed = !matches!(&**name, "sum" | "exp_avg_sq" | "square_avg");
        let value = |i: usize| ((i * 37 + name.len() * 11) % 41) as f64 / 20.0 - if signed { 1.01 } else { -0.01 };
        match shape.dtype() {
            DType::Bool => HostTensor::from_f64s(shape, &[f64::from(u8::from(gate))]).unwrap(),
            _ => HostTensor::from_f64s(shape.clone(), &(0..shape.elements()).map(value).collect::<Vec<_>>()).unwrap(),
        }
    };
    body.input_shapes().into_iter().zip(names).map(values).collect()
}

/// The results of statements that the machine's C compiler has compiled.
fn compiled(statements: &Statements, inputs: &[HostTensor]) -> Vec<f64> {
    let list = |tensor: &HostTensor| tensor.to_f64s().iter().map(|x| format!("{x:?}")).collect::<Vec<_>>().join(", ");
    let arrays: Vec<String> = statements.arrays.iter().map(|&array| format!("{{{}}}", list(&inputs[array]))).collect();
    let scalars = statements.scalars.iter().map(|&scalar| match inputs[scalar].shape().dtype() {
        DType::Bool => format!("&(bool){{{}}}", list(&inputs[scalar])),
        _ => format!("&(float){{{}}}", list(&inputs[scalar])),
    });
    let program = format!(
        "#include <math.h>\n#include <stdbool.h>\n#include <stdio.h>\nint main(void) {{\n\
         float arrays[][{ELEMENTS}] = {{{}}};\nconst void *scalars[] = {{{}}};\n\
         for (int i = 0; i < {ELEMENTS}; i++) {{ {} }}\n\
         for (int k = 0; k < {}; k++) for (int i = 0; i < {ELEMENTS}; i++) printf(\"%.9g\\n\", arrays[k][i]);\n}}\n",
        arrays.join(", "),
        scalars.chain(["0".to_string()]).collect::<Vec<_>>().join(", "),
        statements.text,
        statements.results
    );
    let folder = tempfile::tempdir().unwrap();
    let [source, binary] = ["update.c", "update"].map(|name| folder.path().join(name));
    std::fs::write(&source, program).unwrap();
    let built = Command::new("cc").arg(&source).arg("-o").arg(&binary).arg("-lm").output().unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let printed = Command::new(&binary).output().unwrap().stdout;
    String::from_utf8(printed).unwrap().lines().map(|line| line.parse().unwrap()).collect()
}

#[test]
fn statements_do_what_their_body_does() {
    let known = Optimizer::NAMES.iter().filter(|name| **name != "lamb").map(|name| Optimizer::named(name).unwrap());
    let mut bodies: Vec<(String, Graph)> =
        known.map(|optimizer| (optimizer.name().to_string(), body(&optimizer, 0.1))).collect();
    bodies.push(("others".to_string(), others()));
    for ((name, body), gate) in bodies.iter().flat_map(|body| [(body, true), (body, false)]) {
        let statements = Statements::of(body).unwrap_or_else(|| panic!("{name} has no statements"));
        let inputs = inputs(body, gate);
        let expected = evaluate(body, &inputs).unwrap();
        let expected: Vec<f64> = expected.iter().flat_map(|tensor| tensor.to_f64s()).collect();
        let actual = compiled(&statements, &inputs);
        assert_eq!(actual.len(), expected.len(), "{name}");
        for (position, (actual, expected)) in actual.iter().zip(&expected).enumerate() {
            let close = (actual - expected).abs() <= 1e-5 * (1.0 + expected.abs());
            assert!(close || actual.is_nan() && expected.is_nan(), "{name} {position}: {actual} instead of {expected}");
        }
    }
}

#[test]
fn bodies_that_look_beyond_an_element_have_no_statements() {
    let of = |write: fn(&Tensor) -> Tensor| {
        let trace = Trace::new();
        let x = trace.input("x", Shape::new(DType::F32, [4, 4]));
        Statements::of(&trace.finish(&[write(&x)]).unwrap()).is_some()
    };
    assert!(of(|x| x * 2.0));
    assert!(!of(|x| x.transpose(&[1, 0])));
    assert!(!of(|x| x - x.sum_all()));
    assert!(!of(|x| x.sum_all()), "a scalar has no elements");
    assert!(!of(|x| x.trace().emit_one(Op::Convert(DType::BF16), &[x])));
    let lamb = body(&Optimizer::named("lamb").unwrap(), 0.1);
    assert!(Statements::of(&lamb).is_none(), "it takes norms");
}
