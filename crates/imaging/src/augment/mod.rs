//! The operations behind AutoAugment, RandAugment and TrivialAugment, with torchvision's magnitudes.
//!
//! The data crate samples which operation is applied and how strongly; here is what each of them does.

mod policies;

use crate::affine::{Motion, transform};
use crate::{Filter, Image, Semantics, color};
pub use policies::{CIFAR10, IMAGENET, PolicyStep, SVHN};

/// One operation. Magnitudes mean different things for each; see [`Space::magnitude`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Operation {
    Identity,
    ShearX,
    ShearY,
    TranslateX,
    TranslateY,
    Rotate,
    Brightness,
    Color,
    Contrast,
    Sharpness,
    Posterize,
    Solarize,
    AutoContrast,
    Equalize,
    Invert,
}

impl Operation {
    /// The fourteen operations that RandAugment and TrivialAugment draw from.
    pub const SAMPLED: [Operation; 14] = [
        Operation::Identity,
        Operation::ShearX,
        Operation::ShearY,
        Operation::TranslateX,
        Operation::TranslateY,
        Operation::Rotate,
        Operation::Brightness,
        Operation::Color,
        Operation::Contrast,
        Operation::Sharpness,
        Operation::Posterize,
        Operation::Solarize,
        Operation::AutoContrast,
        Operation::Equalize,
    ];

    /// True when the magnitude may be applied in either direction.
    pub fn is_signed(self) -> bool {
        use Operation::*;
        matches!(self, ShearX | ShearY | TranslateX | TranslateY | Rotate | Brightness | Color | Contrast | Sharpness)
    }

    /// True when pixels move, so that masks and boxes must move too.
    pub fn is_geometric(self) -> bool {
        use Operation::*;
        matches!(self, ShearX | ShearY | TranslateX | TranslateY | Rotate)
    }

    /// The motion of a geometric operation, with the point it turns around, for an image of that size.
    pub fn motion(self, magnitude: f64, height: usize, width: usize) -> Option<(Motion, (f64, f64))> {
        let center = (width as f64 * 0.5, height as f64 * 0.5);
        let slanted = magnitude.atan().to_degrees();
        Some(match self {
            Operation::ShearX => (Motion { shear: (slanted, 0.0), ..Motion::NONE }, (0.0, 0.0)),
            Operation::ShearY => (Motion { shear: (0.0, slanted), ..Motion::NONE }, (0.0, 0.0)),
            Operation::TranslateX => (Motion { translate: (magnitude.trunc(), 0.0), ..Motion::NONE }, center),
            Operation::TranslateY => (Motion { translate: (0.0, magnitude.trunc()), ..Motion::NONE }, center),
            // torchvision's rotate has the opposite sign of its affine.
            Operation::Rotate => (Motion { angle: -magnitude, ..Motion::NONE }, center),
            _ => return None,
        })
    }

    /// Applies the operation as torchvision does to PIL images: nearest neighbor, what was outside becomes `fill`.
    pub fn apply(self, image: &mut Image<u8>, magnitude: f64, fill: u8) {
        if let Some((motion, center)) = self.motion(magnitude, image.height(), image.width()) {
            *image = transform(image, &motion.inverse_around(center), Filter::Nearest, fill);
            return;
        }
        let pil = Semantics::Pil;
        let outcome = match self {
            Operation::Brightness => color::adjust_brightness(image, 1.0 + magnitude, pil),
            Operation::Color => color::adjust_saturation(image, 1.0 + magnitude, pil),
            Operation::Contrast => color::adjust_contrast(image, 1.0 + magnitude, pil),
            Operation::Sharpness => color::adjust_sharpness(image, 1.0 + magnitude, pil),
            Operation::Posterize => {
                color::posterize(image, magnitude as u32);
                Ok(())
            }
            Operation::Solarize => {
                color::solarize(image, magnitude.ceil() as u32);
                Ok(())
            }
            Operation::AutoContrast => {
                color::autocontrast(image, pil);
                Ok(())
            }
            Operation::Equalize => {
                color::equalize(image);
                Ok(())
            }
            Operation::Invert => {
                color::invert(image);
                Ok(())
            }
            _ => Ok(()),
        };
        outcome.expect("Pillow offers all of these");
    }
}

/// How strong the operations can get.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Space {
    /// RandAugment's and AutoAugment's range.
    Standard,
    /// TrivialAugment's wider range.
    Wide,
}

impl Space {
    /// The magnitude at `level` of `levels`, for an image of that size.
    pub fn magnitude(self, operation: Operation, level: usize, levels: usize, height: usize, width: usize) -> f64 {
        let share = level as f64 / (levels.max(2) - 1) as f64;
        let wide = self == Space::Wide;
        let translation = |side: usize| if wide { 32.0 } else { 150.0 / 331.0 * side as f64 };
        match operation {
            Operation::ShearX | Operation::ShearY => share * if wide { 0.99 } else { 0.3 },
            Operation::TranslateX => share * translation(width),
            Operation::TranslateY => share * translation(height),
            Operation::Rotate => share * if wide { 135.0 } else { 30.0 },
            Operation::Brightness | Operation::Color | Operation::Contrast | Operation::Sharpness => {
                share * if wide { 0.99 } else { 0.9 }
            }
            Operation::Posterize => 8.0 - (share * if wide { 6.0 } else { 4.0 }).round_ties_even(),
            Operation::Solarize => 255.0 * (1.0 - share),
            Operation::Identity | Operation::AutoContrast | Operation::Equalize | Operation::Invert => 0.0,
        }
    }
}
