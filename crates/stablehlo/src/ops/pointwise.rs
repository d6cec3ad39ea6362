//! Convolutions that are plain matrix products.
//!
//! A 1×1 convolution multiplies every pixel's channels by one matrix; the gradient of its kernel is one product over all
//! pixels. Written as products, GPUs compile them to matrix kernels that take neighboring element-wise work along, and
//! need no convolution plan that would have to be built at the first step.

use octant_graph::{Convolution, DotGeneral, Shape};

/// A convolution as a product, and how the product's axes become the convolution's.
pub struct Product {
    pub dot: DotGeneral,
    /// The product's own shape: the left operand's free axes, then the right one's.
    pub shape: Shape,
    /// Brings the axes longer than 1 into the order of the convolution's output.
    pub permutation: Vec<usize>,
    /// The product's shape after that.
    pub permuted: Shape,
}

/// What an axis of the result means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Meaning {
    Batch,
    Feature,
    Pixel(usize),
}

/// The product that equals a convolution of these shapes, if there is one.
pub fn product(input: &Shape, kernel: &Shape, conv: &Convolution, output: &Shape) -> Option<Product> {
    let plain = conv.feature_groups == 1 && conv.batch_groups == 1;
    let unpadded = conv.padding.iter().all(|&(low, high)| low == 0 && high == 0);
    let dense = conv.input_dilation.iter().chain(&conv.kernel_dilation).all(|&dilation| dilation == 1);
    if !plain || !unpadded || !dense {
        return None;
    }
    let (mut left_contract, mut right_contract) = (vec![conv.input.feature], vec![conv.kernel.input]);
    for (place, &stride) in conv.strides.iter().enumerate() {
        let (along, window) = (conv.input.spatial[place], conv.kernel.spatial[place]);
        let (length, reach) = (input.dims()[along], kernel.dims()[window]);
        match (reach, stride) {
            (1, 1) => {}
            _ if reach == length && !conv.reversed => {
                left_contract.push(along);
                right_contract.push(window);
            }
            _ => return None,
        }
    }
    let mut meanings = Vec::new();
    let mut dims = Vec::new();
    for axis in (0..input.rank()).filter(|axis| !left_contract.contains(axis)) {
        let pixel = conv.input.spatial.iter().position(|&along| along == axis);
        meanings.push(Some(pixel.map_or(Meaning::Batch, Meaning::Pixel)));
        dims.push(input.dims()[axis]);
    }
    for axis in (0..kernel.rank()).filter(|axis| !right_contract.contains(axis)) {
        // The kernel's own spatial axes that are left have length 1 and mean nothing.
        meanings.push((axis == conv.kernel.output).then_some(Meaning::Feature));
        dims.push(kernel.dims()[axis]);
    }
    let permutation = order(&meanings, conv, output.rank());
    let permuted: Vec<usize> = permutation.iter().map(|&axis| dims[axis]).collect();
    let dot = DotGeneral { left_contract, right_contract, left_batch: vec![], right_batch: vec![], dtype: conv.dtype };
    let (shape, permuted) = (Shape::new(conv.dtype, dims), Shape::new(conv.dtype, permuted));
    Some(Product { dot, shape, permutation, permuted })
}

/// The product's axes in the order in which the convolution's output wants them; those without a meaning come last.
fn order(meanings: &[Option<Meaning>], conv: &Convolution, rank: usize) -> Vec<usize> {
    let wanted = (0..rank).map(|axis| match axis {
        axis if axis == conv.output.batch => Meaning::Batch,
        axis if axis == conv.output.feature => Meaning::Feature,
        axis => Meaning::Pixel(conv.output.spatial.iter().position(|&along| along == axis).unwrap_or(0)),
    });
    let place = |meaning: Meaning| meanings.iter().position(|&given| given == Some(meaning));
    let meant = wanted.filter_map(place);
    meant.chain((0..meanings.len()).filter(|&axis| meanings[axis].is_none())).collect()
}
