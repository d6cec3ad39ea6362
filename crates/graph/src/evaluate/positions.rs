//! Walking over the positions of a tensor, and tensors under construction.

use crate::{HostTensor, Shape};
use octant_tensor::{AlignedBytes, Bytes};

/// Visits every index of a tensor of these dimensions in row-major order.
pub fn for_each_index(dims: &[usize], mut visit: impl FnMut(&[usize])) {
    let mut index = vec![0; dims.len()];
    for _ in 0..dims.iter().product() {
        visit(&index);
        for axis in (0..dims.len()).rev() {
            index[axis] += 1;
            if index[axis] < dims[axis] {
                break;
            }
            index[axis] = 0;
        }
    }
}

/// The position in row-major order of an index.
pub fn position(index: &[usize], strides: &[usize]) -> usize {
    index.iter().zip(strides).map(|(i, stride)| i * stride).sum()
}

/// The bytes of one element.
pub fn element(tensor: &HostTensor, position: usize) -> &[u8] {
    let size = tensor.dtype().size();
    &tensor.bytes()[position * size..][..size]
}

/// A tensor whose elements are still being put in position.
pub struct TensorBuilder {
    shape: Shape,
    bytes: AlignedBytes,
}

impl TensorBuilder {
    /// All zero.
    pub fn blank(shape: &Shape) -> TensorBuilder {
        TensorBuilder { shape: shape.clone(), bytes: AlignedBytes::zeroed(shape.bytes()) }
    }

    /// A copy of a tensor.
    pub fn copy_of(tensor: &HostTensor) -> TensorBuilder {
        TensorBuilder { shape: tensor.shape().clone(), bytes: AlignedBytes::copy_of(tensor.bytes()) }
    }

    /// Puts the bytes of one element at a position.
    pub fn put(&mut self, position: usize, element: &[u8]) {
        self.bytes[position * element.len()..][..element.len()].copy_from_slice(element);
    }

    /// The finished tensor.
    pub fn finish(self) -> HostTensor {
        HostTensor::from_bytes(self.shape, Bytes::new(self.bytes)).expect("the canvas was made for its shape")
    }
}
