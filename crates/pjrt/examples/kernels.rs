//! Our kernels for NVIDIA GPUs against the CPU engine:
//! `cargo run --release -p octant-pjrt --example kernels [PLUGIN|auto]`.
//!
//! Every line is a convolution with the gradients of both operands. It names the kernels that the program calls and the
//! greatest difference relative to the greatest value. Numbers that are rounded as TF32 is have 11 bits, bf16 has 8. The last
//! lines say whether very great and very small numbers fare as well, and whether NaN stays what it is.

use octant_graph::{Convolution, DType, HostTensor, Shape, Tensor, Trace};
use octant_pjrt::discover::{self, PluginKind};
use octant_pjrt::{Client, NamedValues, PjrtBackend, Plugin, environment};
use octant_runtime::{Backend, CompileOptions, Mesh, Program, Sharding};
use std::error::Error;

struct Layer {
    dtype: DType,
    images: [usize; 3],
    inputs: usize,
    outputs: usize,
    side: usize,
    stride: usize,
    groups: usize,
    company: Company,
}

/// What belongs to a layer.
#[derive(Clone, Copy, PartialEq)]
enum Company {
    Nothing,
    /// A pointwise layer of as many channels that looks at the same images, and the sums of both.
    Pointwise,
    /// The same, and the images are joined from two arrays, the first of which has a third of the channels.
    Joined,
    /// A rectified norm before it, with the gradients of its factor and offset.
    Norm,
    /// Sums and sums of squares of its results, over images and over all of them.
    Moments,
}

/// A layer in f32 without strides.
const fn plain(images: [usize; 3], inputs: usize, outputs: usize, side: usize) -> Layer {
    Layer { dtype: DType::F32, images, inputs, outputs, side, stride: 1, groups: 1, company: Company::Nothing }
}

/// A 3×3 layer with company.
const fn with(company: Company, images: [usize; 3], inputs: usize, outputs: usize) -> Layer {
    Layer { company, ..plain(images, inputs, outputs, 3) }
}

const fn depthwise(dtype: DType, channels: usize, side: usize, stride: usize) -> Layer {
    Layer { dtype, stride, groups: channels, ..plain([3, 15, 14], channels, channels, side) }
}

/// Sizes that are no multiples of what warps take at once are among them.
const LAYERS: [Layer; 34] = [
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
    with(Company::Pointwise, [8, 128, 131], 16, 32),
    with(Company::Pointwise, [3, 211, 250], 48, 16),
    with(Company::Pointwise, [8, 128, 131], 96, 32),
    with(Company::Pointwise, [33, 63, 65], 32, 64),
    with(Company::Pointwise, [33, 63, 65], 192, 64),
    with(Company::Joined, [3, 211, 250], 48, 16),
    with(Company::Joined, [8, 128, 131], 96, 32),
    with(Company::Norm, [3, 211, 250], 16, 16),
    with(Company::Norm, [8, 128, 131], 32, 32),
    with(Company::Norm, [8, 128, 131], 96, 32),
    with(Company::Norm, [33, 63, 65], 64, 64),
    with(Company::Moments, [3, 211, 250], 16, 16),
    with(Company::Moments, [3, 211, 250], 16, 48),
    with(Company::Moments, [8, 128, 131], 32, 32),
    plain([2, 65, 70], 2, 1, 7),
    plain([2, 33, 31], 4, 1, 3),
    plain([1, 20, 20], 2, 2, 5),
    depthwise(DType::BF16, 64, 3, 1),
    depthwise(DType::BF16, 40, 5, 2),
    depthwise(DType::F32, 64, 3, 2),
    depthwise(DType::F32, 132, 3, 1),
    depthwise(DType::F32, 12, 7, 1),
];

fn main() -> Result<(), Box<dyn Error>> {
    environment::prepare(false);
    let path = match std::env::args().nth(1).filter(|path| path != "auto") {
        Some(path) => path.into(),
        None => discover::plugin(&PluginKind::KNOWN)?.path,
    };
    let device = PjrtBackend::new(Client::new(&Plugin::load(&path)?, &NamedValues::default())?)?;
    let cpu = octant_cpu::CpuBackend::new()?;
    let mut failed = 0;
    for layer in LAYERS {
        let (program, inputs) = layer.program()?;
        let (ours, expected) = (run(&device, &program, &inputs)?, run(&cpu, &program, &inputs)?);
        let worst = ours.iter().zip(&expected).map(|(ours, expected)| difference(ours, expected)).fold(0.0, f64::max);
        let allowed = if layer.dtype == DType::BF16 { 1.6e-2 } else { 2e-3 };
        let verdict = if worst <= allowed { "ok" } else { "WRONG" };
        failed += usize::from(worst > allowed);
        println!("{verdict}: {}: {worst:.1e} by {}", layer.describe(), calls(&program)?);
    }
    failed += usize::from(!keeps_magnitudes(&device, &cpu)?);
    failed += usize::from(!keeps_nan(&device)?);
    if failed > 0 { Err(format!("{failed} checks failed").into()) } else { Ok(()) }
}

