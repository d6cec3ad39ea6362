//! Convolution layers in the sizes that have kernels of their own, against a reference backend.
//!
//! The cases of the suite are small, so a backend's kernels for large images never see them. Every layer here comes with the
//! gradients of both operands, and with what may be fused into it: a 1×1 convolution beside it, a norm + ReLU before it, sums
//! of its output. The reference evaluator would take minutes; the CPU engine passes the suite and is the reference instead.

use crate::suite::run_program;
use octant_graph::{Convolution, DType, GraphError, HostTensor, Shape, Tensor, Trace};
use octant_runtime::{Backend, Program, RuntimeError};

/// A convolution layer with what is around it.
#[derive(Debug, Clone, Copy)]
pub struct Layer {
    dtype: DType,
    images: [usize; 3],
    inputs: usize,
    outputs: usize,
    side: usize,
    stride: usize,
    groups: usize,
    around: Around,
}

/// What may be fused into a layer.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Around {
    Nothing,
    /// A 1×1 layer of as many channels that reads the same images, and sums of both outputs.
    Pointwise,
    /// A norm + ReLU before it, with the gradients of its scale and shift.
    NormRelu,
    /// Sums and sums of squares of its output, over images and over all of them.
    Moments,
}

/// A layer in f32 without strides.
const fn plain(images: [usize; 3], inputs: usize, outputs: usize, side: usize) -> Layer {
    Layer { dtype: DType::F32, images, inputs, outputs, side, stride: 1, groups: 1, around: Around::Nothing }
}

const fn with(around: Around, images: [usize; 3], inputs: usize, outputs: usize) -> Layer {
    Layer { around, ..plain(images, inputs, outputs, 3) }
}

const fn depthwise(dtype: DType, channels: usize, side: usize, stride: usize) -> Layer {
    Layer { dtype, stride, groups: channels, ..plain([3, 15, 14], channels, channels, side) }
}

/// All layers. Sizes that are no multiples of what warps take at once are among them.
pub const LAYERS: [Layer; 32] = [
    plain([2, 256, 256], 16, 16, 3),
    plain([3, 211, 250], 48, 16, 3),
    plain([3, 211, 250], 16, 48, 3),
    plain([8, 128, 131], 16, 32, 3),
    plain([3, 211, 250], 32, 16, 3),
    plain([8, 128, 131], 32, 32, 3),
    plain([8, 128, 131], 96, 32, 3),
    plain([33, 63, 65], 64, 64, 3),
    plain([33, 63, 65], 192, 64, 3),
    plain([33, 63, 65], 32, 64, 3),
    plain([33, 31, 33], 128, 128, 3),
    plain([33, 15, 17], 256, 256, 3),
    with(Around::Pointwise, [8, 128, 131], 16, 32),
    with(Around::Pointwise, [3, 211, 250], 48, 16),
    with(Around::Pointwise, [8, 128, 131], 96, 32),
    with(Around::Pointwise, [33, 63, 65], 32, 64),
    with(Around::Pointwise, [33, 63, 65], 192, 64),
    with(Around::NormRelu, [3, 211, 250], 16, 16),
    with(Around::NormRelu, [8, 128, 131], 32, 32),
    with(Around::NormRelu, [8, 128, 131], 96, 32),
    with(Around::NormRelu, [33, 63, 65], 64, 64),
    with(Around::Moments, [3, 211, 250], 16, 16),
    with(Around::Moments, [3, 211, 250], 16, 48),
    with(Around::Moments, [8, 128, 131], 32, 32),
    plain([2, 65, 70], 2, 1, 7),
    plain([2, 33, 31], 4, 1, 3),
    plain([1, 20, 20], 2, 2, 5),
    depthwise(DType::BF16, 64, 3, 1),
    depthwise(DType::BF16, 40, 5, 2),
    depthwise(DType::F32, 64, 3, 2),
    depthwise(DType::F32, 132, 3, 1),
    depthwise(DType::F32, 12, 7, 1),
];

