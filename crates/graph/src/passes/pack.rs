//! Narrow images in packed form, for devices that store the last two axes in tiles.
//!
//! TPUs keep arrays in tiles of 8 × 128 over the last two axes, so an image of 16 channels fills an eighth of the memory that
//! it takes, and an eighth of the matrix unit that convolves it. [`pack_narrow_images`] computes regions of such images in
//! packed form, where every 2×2 pixels are one pixel of four times the channels. Convolutions get kernels with structural
//! zeros; everything else does the same work on another shape. It runs on finished graphs, gradients included.
//!
//! `roles` defines which operations can be computed on packed values, `regions` which connected sets of values gain from it,
//! `build` writes the new graph, converting where a region begins and ends.

mod build;
mod conv;
mod movement;
mod regions;
mod roles;
mod values;

use crate::{Graph, Op, Shape};

/// Pixels of a block along one axis.
const SIDE: usize = 2;
/// Pixels of a block.
const BLOCK: usize = SIDE * SIDE;
/// Elements of the last axis in one tile.
const LANES: usize = 128;
/// Elements of the axis before it in one tile.
const SUBLANES: usize = 8;

/// Which axes of a value are packed. A value of four axes may be either: `[n, h, w, c]` or `[groups, n, h, w]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Form {
    /// `[.., h, w, c]` as `[.., h / 2, w / 2, 4 c]`: row in the block, column in the block, channel.
    Image,
    /// `[.., h, w]` as `[.., h / 2, w / 2, 4]`.
    Map,
}

impl Form {
    const ALL: [Form; 2] = [Form::Image, Form::Map];

    /// The axis of rows; that of columns follows.
    fn rows(self, rank: usize) -> Option<usize> {
        match self {
            Form::Image => rank.checked_sub(3),
            Form::Map => rank.checked_sub(2),
        }
    }

    /// The dimensions as those of an image: leading axes, then height, width and channels.
    fn split(self, dims: &[usize]) -> Option<(&[usize], [usize; 3])> {
        let (leading, last) = dims.split_at(self.rows(dims.len())?);
        Some((leading, [last[0], last[1], last.get(2).copied().unwrap_or(1)]))
    }

    /// The packed dimensions; none where the pixels do not fall into blocks or the channels are many already.
    fn packed(self, dims: &[usize]) -> Option<Vec<usize>> {
        let (leading, [height, width, channels]) = self.split(dims)?;
        let fits = [height, width].iter().all(|side| *side >= SIDE && side.is_multiple_of(SIDE));
        // Beyond half a tile, a packed kernel has more work than the padding wastes.
        let narrow = (1..=LANES / 2).contains(&channels) && !leading.contains(&0);
        let packed = [leading, &[height / SIDE, width / SIDE, BLOCK * channels]].concat();
        (fits && narrow).then_some(packed)
    }
}

/// Bytes of an array in tiles. A last axis of few elements that no convolution reads densely is assumed to be laid out with
/// another axis instead.
fn tiled_bytes(shape: &Shape, [width, channels]: [usize; 2]) -> f64 {
    let lanes = if channels <= BLOCK { channels } else { channels.next_multiple_of(LANES) };
    let rows = if channels <= BLOCK { width } else { width.next_multiple_of(SUBLANES) };
    let others = shape.elements() / (width * channels).max(1);
    (others * rows * lanes * shape.dtype().size()) as f64
}

/// Computes regions of narrow images in packed form wherever that saves more than the conversions cost; other graphs stay
/// as they are. Results are the same up to the order of sums.
pub fn pack_narrow_images(graph: &Graph) -> Graph {
    if !has_convolution(graph) {
        return graph.clone();
    }
    let inlined = super::rebuild(graph, |builder, node, operands| match &node.op {
        // Blocks that are computed again in the backward pass would end regions.
        Op::Call { body, .. } if has_convolution(body) => super::inline::paste(builder, body, &operands, &node.path),
        _ => builder.copy(graph, node, operands),
    });
    let packed = regions::packed_values(&inlined);
    if packed.is_empty() {
        return graph.clone();
    }
    let built = build::build(&inlined, &packed);
    debug_assert!(built.is_ok(), "{built:?}");
    // Kernels that several convolutions share are widened once.
    built.map_or_else(|_| graph.clone(), super::optimize)
}

fn has_convolution(graph: &Graph) -> bool {
    graph.nodes().iter().any(|node| match &node.op {
        Op::Convolution(_) => true,
        op => op.bodies().iter().any(|(_, body)| has_convolution(body)),
    })
}
