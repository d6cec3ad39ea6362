//! What labels say of objects beside their boxes, as a row of a batch.

use super::assembly::tensor;
use super::pool::Block;
use crate::{Dataset, Detail, LabelKind, LabeledBox};
use octant_tensor::{DType, HostTensor};

/// How many pixels of an image's side a pixel of the grid of masks stands for.
pub const MASK_STRIDE: usize = 4;

/// The layout of such a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BoxDetails {
    None,
    /// Which object is seen at every pixel of a grid of that height and width.
    Owners([usize; 2]),
    /// So many keypoints per object.
    Keypoints(usize),
    Rotated,
}

impl BoxDetails {
    /// What samples of a data set with images of that size have.
    pub fn of(dataset: &dyn Dataset, [height, width, _]: [usize; 3]) -> BoxDetails {
        match dataset.label_kind() {
            LabelKind::Boxes => BoxDetails::None,
            LabelKind::Outlines => BoxDetails::Owners([height, width].map(|side| side.div_ceil(MASK_STRIDE))),
            LabelKind::Keypoints => BoxDetails::Keypoints(dataset.keypoints().map_or(0, |layout| layout.count)),
            LabelKind::Corners => BoxDetails::Rotated,
        }
    }

    /// Dimensions behind the batch.
    fn dims(self, max_boxes: usize) -> Vec<usize> {
        match self {
            BoxDetails::None => vec![0],
            BoxDetails::Owners(size) => size.to_vec(),
            BoxDetails::Keypoints(count) => vec![max_boxes, count, 3],
            BoxDetails::Rotated => vec![max_boxes, 5],
        }
    }

    pub fn bytes(self, max_boxes: usize) -> usize {
        self.dims(max_boxes).iter().product::<usize>() * size_of::<f32>()
    }

    pub fn tensor(self, rows: usize, max_boxes: usize, block: Block) -> Option<HostTensor> {
        let dtype = match self {
            BoxDetails::None => return None,
            BoxDetails::Owners(_) => DType::I32,
            BoxDetails::Keypoints(_) | BoxDetails::Rotated => DType::F32,
        };
        Some(tensor(dtype, [vec![rows], self.dims(max_boxes)].concat(), block.freeze()))
    }

    pub fn write(self, boxes: &[LabeledBox], bytes: &mut [u8]) {
        bytes.fill(0);
        match self {
            BoxDetails::None => {}
            BoxDetails::Owners(size) => paint_owners(boxes, size, bytemuck::cast_slice_mut(bytes)),
            BoxDetails::Keypoints(count) => {
                let numbers: &mut [[f32; 3]] = bytemuck::cast_slice_mut(bytes);
                for (slots, object) in numbers.chunks_mut(count.max(1)).zip(boxes) {
                    let Detail::Keypoints(points) = &object.detail else { continue };
                    for (slot, point) in slots.iter_mut().zip(points) {
                        *slot = [point.at[0], point.at[1], f32::from(point.visibility)];
                    }
                }
            }
            BoxDetails::Rotated => {
                let numbers: &mut [[f32; 5]] = bytemuck::cast_slice_mut(bytes);
                for (slot, object) in numbers.iter_mut().zip(boxes) {
                    // Corners without an area have no sides, so that they are not learned from.
                    let Some(rectangle) = object.detail.rectangle() else { continue };
                    let ([x, y], [width, height]) = (rectangle.center, rectangle.size);
                    *slot = [x, y, width, height, rectangle.angle].map(|number| number as f32);
                }
            }
        }
    }
}

/// Larger objects first, so that smaller ones lie over them: no pixel belongs to two.
fn paint_owners(boxes: &[LabeledBox], [height, width]: [usize; 2], owners: &mut [i32]) {
    let masks: Vec<_> = boxes.iter().map(|object| object.detail.mask(height, width, MASK_STRIDE as f64)).collect();
    let area = |slot: &usize| masks[*slot].values().iter().filter(|&&value| value > 0).count();
    let mut order: Vec<usize> = (0..masks.len()).collect();
    order.sort_by_cached_key(|slot| std::cmp::Reverse(area(slot)));
    for slot in order {
        let marked = owners.iter_mut().zip(masks[slot].values()).filter(|(_, value)| **value > 0);
        marked.for_each(|(owner, _)| *owner = slot as i32 + 1);
    }
}
