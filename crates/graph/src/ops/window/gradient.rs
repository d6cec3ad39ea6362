//! Backward rules of sliding windows.

use crate::gradient::step::{Gradients, Step};
use crate::{DType, Reduction, Tensor, Window};

pub(crate) fn reduce_window(kind: Reduction, window: &Window, step: &Step) -> Gradients {
    let (x, y, ct) = (&step.inputs[0], &step.outputs[0], step.cotangent());
    if x.shape().elements() == 0 || y.shape().elements() == 0 {
        return step.nothing();
    }
    let dilated = window.base_dilation.iter().chain(&window.window_dilation).any(|&dilation| dilation != 1);
    let gradient = match kind {
        Reduction::Sum if tiles(window) => spread_over_tiles(ct, window, x.dims()),
        Reduction::Sum => ct.reduce_window(Reduction::Sum, transposed(window, x.dims(), ct.dims())),
        Reduction::Max if !dilated => x.select_and_scatter(ct, window.clone()),
        Reduction::Min if !dilated => (-x).select_and_scatter(ct, window.clone()),
        Reduction::Max | Reduction::Min => to_extremes(x, y, ct, kind, window),
        Reduction::Product => return step.mistake("reduce_window: a product over windows has no gradient"),
        // Bools carry no gradient.
        Reduction::And | Reduction::Or => return step.nothing(),
    };
    vec![Some(gradient)]
}

/// Whether windows lie side by side, without gaps, padding or holes, as in most pooling.
fn tiles(window: &Window) -> bool {
    window.strides == window.size
        && window.padding.iter().all(|&edges| edges == (0, 0))
        && window.base_dilation.iter().chain(&window.window_dilation).all(|&dilation| dilation == 1)
}

/// Every cotangent repeated over its window: cheaper than summing over windows. What no window took receives zeros.
fn spread_over_tiles(ct: &Tensor, window: &Window, operand: &[usize]) -> Tensor {
    let axes = 0..ct.rank();
    let split: Vec<usize> = axes.clone().flat_map(|axis| [ct.dims()[axis], window.size[axis]]).collect();
    let merged: Vec<usize> = axes.clone().map(|axis| ct.dims()[axis] * window.size[axis]).collect();
    let positions: Vec<usize> = axes.clone().map(|axis| 2 * axis).collect();
    let spread = ct.broadcast_in_dim(&split, &positions).reshape(&merged);
    if merged == operand {
        return spread;
    }
    let rest: Vec<i64> = axes.map(|axis| (operand[axis] - merged[axis]) as i64).collect();
    spread.pad(&ct.scalar_like(0.0), &vec![0; rest.len()], &rest, &vec![0; rest.len()])
}

/// The window that spreads every result's cotangent over the elements which its window had taken: strides and holes in
/// the operand change positions, and the padding is what makes the lengths come out.
fn transposed(window: &Window, operand: &[usize], result: &[usize]) -> Window {
    let padding = (0..operand.len())
        .map(|axis| {
            let (low, _) = window.padding[axis];
            let reach = ((window.size[axis] - 1) * window.window_dilation[axis]) as i64;
            crate::ops::transposed_padding(
                (operand[axis], window.base_dilation[axis]),
                (result[axis], window.strides[axis]),
                reach,
                low,
            )
        })
        .collect();
    Window {
        size: window.size.clone(),
        strides: window.base_dilation.clone(),
        padding,
        base_dilation: window.strides.clone(),
        window_dilation: window.window_dilation.clone(),
    }
}

/// The cotangents of dilated windows added to the first of their extreme elements, one tap of the window after another.
fn to_extremes(x: &Tensor, y: &Tensor, ct: &Tensor, kind: Reduction, window: &Window) -> Tensor {
    let taps = Taps::new(x, kind, window, y.dims());
    let chosen = taps.first_equal_to(y);
    let spread = chosen.iter().enumerate().map(|(tap, chosen)| {
        let part = chosen.select(ct, &ct.scalar_like(0.0));
        taps.put_back(tap, &part)
    });
    let sum = spread.reduce(|sum, part| sum + part).expect("a window has at least one element");
    taps.unpad(&sum)
}

/// The gradient of a max-pooling as a gather: every element adds up the cotangents of the windows whose first max it is.
pub(crate) fn gathered_from_windows(x: &Tensor, source: &Tensor, window: &Window) -> Tensor {
    let taps = Taps::new(x, Reduction::Max, window, source.dims());
    let max = x.reduce_window(Reduction::Max, window.clone());
    let count = taps.offsets.len();
    let dtype = if count <= 1 << u8::BITS { DType::U8 } else { DType::I32 };
    let number = |tap: usize| x.trace().scalar(dtype, tap as f64);
    let broadcast = |value: Tensor| value.broadcast_to(max.dims());
    // From the last tap to the first, so that the first of equals stays.
    let chosen = (0..count - 1).rev().fold(broadcast(number(count - 1)), |chosen, tap| {
        let is_max = taps.take(tap, &taps.padded).equal(&max);
        is_max.select(&broadcast(number(tap)), &chosen)
    });
    // Written to memory once: fused into the sums below, every tap would be compared again for each of them.
    let chosen = x.trace().barrier(&[chosen]).swap_remove(0);
    // An element of half precision adds up to four cotangents or more; the sum is rounded once.
    let wide = source.convert(if source.dtype().size() < 4 { DType::F32 } else { source.dtype() });
    let parts = (0..count).map(|tap| {
        let part = chosen.equal(&broadcast(number(tap))).select(&wide, &wide.zeros_like());
        taps.put_back(tap, &part)
    });
    let sum = parts.reduce(|sum, part| sum + part).expect("a window has at least one element");
    taps.unpad(&sum).convert(source.dtype())
}

