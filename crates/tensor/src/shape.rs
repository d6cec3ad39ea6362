//! Shapes: an element type and the length of every axis.

use crate::DType;
use std::fmt;

/// The metadata of a tensor: element type and dimensions, row-major. A scalar has no dimensions.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Shape {
    dtype: DType,
    dims: Vec<usize>,
}

impl Shape {
    /// A shape of that element type with those dimensions.
    pub fn new(dtype: DType, dims: impl Into<Vec<usize>>) -> Shape {
        Shape { dtype, dims: dims.into() }
    }

    /// A single element.
    pub fn scalar(dtype: DType) -> Shape {
        Shape::new(dtype, [])
    }

    /// The element type.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// The length of every axis.
    pub fn dims(&self) -> &[usize] {
        &self.dims
    }

    /// The number of axes.
    pub fn rank(&self) -> usize {
        self.dims.len()
    }

    /// How many elements there are: 1 for a scalar, 0 when an axis is empty.
    pub fn elements(&self) -> usize {
        self.dims.iter().product()
    }

    /// How many bytes the elements take.
    pub fn bytes(&self) -> usize {
        self.elements() * self.dtype.size()
    }

    /// [`bytes`](Shape::bytes) for dimensions that come from outside: `None` when they could not be laid out in memory.
    /// Empty axes count as one here, so that the strides of an accepted shape never overflow either.
    pub fn checked_bytes(&self) -> Option<usize> {
        let laid_out = self.dims.iter().try_fold(self.dtype.size(), |product, &dim| product.checked_mul(dim.max(1)))?;
        let addressable = laid_out <= isize::MAX as usize;
        addressable.then(|| if self.dims.contains(&0) { 0 } else { laid_out })
    }

    /// The distance in elements between neighbors along every axis.
    pub fn strides(&self) -> Vec<usize> {
        let mut strides = vec![1; self.rank()];
        for axis in (1..self.rank()).rev() {
            strides[axis - 1] = strides[axis] * self.dims[axis];
        }
        strides
    }

    /// The same dimensions with another element type.
    pub fn with_dtype(&self, dtype: DType) -> Shape {
        Shape { dtype, dims: self.dims.clone() }
    }

    /// The same element type with other dimensions.
    pub fn with_dims(&self, dims: impl Into<Vec<usize>>) -> Shape {
        Shape { dtype: self.dtype, dims: dims.into() }
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{}[", self.dtype)?;
        for (axis, dim) in self.dims.iter().enumerate() {
            let separator = if axis == 0 { "" } else { "," };
            write!(f, "{separator}{dim}")?;
        }
        f.write_str("]")
    }
}
