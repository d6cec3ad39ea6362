//! Convolution in its general form.

pub(super) mod gradient;

use crate::{Convolution, Op, Shape, Tensor};

pub(super) fn infer_convolution([input, kernel]: [&Shape; 2], conv: &Convolution) -> Result<Shape, String> {
    check_layout(input, kernel, conv)?;
    super::check_accumulation(input.dtype(), conv.dtype)?;
    let input_features = input.dims()[conv.input.feature];
    let output_features = kernel.dims()[conv.kernel.output];
    let batch = input.dims()[conv.input.batch];
    let (groups, batch_groups) = (conv.feature_groups, conv.batch_groups);
    if kernel.dims()[conv.kernel.input] * groups != input_features {
        return Err(format!(
            "the input {input} has {input_features} features, the kernel {kernel} takes {} in {groups} group(s)",
            kernel.dims()[conv.kernel.input] * groups
        ));
    }
    if groups == 0 || batch_groups == 0 || (groups > 1 && batch_groups > 1) {
        return Err("group counts must be at least 1, and only one of them greater".into());
    }
    if output_features % groups != 0 || output_features % batch_groups != 0 || batch % batch_groups != 0 {
        return Err(format!(
            "{output_features} output features and a batch of {batch} do not fall into {groups} feature and \
             {batch_groups} batch groups"
        ));
    }
    let mut dims = vec![0; input.rank()];
    dims[conv.output.batch] = batch / batch_groups;
    dims[conv.output.feature] = output_features;
    for axis in 0..conv.strides.len() {
        let length = input.dims()[conv.input.spatial[axis]];
        let length = super::padded_length(length, conv.input_dilation[axis], conv.padding[axis]);
        let size = kernel.dims()[conv.kernel.spatial[axis]];
        dims[conv.output.spatial[axis]] =
            super::window_count(length, size, conv.kernel_dilation[axis], conv.strides[axis]);
    }
    Ok(Shape::new(conv.dtype, dims))
}

fn check_layout(input: &Shape, kernel: &Shape, conv: &Convolution) -> Result<(), String> {
    if input.dtype() != kernel.dtype() {
        return Err(format!("the input {input} and the kernel {kernel} have different element types"));
    }
    if input.rank() != kernel.rank() || input.rank() < 2 {
        return Err(format!("the input {input} and the kernel {kernel} have different numbers of axes"));
    }
    let axes = |first: usize, second: usize, spatial: &[usize]| [&[first, second], spatial].concat();
    for axes in [
        axes(conv.input.batch, conv.input.feature, &conv.input.spatial),
        axes(conv.kernel.input, conv.kernel.output, &conv.kernel.spatial),
        axes(conv.output.batch, conv.output.feature, &conv.output.spatial),
    ] {
        let mut sorted = axes.clone();
        sorted.sort_unstable();
        if !sorted.iter().copied().eq(0..input.rank()) {
            return Err(format!("{axes:?} does not name every axis of {input} once"));
        }
    }
    let lengths = [
        ("strides", conv.strides.len()),
        ("padding", conv.padding.len()),
        ("input_dilation", conv.input_dilation.len()),
        ("kernel_dilation", conv.kernel_dilation.len()),
    ];
    super::check_lengths(input.rank() - 2, &lengths)?;
    match [&conv.strides, &conv.input_dilation, &conv.kernel_dilation].into_iter().flatten().all(|&factor| factor > 0) {
        true => Ok(()),
        false => Err("strides and dilations must be at least 1".into()),
    }
}

impl Tensor {
    /// A convolution of this value with a kernel.
    pub fn convolution(&self, kernel: &Tensor, conv: Convolution) -> Tensor {
        self.trace().emit_one(Op::Convolution(conv), &[self, kernel])
    }
}
