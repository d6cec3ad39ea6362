//! Hue, saturation and value changed at once, as detectors' augmentation does.

use crate::Image;

/// Turns the hue by `hue` circles and multiplies saturation and value. Gray images change their value only.
pub fn shift_hsv(image: &mut Image<u8>, hue: f32, saturation: f32, value: f32) {
    if image.channels() != 3 {
        image.values_mut().iter_mut().for_each(|level| *level = (f32::from(*level) * value).min(255.0) as u8);
        return;
    }
    let turn = hue * 6.0;
    for pixel in image.values_mut().as_chunks_mut::<3>().0 {
        *pixel = shifted(*pixel, turn, saturation, value);
    }
}

/// `turn` is in sixths of the circle.
#[inline]
fn shifted(pixel: [u8; 3], turn: f32, saturation: f32, value: f32) -> [u8; 3] {
    let [r, g, b] = pixel.map(f32::from);
    let largest = r.max(g).max(b);
    let range = largest - r.min(g).min(b);
    let safe = range.max(1e-6);
    let hue = match () {
        () if r == largest => (g - b) / safe,
        () if g == largest => 2.0 + (b - r) / safe,
        () => 4.0 + (r - g) / safe,
    };
    let hue = (hue + turn).rem_euclid(6.0);
    let share = (range / largest.max(1e-6) * saturation).clamp(0.0, 1.0);
    let bright = (largest * value).min(255.0);
    // Each channel is bright less a part that depends on how far its own sector is away.
    let channel = |start: f32| {
        let k = (start + hue).rem_euclid(6.0);
        let part = k.min(4.0 - k).clamp(0.0, 1.0);
        (bright - bright * share * part + 0.5) as u8
    };
    [channel(5.0), channel(3.0), channel(1.0)]
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