/// How far a layer's results are from the reference's.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LayerDifference {
    /// The largest difference relative to the largest value.
    pub found: f64,
    /// What the element type and products of 11 bits explain.
    pub allowed: f64,
}

impl LayerDifference {
    /// Whether the results are right.
    pub fn is_right(&self) -> bool {
        self.found <= self.allowed
    }
}

/// Differences that numbers rounded to 11 bits (f32 with fast products) and to 8 bits (bf16) explain.
const OF_11_BITS: f64 = 2e-3;
const OF_8_BITS: f64 = 1.6e-2;

impl Layer {
    /// What the layer is, such as `16→32 3×3 and 1×1, 8×128×131 f32`.
    pub fn describe(&self) -> String {
        let ([n, h, w], Layer { inputs, outputs, side, stride, groups, dtype, .. }) = (self.images, self);
        let around = match self.around {
            Around::Nothing => "",
            Around::Pointwise => " and 1×1",
            Around::NormRelu => " after a norm + ReLU",
            Around::Moments => " with sums",
        };
        let strided = if *stride > 1 { format!(", stride {stride}") } else { String::new() };
        let grouped = if *groups > 1 { ", depthwise" } else { "" };
        format!("{inputs}→{outputs} {side}×{side}{around}{grouped}{strided}, {n}×{h}×{w} {}", dtype.name())
    }

    /// Runs the layer on both backends.
    pub fn check(&self, device: &dyn Backend, reference: &dyn Backend) -> Result<LayerDifference, RuntimeError> {
        let (program, inputs) = self.program()?;
        let (given, expected) = (run_program(device, &program, &inputs)?, run_program(reference, &program, &inputs)?);
        let found =
            given.iter().zip(&expected).map(|(given, expected)| difference(given, expected)).fold(0.0, f64::max);
        let allowed = if self.dtype == DType::BF16 { OF_8_BITS } else { OF_11_BITS };
        Ok(LayerDifference { found, allowed })
    }

    /// The layer and the gradients of a weighted sum of its outputs, with random operands: the images, the kernel, the
    /// weights, and another kernel and weights for the layer beside it, or a center, a scale and a shift for the norm.
    pub fn program(&self) -> Result<(Program, Vec<HostTensor>), RuntimeError> {
        let ([n, h, w], &Layer { inputs, outputs, side, stride, groups, dtype, around, .. }) = (self.images, self);
        let made = |length: usize| (length + 2 * (side / 2) - side) / stride + 1;
        let results = Shape::new(dtype, [n, made(h), made(w), outputs]);
        let kernel = Shape::new(dtype, [side, side, inputs / groups, outputs]);
        let mut shapes = vec![Shape::new(dtype, [n, h, w, inputs]), kernel, results.clone()];
        match around {
            Around::Nothing | Around::Moments => {}
            Around::Pointwise => shapes.extend([Shape::new(dtype, [1, 1, inputs, outputs]), results]),
            Around::NormRelu => shapes.extend(vec![Shape::new(dtype, [inputs]); 3]),
        }
        let operands = shapes.iter().enumerate().map(|(seed, shape)| random(shape, seed as u32 + 1));
        let mut operands = operands.collect::<Result<Vec<_>, _>>()?;
        if around == Around::NormRelu {
            // In sixteenths, and shifts in 512ths between them: whatever the order, nothing is rounded and no norm is zero.
            for (operand, between) in [(0, 0.0), (3, 0.0), (4, 0.0), (5, 1.0 / 512.0)] {
                operands[operand] = changed(&operands[operand], |_, value| (value * 16.0).round() / 16.0 + between)?;
            }
        }
        let graph = self.graph(&shapes).map_err(|error| RuntimeError::Device(error.to_string()))?;
        Ok((Program::new("layer", graph), operands))
    }

