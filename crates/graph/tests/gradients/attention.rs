use crate::{Numbers, check, inputs_of, run};
use octant_graph::{AttentionOptions, DType, HostTensor, Shape, Tensor, Trace, passes};

/// Both results, so that the cotangent of the log-sum-exp counts as well.
fn both([result, sums]: [Tensor; 2]) -> Tensor {
    let dims = [result.dim(0), result.dim(1), result.dim(2), 1];
    result + sums.transpose(&[0, 2, 1]).reshape(&dims)
}

#[test]
fn attention_follows_differences() {
    check(&[&[2, 3, 2, 4], &[2, 5, 2, 4], &[2, 5, 2, 4]], |_, x| {
        both(x[0].attention(&x[1], &x[2], &AttentionOptions::default()))
    });
}

#[test]
fn values_may_have_more_or_fewer_features_than_keys() {
    for features in [1, 3, 6] {
        check(&[&[2, 3, 2, 4], &[2, 5, 2, 4], &[2, 5, 2, features]], |_, x| {
            both(x[0].attention(&x[1], &x[2], &AttentionOptions::default()))
        });
    }
}

#[test]
fn attention_of_one_joint_operand_follows_differences() {
    check(&[&[2, 3, 3, 2, 2]], |_, x| both(x[0].self_attention(&AttentionOptions::default())));
}

#[test]
fn causal_attention_follows_differences() {
    let options = AttentionOptions { causal: true, scale: Some(0.7), ..AttentionOptions::default() };
    check(&[&[1, 4, 3, 2, 3]], |_, x| both(x[0].self_attention(&options)));
}

/// Four windows of two images, three heads: one bias for all, one per window, one per element of the batch.
#[test]
fn trainable_biases_follow_differences() {
    for dims in [[1, 3, 2, 2], [2, 3, 2, 2], [4, 1, 2, 2], [4, 3, 1, 2]] {
        check(&[&[4, 2, 3, 3, 2], &dims], |_, x| {
            let options = AttentionOptions { bias: Some(&x[1]), trainable_bias: true, ..AttentionOptions::default() };
            both(x[0].self_attention(&options))
        });
    }
}

#[test]
fn hidden_keys_get_no_gradient() {
    let mask = HostTensor::new([1, 1, 1, 3], &[0.0f64, -1e30, 0.0]).unwrap();
    let points = [Numbers::new(3).tensor(&[2, 3, 3, 1, 4])];
    let trace = Trace::new();
    let x = inputs_of(&trace, &points);
    let mask = trace.constant(mask);
    let [result, _] = x[0].self_attention(&AttentionOptions { bias: Some(&mask), ..AttentionOptions::default() });
    let gradient = trace.gradients(&result.square().sum_all(), &x).remove(0);
    let of_hidden = gradient.slice_axis(1, 1, 2).slice_axis(2, 1, 3);
    let results = run(&trace.finish(&[of_hidden, gradient]).unwrap(), &points).unwrap();
    assert!(results[0].to_f64s().iter().all(|&value| value == 0.0));
    assert!(results[1].to_f64s().iter().any(|&value| value != 0.0));
}

/// The plain form, written here once more.
fn plain(joint: &Tensor) -> Tensor {
    let part = |index| {
        let part = joint.slice_axis(2, index, index + 1);
        part.reshape(&[joint.dim(0), joint.dim(1), joint.dim(3), joint.dim(4)]).transpose(&[0, 2, 1, 3])
    };
    let [queries, keys, values] = [part(0), part(1), part(2)];
    let scores = queries.matmul(&keys.transpose(&[0, 1, 3, 2])) / (joint.dim(4) as f64).sqrt();
    scores.softmax(3).matmul(&values).transpose(&[0, 2, 1, 3])
}

#[test]
fn attention_equals_the_plain_form() {
    let points = [Numbers::new(4).tensor(&[2, 7, 3, 2, 4])];
    let both = |hinted: bool| {
        let trace = Trace::new();
        let x = inputs_of(&trace, &points);
        let y = if hinted { x[0].self_attention(&AttentionOptions::default())[0].clone() } else { plain(&x[0]) };
        let gradient = trace.gradients(&y.square().sum_all(), &x).remove(0);
        let graph = trace.finish(&[y, gradient]).unwrap();
        run(&passes::optimize(passes::apply(passes::inline_calls, &graph)), &points).unwrap()
    };
    for (hinted, plain) in both(true).iter().zip(both(false)) {
        let close = |(a, b): (&f64, &f64)| (a - b).abs() < 1e-12;
        assert!(hinted.to_f64s().iter().zip(&plain.to_f64s()).all(close), "{hinted:?} and {plain:?}");
    }
}

#[test]
fn operands_that_do_not_fit_are_a_mistake_with_their_shapes() {
    let trace = Trace::new();
    let x = trace.input("x", Shape::new(DType::F32, [2, 5, 3, 2, 4]));
    let bias = trace.input("bias", Shape::new(DType::F32, [3, 2, 5, 5]));
    let [result, _] = x.self_attention(&AttentionOptions { bias: Some(&bias), ..AttentionOptions::default() });
    let message = trace.finish(&[result]).unwrap_err().to_string();
    assert!(message.contains("f32[3,2,5,5]"), "{message}");
}
