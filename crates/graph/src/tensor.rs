//! The symbolic tensor that model code holds.

use crate::{Trace, ValueId};
use octant_tensor::{DType, Shape};
use std::rc::Rc;

/// A value of a graph being traced: cheap to clone, with overloaded operators that broadcast as NumPy does.
///
/// After a mistake a value is invalid: whatever is computed from it is invalid too, and [`Trace::finish`] returns the
/// mistake. An invalid value keeps a plausible shape so that code that reads dimensions continues.
#[derive(Clone)]
pub struct Tensor {
    trace: Trace,
    id: Option<ValueId>,
    shape: Rc<Shape>,
}

impl Tensor {
    pub(crate) fn new(trace: Trace, id: Option<ValueId>, shape: Shape) -> Tensor {
        Tensor { trace, id, shape: Rc::new(shape) }
    }

    /// The recording that this value belongs to.
    pub fn trace(&self) -> &Trace {
        &self.trace
    }

    /// The value's id in its graph; none after a mistake.
    pub fn id(&self) -> Option<ValueId> {
        self.id
    }

    /// Element type and dimensions.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// The element type.
    pub fn dtype(&self) -> DType {
        self.shape.dtype()
    }

    /// The length of every axis.
    pub fn dims(&self) -> &[usize] {
        self.shape.dims()
    }

    /// The number of axes.
    pub fn rank(&self) -> usize {
        self.shape.rank()
    }

    /// The length of one axis, negative ones counted from the last; 1 for an axis that is not there, which is a mistake
    /// that the next operation reports.
    pub fn dim(&self, axis: isize) -> usize {
        let axis = if axis < 0 { axis + self.rank() as isize } else { axis };
        usize::try_from(axis).ok().and_then(|axis| self.dims().get(axis).copied()).unwrap_or(1)
    }

    /// The length of the last axis: the features of an NHWC image or of a matrix of rows.
    pub fn channels(&self) -> usize {
        self.dim(-1)
    }

    /// Asserts a shape; another one is an error with both shapes.
    pub fn assert_dims(&self, dims: &[usize]) -> Tensor {
        match self.id.is_none() || self.dims() == dims {
            true => self.clone(),
            false => self
                .trace
                .fail(format!("expected dimensions {dims:?}, found {}", self.shape), self.shape.with_dims(dims)),
        }
    }
}

impl std::fmt::Debug for Tensor {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        match self.id {
            Some(id) => write!(f, "%{} {}", id.index(), self.shape),
            None => write!(f, "%invalid {}", self.shape),
        }
    }
}
