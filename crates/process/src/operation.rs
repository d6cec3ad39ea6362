//! What is done to images, and how the host does it.

use crate::error::{ProcessError, Result, refusal, refuse};
use octant_data::AnyImage;
use octant_graph::DType;
use octant_imaging::blur::{GaussianBlur, blur_f32, blur_u8};
use octant_imaging::geometry::{self, Border, PixelWindow};
use octant_imaging::resize::{Method, Resizable, resize_with_pad};
use octant_imaging::{Channel, Filter, Image, Semantics};
use std::fmt;
use std::str::FromStr;

/// What is done to an image.
#[derive(Debug, Clone, Copy)]
pub enum Operation {
    /// Another size.
    Resize {
        /// Rows of the result.
        height: usize,
        /// Columns of the result.
        width: usize,
        /// The filter, and whose arithmetic.
        method: Method,
        /// Keeps the shape of what is seen and fills the rest of the frame.
        pad: Option<Border<f64>>,
    },
    /// A part of the image.
    Crop(PixelWindow),
    /// Gaussian blur.
    Blur(GaussianBlur),
}

/// What is computed in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Precision {
    /// The type that images are stored in, with the fixed-point arithmetic that the libraries use for bytes.
    Stored,
    /// Single precision, rounded once at the end.
    F32,
    /// Half the bits of f32; only on devices.
    Bf16,
}

impl FromStr for Precision {
    type Err = String;

    fn from_str(name: &str) -> std::result::Result<Precision, String> {
        let known = [Precision::Stored, Precision::F32, Precision::Bf16];
        let found = known.into_iter().find(|precision| precision.to_string().eq_ignore_ascii_case(name));
        found.ok_or_else(|| format!("there is no precision \"{name}\"; there are stored, f32 and bf16"))
    }
}

impl fmt::Display for Precision {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self {
            Precision::Stored => "stored",
            Precision::F32 => "f32",
            Precision::Bf16 => "bf16",
        })
    }
}

impl Precision {
    /// The element type that images of `stored` type are computed in.
    pub fn dtype(self, stored: DType) -> DType {
        match self {
            Precision::Stored => stored,
            Precision::F32 => DType::F32,
            Precision::Bf16 => DType::BF16,
        }
    }
}

/// A size in the usual order: width, then height.
#[derive(Debug, Clone, Copy)]
pub struct Size {
    /// Columns.
    pub width: usize,
    /// Rows.
    pub height: usize,
}

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Size, String> {
        let problem = || format!("{text:?} is no size; write width and height such as 512x384");
        let (width, height) = text.split_once(['x', '×']).ok_or_else(problem)?;
        let number = |text: &str| text.trim().parse().ok().filter(|side| (1..=65_535).contains(side));
        match (number(width), number(height)) {
            (Some(width), Some(height)) => Ok(Size { width, height }),
            _ => Err(problem()),
        }
    }
}

impl Operation {
    /// What the same operation does to an image's mask; `None` where masks stay as they are. Masks hold labels, which must
    /// not be mixed; beyond an image there are none.
    pub fn for_mask(&self) -> Option<Operation> {
        match *self {
            Operation::Resize { height, width, method, pad } => {
                let pad =
                    pad.map(|border| if let Border::Constant(_) = border { Border::Constant(0.0) } else { border });
                Some(Operation::Resize { height, width, method: Method::new(Filter::Nearest, method.semantics), pad })
            }
            Operation::Crop(window) => Some(Operation::Crop(window)),
            Operation::Blur(_) => None,
        }
    }

