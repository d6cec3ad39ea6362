//! Cutting a host tensor into the parts of the devices, and putting them together again.

use octant_runtime::{HostTensor, RuntimeError, Shape};
use octant_tensor::{AlignedBytes, Bytes};

/// Equal parts along `axis`. Parts along the first axis share the tensor's bytes, others are copies.
pub(super) fn split(tensor: &HostTensor, axis: usize, parts: usize) -> Result<Vec<HostTensor>, RuntimeError> {
    let length = tensor.dims().get(axis).copied().unwrap_or(0);
    if length == 0 || length % parts != 0 {
        let shape = tensor.shape();
        let text =
            format!("{shape} cannot be split along axis {axis} over {parts} devices: they must divide its length");
        return Err(RuntimeError::Device(text));
    }
    let geometry = Geometry::new(tensor.shape(), axis, parts);
    let mut dims = tensor.dims().to_vec();
    dims[axis] = length / parts;
    let shape = tensor.shape().with_dims(dims);
    let cut = |part: usize| {
        let bytes = match geometry.rows {
            1 => tensor.bytes().slice(part * geometry.piece..(part + 1) * geometry.piece),
            _ => Some(Bytes::new(geometry.gather(tensor.bytes(), part))),
        };
        let bytes = bytes.ok_or_else(|| RuntimeError::Device("a part lies outside its tensor".into()))?;
        HostTensor::from_bytes(shape.clone(), bytes).map_err(|error| RuntimeError::Device(error.to_string()))
    };
    (0..parts).map(cut).collect()
}

/// The inverse of [`split`]: `shape` is that of the whole.
pub(super) fn join(parts: &[HostTensor], shape: &Shape, axis: usize) -> Result<HostTensor, RuntimeError> {
    let geometry = Geometry::new(shape, axis, parts.len());
    let mut whole = AlignedBytes::zeroed(shape.bytes());
    for (part, tensor) in parts.iter().enumerate() {
        geometry.scatter(tensor.bytes(), part, &mut whole);
    }
    HostTensor::from_bytes(shape.clone(), Bytes::new(whole)).map_err(|error| RuntimeError::Device(error.to_string()))
}

/// How the parts lie in the whole: `rows` rows (everything before the axis), each of `parts` pieces side by side.
struct Geometry {
    rows: usize,
    parts: usize,
    /// Bytes of one part in one row.
    piece: usize,
}

impl Geometry {
    fn new(shape: &Shape, axis: usize, parts: usize) -> Geometry {
        let rows: usize = shape.dims()[..axis].iter().product();
        let piece = shape.bytes() / rows.max(1) / parts;
        Geometry { rows, parts, piece }
    }

    fn gather(&self, whole: &[u8], part: usize) -> AlignedBytes {
        let mut bytes = AlignedBytes::zeroed(self.rows * self.piece);
        for row in 0..self.rows {
            bytes[row * self.piece..][..self.piece].copy_from_slice(&whole[self.start(row, part)..][..self.piece]);
        }
        bytes
    }

    fn scatter(&self, bytes: &[u8], part: usize, whole: &mut [u8]) {
        for row in 0..self.rows {
            whole[self.start(row, part)..][..self.piece].copy_from_slice(&bytes[row * self.piece..][..self.piece]);
        }
    }

    fn start(&self, row: usize, part: usize) -> usize {
        (row * self.parts + part) * self.piece
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_along_every_axis_join_to_the_whole() {
        let numbers: Vec<f32> = (0..48).map(|number| number as f32).collect();
        let tensor = HostTensor::new([4, 6, 2], &numbers).unwrap();
        for (axis, parts) in [(0, 2), (0, 4), (1, 3), (1, 6), (2, 2), (0, 1)] {
            let cut = split(&tensor, axis, parts).unwrap();
            assert_eq!(cut.len(), parts);
            assert_eq!(join(&cut, tensor.shape(), axis).unwrap(), tensor, "axis {axis}, {parts} parts");
        }
        let columns = split(&tensor, 1, 3).unwrap();
        assert_eq!(columns[1].dims(), [4, 2, 2]);
        assert_eq!(columns[1].elements::<f32>().unwrap()[..6], [4.0, 5.0, 6.0, 7.0, 16.0, 17.0]);
    }

    #[test]
    fn an_axis_that_does_not_divide_is_refused() {
        let tensor = HostTensor::new([6, 2], &[0f32; 12]).unwrap();
        assert!(split(&tensor, 0, 4).unwrap_err().to_string().contains("cannot be split along axis 0 over 4 devices"));
        assert!(split(&tensor, 2, 2).is_err());
    }
}
