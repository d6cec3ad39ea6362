//! Copies strided elements, or elements in another byte order, into row-major host tensors.

use crate::{AlignedBytes, Bytes, HostTensor, Shape};
use std::ops::Range;

/// A strided view does not lie inside its storage.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{shape} with strides {strides:?} from element {offset} reaches outside a storage of {available} elements")]
pub struct StrideError {
    shape: Shape,
    offset: usize,
    strides: Vec<usize>,
    available: usize,
}

impl HostTensor {
    /// The tensor whose element `[i, j, …]` is element `offset + i·strides[0] + j·strides[1] + …` of `storage`. It shares
    /// the storage's bytes when they already lie in row-major order (and are aligned), and is a copy otherwise.
    ///
    /// A stride of zero repeats elements, so a small storage can describe a huge tensor: callers with shapes from
    /// outside decide beforehand how many bytes they accept.
    pub fn from_strides(
        shape: Shape,
        storage: &Bytes,
        offset: usize,
        strides: &[usize],
    ) -> Result<HostTensor, StrideError> {
        // First, because only the strides of a shape that fits into memory can be compared.
        let window = window(&shape, storage.len(), offset, strides)?;
        if !shape.is_row_major(strides) {
            return HostTensor::copy_strided(shape, storage, offset, strides);
        }
        let bytes = storage.slice(window).expect("the window was checked");
        Ok(HostTensor::from_bytes(shape, bytes).expect("a row-major window has the size of its shape"))
    }

    /// The same tensor as [`from_strides`](HostTensor::from_strides), always as a copy.
    pub fn copy_strided(
        shape: Shape,
        storage: &[u8],
        offset: usize,
        strides: &[usize],
    ) -> Result<HostTensor, StrideError> {
        let window = window(&shape, storage.len(), offset, strides)?;
        let bytes = Bytes::new(gather(&storage[window], &shape, strides));
        Ok(HostTensor::from_bytes(shape, bytes).expect("as many bytes were copied as the shape has"))
    }
}

/// The bytes from the first to the last element of a view, which must lie inside the storage.
fn window(shape: &Shape, storage_len: usize, offset: usize, strides: &[usize]) -> Result<Range<usize>, StrideError> {
    let size = shape.dtype().size();
    let available = storage_len / size;
    let end = shape.strided_span(strides).and_then(|span| offset.checked_add(span)).filter(|&end| end <= available);
    match end {
        Some(end) if shape.checked_bytes().is_some() => Ok(offset * size..end * size),
        _ => Err(StrideError { shape: shape.clone(), offset, strides: strides.to_vec(), available }),
    }
}

impl Shape {
    /// How many elements lie from the first to the last one of a view with those strides; `None` when that overflows or
    /// there is not one stride per axis.
    pub fn strided_span(&self, strides: &[usize]) -> Option<usize> {
        if self.rank() != strides.len() {
            return None;
        }
        if self.dims().contains(&0) {
            return Some(0);
        }
        let axes = self.dims().iter().zip(strides);
        axes.map(|(&dim, &stride)| (dim - 1).checked_mul(stride)).try_fold(1usize, |span, step| span.checked_add(step?))
    }

    /// True when elements with those strides (one per axis) lie as this crate keeps them. Axes of length one may carry
    /// any stride: nothing lies along them.
    pub fn is_row_major(&self, strides: &[usize]) -> bool {
        let (dims, expected) = (self.dims(), self.strides());
        self.elements() == 0 || (0..self.rank()).all(|axis| dims[axis] == 1 || strides[axis] == expected[axis])
    }
}

/// Copies element by element in row-major order of the target; the window was checked, so every index lies inside.
fn gather(source: &[u8], shape: &Shape, strides: &[usize]) -> AlignedBytes {
    let size = shape.dtype().size();
    let mut target = AlignedBytes::zeroed(shape.bytes());
    let mut index = vec![0usize; shape.rank()];
    let mut position = 0;
    for slot in target.chunks_exact_mut(size) {
        slot.copy_from_slice(&source[position * size..][..size]);
        // Count the index up like an odometer, moving the source position along.
        for axis in (0..shape.rank()).rev() {
            index[axis] += 1;
            position += strides[axis];
            if index[axis] < shape.dims()[axis] {
                break;
            }
            position -= strides[axis] * shape.dims()[axis];
            index[axis] = 0;
        }
    }
    target
}

