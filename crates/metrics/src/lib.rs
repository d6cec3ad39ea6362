//! Metrics in two parts: statistics that a step sums on the device, and the host's computation from the sums.
//!
//! Each statistic is a function of the graph that returns a flat f32 vector for one batch, with a matching function (or
//! struct) on the host that turns sums over any number of batches into numbers. Sums can be added over batches, epochs
//! and devices in any order, so nothing has to be fetched per step. f32 counts exactly up to 2²⁴, so counts are
//! chosen to stay small: marked pixels, never all pixels, or parts of counts.
//!
//! Two metrics cannot be summed and need every prediction on the host: detection of components ([`Detection`]) and of
//! boxes ([`boxes`]).
//!
//! [`features`] evaluates features by their neighbors and by a linear probe.
//!
//! Start reading at [`classes`], then [`masks`] and [`pixels`].

pub mod boxes;
pub mod classes;
pub mod confidence;
mod detection;
pub mod features;
pub mod images;
pub mod labels;
pub mod masks;
pub mod pixels;
pub mod roc;
pub mod tracks;
pub mod values;

pub use detection::Detection;
pub use masks::{Component, components};
pub use roc::{OneVersusRest, Roc};
pub use values::Regression;

use octant_graph::Tensor;

/// A named value, such as `("accuracy", 0.91)`.
pub type Metric = (String, f64);

/// Scalars stacked into one vector.
pub fn vector(scalars: &[Tensor]) -> Tensor {
    let parts: Vec<Tensor> = scalars.iter().map(|scalar| scalar.reshape(&[1])).collect();
    Tensor::concatenate(&parts, 0)
}

/// `a / b`, or 0 where `b` is 0.
pub(crate) fn ratio(a: f64, b: f64) -> f64 {
    if b == 0.0 { 0.0 } else { a / b }
}

/// `a / b`, or NaN where `b` is 0: a metric that the ground truth leaves undefined.
pub(crate) fn defined_ratio(a: f64, b: f64) -> f64 {
    if b == 0.0 { f64::NAN } else { a / b }
}

/// The results of `work` on parts of `0..count`, in order. Parts have a fixed size, so that sums over them do not depend
/// on the number of threads.
pub(crate) fn in_parts<T: Send>(
    count: usize,
    part: usize,
    work: impl Fn(std::ops::Range<usize>) -> T + Sync,
) -> Vec<T> {
    let parts: Vec<_> = (0..count).step_by(part.max(1)).map(|first| first..(first + part).min(count)).collect();
    let threads = std::thread::available_parallelism().map_or(1, |cores| cores.get());
    let mut results = Vec::with_capacity(parts.len());
    for some in parts.chunks(threads) {
        let done: Vec<T> = std::thread::scope(|scope| {
            let running: Vec<_> = some.iter().map(|part| scope.spawn(|| work(part.clone()))).collect();
            running
                .into_iter()
                .map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
                .collect()
        });
        results.extend(done);
    }
    results
}
