//! The numeric loops: convolutions, matrix products and poolings over plain slices.
//!
//! Everything runs on a [`Machine`] (threads and instruction set). Kernels with a plan of their own ([`ForwardConv`])
//! are built once from shapes and run many times; they allocate nothing after the first run, since each thread keeps
//! its working memory.
//!
//! | call | what it computes |
//! |---|---|
//! | [`ForwardConv::new`] then [`ForwardConv::run`] | y = conv(x, w), NHWC × HWIO, any strides, padding (also negative), both dilations, groups, reversal; an optional epilogue sees finished pixels |
//! | [`ConvGeometry::backward_data`] with [`Weights::transposed`] | describes the gradient of the input as a convolution, to be run like any other |
//! | [`WeightsGradient::new`] then [`WeightsGradient::run`] | dw = Σ x·dy for the same description |
//! | [`ForwardConv::run_bf16`], [`WeightsGradient::run_bf16`] | the same for bf16 images, with f32 sums |
//! | [`Int8Conv::new`] then [`Int8Conv::run`] | convolutions and products of 8-bit numbers, with exact sums |
//! | [`gemm`], [`gemm_bf16`] | C = A·B with any strides and a batch |
//! | [`pool2d`] | maximum, minimum or sum over windows |
//! | [`max_pool2d_gradient`], [`sum_pool2d_gradient`] | their gradients (select-and-scatter, spreading) |
//! | [`ForwardConv::run_pooled`], [`WeightsGradient::run_unpooled`] | a convolution and the maximum pooling after it, without the image between them |
//!
//! How work is cut into chunks, and the order in which partial sums are added, depends on shapes only: results are
//! bitwise the same for any number of threads.
//!
//! Start reading at `tile.rs`: all products are made of its two register tiles.

#[cfg(target_arch = "x86_64")]
mod amx;
mod attention;
mod bf16;
mod conv;
mod gemm;
mod gemm_bf16;
mod int8;
mod panels;
mod pool2d;
mod scratch;
mod tile;

pub(crate) use attention::{AttentionElement, Cotangents, Inputs, attention, attention_gradient};
pub use bf16::{Output, Stored};
pub(crate) use bf16::{narrow_all, widen_all};
pub use conv::{
    ConvGeometry, Epilogue, Finished, ForwardConv, Weights, WeightsGradient, conv2d, conv2d_weights_gradient,
};
pub(crate) use gemm::FEW_ROWS;
#[cfg(target_arch = "x86_64")]
pub(crate) use gemm::RowsGemm;
pub(crate) use gemm::is_split;
pub use gemm::{Gemm, MatrixStrides, gemm};
pub use gemm_bf16::gemm_bf16;
pub use int8::Int8Conv;
pub use pool2d::{Pool2d, PoolReduction, max_pool2d_gradient, pool2d, scatter_selected, sum_pool2d_gradient};
pub(crate) use scratch::borrow as borrow_scratch;

use crate::pool::ThreadPool;
use crate::simd::{Simd, SimdError};

/// What kernels run on.
pub struct Machine {
    /// The threads.
    pub pool: ThreadPool,
    /// The instruction set.
    pub simd: Simd,
}

impl Machine {
    /// `threads` threads and the instruction set that `OCTANT_SIMD` names, or the best there is.
    pub fn new(threads: usize) -> Result<Machine, SimdError> {
        Ok(Machine { pool: ThreadPool::new(threads), simd: Simd::current()? })
    }
}

/// A pointer that chunks of a job may share: each writes elements that no other touches.
#[derive(Clone, Copy)]
pub(crate) struct Shared<T>(pub *mut T);

// SAFETY: the kernels give every chunk its own elements, and the caller of the kernel holds the slice until all end.
unsafe impl<T> Sync for Shared<T> {}
// SAFETY: as above.
unsafe impl<T> Send for Shared<T> {}

impl<T> Shared<T> {
    /// The element at `index`; the accessor keeps closures from capturing the bare pointer.
    pub fn at(self, index: usize) -> *mut T {
        self.0.wrapping_add(index)
    }
}
