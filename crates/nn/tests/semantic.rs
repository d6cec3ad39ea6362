//! Losses over the classes of pixels against the figures of `golden/semantic.py`.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use octant_graph::evaluate::evaluate;
use octant_graph::{DType, HostTensor, Shape, Tensor, Trace};
use octant_nn::loss;

const FIGURES: &str = include_str!("../golden/semantic.txt");
const DIMS: [usize; 4] = [2, 5, 6, 4];

/// The script's logits, channels last.
fn logits() -> HostTensor {
    let [n, h, w, c] = DIMS;
    let value = |index: usize| {
        let (channel, pixel) = (index % c, index / c);
        let (image, pixel) = (pixel / (h * w), pixel % (h * w));
        let i = ((image * c + channel) * h * w + pixel) as f64;
        3.0 * f64::from((1.7 * i * i + 0.5).sin() as f32)
    };
    HostTensor::from_f64s(Shape::new(DType::F32, DIMS), &(0..n * h * w * c).map(value).collect::<Vec<_>>()).unwrap()
}

fn labels() -> HostTensor {
    let label = |i: usize| if i % 11 == 4 { 255 } else { (i * i % 7 % 3) as u8 };
    HostTensor::new([2, 5, 6, 1], &(0..60).map(label).collect::<Vec<u8>>()).unwrap()
}

/// A loss and its gradient, channels first.
fn computed(labels: &HostTensor, function: impl Fn(&Tensor, &Tensor) -> Tensor) -> Vec<f64> {
    let trace = Trace::new();
    let input = trace.input("logits", Shape::new(DType::F32, DIMS));
    let value = function(&input, &trace.constant(labels.clone()));
    let gradient = trace.gradients(&value, &[input]).remove(0).transpose(&[0, 3, 1, 2]);
    let graph = trace.finish(&[value, gradient]).unwrap();
    evaluate(&graph, &[logits()]).unwrap().iter().flat_map(HostTensor::to_f64s).collect()
}

type Loss = fn(&Tensor, &Tensor) -> Tensor;

const LOSSES: [(&str, Loss); 8] = [
    ("cross_entropy", |x, labels| loss::pixel_cross_entropy(x, labels, &[], 0.0)),
    ("weighted", |x, labels| loss::pixel_cross_entropy(x, labels, &[0.5, 2.0, 1.0, 3.0], 0.0)),
    ("smooth", |x, labels| loss::pixel_cross_entropy(x, labels, &[0.5, 2.0, 1.0, 3.0], 0.1)),
    ("dice", loss::pixel_dice),
    ("soft_iou", loss::pixel_soft_iou),
    ("focal", |x, labels| loss::pixel_focal(x, labels, 2.0)),
    ("ohem", loss::pixel_ohem),
    ("lovasz", loss::pixel_lovasz),
];

#[test]
fn losses_over_classes_of_pixels_equal_their_references() {
    for (name, function) in LOSSES {
        let line = FIGURES.lines().find_map(|line| line.strip_prefix(&format!("{name} "))).unwrap();
        let expected: Vec<f64> = line.split(' ').map(|number| number.parse().unwrap()).collect();
        let actual = computed(&labels(), function);
        assert_eq!(actual.len(), expected.len(), "{name}");
        let scale = expected[1..].iter().fold(0.0f64, |largest, value| largest.max(value.abs()));
        assert!((actual[0] - expected[0]).abs() <= 1e-5 * expected[0], "{name}: {} not {}", actual[0], expected[0]);
        for (index, (a, e)) in actual.iter().zip(&expected).enumerate().skip(1) {
            assert!((a - e).abs() <= 1e-4 * scale, "{name}, element {index} of the gradient: {a} is not {e}");
        }
    }
}

#[test]
fn a_batch_without_labels_has_no_loss_and_no_gradient() {
    let nothing = HostTensor::new([2, 5, 6, 1], &[255u8; 60]).unwrap();
    for (name, function) in LOSSES {
        assert!(computed(&nothing, function).iter().all(|value| *value == 0.0), "{name}");
    }
}
