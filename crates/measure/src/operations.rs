//! Single operations: how near kernels come to what the device can do.

use crate::Sample;
use crate::error::{Result, refuse};
use crate::peaks::{Peaks, Work};
use octant_graph::composites::Pool;
use octant_graph::{DType, Shape, Tensor, Trace};
use octant_nn::layers::{BatchNorm, Conv2d, Dense, layer_norm};
use octant_nn::{Context, Mode, Precision, Scope, Training, VariableKind};
use octant_runtime::Backend;
use serde_json::{Value, json};
use std::time::Duration;

/// A layer on an input.
struct Case {
    name: &'static str,
    /// The input's dimensions.
    input: &'static [usize],
    layer: fn(&Scope, &Tensor) -> Tensor,
}

const fn case(name: &'static str, input: &'static [usize], layer: fn(&Scope, &Tensor) -> Tensor) -> Case {
    Case { name, input, layer }
}

fn conv(cx: &Scope, x: &Tensor, features: usize, kernel: usize, stride: usize, groups: usize) -> Tensor {
    Conv2d::new(features, kernel).stride(stride).groups(groups).bias(false).apply(cx, x)
}

/// The shapes that ResNet-50 (batch 16), EfficientNetV2-S (batch 8) and MSHNet (batch 4) spend their time in.
const CASES: &[Case] = &[
    case("convolution 7×7/2 3→64, 224²", &[16, 224, 224, 3], |cx, x| conv(cx, x, 64, 7, 2, 1)),
    case("convolution 1×1 64→256, 56²", &[16, 56, 56, 64], |cx, x| conv(cx, x, 256, 1, 1, 1)),
    case("convolution 1×1 256→64, 56²", &[16, 56, 56, 256], |cx, x| conv(cx, x, 64, 1, 1, 1)),
    case("convolution 3×3 64→64, 56²", &[16, 56, 56, 64], |cx, x| conv(cx, x, 64, 3, 1, 1)),
    case("convolution 3×3/2 128→128, 56²", &[16, 56, 56, 128], |cx, x| conv(cx, x, 128, 3, 2, 1)),
    case("convolution 1×1/2 256→512, 56²", &[16, 56, 56, 256], |cx, x| conv(cx, x, 512, 1, 2, 1)),
    case("convolution 3×3 128→128, 28²", &[16, 28, 28, 128], |cx, x| conv(cx, x, 128, 3, 1, 1)),
    case("convolution 3×3 256→256, 14²", &[16, 14, 14, 256], |cx, x| conv(cx, x, 256, 3, 1, 1)),
    case("convolution 1×1 2048→512, 7²", &[16, 7, 7, 2048], |cx, x| conv(cx, x, 512, 1, 1, 1)),
    case("convolution 3×3 512→512, 7²", &[16, 7, 7, 512], |cx, x| conv(cx, x, 512, 3, 1, 1)),
    case("convolution 3×3 24→24, 112²", &[8, 112, 112, 24], |cx, x| conv(cx, x, 24, 3, 1, 1)),
    case("convolution 3×3 48→192, 28²", &[8, 28, 28, 48], |cx, x| conv(cx, x, 192, 3, 1, 1)),
    case("convolution 3×3 16→16, 256²", &[4, 256, 256, 16], |cx, x| conv(cx, x, 16, 3, 1, 1)),
    case("convolution 7×7 2→1, 256²", &[4, 256, 256, 2], |cx, x| conv(cx, x, 1, 7, 1, 1)),
    case("depthwise 3×3 960, 14²", &[8, 14, 14, 960], |cx, x| conv(cx, x, 960, 3, 1, 960)),
    case("depthwise 3×3/2 256, 28²", &[8, 28, 28, 256], |cx, x| conv(cx, x, 256, 3, 2, 256)),
    case("matrix product 2048×2048×2048", &[2048, 2048], |cx, x| Dense::new(2048).bias(false).apply(cx, x)),
    case("matrix product 3152×768×3072", &[3152, 768], |cx, x| Dense::new(3072).bias(false).apply(cx, x)),
    case("matrix product 16×2048×1000", &[16, 2048], |cx, x| Dense::new(1000).bias(false).apply(cx, x)),
    case("batch norm 256, 56²", &[16, 56, 56, 256], |cx, x| BatchNorm::new().apply(cx, x)),
    case("batch norm 16, 256²", &[4, 256, 256, 16], |cx, x| BatchNorm::new().apply(cx, x)),
    case("layer norm 3152×768", &[3152, 768], |cx, x| layer_norm(cx, x, 1e-6)),
    case("max pool 3×3/2 64, 112²", &[16, 112, 112, 64], |_, x| x.max_pool(Pool::square(3, 2).padded(1))),
    case("max pool 2×2/2 16, 256²", &[4, 256, 256, 16], |_, x| x.max_pool(Pool::square(2, 2))),
    case("mean over 7², 2048", &[16, 7, 7, 2048], |_, x| x.global_avg_pool()),
    case("bilinear 2× 32, 128²", &[4, 128, 128, 32], |_, x| x.resize_bilinear(256, 256, true)),
    case("softmax 3152×1000", &[3152, 1000], |_, x| x.softmax(1)),
    case("silu 192, 28²", &[8, 28, 28, 192], |_, x| x.silu()),
];

