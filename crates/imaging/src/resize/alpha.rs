//! Colors multiplied by their alpha, as Pillow does around every resize of images that have one: its modes `La` and `RGBa`.

use crate::filters::Rows;
use crate::{Channel, Image};

/// Whether Pillow would multiply: gray or RGB with alpha, and something to compute.
pub(super) fn is_premultiplied<T: Channel>(image: &Image<T>, vertical: &Rows, horizontal: &Rows) -> bool {
    let is_same = image.height() == vertical.output() && image.width() == horizontal.output();
    matches!(image.channels(), 2 | 4) && !is_same
}

/// Every color times its alpha, divided by 255 and rounded to the nearest.
pub(super) fn multiplied(image: &Image<u8>) -> Image<u8> {
    with_alpha(image.clone(), |color, alpha| ((u32::from(color) * u32::from(alpha) + 127) / 255) as u8)
}

/// The colors again, rounded down. Where nothing or everything is seen they stay what they are.
pub(super) fn divided(image: Image<u8>) -> Image<u8> {
    with_alpha(image, |color, alpha| match alpha {
        0 | 255 => color,
        _ => (255 * u32::from(color) / u32::from(alpha)).min(255) as u8,
    })
}

/// The same for floats of any range: what alpha 1 is called cancels out.
pub(super) fn multiplied_floats(image: &Image<f32>) -> Image<f32> {
    with_alpha(image.clone(), |color, alpha| color * alpha)
}

pub(super) fn divided_floats(image: Image<f32>) -> Image<f32> {
    with_alpha(image, |color, alpha| if alpha == 0.0 { color } else { color / alpha })
}

fn with_alpha<T: Channel>(mut image: Image<T>, change: impl Fn(T, T) -> T) -> Image<T> {
    let channels = image.channels();
    for pixel in image.values_mut().chunks_exact_mut(channels) {
        let Some((&mut alpha, colors)) = pixel.split_last_mut() else { continue };
        colors.iter_mut().for_each(|color| *color = change(*color, alpha));
    }
    image
}

#[cfg(test)]
mod tests {
    use crate::resize::{Method, Resizable};
    use crate::{Filter, Image, Semantics};

    /// Red beside transparent green: without the multiplication the edge turned dark and green.
    #[test]
    fn transparent_pixels_have_no_color() {
        let image = Image::new(1, 2, 4, vec![200u8, 0, 0, 255, 0, 200, 0, 0]).unwrap();
        let method = Method::new(Filter::Bilinear, Semantics::Pil);
        let wide = image.resize(1, 4, method).unwrap();
        for pixel in wide.values().chunks_exact(4).filter(|pixel| pixel[3] > 0) {
            assert!(pixel[0] >= 198 && pixel[1] == 0, "{:?}", wide.values());
        }
        let floats = image.map(|value| f32::from(value) / 255.0).resize(1, 4, method).unwrap();
        for pixel in floats.values().chunks_exact(4).filter(|pixel| pixel[3] > 0.0) {
            assert!((pixel[0] - 200.0 / 255.0).abs() < 1e-5 && pixel[1] == 0.0, "{:?}", floats.values());
        }
        assert_eq!(image.resize(1, 2, method).unwrap(), image, "the same size is the same image");
    }
}
