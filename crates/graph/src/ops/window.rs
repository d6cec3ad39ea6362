//! Sliding windows: pooling and its gradient.

pub(crate) mod gradient;

use crate::{Op, Reduction, Shape, Tensor, Window};

fn check_window(operand: &Shape, window: &Window) -> Result<(), String> {
    let lengths = [
        ("size", window.size.len()),
        ("strides", window.strides.len()),
        ("padding", window.padding.len()),
        ("base_dilation", window.base_dilation.len()),
        ("window_dilation", window.window_dilation.len()),
    ];
    super::check_lengths(operand.rank(), &lengths)?;
    let factors = [&window.size, &window.strides, &window.base_dilation, &window.window_dilation];
    match factors.into_iter().flatten().all(|&factor| factor > 0) {
        true => Ok(()),
        false => Err("sizes, strides and dilations must be at least 1".into()),
    }
}

fn windows(operand: &Shape, window: &Window) -> Shape {
    let dims: Vec<usize> = (0..operand.rank())
        .map(|axis| {
            let length = super::padded_length(operand.dims()[axis], window.base_dilation[axis], window.padding[axis]);
            super::window_count(length, window.size[axis], window.window_dilation[axis], window.strides[axis])
        })
        .collect();
    operand.with_dims(dims)
}

pub(super) fn infer_reduce_window(operand: &Shape, kind: Reduction, window: &Window) -> Result<Shape, String> {
    check_window(operand, window)?;
    super::reduce::check_reduction(operand, kind)?;
    Ok(windows(operand, window))
}

pub(super) fn infer_select_and_scatter([operand, source]: [&Shape; 2], window: &Window) -> Result<Shape, String> {
    check_window(operand, window)?;
    if window.base_dilation.iter().chain(&window.window_dilation).any(|&dilation| dilation != 1) {
        return Err("the window must not be dilated".into());
    }
    let expected = windows(operand, window);
    match *source == expected {
        true => Ok(operand.clone()),
        false => Err(format!("the windows over {operand} make {expected}, the source is {source}")),
    }
}

impl Tensor {
    /// Combines the elements of a sliding window.
    pub fn reduce_window(&self, kind: Reduction, window: Window) -> Tensor {
        self.trace().emit_one(Op::ReduceWindow { kind, window }, &[self])
    }

    /// Adds every element of `source` at the position of its window's largest element of this value.
    pub fn select_and_scatter(&self, source: &Tensor, window: Window) -> Tensor {
        self.trace().emit_one(Op::SelectAndScatter { window }, &[self, source])
    }
}