/// Forward, or which half of the backward pass.
#[derive(Clone, Copy, PartialEq)]
enum Direction {
    Forward,
    /// The gradient of the input.
    BackwardData,
    /// The gradients of the parameters.
    BackwardWeights,
}

impl Direction {
    const ALL: [Direction; 3] = [Direction::Forward, Direction::BackwardData, Direction::BackwardWeights];

    fn name(self) -> &'static str {
        match self {
            Direction::Forward => "forward",
            Direction::BackwardData => "backward data",
            Direction::BackwardWeights => "backward weights",
        }
    }
}

/// The operations to be measured.
pub struct Operations(Vec<&'static Case>);

/// What was measured, as soon as it is known.
pub enum OperationEvent<'a> {
    /// What the device can do at best.
    Peaks(&'a Peaks),
    /// One operation in one direction.
    Speed(&'a OperationSpeed),
}

/// The speed of an operation.
pub struct OperationSpeed {
    /// The operation with its shape.
    pub name: &'static str,
    /// Forward, or which half of the backward pass.
    pub direction: &'static str,
    /// Seconds per run.
    pub time: Sample,
    /// Floating-point operations per run; 0 where only memory is moved.
    pub flops: f64,
    /// Bytes that must move at least.
    pub moved: f64,
}

impl OperationSpeed {
    /// Billions of floating-point operations per second, by the median run.
    pub fn gflops(&self) -> f64 {
        self.flops / self.time.median() / 1e9
    }

    /// Billions of bytes per second, by the median run.
    pub fn gigabytes(&self) -> f64 {
        self.moved / self.time.median() / 1e9
    }

    /// As an object, with the shares of what the device can do at best.
    pub fn json(&self, peaks: &Peaks) -> Value {
        json!({
            "event": "op", "name": self.name, "direction": self.direction, "ms_median": self.time.median() * 1e3,
            "spread": self.time.spread(), "runs": self.time.count(), "gflop_per_second": self.gflops(),
            "gemm_share": self.gflops() / peaks.gflops, "gb_per_second": self.gigabytes(),
            "sweep_share": self.gigabytes() / peaks.gigabytes,
        })
    }
}

impl Operations {
    /// Those whose name contains the pattern.
    pub fn matching(pattern: &str) -> Result<Operations> {
        let wanted: Vec<&Case> = CASES.iter().filter(|case| case.name.contains(pattern)).collect();
        if wanted.is_empty() {
            let names: Vec<&str> = CASES.iter().map(|case| case.name).collect();
            refuse!("no operation contains \"{pattern}\"; there are {}", names.join("; "));
        }
        Ok(Operations(wanted))
    }

    /// Measures each in every direction that it has, after the peaks of the device. The precision is f32 or bf16.
    pub fn measure(
        &self,
        backend: &dyn Backend,
        precision: &str,
        observer: &mut dyn FnMut(OperationEvent),
    ) -> Result<()> {
        let precision = octant_recipe::precision(precision)?;
        observer(OperationEvent::Peaks(&Peaks::measure(backend, precision.dtype())?));
        for case in &self.0 {
            for direction in Direction::ALL {
                let Some((trace, outputs)) = traced(case, direction, precision) else { continue };
                let mut work = Work::new(backend, case.name, trace, &outputs)?;
                let time = work.measure(Duration::from_millis(300))?;
                let (name, direction) = (case.name, direction.name());
                let speed = OperationSpeed { name, direction, time, flops: work.flops(), moved: work.bytes() };
                observer(OperationEvent::Speed(&speed));
            }
        }
        Ok(())
    }
}

/// The trace and the outputs of one direction; none where a layer has no parameters to find gradients of.
fn traced(case: &Case, direction: Direction, precision: Precision) -> Option<(Trace, Vec<Tensor>)> {
    let trace = Trace::new();
    let x = trace.input("x", Shape::new(precision.dtype(), case.input));
    let context = Context::new(&trace, Mode::Train(Training::without_randomness()), precision);
    let y = (case.layer)(&context.root(), &x);
    let parameters = context.variables().into_iter().filter(|variable| variable.spec.kind == VariableKind::Parameter);
    let parameters: Vec<Tensor> = parameters.map(|variable| variable.value).collect();
    let wanted = match direction {
        Direction::Forward => return Some((trace, vec![y])),
        Direction::BackwardData => vec![x],
        Direction::BackwardWeights if parameters.is_empty() => return None,
        Direction::BackwardWeights => parameters,
    };
    // A sum weighted by an input has that input as the gradient of y: what comes from the layer above.
    let from_above = trace.input("from_above", y.shape().clone());
    let loss = (y.convert(DType::F32) * from_above.convert(DType::F32)).sum_all();
    let gradients = trace.gradients(&loss, &wanted);
    Some((trace, gradients))
}
