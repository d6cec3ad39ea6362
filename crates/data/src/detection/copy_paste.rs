//! Objects pasted a second time, mirrored, where they hide little (after Ghiasi et al., "Simple Copy-Paste", 2021).
//!
//! Labels are boxes, so what is pasted is the rectangle around an object with the ground that is in it, not its outline.

use super::letterbox::Boxed;
use crate::{LabeledBox, SampleRng};

/// A pasted rectangle may hide at most this share of any object.
const MOST_HIDDEN: f32 = 0.3;

/// Every object, with that probability, is pasted again at the mirrored position, flipped.
pub(super) fn copy_paste((mut image, mut boxes): Boxed, probability: f32, rng: &mut SampleRng) -> Boxed {
    let (width, channels) = (image.width(), image.channels());
    // Sampled for every object whether or not it fits, so that one that does not fit changes nothing for the others.
    let chosen: Vec<LabeledBox> = boxes.iter().filter(|_| rng.chance(probability)).copied().collect();
    let original = image.clone();
    for object in chosen {
        let mirrored = LabeledBox { x0: width as f32 - object.x1, x1: width as f32 - object.x0, ..object };
        if boxes.iter().any(|other| hidden(other, &mirrored) > MOST_HIDDEN) {
            continue;
        }
        let within = |value: f32, limit: usize| (value.round().max(0.0) as usize).min(limit);
        let (left, right) = (within(mirrored.x0, width), within(mirrored.x1, width));
        let (top, bottom) = (within(mirrored.y0, image.height()), within(mirrored.y1, image.height()));
        for row in top..bottom {
            for column in left..right {
                let from = original.pixel(row, width - 1 - column);
                image.row_mut(row)[column * channels..][..channels].copy_from_slice(from);
            }
        }
        boxes.push(mirrored);
    }
    (image, boxes)
}

/// The share of an object that lies under a rectangle.
fn hidden(object: &LabeledBox, under: &LabeledBox) -> f32 {
    let overlap = |low: [f32; 2], high: [f32; 2]| (high[0].min(high[1]) - low[0].max(low[1])).max(0.0);
    let common =
        overlap([object.x0, under.x0], [object.x1, under.x1]) * overlap([object.y0, under.y0], [object.y1, under.y1]);
    common / ((object.x1 - object.x0) * (object.y1 - object.y0)).max(1e-9)
}

#[cfg(test)]
mod tests {
    use super::*;
    use octant_imaging::Image;

    #[test]
    fn an_object_appears_again_at_its_mirror_place() {
        // A ramp from left to right, so that it can be seen that the copy is mirrored.
        let image = Image::from_fn(10, 20, 1, |_, column, _| column as u8);
        let object = LabeledBox { class: 3, x0: 2.0, y0: 1.0, x1: 6.0, y1: 5.0 };
        let (pasted, boxes) = copy_paste((image.clone(), vec![object]), 1.0, &mut SampleRng::new(0, 0, 0));
        assert_eq!(boxes, [object, LabeledBox { x0: 14.0, x1: 18.0, ..object }]);
        assert_eq!(&pasted.row(2)[13..19], [13, 5, 4, 3, 2, 18]);
        assert_eq!(pasted.row(6), image.row(6));
        let (same, boxes) = copy_paste((image.clone(), vec![object]), 0.0, &mut SampleRng::new(0, 0, 0));
        assert!(same == image && boxes.len() == 1);
    }

    #[test]
    fn nothing_is_pasted_over_what_is_there() {
        let image = Image::from_fn(10, 20, 1, |_, column, _| column as u8);
        let middle = LabeledBox { class: 0, x0: 8.0, y0: 1.0, x1: 12.0, y1: 5.0 };
        let (pasted, boxes) = copy_paste((image.clone(), vec![middle]), 1.0, &mut SampleRng::new(0, 0, 0));
        assert!(pasted == image && boxes == [middle], "its mirrored position is its own");
    }
}
