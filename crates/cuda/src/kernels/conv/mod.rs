//! What all convolution kernels share: the descriptor, the launch, and how a convolution of a graph becomes a call.

pub mod call;
pub mod descriptor;
pub mod task;

use crate::GpuFacts;
use crate::runtime::compiler::{Header, Source, text};
use crate::runtime::driver::Grid;
use crate::runtime::ffi::FfiBuffer;
use crate::runtime::launch::{Dims, Encoded, GpuKernel, Parameter};
use descriptor::{ConvDescriptor, Images, geometry};

/// What the sources of convolutions include.
pub const HEADERS: &[Header] = &[WINDOW_HEADER];
pub const WINDOW_HEADER: Header = (c"window.h", text!("window.h"));

/// A kernel that takes a convolution's descriptor, channels-last images and a square kernel.
pub trait ConvKernel {
    const NAME: &'static str;
    const SOURCE: Source;
    /// Whether it computes the gradient of the kernel from input and cotangent, in as many parts as the result's first axis
    /// has, and not the output from input and kernel.
    const GRADIENT: bool;

    /// How many operands and results there are.
    fn buffers(_: &ConvDescriptor) -> [usize; 2] {
        [2, 1]
    }

    fn defines(descriptor: &ConvDescriptor) -> Vec<String>;

    fn shared(_: &ConvDescriptor) -> u32 {
        0
    }

    /// Whether sums can come in so many parts.
    fn check(_: &ConvDescriptor, _output: &Images, _parts: i64) -> Result<(), String> {
        Ok(())
    }

    /// The grid for the shape of the output or its cotangent, and for so many parts.
    fn grid(descriptor: &ConvDescriptor, output: &Images, parts: i64, gpu: &GpuFacts) -> Grid;
}

/// The images that a call reads and makes (or whose cotangent it reads), and in how many parts its sums come.
fn images<C: ConvKernel>(shapes: [&[Dims]; 2]) -> Result<(Images, Images, i64), String> {
    let [operands, results] = shapes;
    let images = |dims: Dims| Images::try_from(dims).map_err(|_| "a convolution takes images".to_string());
    let (Some(&input), Some(&second), Some(&first), Some(&last)) =
        (operands.first(), operands.get(1), results.first(), results.last())
    else {
        return Err(format!("{} has too few operands or results", C::NAME));
    };
    let output = images(if C::GRADIENT { second } else { first })?;
    let parts = if C::GRADIENT { first.first() } else { last.get(1) };
    Ok((images(input)?, output, parts.copied().unwrap_or(1)))
}

impl<C: ConvKernel> GpuKernel for C {
    const NAME: &'static str = <C as ConvKernel>::NAME;
    const SOURCE: Source = <C as ConvKernel>::SOURCE;
    type Descriptor = ConvDescriptor;

    fn decode(encoded: &Encoded) -> Result<ConvDescriptor, String> {
        ConvDescriptor::decode(encoded.integers)
    }

    fn defines(descriptor: &ConvDescriptor) -> Vec<String> {
        <C as ConvKernel>::defines(descriptor)
    }

    fn shared(descriptor: &ConvDescriptor) -> u32 {
        <C as ConvKernel>::shared(descriptor)
    }

    fn grid(descriptor: &ConvDescriptor, shapes: [&[Dims]; 2], gpu: &GpuFacts) -> Result<Grid, String> {
        let [operands, results] = C::buffers(descriptor);
        if shapes.map(<[Dims]>::len) != [operands, results] {
            return Err(format!("{} takes {operands} operands here and has {results} results", C::NAME));
        }
        let (input, output, parts) = images::<C>(shapes)?;
        if [input[3], output[3]] != [descriptor.inputs, descriptor.outputs] {
            return Err(format!("{} is described for other channels than its images have", C::NAME));
        }
        geometry(&input, &output, descriptor)?;
        C::check(descriptor, &output, parts)?;
        Ok(<C as ConvKernel>::grid(descriptor, &output, parts, gpu))
    }

    fn parameters(
        descriptor: &ConvDescriptor,
        [operands, results]: [&[&FfiBuffer]; 2],
    ) -> Result<Vec<Parameter>, String> {
        let dims = |buffers: &'_ [&FfiBuffer]| buffers.iter().map(|buffer| buffer.dims().to_vec()).collect::<Vec<_>>();
        let (taken, made) = (dims(operands), dims(results));
        let shapes = [&taken, &made].map(|dims| dims.iter().map(Vec::as_slice).collect::<Vec<Dims>>());
        let (input, output, _) = images::<C>([&shapes[0], &shapes[1]])?;
        let addresses = operands.iter().chain(results).map(|buffer| Parameter::Address(buffer.data));
        Ok(addresses.chain([Parameter::Geometry(geometry(&input, &output, descriptor)?)]).collect())
    }
}