/// With respect to the source: each of its elements takes the cotangent at the position it was added to. Where it was
/// added does not change with the operand (almost everywhere), so the operand receives nothing.
pub(crate) fn select_and_scatter(window: &Window, step: &Step) -> Gradients {
    let (operand, source, ct) = (&step.inputs[0], &step.inputs[1], step.cotangent());
    if operand.shape().elements() == 0 || source.shape().elements() == 0 {
        return step.nothing();
    }
    let gather = || {
        let taps = Taps::new(operand, Reduction::Max, window, source.dims());
        let largest = operand.reduce_window(Reduction::Max, window.clone());
        let zero = ct.scalar_like(0.0);
        let padded = taps.pad(ct, &zero);
        let parts = taps.first_equal_to(&largest).into_iter().enumerate();
        let parts = parts.map(|(tap, chosen)| chosen.select(&taps.take(tap, &padded), &zero));
        parts.reduce(|sum, part| sum + part).expect("a window has at least one element")
    };
    vec![None, step.want(1, gather)]
}

/// The taps of a window: tap `t` is element `t` of all windows at once.
struct Taps<'a> {
    window: &'a Window,
    operand: &'a Tensor,
    padded: Tensor,
    /// Per tap the offset of its first element.
    offsets: Vec<Vec<usize>>,
    results: Vec<usize>,
}

impl<'a> Taps<'a> {
    fn new(operand: &'a Tensor, kind: Reduction, window: &'a Window, results: &[usize]) -> Taps<'a> {
        let mut offsets = vec![vec![]];
        for (&size, &dilation) in window.size.iter().zip(&window.window_dilation) {
            let longer =
                |start: &Vec<usize>| (0..size).map(|tap| [&start[..], &[tap * dilation]].concat()).collect::<Vec<_>>();
            offsets = offsets.iter().flat_map(longer).collect();
        }
        let least = if kind == Reduction::Max { f64::NEG_INFINITY } else { f64::INFINITY };
        let mut taps = Taps { window, operand, padded: operand.clone(), offsets, results: results.to_vec() };
        taps.padded = taps.pad(operand, &operand.scalar_like(least));
        taps
    }

    fn edges(&self) -> (Vec<i64>, Vec<i64>, Vec<usize>) {
        let (low, high) = self.window.padding.iter().copied().unzip();
        (low, high, self.window.base_dilation.iter().map(|dilation| dilation - 1).collect())
    }

    fn pad(&self, value: &Tensor, padding: &Tensor) -> Tensor {
        let (low, high, interior) = self.edges();
        value.pad(padding, &low, &high, &interior)
    }

    /// The elements of the operand out of something of the padded shape.
    fn unpad(&self, value: &Tensor) -> Tensor {
        let (low, high, interior) = self.edges();
        let negated = |edges: Vec<i64>| edges.iter().map(|edge| -edge).collect::<Vec<_>>();
        let none = vec![0; interior.len()];
        let dilated = value.pad(&value.scalar_like(0.0), &negated(low), &negated(high), &none);
        let limits = dilated.dims().to_vec();
        let taken = dilated.slice(&none, &limits, &self.window.base_dilation);
        taken.assert_dims(self.operand.dims())
    }

    /// One tap out of a value of the padded shape.
    fn take(&self, tap: usize, padded: &Tensor) -> Tensor {
        let limits: Vec<usize> = (0..self.results.len())
            .map(|axis| self.offsets[tap][axis] + (self.results[axis] - 1) * self.window.strides[axis] + 1)
            .collect();
        padded.slice(&self.offsets[tap], &limits, &self.window.strides)
    }

    /// One tap back in its position of the padded shape, zeros elsewhere.
    fn put_back(&self, tap: usize, value: &Tensor) -> Tensor {
        let strides = &self.window.strides;
        let low: Vec<i64> = self.offsets[tap].iter().map(|&offset| offset as i64).collect();
        let high: Vec<i64> = (0..low.len())
            .map(|axis| {
                let length = crate::ops::padded_length(self.results[axis], strides[axis], (low[axis], 0));
                self.padded.dims()[axis] as i64 - length
            })
            .collect();
        let interior: Vec<usize> = strides.iter().map(|stride| stride - 1).collect();
        value.pad(&value.scalar_like(0.0), &low, &high, &interior)
    }

    /// Per tap where it is the first one equal to the window's extreme.
    fn first_equal_to(&self, extreme: &Tensor) -> Vec<Tensor> {
        let mut found: Option<Tensor> = None;
        (0..self.offsets.len())
            .map(|tap| {
                let equal = self.take(tap, &self.padded).equal(extreme);
                let first = found.as_ref().map_or_else(|| equal.clone(), |found| equal.and(&found.not()));
                found = Some(found.as_ref().map_or_else(|| equal.clone(), |found| found.or(&equal)));
                first
            })
            .collect()
    }
}
