//! The gradient of the output: stored, or made when it is wanted.

use super::super::Conv2d;
use crate::kernels::scratch;
use std::ops::Range;

/// Where the gradient of the output comes from.
#[derive(Clone, Copy)]
pub(in crate::kernels::conv) enum Gradients<'a> {
    Stored(&'a [f32]),
    /// Called with a row, counted through all images, when it is wanted.
    Made(&'a (dyn Fn(usize, &mut [f32]) + Sync)),
}

impl Gradients<'_> {
    /// Lends some rows as a pointer to where the first of all rows would lie.
    pub fn with_rows(&self, conv: &Conv2d, rows: Range<usize>, body: impl FnOnce(*const f32)) {
        match self {
            Gradients::Stored(dy) => body(dy.as_ptr()),
            Gradients::Made(make) => {
                let row_len = conv.output[1] * conv.out_channels;
                scratch::borrow(rows.len() * row_len, |dy: &mut [f32]| {
                    dy.chunks_exact_mut(row_len).zip(rows.clone()).for_each(|(dy, row)| make(row, dy));
                    body(dy.as_ptr().wrapping_sub(rows.start * row_len));
                });
            }
        }
    }
}