/// Reverses the bytes of every element of `size` bytes: from big-endian to little-endian or back.
pub fn swap_byte_order(bytes: &mut [u8], size: usize) {
    if size > 1 {
        bytes.chunks_exact_mut(size).for_each(<[u8]>::reverse);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DType;
    use proptest::prelude::*;

    fn counting(count: usize) -> Bytes {
        let values: Vec<f32> = (0..count).map(|value| value as f32).collect();
        HostTensor::new([count], &values).unwrap().bytes().clone()
    }

    #[test]
    fn row_major_views_share_their_storage() {
        let storage = counting(12);
        let tensor = HostTensor::from_strides(Shape::new(DType::F32, [2, 1, 3]), &storage, 4, &[3, 77, 1]).unwrap();
        assert_eq!(tensor.to_f64s(), [4.0, 5.0, 6.0, 7.0, 8.0, 9.0]);
        assert_eq!(tensor.bytes().as_ptr(), storage[16..].as_ptr());
    }

    #[test]
    fn transposed_and_repeated_views_are_copied() {
        let storage = counting(6);
        let transposed = HostTensor::from_strides(Shape::new(DType::F32, [3, 2]), &storage, 0, &[1, 3]).unwrap();
        assert_eq!(transposed.to_f64s(), [0.0, 3.0, 1.0, 4.0, 2.0, 5.0]);
        let repeated = HostTensor::from_strides(Shape::new(DType::F32, [2, 2]), &storage, 5, &[0, 0]).unwrap();
        assert_eq!(repeated.to_f64s(), [5.0; 4]);
    }

    #[test]
    fn views_outside_their_storage_are_refused() {
        let storage = counting(6);
        let huge = 1usize << 60;
        let cases: [(Vec<usize>, usize, Vec<usize>); 8] = [
            (vec![7], 0, vec![1]),
            (vec![2], 5, vec![1]),
            (vec![2, 2], 0, vec![5, 1]),
            (vec![huge], 0, vec![1]),
            (vec![huge, huge], 0, vec![0, 0]),
            (vec![2], 0, vec![usize::MAX]),
            (vec![2], usize::MAX, vec![1]),
            (vec![2, 3], 0, vec![3]),
        ];
        for (dims, offset, strides) in cases {
            let result = HostTensor::from_strides(Shape::new(DType::F32, dims.clone()), &storage, offset, &strides);
            assert!(result.is_err(), "{dims:?} {offset} {strides:?}");
        }
    }

    #[test]
    fn empty_views_need_no_storage() {
        let tensor = HostTensor::from_strides(Shape::new(DType::F64, [0, 3]), &counting(0), 0, &[3, 1]).unwrap();
        assert_eq!(tensor.dims(), [0, 3]);
    }

    proptest! {
        /// Permuting the axes of a view and reading through the permuted strides is a transpose.
        #[test]
        fn gathers_every_permutation(dims in prop::collection::vec(1usize..5, 3), order in Just([0, 1, 2]).prop_shuffle()) {
            let shape = Shape::new(DType::F32, dims.clone());
            let strides = shape.strides();
            let viewed: Vec<usize> = order.iter().map(|&axis| dims[axis]).collect();
            let along: Vec<usize> = order.iter().map(|&axis| strides[axis]).collect();
            let view = HostTensor::from_strides(
                Shape::new(DType::F32, viewed.clone()), &counting(shape.elements()), 0, &along).unwrap();
            let mut expected = Vec::new();
            for i in 0..viewed[0] { for j in 0..viewed[1] { for k in 0..viewed[2] {
                expected.push((i * along[0] + j * along[1] + k * along[2]) as f64);
            }}}
            prop_assert_eq!(view.to_f64s(), expected);
        }
    }
}
