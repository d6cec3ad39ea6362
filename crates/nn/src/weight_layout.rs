//! Weight layouts: how a variable lies in the files of the reference (OIHW) and in the graph (HWIO). Nothing else knows both.

use octant_graph::{HostTensor, Shape};

/// How the reference lays a variable out. Octant's side is NHWC images, HWIO kernels and `[inputs, outputs]` matrices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WeightLayout {
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
struct Reordering {
    unfolded: Vec<usize>,
    permutation: Vec<usize>,
}

impl WeightLayout {
    /// The dimensions in the reference's file of a variable with these dimensions here.
    pub fn reference_dims(self, dims: &[usize]) -> Vec<usize> {
        let at = |axis: usize| dims.get(axis).copied().unwrap_or(1);
        match self {
            WeightLayout::Same => dims.to_vec(),
            WeightLayout::Convolution => vec![at(3), at(2), at(0), at(1)],
            WeightLayout::TransposedConvolution => vec![at(2), at(3), at(0), at(1)],
            WeightLayout::Dense | WeightLayout::Flattened { .. } => vec![at(1), at(0)],
            WeightLayout::Pointwise => vec![at(1), at(0), 1, 1],
            WeightLayout::ChannelColumn => vec![at(0), 1, 1],
            WeightLayout::ChannelImage => vec![1, at(0), 1, 1],
        }
    }

    /// The reference's tensor in Octant's layout, whose dimensions are `dims`; `None` when it has other dimensions.
    pub fn import(self, reference: &HostTensor, dims: &[usize]) -> Option<HostTensor> {
        if reference.dims() != self.reference_dims(dims) {
            return None;
        }
        let reordering = self.reordering(dims);
        let unfolded = reference.reshape(reordering.unfolded).ok()?;
        permute(&unfolded, &reordering.permutation)?.reshape(dims).ok()
    }

    /// A tensor of Octant's layout as the reference keeps it; `None` when its rank does not fit this layout.
    pub fn export(self, tensor: &HostTensor) -> Option<HostTensor> {
        let reordering = self.reordering(tensor.dims());
        // Backwards: unfold to the permuted dimensions, then undo the permutation.
        let permuted: Vec<usize> = reordering.permutation.iter().map(|&axis| reordering.unfolded[axis]).collect();
        let mut inverse = vec![0; reordering.permutation.len()];
        reordering.permutation.iter().enumerate().for_each(|(to, &from)| inverse[from] = to);
        let unfolded = tensor.reshape(permuted).ok()?;
        permute(&unfolded, &inverse)?.reshape(self.reference_dims(tensor.dims())).ok()
    }

    fn reordering(self, dims: &[usize]) -> Reordering {
        let reference = self.reference_dims(dims);
        match self {
            WeightLayout::Same | WeightLayout::ChannelColumn | WeightLayout::ChannelImage => {
                Reordering { permutation: (0..reference.len()).collect(), unfolded: reference }
            }
            WeightLayout::Convolution => Reordering { unfolded: reference, permutation: vec![2, 3, 1, 0] },
            WeightLayout::TransposedConvolution => Reordering { unfolded: reference, permutation: vec![2, 3, 0, 1] },
            WeightLayout::Dense => Reordering { unfolded: reference, permutation: vec![1, 0] },
            WeightLayout::Pointwise => Reordering { unfolded: reference, permutation: vec![2, 3, 1, 0] },
            WeightLayout::Flattened { height, width } => {
                let channels = reference[1] / (height * width).max(1);
                Reordering { unfolded: vec![reference[0], channels, height, width], permutation: vec![2, 3, 1, 0] }
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
        let cases: [(WeightLayout, &[usize]); 8] = [
            (WeightLayout::Same, &[2, 3]),
            (WeightLayout::Convolution, &[3, 5, 2, 4]),
            (WeightLayout::TransposedConvolution, &[2, 2, 3, 4]),
            (WeightLayout::Dense, &[3, 4]),
            (WeightLayout::Pointwise, &[3, 4]),
            (WeightLayout::Flattened { height: 2, width: 3 }, &[24, 5]),
            (WeightLayout::ChannelColumn, &[7]),
            (WeightLayout::ChannelImage, &[7]),
        ];
        for (layout, dims) in cases {
            let here = counting(dims);
            let there = layout.export(&here).unwrap();
            assert_eq!(there.dims(), layout.reference_dims(dims), "{layout:?}");
            assert_eq!(layout.import(&there, dims).unwrap(), here, "{layout:?}");
        }
    }

    #[test]
    fn a_kernel_of_two_by_one_is_transposed_as_pytorch_keeps_it() {
        // OIHW [1, 2, 2, 1] with elements i*2 + h; HWIO puts the two inputs side by side.
        let there = counting(&[1, 2, 2, 1]);
        let here = WeightLayout::Convolution.import(&there, &[2, 1, 2, 1]).unwrap();
        assert_eq!(here.to_f64s(), [0.0, 2.0, 1.0, 3.0]);
    }

    #[test]
    fn flattened_images_change_from_planes_to_pixels() {
        // Two channels of one row with two columns: c0w0 c0w1 c1w0 c1w1.
        let there = counting(&[1, 4]);
        let here = WeightLayout::Flattened { height: 1, width: 2 }.import(&there, &[4, 1]).unwrap();
        assert_eq!(here.to_f64s(), [0.0, 2.0, 1.0, 3.0]);
    }

    #[test]
    fn other_dimensions_are_refused() {
        assert!(WeightLayout::Dense.import(&counting(&[3, 4]), &[3, 4]).is_none());
    }
}
