//! Attention inside of windows: partition, shift, relative positions, and the mask between regions that a shift made adjacent.

use octant_graph::{AttentionOptions, DType, HostTensor, Shape, Tensor, Trace};
use octant_nn::layers::Dense;
use octant_nn::{Scope, WeightLayout, init};

/// How a map `[n, h, w, c]` falls into windows.
pub(super) struct Windows {
    size: [usize; 2],
    /// Rows and columns that are added to make whole windows.
    padding: [usize; 2],
    shift: [usize; 2],
    window: usize,
    pads_first: bool,
}

/// What is added to the score of two pixels that only a shift made neighbors.
const HIDDEN: f64 = -100.0;

impl Windows {
    /// An axis that one window covers is not shifted.
    pub fn of(x: &Tensor, window: usize, shift: usize, pads_first: bool) -> Windows {
        let size = [x.dim(1), x.dim(2)];
        let padding = size.map(|length| length.next_multiple_of(window) - length);
        let shift = size.map(|length| if length <= window { 0 } else { shift });
        Windows { size, padding, shift, window, pads_first }
    }

    fn padded_size(&self) -> [usize; 2] {
        [0, 1].map(|axis| self.size[axis] + self.padding[axis])
    }

    fn counts(&self) -> [usize; 2] {
        self.padded_size().map(|length| length / self.window)
    }

    /// Attention of every pixel to the pixels of its window, with a learned bias per relative position.
    pub fn attention(&self, cx: &Scope, x: &Tensor, heads: usize) -> Tensor {
        let _scope = cx.enter();
        let (width, area) = (x.channels(), self.window * self.window);
        let dense = |features| Dense::new(features).init(init::truncated_normal_02, init::zeros);
        let windows = self.partition(x);
        let joint = dense(3 * width).apply(&cx.at("qkv"), &windows);
        let joint = joint.reshape(&[windows.dim(0), area, 3, heads, width / heads.max(1)]);
        let bias = self.bias(cx, heads);
        let options = AttentionOptions { bias: Some(&bias), trainable_bias: true, ..AttentionOptions::default() };
        let [mixed, _] = joint.self_attention(&options);
        let mixed = dense(width).apply(&cx.at("proj"), &mixed.reshape(&[windows.dim(0), area, width]));
        self.merge(&mixed, x.dim(0))
    }

    /// `[windows or 1, heads, area, area]`
    fn bias(&self, cx: &Scope, heads: usize) -> Tensor {
        let (side, area) = (2 * self.window - 1, self.window * self.window);
        let table = cx.param(
            "relative_position_bias_table",
            &[side * side, heads],
            init::Init::TruncatedNormal { deviation: 0.02, bound: 2.0 },
            WeightLayout::Same,
        );
        let index = HostTensor::new([area * area], &relative_positions(self.window));
        let index = cx.context().trace().constant(index.expect("one index per pair of pixels"));
        let bias = table.take(&index).reshape(&[area, area, heads]).transpose(&[2, 0, 1]);
        let bias = bias.reshape(&[1, heads, area, area]);
        match self.shift {
            [0, 0] => bias,
            _ => bias + self.mask(cx.context().trace()),
        }
    }

    /// `[windows, 1, area, area]`: which pixels of a shifted window come from different sides of the map.
    fn mask(&self, trace: &Trace) -> Tensor {
        let (window, [rows, columns], [height, width]) = (self.window, self.counts(), self.padded_size());
        let region = |at: usize, length: usize, shift: usize| match shift {
            0 => 0,
            _ => usize::from(at + window >= length) + usize::from(at + shift >= length),
        };
        let area = window * window;
        let regions: Vec<usize> = (0..rows * columns * area)
            .map(|index| {
                let (number, pixel) = (index / area, index % area);
                let row = number / columns * window + pixel / window;
                let column = number % columns * window + pixel % window;
                3 * region(row, height, self.shift[0]) + region(column, width, self.shift[1])
            })
            .collect();
        let values: Vec<f64> = regions
            .chunks(area)
            .flat_map(|regions| {
                regions
                    .iter()
                    .flat_map(move |query| regions.iter().map(move |key| if query == key { 0.0 } else { HIDDEN }))
            })
            .collect();
        let shape = Shape::new(DType::F32, [rows * columns, 1, area, area]);
        trace.constant(HostTensor::from_f64s(shape, &values).expect("one value per pair of pixels"))
    }

    /// `[n · windows, area, c]`, the windows of an image one after another.
    fn partition(&self, x: &Tensor) -> Tensor {
        let x = match self.pads_first {
            true => rolled(&padded(x, self.padding), self.shift),
            false => padded(&rolled(x, self.shift), self.padding),
        };
        let (batch, channels, [rows, columns], window) = (x.dim(0), x.channels(), self.counts(), self.window);
        let windows = x.reshape(&[batch, rows, window, columns, window, channels]).transpose(&[0, 1, 3, 2, 4, 5]);
        windows.reshape(&[batch * rows * columns, window * window, channels])
    }

    fn merge(&self, windows: &Tensor, batch: usize) -> Tensor {
        let (channels, [rows, columns], window) = (windows.channels(), self.counts(), self.window);
        let [height, width] = self.padded_size();
        let x = windows.reshape(&[batch, rows, columns, window, window, channels]).transpose(&[0, 1, 3, 2, 4, 5]);
        let x = x.reshape(&[batch, height, width, channels]);
        let cut = |x: &Tensor| x.slice_axis(1, 0, self.size[0]).slice_axis(2, 0, self.size[1]);
        let back = |x: &Tensor| {
            let lengths = [x.dim(1), x.dim(2)];
            rolled(x, [0, 1].map(|axis| (lengths[axis] - self.shift[axis]) % lengths[axis].max(1)))
        };
        match self.pads_first {
            true => cut(&back(&x)),
            false => back(&cut(&x)),
        }
    }
}

/// For every pair of pixels of a window, the row of the table that their distance looks at.
pub(crate) fn relative_positions(window: usize) -> Vec<i32> {
    let along = |query: usize, key: usize| query + window - 1 - key;
    let pair = |query: usize, key: usize| {
        let rows = along(query / window, key / window);
        (rows * (2 * window - 1) + along(query % window, key % window)) as i32
    };
    let area = window * window;
    (0..area).flat_map(|query| (0..area).map(move |key| pair(query, key))).collect()
}

/// Zeros below and to the right.
pub(super) fn padded(x: &Tensor, [rows, columns]: [usize; 2]) -> Tensor {
    if rows == 0 && columns == 0 {
        return x.clone();
    }
    x.pad(&x.scalar_like(0.0), &[0; 4], &[0, rows as i64, columns as i64, 0], &[0; 4])
}

/// The first rows and columns moved to the end.
fn rolled(x: &Tensor, by: [usize; 2]) -> Tensor {
    by.iter().zip([1, 2]).fold(x.clone(), |x, (&by, axis)| match by {
        0 => x,
        _ => {
            let length = x.dims()[axis];
            Tensor::concatenate(&[x.slice_axis(axis, by, length), x.slice_axis(axis, 0, by)], axis)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relative_positions_count_rows_then_columns() {
        // A window of 2: the pixel itself is number 4 of 9; from the last to the first it is the last number.
        let positions = relative_positions(2);
        assert_eq!((positions[0], positions[12], positions[3]), (4, 8, 0));
    }
}