    fn graph(&self, shapes: &[Shape]) -> Result<octant_graph::Graph, GraphError> {
        let trace = Trace::new();
        let operands: Vec<Tensor> = shapes.iter().map(|shape| trace.input("operand", shape.clone())).collect();
        let [images, kernel, weights, others @ ..] = &operands[..] else {
            unreachable!("`program` makes three or more")
        };
        let mut layers = vec![(kernel, weights)];
        let mut x = images.clone();
        let mut learned = vec![images.clone(), kernel.clone()];
        match others {
            [] => {}
            [pointwise, weights] => {
                layers.push((pointwise, weights));
                learned.push(pointwise.clone());
            }
            [center, scale, shift] => {
                x = ((images - center) * scale + shift).relu();
                learned.extend([scale.clone(), shift.clone()]);
            }
            _ => unreachable!("`program` makes no other number of operands"),
        }
        let (mut outputs, mut loss) = (Vec::new(), trace.scalar(DType::F32, 0.0));
        for (kernel, weights) in layers {
            let y = x.convolution(kernel, self.convolution(kernel));
            loss = loss + (y.convert(DType::F32) * weights.convert(DType::F32)).sum(&[0, 1, 2, 3]);
            if matches!(self.around, Around::Moments | Around::Pointwise) {
                // Each sum has its own square, as networks are written: passes must find them.
                let distance = &y - 0.5;
                outputs.extend([
                    distance.sum(&[1, 2]),
                    distance.square().sum(&[1, 2]),
                    distance.square().sum(&[0, 1, 2]),
                ]);
            }
            outputs.push(y);
        }
        outputs.extend(trace.gradients(&loss, &learned));
        trace.finish(&outputs)
    }

    fn convolution(&self, kernel: &Tensor) -> Convolution {
        let half = kernel.dim(0) as i64 / 2;
        Convolution {
            feature_groups: self.groups,
            padding: vec![(half, half); 2],
            strides: vec![self.stride; 2],
            ..Convolution::nhwc(2, self.dtype)
        }
    }
}

/// Whether numbers that grow from 2^-32 to 2^31 down an image, and weights of 1e-9, are as precise as others: tensor cores
/// hold them as f16 numbers, whose scale must follow. Results are compared within their rows.
pub fn check_magnitudes(device: &dyn Backend, reference: &dyn Backend) -> Result<LayerDifference, RuntimeError> {
    const ROWS: usize = 256;
    let (program, mut operands) = plain([2, ROWS, 256], 32, 32, 3).program()?;
    let size = |row: usize| (row as f64 / 4.0 - 32.0).floor().exp2();
    let by_row = |tensor: &HostTensor, factor: &dyn Fn(usize) -> f64| {
        let row = tensor.shape().elements() / tensor.shape().dims()[0] / ROWS;
        changed(tensor, |index, value| value * factor(index / row % ROWS))
    };
    for operand in [0, 2] {
        operands[operand] = by_row(&operands[operand], &size)?;
    }
    operands[1] = changed(&operands[1], |_, value| value * 1e-9)?;
    let (given, expected) = (run_program(device, &program, &operands)?, run_program(reference, &program, &operands)?);
    let mut found = difference(&given[2], &expected[2]);
    for image in 0..2 {
        let level = |tensor: &HostTensor| by_row(tensor, &|row| 1.0 / size(row));
        found = found.max(difference(&level(&given[image])?, &level(&expected[image])?));
    }
    Ok(LayerDifference { found, allowed: OF_11_BITS })
}

/// Whether the number that NVIDIA's arithmetic means by NaN, all bits of which are set, survives being rounded: how many
/// results are NaN, and how many should be. One pixel and one cotangent, both in the first row, have such a channel. Each
/// spoils two rows of three pixels; the pixel spoils six taps of the kernel, the cotangent all nine, because it meets the zeros
/// of the padding too.
pub fn check_nan(device: &dyn Backend) -> Result<[usize; 2], RuntimeError> {
    let (inputs, outputs) = (16, 32);
    let (program, mut operands) = plain([2, 256, 256], inputs, outputs, 3).program()?;
    for operand in [0, 2] {
        let mut values: Vec<f32> = operands[operand].to_f64s().iter().map(|&value| value as f32).collect();
        values[1234] = f32::from_bits(0x7fff_ffff);
        operands[operand] = HostTensor::new(operands[operand].shape().dims(), &values).map_err(failed)?;
    }
    let results = run_program(device, &program, &operands)?;
    let are_nan = results.iter().flat_map(|result| result.to_f64s()).filter(|value| value.is_nan()).count();
    Ok([are_nan, 6 * outputs + 6 * inputs + 6 * outputs + 9 * inputs - 6])
}

