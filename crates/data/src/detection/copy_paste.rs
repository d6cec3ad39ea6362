//! Objects pasted a second time, mirrored, where they hide little (after Ghiasi et al., "Simple Copy-Paste", 2021).
//!
//! Where labels have outlines, what lies in them is pasted; else the rectangle around an object with the ground that is in it.

use super::letterbox::Boxed;
use crate::{Detail, KeypointLayout, LabeledBox, SampleRng};

/// A pasted rectangle may hide at most this share of any object.
const MOST_HIDDEN: f32 = 0.3;

/// Every object, with that probability, is pasted again at the mirrored position, flipped. What it covers does not belong to
/// the outlines of others any more.
pub(super) fn copy_paste(
    (mut image, mut boxes): Boxed,
    probability: f32,
    keypoints: Option<&KeypointLayout>,
    rng: &mut SampleRng,
) -> Boxed {
    let (height, width, channels) = (image.height(), image.width(), image.channels());
    // Sampled for every object whether or not it fits, so that one that does not fit changes nothing for the others.
    let chosen: Vec<LabeledBox> = boxes.iter().filter(|_| rng.chance(probability)).cloned().collect();
    let original = image.clone();
    for object in chosen {
        let mirrored = object.mirrored(width as f32, keypoints);
        if boxes.iter().any(|other| hidden(other, &mirrored) > MOST_HIDDEN) {
            continue;
        }
        let mut paste = |row: usize, columns: std::ops::Range<usize>| {
            for column in columns {
                let from = original.pixel(row, width - 1 - column);
                image.row_mut(row)[column * channels..][..channels].copy_from_slice(from);
            }
        };
        let rings = mirrored.rings();
        if mirrored.detail.bounds().is_none() {
            let within = |value: f32, limit: usize| (value.round().max(0.0) as usize).min(limit);
            let (left, right) = (within(mirrored.x0, width), within(mirrored.x1, width));
            (within(mirrored.y0, height)..within(mirrored.y1, height)).for_each(|row| paste(row, left..right));
        } else {
            let mask = Detail::Outline(rings.clone()).mask(height, width, 1.0);
            for row in 0..height {
                let is_inside = |column: &usize| mask.row(row)[*column] > 0;
                (0..width).filter(is_inside).for_each(|column| paste(row, column..column + 1));
            }
        }
        boxes.iter_mut().for_each(|other| other.hide(&rings));
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
    use crate::Ring;
    use octant_imaging::Image;

    #[test]
    fn an_object_appears_again_at_its_mirror_place() {
        // A ramp from left to right, so that it can be seen that the copy is mirrored.
        let image = Image::from_fn(10, 20, 1, |_, column, _| column as u8);
        let object = LabeledBox::new(3, [2.0, 1.0, 6.0, 5.0]);
        let (pasted, boxes) =
            copy_paste((image.clone(), vec![object.clone()]), 1.0, None, &mut SampleRng::new(0, 0, 0));
        assert_eq!(boxes, [object.clone(), LabeledBox::new(3, [14.0, 1.0, 18.0, 5.0])]);
        assert_eq!(&pasted.row(2)[13..19], [13, 5, 4, 3, 2, 18]);
        assert_eq!(pasted.row(6), image.row(6));
        let (same, boxes) = copy_paste((image.clone(), vec![object]), 0.0, None, &mut SampleRng::new(0, 0, 0));
        assert!(same == image && boxes.len() == 1);
    }

    #[test]
    fn nothing_is_pasted_over_what_is_there() {
        let image = Image::from_fn(10, 20, 1, |_, column, _| column as u8);
        let middle = LabeledBox::new(0, [8.0, 1.0, 12.0, 5.0]);
        let (pasted, boxes) =
            copy_paste((image.clone(), vec![middle.clone()]), 1.0, None, &mut SampleRng::new(0, 0, 0));
        assert!(pasted == image && boxes == [middle], "its mirrored position is its own");
    }

    #[test]
    fn outlines_are_pasted_without_the_ground_around_them() {
        let image = Image::from_fn(10, 20, 1, |_, column, _| column as u8);
        let triangle = vec![Ring { points: vec![[1.0, 1.0], [7.0, 1.0], [1.0, 7.0]], is_hole: false }];
        let object = LabeledBox::new(3, [1.0, 1.0, 7.0, 7.0]).with(Detail::Outline(triangle));
        let (pasted, boxes) = copy_paste((image, vec![object]), 1.0, None, &mut SampleRng::new(0, 0, 0));
        assert_eq!(boxes[1].corners(), [13.0, 1.0, 19.0, 7.0]);
        assert_eq!(&pasted.row(1)[12..20], [12, 6, 5, 4, 3, 2, 1, 19], "a center on the left border is inside");
        assert_eq!(&pasted.row(5)[12..20], [12, 13, 14, 15, 16, 2, 1, 19]);
    }
}
