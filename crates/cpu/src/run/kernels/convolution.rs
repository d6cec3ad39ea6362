//! Which kernel computes a convolution of the graph.

use super::super::looping::PreparedLoop;
use super::super::memory::Memory;
use super::numbers::{doubles, integers, into_f32, is_bf16, with_bf16, with_f32, write_doubles, write_integers};
use super::{Arguments, KeptWeights, general, run_behind};
use crate::kernels::{
    ConvGeometry, Epilogue, ForwardConv as Kernel, Gemm, Machine, MatrixStrides, Weights, WeightsGradient, is_split,
};
use crate::plan::image_convolution;
use crate::simd::Simd;
use octant_graph::op::{ImageAxes, KernelAxes};
use octant_graph::{Convolution, DType, Shape};

pub(super) enum ConvAlgorithm {
    /// Images in, images out; also the gradient with respect to the input.
    Images { kernel: Kernel, strides: KernelStrides },
    /// The gradient with respect to the kernel.
    Gradient(WeightsGradient),
    /// One product after the other, for what networks for images do not need.
    General(Convolution),
}

pub(super) struct KernelStrides {
    row: usize,
    column: usize,
    input: usize,
    output: usize,
    group: usize,
}

impl ConvAlgorithm {
    pub fn choose(conv: &Convolution, [input, kernel, output]: [&Shape; 3]) -> ConvAlgorithm {
        let f32_sums = [input, output].iter().all(|s| matches!(s.dtype(), DType::F32 | DType::BF16 | DType::F16));
        if !f32_sums || conv.strides.len() != 2 {
            return ConvAlgorithm::General(conv.clone());
        }
        let pair = |list: &[usize]| [list[0], list[1]];
        let plain = ImageAxes::nhwc(2);
        if conv.input == plain && conv.output == plain && conv.batch_groups == 1 {
            let description = image_convolution(conv, [input, kernel, output]);
            let strides = KernelStrides::of(conv, kernel);
            // bf16 images are cut into rows of tiles, which know their own way.
            let pixels = description.flattened().filter(|_| output.dtype() == DType::F32);
            let description = pixels.unwrap_or(description);
            return ConvAlgorithm::Images { kernel: Kernel::new(&description), strides };
        }
        let is_gradient = conv.input == ImageAxes { batch: 3, feature: 0, spatial: vec![1, 2] }
            && conv.kernel == KernelAxes { input: 0, output: 3, spatial: vec![1, 2] }
            && conv.output == ImageAxes { batch: 2, feature: 3, spatial: vec![0, 1] }
            && conv.feature_groups == 1
            && !conv.reversed;
        if !is_gradient {
            return ConvAlgorithm::General(conv.clone());
        }
        let forward = ConvGeometry {
            batch: input.dims()[0],
            input: pair(&input.dims()[1..3]),
            in_channels: input.dims()[3],
            output: pair(&kernel.dims()[1..3]),
            out_channels: kernel.dims()[3],
            kernel: pair(&output.dims()[..2]),
            stride: pair(&conv.kernel_dilation),
            pad_low: [conv.padding[0].0, conv.padding[1].0],
            input_dilation: pair(&conv.input_dilation),
            kernel_dilation: pair(&conv.strides),
            groups: conv.batch_groups,
            reversed: false,
        };
        ConvAlgorithm::Gradient(WeightsGradient::new(&forward))
    }

    /// The same as one product of f32 matrices, if windows are single pixels and the machine has a faster unit for products
    /// than for windows.
    pub fn as_product(&self, [input, kernel, output]: [&Shape; 3], simd: Simd) -> Option<Gemm> {
        let (conv, strides) = match self {
            ConvAlgorithm::Images { kernel, strides } => (kernel.description(), Some(strides)),
            ConvAlgorithm::Gradient(gradient) => (gradient.description(), None),
            ConvAlgorithm::General(_) => return None,
        };
        let of_f32 = [input, kernel, output].iter().all(|shape| shape.dtype() == DType::F32);
        let dense = conv.kernel == [1; 2] && conv.input == conv.output && conv.pad_low == [0; 2] && conv.groups == 1;
        let (pixels, channels) = (conv.batch * conv.input[0] * conv.input[1], [conv.in_channels, conv.out_channels]);
        let product = match strides {
            Some(&KernelStrides { input, output, .. }) => {
                let b = MatrixStrides { batch: 0, row: input, column: output };
                Gemm { b, ..Gemm::row_major(pixels, channels[1], channels[0]) }
            }
            None => {
                let a = MatrixStrides::row_major(pixels, channels[0]).transposed();
                Gemm { a, ..Gemm::row_major(channels[0], channels[1], pixels) }
            }
        };
        (of_f32 && dense && is_split(simd, &product)).then_some(product)
    }

