//! The border between Octant's layout and the one the references keep in their files. The only place that knows both.

use octant_graph::{HostTensor, Shape};

/// How the reference lays a variable out. Octant's side is NHWC images, HWIO kernels and `[inputs, outputs]` matrices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Border {
    /// As here.
    Same,
    /// A convolution's kernel: `[O, I/groups, H, W]` there, `[H, W, I/groups, O]` here; depthwise ones too.
    Convolution,
    /// A transposed convolution's kernel: `[I, O, H, W]` there, `[H, W, I, O]` here.
    TransposedConvolution,
    /// A matrix: `[O, I]` there, `[I, O]` here.
    Dense,
    /// A 1×1 convolution that is a matrix here: `[O, I, 1, 1]` there, `[I, O]` here.
    Pointwise,
    /// A matrix over flattened images: `[O, C·H·W]` there, `[H·W·C, O]` here.
    Flattened {
        /// The images' height.
        height: usize,
        /// The images' width.
        width: usize,
    },
    /// One value per channel: `[C, 1, 1]` there, `[C]` here.
    ChannelColumn,
    /// One value per channel: `[1, C, 1, 1]` there, `[C]` here.
    ChannelImage,
}

/// How a tensor there becomes one here: read it under other dimensions, reorder the axes, read the result under others.
struct Passage {
    unfolded: Vec<usize>,
    permutation: Vec<usize>,
}

impl Border {
    /// The dimensions in the reference's file of a variable with these dimensions here.
    pub fn reference_dims(self, dims: &[usize]) -> Vec<usize> {
        let at = |axis: usize| dims.get(axis).copied().unwrap_or(1);
        match self {
            Border::Same => dims.to_vec(),
            Border::Convolution => vec![at(3), at(2), at(0), at(1)],
            Border::TransposedConvolution => vec![at(2), at(3), at(0), at(1)],
            Border::Dense | Border::Flattened { .. } => vec![at(1), at(0)],
            Border::Pointwise => vec![at(1), at(0), 1, 1],
            Border::ChannelColumn => vec![at(0), 1, 1],
            Border::ChannelImage => vec![1, at(0), 1, 1],
        }
    }

    /// The reference's tensor in Octant's layout, whose dimensions are `dims`; `None` when it has other dimensions.
    pub fn import(self, reference: &HostTensor, dims: &[usize]) -> Option<HostTensor> {
        if reference.dims() != self.reference_dims(dims) {
            return None;
        }
        let passage = self.passage(dims);
        let unfolded = reference.reshape(passage.unfolded).ok()?;
        permute(&unfolded, &passage.permutation)?.reshape(dims).ok()
    }

    /// A tensor of Octant's layout as the reference keeps it; `None` when its rank does not fit this border.
    pub fn export(self, tensor: &HostTensor) -> Option<HostTensor> {
        let passage = self.passage(tensor.dims());
        // Backwards: unfold to the permuted dimensions, then undo the permutation.
        let permuted: Vec<usize> = passage.permutation.iter().map(|&axis| passage.unfolded[axis]).collect();
        let mut inverse = vec![0; passage.permutation.len()];
        passage.permutation.iter().enumerate().for_each(|(to, &from)| inverse[from] = to);
        let unfolded = tensor.reshape(permuted).ok()?;
        permute(&unfolded, &inverse)?.reshape(self.reference_dims(tensor.dims())).ok()
    }

    fn passage(self, dims: &[usize]) -> Passage {
        let reference = self.reference_dims(dims);
        match self {
            Border::Same | Border::ChannelColumn | Border::ChannelImage => {
                Passage { permutation: (0..reference.len()).collect(), unfolded: reference }
            }
            Border::Convolution => Passage { unfolded: reference, permutation: vec![2, 3, 1, 0] },
            Border::TransposedConvolution => Passage { unfolded: reference, permutation: vec![2, 3, 0, 1] },
            Border::Dense => Passage { unfolded: reference, permutation: vec![1, 0] },
            Border::Pointwise => Passage { unfolded: reference, permutation: vec![2, 3, 1, 0] },
            Border::Flattened { height, width } => {
                let channels = reference[1] / (height * width).max(1);
                Passage { unfolded: vec![reference[0], channels, height, width], permutation: vec![2, 3, 1, 0] }
            }
        }
    }
}

/// The tensor with its axes in another order; shares the bytes where the order in memory does not change.
fn permute(tensor: &HostTensor, permutation: &[usize]) -> Option<HostTensor> {
    let strides = tensor.shape().strides();
    let dims: Vec<usize> = permutation.iter().map(|&axis| tensor.dims()[axis]).collect();
    let along: Vec<usize> = permutation.iter().map(|&axis| strides[axis]).collect();
    HostTensor::from_strides(Shape::new(tensor.dtype(), dims), tensor.bytes(), 0, &along).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counting(dims: &[usize]) -> HostTensor {
        let values: Vec<f32> = (0..dims.iter().product::<usize>()).map(|value| value as f32).collect();
        HostTensor::new(dims, &values).unwrap()
    }

    #[test]
    fn every_border_leads_back() {
        let cases: [(Border, &[usize]); 8] = [
            (Border::Same, &[2, 3]),
            (Border::Convolution, &[3, 5, 2, 4]),
            (Border::TransposedConvolution, &[2, 2, 3, 4]),
            (Border::Dense, &[3, 4]),
            (Border::Pointwise, &[3, 4]),
            (Border::Flattened { height: 2, width: 3 }, &[24, 5]),
            (Border::ChannelColumn, &[7]),
            (Border::ChannelImage, &[7]),
        ];
        for (border, dims) in cases {
            let here = counting(dims);
            let there = border.export(&here).unwrap();
            assert_eq!(there.dims(), border.reference_dims(dims), "{border:?}");
            assert_eq!(border.import(&there, dims).unwrap(), here, "{border:?}");
        }
    }

    #[test]
    fn a_kernel_of_two_by_one_is_transposed_as_pytorch_keeps_it() {
        // OIHW [1, 2, 2, 1] with elements i*2 + h; HWIO puts the two inputs side by side.
        let there = counting(&[1, 2, 2, 1]);
        let here = Border::Convolution.import(&there, &[2, 1, 2, 1]).unwrap();
        assert_eq!(here.to_f64s(), [0.0, 2.0, 1.0, 3.0]);
    }

    #[test]
    fn flattened_images_change_from_planes_to_pixels() {
        // Two channels of one row with two columns: c0w0 c0w1 c1w0 c1w1.
        let there = counting(&[1, 4]);
        let here = Border::Flattened { height: 1, width: 2 }.import(&there, &[4, 1]).unwrap();
        assert_eq!(here.to_f64s(), [0.0, 2.0, 1.0, 3.0]);
    }

    #[test]
    fn other_dimensions_are_refused() {
        assert!(Border::Dense.import(&counting(&[3, 4]), &[3, 4]).is_none());
    }
}
