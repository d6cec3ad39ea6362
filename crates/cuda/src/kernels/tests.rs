//! What all kernels promise.

use super::*;
use crate::kernels::conv::ConvKernel;
use crate::kernels::conv::descriptor::tests::plain;
use crate::kernels::conv::descriptor::{ConvDescriptor, Pointwise};
use crate::runtime::compiler::{Source, compiler};
use crate::runtime::ffi::fake;

const EXECUTE: i32 = 3;

#[test]
fn handlers_speak_the_version_of_the_plugin_and_may_be_replayed() {
    for entry in &KERNELS {
        assert_eq!(fake::metadata(entry.handler), (fake::VERSION.0, fake::VERSION.1, 1), "{}", entry.name);
    }
}

#[test]
fn a_call_with_another_descriptor_is_an_error() {
    for entry in &KERNELS {
        let error = fake::call(entry.handler, EXECUTE, &[3, 16, 1, 1]).unwrap_or_default();
        assert!(error.contains("descriptor"), "{}: {error}", entry.name);
    }
}

#[test]
fn names_are_unique() {
    let mut names = NAMES.to_vec();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), KERNELS.len());
}

#[test]
fn a_call_with_other_shapes_is_refused() {
    let images = |channels: usize| Shape::new(octant_graph::DType::F32, [2, 64, 64, channels]);
    let kernel = Shape::new(octant_graph::DType::F32, [3, 3, 16, 32]);
    let hint = KernelHint::new("octant.convolution", plain(3, 32, 16, 32).encode());
    let accepts = |operands: &[Shape], results: &[Shape]| super::accepts(&hint, operands, results, &GpuFacts::H200);
    assert_eq!(accepts(&[images(16), kernel.clone()], &[images(32)]), Ok(()));
    assert!(accepts(&[images(16), kernel.clone()], &[images(48)]).is_err_and(|error| error.contains("channels")));
    assert!(accepts(&[images(16)], &[images(32)]).is_err_and(|error| error.contains("operands")));
    let unknown = KernelHint::new("octant.unknown", vec![]);
    assert!(super::accepts(&unknown, &[], &[], &GpuFacts::H200).is_err());
    let little = GpuFacts { shared_memory: 1 << 10, ..GpuFacts::H200 };
    let refused = super::accepts(&hint, &[images(16), kernel], &[images(32)], &little);
    assert!(refused.is_err_and(|error| error.contains("shared memory")));
}

/// Needs NVIDIA's run-time compiler, which is a pip package of its own and needs no GPU.
#[test]
fn every_convolution_compiles_where_there_is_a_compiler() {
    let Ok(compiler) = compiler() else {
        println!("skipped: libnvrtc is not on this machine");
        return;
    };
    fn defined<C: ConvKernel>(descriptor: ConvDescriptor) -> (Source, Vec<String>) {
        (C::SOURCE, C::defines(&descriptor))
    }
    let strided = ConvDescriptor { strides: [2, 2], ..plain(7, 32, 64, 64) };
    let transposed = ConvDescriptor { transposed: true, ..plain(3, 32, 16, 48) };
    let beside = |moments, inputs, outputs| ConvDescriptor {
        pointwise: Pointwise::Beside,
        moments,
        ..plain(3, 32, inputs, outputs)
    };
    for (source, defines) in [
        defined::<depthwise::DepthwiseForward>(plain(3, 16, 64, 64)),
        defined::<depthwise::DepthwiseForward>(strided),
        defined::<depthwise::DepthwiseWeightGradient>(plain(5, 16, 64, 64)),
        defined::<depthwise::DepthwiseWeightGradient>(strided),
        defined::<few_channels::FewChannelsForward>(plain(7, 32, 2, 1)),
        defined::<few_channels::FewChannelsWeightGradient>(plain(3, 32, 4, 1)),
        defined::<tensor_core::TensorCoreForward>(transposed),
        defined::<tensor_core::TensorCoreForward>(plain(3, 32, 48, 16)),
        defined::<tensor_core::TensorCoreForward>(plain(3, 32, 16, 16)),
        defined::<tensor_core::TensorCoreWeightGradient>(plain(3, 32, 32, 48)),
        defined::<tensor_core::TensorCoreWeightGradient>(plain(3, 32, 64, 64)),
        defined::<tensor_core::TensorCoreForward>(beside(true, 48, 16)),
        defined::<tensor_core::TensorCoreForward>(ConvDescriptor { pointwise: Pointwise::Added, ..transposed }),
        defined::<tensor_core::TensorCoreForward>(ConvDescriptor {
            norm_relu: true,
            moments: true,
            ..plain(3, 32, 32, 32)
        }),
        defined::<tensor_core::TensorCoreForward>(ConvDescriptor { cotangent: true, ..plain(3, 32, 16, 16) }),
        defined::<tensor_core::TensorCoreForward>(ConvDescriptor {
            cotangent: true,
            transposed: true,
            ..plain(3, 32, 32, 32)
        }),
        defined::<tensor_core::TensorCoreWeightGradient>(beside(false, 96, 32)),
        defined::<tensor_core::TensorCoreWeightGradient>(ConvDescriptor { norm_relu: true, ..plain(3, 32, 16, 16) }),
    ] {
        let code = compiler.compile(&source, 80, &defines);
        assert!(code.as_ref().is_ok_and(|code| !code.is_empty()), "{:?}: {code:?}", source.name);
    }
}