    /// The result on the host. In f32 it is a float image in the units of the original, not rounded yet.
    pub fn on_host(&self, image: &AnyImage, precision: Precision) -> Result<AnyImage> {
        if precision == Precision::Bf16 {
            refuse!("the host computes in stored or f32 precision; add `device = \"cpu\"` (or another) for bf16");
        }
        let floats = precision == Precision::F32;
        if let Operation::Resize { height, width, .. } = self {
            // Filters need it once more in floats.
            let bytes = *height as u128 * *width as u128 * image.dims()[2] as u128 * 4;
            octant_tensor::require_memory(bytes, &format!("an image of {width}x{height}"))
                .map_err(ProcessError::Refused)?;
        }
        Ok(match (self, image) {
            (Operation::Crop(window), AnyImage::U8(image)) => AnyImage::U8(geometry::crop(image, *window)),
            (Operation::Crop(window), AnyImage::U16(image)) => AnyImage::U16(geometry::crop(image, *window)),
            (Operation::Crop(window), AnyImage::F32(image)) => AnyImage::F32(geometry::crop(image, *window)),
            (Operation::Resize { height, width, method, pad }, AnyImage::U8(image)) if !floats => {
                AnyImage::U8(resized(image, *height, *width, *method, *pad)?)
            }
            (Operation::Resize { height, width, method, pad }, AnyImage::U16(image)) if !floats => {
                AnyImage::U16(resized(image, *height, *width, *method, *pad)?)
            }
            (Operation::Resize { height, width, method, pad }, image) => {
                AnyImage::F32(resized(&to_floats(image), *height, *width, *method, *pad)?)
            }
            (Operation::Blur(blur), AnyImage::U8(image)) if !floats => AnyImage::U8(blur_u8(image, *blur)?),
            (Operation::Blur(blur), AnyImage::U16(image)) if !floats => {
                AnyImage::U16(blur_f32(&image.to_f32(), *blur)?.map(u16::from_f32))
            }
            (Operation::Blur(blur), image) => AnyImage::F32(blur_f32(&to_floats(image), *blur)?),
        })
    }
}

fn resized<T: Channel>(
    image: &Image<T>,
    height: usize,
    width: usize,
    method: Method,
    pad: Option<Border<f64>>,
) -> Result<Image<T>>
where
    Image<T>: Resizable,
{
    Ok(match pad {
        None => image.resize(height, width, method)?,
        Some(border) => {
            let border = match border {
                Border::Constant(fill) => Border::Constant(T::from_f32(fill as f32)),
                Border::Reflect => Border::Reflect,
                Border::Repeat => Border::Repeat,
            };
            resize_with_pad(image, height, width, method, border)?.0
        }
    })
}

/// The same numbers as floats: 0–255 stays 0–255.
pub fn to_floats(image: &AnyImage) -> Image<f32> {
    match image {
        AnyImage::U8(image) => image.to_f32(),
        AnyImage::U16(image) => image.to_f32(),
        AnyImage::F32(image) => image.clone(),
    }
}

/// Floats rounded to the type that the original was stored in.
pub fn stored_like(result: AnyImage, original: &AnyImage) -> AnyImage {
    match (result, original) {
        (AnyImage::F32(image), AnyImage::U8(_)) => AnyImage::U8(image.map(u8::from_f32)),
        (AnyImage::F32(image), AnyImage::U16(_)) => AnyImage::U16(image.map(u16::from_f32)),
        (result, _) => result,
    }
}

/// `left,top,width,height`.
pub fn window(text: &str) -> Result<PixelWindow> {
    let numbers: Vec<usize> = text.split(',').filter_map(|part| part.trim().parse().ok()).collect();
    let [left, top, width, height] = numbers[..]
        .try_into()
        .ok()
        .filter(|_| text.matches(',').count() == 3)
        .ok_or_else(|| refusal!("{text:?} is no window; write left,top,width,height such as 100,50,640,480"))?;
    if width == 0 || height == 0 {
        refuse!("a window of {width}×{height} has no pixels");
    }
    Ok(PixelWindow { top, left, height, width })
}

/// How images are resized; whether the filter widens when images shrink is what the library does, unless it is given.
pub fn method(filter: Filter, semantics: Semantics, antialias: Option<bool>) -> Method {
    let usual = Method::new(filter, semantics);
    Method { antialias: antialias.unwrap_or(usual.antialias), ..usual }
}

/// A blur as a person describes it. Torchvision has no size of its own: three standard deviations to each side.
pub fn blur(sigma: f32, kernel: Option<usize>, semantics: Semantics) -> Result<GaussianBlur> {
    if kernel.is_some_and(|size| size.is_multiple_of(2)) {
        refuse!("the size of the kernel must be an odd number: its middle lies on a pixel");
    }
    let size = match (kernel, semantics) {
        (Some(size), _) => size,
        (None, Semantics::Torchvision) => 2 * (3.0 * sigma).ceil() as usize + 1,
        (None, _) => 0,
    };
    Ok(GaussianBlur { sigma, size, semantics })
}
