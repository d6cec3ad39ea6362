//! Sliding windows: pooling and its gradient.

use super::numbers::{Numbers, from_floats, from_integers, numbers};
use super::positions::{for_each_index, position};
use super::reduce::{float_combine, float_identity, integer_combine, integer_identity};
use crate::{HostTensor, Reduction, Shape, Window};

/// One axis of a sliding window.
pub struct Slide {
    /// Step between windows.
    pub stride: usize,
    /// Padding before the first element.
    pub low: i64,
    /// Distance between operand elements.
    pub base_dilation: usize,
    /// Distance between window elements.
    pub window_dilation: usize,
    /// Operand elements along the axis.
    pub length: usize,
}

impl Slide {
    /// The operand index that position `within` of window `window` covers; none over padding and between elements.
    pub fn source(&self, window: usize, within: usize) -> Option<usize> {
        let dilated = (window * self.stride + within * self.window_dilation) as i64 - self.low;
        let dilated = usize::try_from(dilated).ok()?;
        let index = dilated / self.base_dilation;
        (dilated % self.base_dilation == 0 && index < self.length).then_some(index)
    }
}

fn slides(operand: &HostTensor, window: &Window) -> Vec<Slide> {
    (0..operand.shape().rank())
        .map(|axis| Slide {
            stride: window.strides[axis],
            low: window.padding[axis].0,
            base_dilation: window.base_dilation[axis],
            window_dilation: window.window_dilation[axis],
            length: operand.dims()[axis],
        })
        .collect()
}

/// The operand positions that one window covers, in row-major order.
fn covered(slides: &[Slide], strides: &[usize], size: &[usize], window: &[usize]) -> Vec<usize> {
    let mut positions = Vec::new();
    for_each_index(size, |within| {
        let source: Option<Vec<usize>> =
            (0..slides.len()).map(|axis| slides[axis].source(window[axis], within[axis])).collect();
        positions.extend(source.map(|source| position(&source, strides)));
    });
    positions
}

pub fn reduce_window(operand: &HostTensor, kind: Reduction, window: &Window, shape: &Shape) -> HostTensor {
    let (slides, strides) = (slides(operand, window), operand.shape().strides());
    let mut windows = Vec::with_capacity(shape.elements());
    for_each_index(shape.dims(), |index| windows.push(covered(&slides, &strides, &window.size, index)));
    match numbers(operand) {
        Numbers::Floats(values) => {
            let combine = |window: &Vec<usize>| {
                window.iter().fold(float_identity(kind), |sum, &position| float_combine(kind, sum, values[position]))
            };
            from_floats(shape, &windows.iter().map(combine).collect::<Vec<_>>())
        }
        Numbers::Integers(values) => {
            let identity = integer_identity(kind, shape.dtype());
            let combine = |window: &Vec<usize>| {
                window.iter().fold(identity, |sum, &position| integer_combine(kind, sum, values[position]))
            };
            from_integers(shape, &windows.iter().map(combine).collect::<Vec<_>>())
        }
    }
}

pub fn select_and_scatter(operand: &HostTensor, source: &HostTensor, window: &Window) -> HostTensor {
    let (slides, strides) = (slides(operand, window), operand.shape().strides());
    let mut selected: Vec<Option<usize>> = Vec::with_capacity(source.shape().elements());
    let greater: Box<dyn Fn(usize, usize) -> bool> = match numbers(operand) {
        Numbers::Floats(values) => Box::new(move |new, old| values[new] > values[old]),
        Numbers::Integers(values) => Box::new(move |new, old| values[new] > values[old]),
    };
    for_each_index(source.dims(), |index| {
        let positions = covered(&slides, &strides, &window.size, index).into_iter();
        selected.push(positions.reduce(|best, position| if greater(position, best) { position } else { best }));
    });
    let targets = selected.into_iter();
    let count = operand.shape().elements();
    match numbers(source) {
        Numbers::Floats(values) => {
            let mut sums = vec![0.0; count];
            targets
                .zip(values)
                .for_each(|(target, value)| target.into_iter().for_each(|position| sums[position] += value));
            from_floats(operand.shape(), &sums)
        }
        Numbers::Integers(values) => {
            let mut sums = vec![0; count];
            targets
                .zip(values)
                .for_each(|(target, value)| target.into_iter().for_each(|position| sums[position] += value));
            from_integers(operand.shape(), &sums)
        }
    }
}