/// Whether numbers that grow from 2^-32 to 2^31 down an image, and weights of 1e-9, are as precise as others: tensor cores
/// hold them as f16 numbers, whose scale must follow. Results are compared within their rows.
fn keeps_magnitudes(device: &dyn Backend, cpu: &dyn Backend) -> Result<bool, Box<dyn Error>> {
    const ROWS: usize = 256;
    let (program, mut operands) = plain([2, ROWS, 256], 32, 32, 3).program()?;
    let size = |row: usize| (row as f64 / 4.0 - 32.0).floor().exp2();
    let by_row = |tensor: &HostTensor, factor: &dyn Fn(usize) -> f64| {
        let row = tensor.shape().elements() / tensor.shape().dims()[0] / ROWS;
        let values: Vec<f64> =
            tensor.to_f64s().iter().enumerate().map(|(i, value)| value * factor(i / row % ROWS)).collect();
        HostTensor::from_f64s(tensor.shape().clone(), &values)
    };
    for operand in [0, 2] {
        operands[operand] = by_row(&operands[operand], &size)?;
    }
    let weights: Vec<f64> = operands[1].to_f64s().iter().map(|value| value * 1e-9).collect();
    operands[1] = HostTensor::from_f64s(operands[1].shape().clone(), &weights)?;
    let (ours, expected) = (run(device, &program, &operands)?, run(cpu, &program, &operands)?);
    let mut worst = difference(&ours[2], &expected[2]);
    for image in 0..2 {
        let levelled = |tensor: &HostTensor| by_row(tensor, &|row| 1.0 / size(row));
        worst = worst.max(difference(&levelled(&ours[image])?, &levelled(&expected[image])?));
    }
    println!("{}: numbers of all sizes: {worst:.1e}", if worst <= 2e-3 { "ok" } else { "WRONG" });
    Ok(worst <= 2e-3)
}

/// Whether the number that NVIDIA's arithmetic means by NaN, all bits of which are set, survives being rounded. One pixel
/// and one cotangent, both in the first row, have such a channel. Each spoils two rows of three pixels that it meets; the
/// pixel spoils six taps of the kernel, the cotangent all nine, because it meets the zeros of the padding too.
fn keeps_nan(device: &dyn Backend) -> Result<bool, Box<dyn Error>> {
    let (inputs, outputs) = (16, 32);
    let (program, mut operands) = plain([2, 256, 256], inputs, outputs, 3).program()?;
    for operand in [0, 2] {
        let mut values: Vec<f32> = operands[operand].to_f64s().iter().map(|&value| value as f32).collect();
        values[1234] = f32::from_bits(0x7fff_ffff);
        operands[operand] = HostTensor::new(operands[operand].shape().dims(), &values)?;
    }
    let results = run(device, &program, &operands)?;
    let spoilt = results.iter().map(|result| result.to_f64s().iter().filter(|value| value.is_nan()).count());
    let (spoilt, expected): (Vec<usize>, _) =
        (spoilt.collect(), [6 * outputs, 6 * inputs, 6 * outputs + 9 * inputs - 6]);
    println!("{}: NaN spoils {spoilt:?} results", if spoilt == expected { "ok" } else { "WRONG" });
    Ok(spoilt == expected)
}

impl Layer {
    fn describe(&self) -> String {
        let ([n, h, w], Layer { inputs, outputs, side, stride, groups, dtype, .. }) = (self.images, self);
        let company = match self.company {
            Company::Nothing => "",
            Company::Pointwise => " and 1×1",
            Company::Joined => " and 1×1 of joined images",
            Company::Norm => " after a norm",
            Company::Moments => " with moments",
        };
        format!("{inputs}→{outputs} {side}×{side}{company} in {groups} groups, stride {stride}, {n}×{h}×{w} {dtype:?}")
    }

