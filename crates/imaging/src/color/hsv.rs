//! Hue, saturation and value changed at once, as detectors' augmentation does.

use crate::Image;

/// Turns the hue by `hue` circles and multiplies saturation and value. Gray images change their value only.
pub fn shift_hsv(image: &mut Image<u8>, hue: f32, saturation: f32, value: f32) {
    if image.channels() != 3 {
        image.values_mut().iter_mut().for_each(|level| *level = (f32::from(*level) * value).min(255.0) as u8);
        return;
    }
    let turn = (hue * 6.0).rem_euclid(6.0);
    for block in image.values_mut().as_chunks_mut::<3>().0.chunks_mut(BLOCK) {
        let mut planes = [[0.0; BLOCK]; 3];
        for (index, pixel) in block.iter().enumerate() {
            planes.iter_mut().zip(pixel).for_each(|(plane, &level)| plane[index] = f32::from(level));
        }
        shift(&mut planes, turn, saturation, value);
        for (index, pixel) in block.iter_mut().enumerate() {
            // Between 0.5 and 255.5.
            pixel.iter_mut().zip(&planes).for_each(|(level, plane)| *level = plane[index] as i32 as u8);
        }
    }
}

/// Pixels that are computed together, channel by channel, so that the compiler can use vectors.
const BLOCK: usize = 64;

/// `turn` is in sixths of the circle, from 0 to 6. The results are half a level too large, to be cut off.
fn shift([red, green, blue]: &mut [[f32; BLOCK]; 3], turn: f32, saturation: f32, value: f32) {
    for ((r, g), b) in red.iter_mut().zip(green).zip(blue) {
        let largest = r.max(*g).max(*b);
        let range = largest - r.min(*g).min(*b);
        let is_red = *r == largest;
        let is_green = *g == largest;
        let (start, difference) = if is_green { (2.0, *b - *r) } else { (4.0, *r - *g) };
        let (start, difference) = if is_red { (0.0, *g - *b) } else { (start, difference) };
        // From −1 to 11.
        let hue = start + difference / range.max(1e-6) + turn;
        let hue = wrapped(if hue < 0.0 { hue + 6.0 } else { hue });
        let share = (range / largest.max(1e-6) * saturation).clamp(0.0, 1.0);
        let bright = (largest * value).min(255.0);
        // Each channel is bright less a part that depends on how far its own sector is away.
        let channel = |start: f32| {
            let k = wrapped(start + hue);
            bright - bright * share * k.min(4.0 - k).clamp(0.0, 1.0) + 0.5
        };
        (*r, *g, *b) = (channel(5.0), channel(3.0), channel(1.0));
    }
}

/// From 0 to 12 sixths of the circle to 0 to 6.
#[inline]
fn wrapped(sixths: f32) -> f32 {
    if sixths >= 6.0 { sixths - 6.0 } else { sixths }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_changes_when_nothing_is_asked() {
        let mut image = Image::from_fn(16, 16, 3, |row, column, channel| (row * 16 + column * (3 + channel)) as u8);
        let before = image.clone();
        shift_hsv(&mut image, 0.0, 1.0, 1.0);
        let difference = image.values().iter().zip(before.values()).map(|(a, b)| a.abs_diff(*b)).max();
        assert!(difference.is_some_and(|difference| difference <= 1), "{difference:?}");
    }

    #[test]
    fn a_third_of_the_circle_turns_red_into_green() {
        let mut image = Image::new(1, 1, 3, vec![200, 10, 10]).unwrap();
        shift_hsv(&mut image, 1.0 / 3.0, 1.0, 1.0);
        assert_eq!(image.pixel(0, 0), [10, 200, 10]);
        shift_hsv(&mut image, 0.0, 0.0, 0.5);
        assert_eq!(image.pixel(0, 0), [100, 100, 100]);
    }
}