/// Every layer, numbers of all sizes and NaN, each with what is wrong. `observer` sees the differences of layers as they come.
pub fn check_all(
    device: &dyn Backend,
    reference: &dyn Backend,
    observer: &mut dyn FnMut(&Layer, LayerDifference),
) -> Vec<(String, Result<(), String>)> {
    let within_tolerance = |difference: Result<LayerDifference, RuntimeError>| match difference {
        Ok(difference) if difference.is_right() => Ok(()),
        Ok(LayerDifference { found, allowed }) => {
            Err(format!("{found:.1e} away from the processor's result, {allowed:.1e} is allowed"))
        }
        Err(error) => Err(error.to_string()),
    };
    let mut checks: Vec<(String, Result<(), String>)> = Vec::new();
    for layer in &LAYERS {
        let difference = layer.check(device, reference);
        if let Ok(difference) = difference {
            observer(layer, difference);
        }
        checks.push((layer.describe(), within_tolerance(difference)));
    }
    checks.push(("numbers of all sizes".into(), within_tolerance(check_magnitudes(device, reference))));
    let nan = match check_nan(device) {
        Ok([found, expected]) if found == expected => Ok(()),
        Ok([found, expected]) => Err(format!("{found} results are NaN instead of {expected}")),
        Err(error) => Err(error.to_string()),
    };
    checks.push(("NaN stays NaN".into(), nan));
    checks
}

/// Numbers of −1 to 1 from a small generator.
fn random(shape: &Shape, seed: u32) -> Result<HostTensor, RuntimeError> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        f64::from(state >> 8) / 8_388_608.0 - 1.0
    };
    let values: Vec<f64> = (0..shape.elements()).map(|_| next()).collect();
    HostTensor::from_f64s(shape.clone(), &values).map_err(failed)
}

fn changed(tensor: &HostTensor, change: impl Fn(usize, f64) -> f64) -> Result<HostTensor, RuntimeError> {
    let values: Vec<f64> =
        tensor.to_f64s().into_iter().enumerate().map(|(index, value)| change(index, value)).collect();
    HostTensor::from_f64s(tensor.shape().clone(), &values).map_err(failed)
}

fn failed(error: impl std::fmt::Display) -> RuntimeError {
    RuntimeError::Device(error.to_string())
}

fn difference(given: &HostTensor, expected: &HostTensor) -> f64 {
    let (given, expected) = (given.to_f64s(), expected.to_f64s());
    let largest = expected.iter().fold(f64::MIN_POSITIVE, |largest, value| largest.max(value.abs()));
    let of = |(given, expected): (&f64, &f64)| match (given - expected).abs() / largest {
        difference if difference.is_nan() => f64::INFINITY,
        difference => difference,
    };
    given.iter().zip(&expected).map(of).fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ReferenceBackend;

    #[test]
    fn layers_have_names_of_their_own_and_programs() {
        let mut names: Vec<String> = LAYERS.iter().map(Layer::describe).collect();
        assert!(LAYERS.iter().all(|layer| layer.program().is_ok()));
        names.sort();
        names.dedup();
        assert_eq!(names.len(), LAYERS.len());
    }

    #[test]
    fn a_small_layer_is_its_own_reference() {
        let layer = plain([1, 20, 20], 2, 2, 5);
        let difference = layer.check(&ReferenceBackend, &ReferenceBackend).unwrap();
        assert!(difference.is_right() && difference.found == 0.0);
        assert!(!LayerDifference { found: f64::INFINITY, allowed: 1.0 }.is_right());
    }
}
