//! From elements that lie apart, or in another machine's byte order, to the row-major order of host tensors.

use crate::{AlignedBytes, Bytes, HostTensor, Shape};

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
        let size = shape.dtype().size();
        let available = storage.len() / size;
        let outside = || StrideError { shape: shape.clone(), offset, strides: strides.to_vec(), available };
        let len = shape.checked_bytes().ok_or_else(outside)?;
        let reach = reach(shape.dims(), strides).ok_or_else(outside)?;
        let end = offset.checked_add(reach).filter(|&end| end <= available).ok_or_else(outside)?;
        let bytes = if is_row_major(&shape, strides) {
            storage.slice(offset * size..offset * size + len).ok_or_else(outside)?
        } else {
            Bytes::new(gather(&storage[offset * size..end * size], &shape, strides))
        };
        HostTensor::from_bytes(shape.clone(), bytes).map_err(|_| outside())
    }
}

/// How many elements a strided view spans, from its first to its last one; `None` when the arithmetic overflows or
/// there is not one stride per axis.
fn reach(dims: &[usize], strides: &[usize]) -> Option<usize> {
    if dims.len() != strides.len() {
        return None;
    }
    if dims.contains(&0) {
        return Some(0);
    }
    dims.iter()
        .zip(strides)
        .try_fold(1usize, |reach, (&dim, &stride)| reach.checked_add((dim - 1).checked_mul(stride)?))
}

/// Axes of length one may carry any stride: nothing lies along them.
fn is_row_major(shape: &Shape, strides: &[usize]) -> bool {
    let expected = shape.strides();
    shape.elements() == 0 || (0..shape.rank()).all(|axis| shape.dims()[axis] == 1 || strides[axis] == expected[axis])
}

/// Copies element by element in row-major order of the target; `reach` has proven that every index lies inside.
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