    pub fn run(
        &self,
        arguments: &Arguments,
        epilogue: Option<&PreparedLoop>,
        kept: Option<&KeptWeights>,
        memory: &Memory,
        machine: &Machine,
    ) {
        let [input, kernel, output] = [&arguments.inputs[0], &arguments.inputs[1], &arguments.outputs[0]];
        let follow = run_behind(epilogue, memory);
        match self {
            ConvAlgorithm::Images { kernel: plan, strides } if is_bf16(&input.1, &output.1) => {
                with_bf16(memory, [input, kernel, output], |x, w, y| {
                    let w = strides.view(w);
                    match (kept, plan.packed_bf16_len(machine)) {
                        (Some(kept), Some(len)) => {
                            let pack = |packed: &mut [u16]| {
                                plan.pack_bf16(machine, w, packed);
                                true
                            };
                            kept.lend(memory, len, pack, |packed| plan.run_packed_bf16(machine, x, packed, y, &follow));
                        }
                        _ => plan.run_bf16(machine, x, w, y, Some(&follow)),
                    }
                });
            }
            ConvAlgorithm::Gradient(plan) if is_bf16(&input.1, &output.1) => {
                with_bf16(memory, [input, kernel, output], |x, dy, dw| plan.run_bf16(machine, x, dy, dw));
            }
            ConvAlgorithm::Images { kernel: plan, strides } => with_f32(memory, machine, input, |x| {
                with_f32(memory, machine, kernel, |w| {
                    let follow = |first: usize, pixels: &mut [f32]| follow(first, pixels.len());
                    let follow: Option<&Epilogue> = epilogue.is_some().then_some(&follow);
                    let kept = kept.filter(|_| keeps_weights(plan) && kernel.1.dtype() == DType::F32);
                    into_f32(memory, machine, output, |y| match kept {
                        Some(kept) => {
                            let pack = |packed: &mut [u16]| {
                                plan.pack_f32(machine, strides.view(w), bytemuck::cast_slice_mut(packed));
                                true
                            };
                            let len = 2 * plan.packed_f32_len(machine);
                            kept.lend(memory, len, pack, |packed| {
                                plan.run_packed_f32(machine, x, bytemuck::cast_slice(packed), y, follow);
                            });
                        }
                        None => plan.run(machine, x, strides.view(w), y, follow),
                    });
                })
            }),
            ConvAlgorithm::Gradient(plan) => with_f32(memory, machine, input, |x| {
                with_f32(memory, machine, kernel, |dy| {
                    into_f32(memory, machine, output, |dw| plan.run(machine, x, dy, dw))
                })
            }),
            ConvAlgorithm::General(conv) if output.1.dtype().is_float() => {
                let (x, w) = (doubles(memory, input), doubles(memory, kernel));
                let (x, w) = ((&x[..], &input.1), (&w[..], &kernel.1));
                let y = general::convolution(conv, x, w, &output.1, 0.0, |sum, x, w| sum + x * w);
                write_doubles(memory, output, &y);
            }
            ConvAlgorithm::General(conv) => {
                let (x, w) = (integers(memory, input), integers(memory, kernel));
                let multiply_add = |sum: i64, x: i64, w: i64| sum.wrapping_add(x.wrapping_mul(w));
                let (x, w) = ((&x[..], &input.1), (&w[..], &kernel.1));
                let y = general::convolution(conv, x, w, &output.1, 0, multiply_add);
                write_integers(memory, output, &y);
            }
        }
    }
}

/// Whether packed f32 weights are kept from run to run: with more pixels than this, packing them anew costs next to nothing,
/// and they are up to twice as large as they were.
fn keeps_weights(plan: &Kernel) -> bool {
    const KEPT_PIXELS: usize = 2048;
    let conv = plan.description();
    conv.batch * conv.output[0] * conv.output[1] <= KEPT_PIXELS
}

impl KernelStrides {
    /// Those of a matrix that maps input channels to output channels.
    pub fn of_matrix(matrix: MatrixStrides) -> KernelStrides {
        KernelStrides { row: 0, column: 0, input: matrix.row, output: matrix.column, group: 0 }
    }

    pub fn view<'a, T>(&self, data: &'a [T]) -> Weights<'a, T> {
        let KernelStrides { row, column, input, output, group } = *self;
        Weights { data, row, column, input, output, group }
    }

    pub fn of(conv: &Convolution, kernel: &Shape) -> KernelStrides {
        let strides = kernel.strides();
        KernelStrides {
            row: strides[conv.kernel.spatial[0]],
            column: strides[conv.kernel.spatial[1]],
            input: strides[conv.kernel.input],
            output: strides[conv.kernel.output],
            group: strides[conv.kernel.output] * (kernel.dims()[conv.kernel.output] / conv.feature_groups),
        }
    }
}