    /// The layer and the gradients of a weighted sum of its results, with random operands: the images, the kernel, the
    /// weights, and another kernel and weights for the layer beside it, or a center, a factor and an offset for the norm.
    fn program(&self) -> Result<(Program, Vec<HostTensor>), Box<dyn Error>> {
        let ([n, h, w], &Layer { inputs, outputs, side, stride, groups, dtype, .. }) = (self.images, self);
        let made = |length: usize| (length + 2 * (side / 2) - side) / stride + 1;
        let results = Shape::new(dtype, [n, made(h), made(w), outputs]);
        let mut shapes = vec![
            Shape::new(dtype, [n, h, w, inputs]),
            Shape::new(dtype, [side, side, inputs / groups, outputs]),
            results.clone(),
        ];
        match self.company {
            Company::Nothing | Company::Moments => {}
            Company::Pointwise | Company::Joined => {
                shapes.extend([Shape::new(dtype, [1, 1, inputs, outputs]), results]);
            }
            Company::Norm => shapes.extend(vec![Shape::new(dtype, [inputs]); 3]),
        }
        let trace = Trace::new();
        let operands: Vec<Tensor> = shapes.iter().map(|shape| trace.input("operand", shape.clone())).collect();
        let (mut made, mut kernels, mut loss) = (Vec::new(), Vec::new(), None);
        let normed = self.company == Company::Norm;
        let images = &operands[0];
        let x = match self.company {
            Company::Norm => ((images - &operands[3]) * &operands[4] + &operands[5]).relu(),
            Company::Joined => {
                let part = |from, to| images.slice_axis(3, from, to);
                Tensor::concatenate(&[part(0, inputs / 3) + 0.5, part(inputs / 3, inputs) * 2.0], 3)
            }
            _ => images.clone(),
        };
        for pair in operands[1..if normed { 3 } else { operands.len() }].chunks(2) {
            let padding = vec![(pair[0].dim(0) as i64 / 2, pair[0].dim(0) as i64 / 2); 2];
            let strides = vec![stride; 2];
            let conv = Convolution { feature_groups: groups, padding, strides, ..Convolution::nhwc(2, dtype) };
            let y = x.convolution(&pair[0], conv);
            let part = (y.convert(DType::F32) * pair[1].convert(DType::F32)).sum(&[0, 1, 2, 3]);
            loss = Some(loss.map_or(part.clone(), |loss: Tensor| loss + &part));
            if matches!(self.company, Company::Moments | Company::Pointwise | Company::Joined) {
                let distance = &y - 0.5;
                made.extend([distance.sum(&[1, 2]), distance.square().sum(&[1, 2]), distance.square().sum(&[0, 1, 2])]);
            }
            made.push(y);
            kernels.push(pair[0].clone());
        }
        let loss = loss.ok_or("a layer has a kernel")?;
        let of_norm = if normed { &operands[4..] } else { &[] };
        let gradients = trace.gradients(&loss, &[&operands[..1], &kernels, of_norm].concat());
        let graph = trace.finish(&[made, gradients].concat())?;
        let operands = shapes.iter().enumerate().map(|(seed, shape)| random(shape, seed as u32 + 1));
        let mut operands = operands.collect::<Result<Vec<_>, _>>()?;
        if normed {
            // In sixteenths, and offsets in 512ths between them: whatever the order, nothing is rounded and no norm is zero.
            for (operand, between) in [(0, 0.0), (3, 0.0), (4, 0.0), (5, 1.0 / 512.0)] {
                let values = operands[operand].to_f64s().into_iter();
                let values: Vec<f64> = values.map(|value| (value * 16.0).round() / 16.0 + between).collect();
                operands[operand] = HostTensor::from_f64s(operands[operand].shape().clone(), &values)?;
            }
        }
        Ok((Program::new("layer", graph), operands))
    }
}

/// Numbers of −1 to 1 from a small generator.
fn random(shape: &Shape, seed: u32) -> Result<HostTensor, Box<dyn Error>> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        f64::from(state >> 8) / 8_388_608.0 - 1.0
    };
    let values: Vec<f64> = (0..shape.elements()).map(|_| next()).collect();
    Ok(HostTensor::from_f64s(shape.clone(), &values)?)
}

fn run(backend: &dyn Backend, program: &Program, inputs: &[HostTensor]) -> Result<Vec<HostTensor>, Box<dyn Error>> {
    let executable = backend.compile(program, &CompileOptions::default())?;
    let upload = |tensor: &HostTensor| backend.upload(tensor, &Mesh::new(1), &Sharding::Replicated);
    let buffers = inputs.iter().map(upload).collect::<Result<Vec<_>, _>>()?;
    let outputs = executable.execute(&buffers)?;
    Ok(outputs.iter().map(|output| output.to_host()).collect::<Result<_, _>>()?)
}

fn difference(ours: &HostTensor, expected: &HostTensor) -> f64 {
    let (ours, expected) = (ours.to_f64s(), expected.to_f64s());
    let greatest = expected.iter().fold(0.0f64, |greatest, value| greatest.max(value.abs()));
    ours.iter().zip(&expected).map(|(a, b)| (a - b).abs() / greatest).fold(0.0, f64::max)
}

/// The kernels that a program calls on a GPU.
fn calls(program: &Program) -> Result<String, Box<dyn Error>> {
    let options = octant_stablehlo::Options { cuda_kernels: true, ..Default::default() };
    let text = octant_stablehlo::lower(program, &options)?;
    let names = text.lines().filter_map(|line| line.split_once("custom_call @octant.")?.1.split('(').next());
    let names: Vec<&str> = names.collect();
    Ok(if names.is_empty() { "no kernel of ours".to_string() } else { names.join(", ") })
}
