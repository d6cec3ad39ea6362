//! Resizing, with the results of a named library.
//!
//! | semantics | 8-bit images | 16-bit images | float images |
//! |---|---|---|---|
//! | `pil` | 22-bit fixed point, rounded after each axis | doubles, rounded after each axis | floats |
//! | `opencv` | 11-bit fixed point, rounded once (floats for `area`) | floats, rounded at the end | floats |
//! | `torchvision`, `tensorflow` | floats, rounded half to even at the end | the same | floats |
//!
//! Pillow multiplies colors by their alpha before it mixes them, so that transparent pixels have no color; `pil` does the same for
//! images of two and of four channels. `opencv` is OpenCV's own code: packages of `cv2` that contain IPP use that library for
//! bicubic filters, and about 4 % of their values are one level away (`cv2.ipp.setUseIPP(False)` gives ours).

mod alpha;
mod float;
mod opencv;
mod pil;
mod pil16;

use crate::filters::{self, Rows};
use crate::geometry::{Border, pad};
use crate::{Channel, Filter, Image, Semantics, Unsupported};

/// How to resize: the filter, whose arithmetic, and whether to antialias.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Method {
    /// How pixels between pixels are computed.
    pub filter: Filter,
    /// Whose arithmetic.
    pub semantics: Semantics,
    /// Whether the filter widens when the image shrinks.
    pub antialias: bool,
}

impl Method {
    /// The filter as the library applies it by default.
    pub const fn new(filter: Filter, semantics: Semantics) -> Method {
        Method { filter, semantics, antialias: semantics.default_antialias() }
    }
}

/// An image type that can be resized.
pub trait Resizable: Sized {
    /// The image in another size. A size of zero is taken as one.
    fn resize(&self, height: usize, width: usize, method: Method) -> Result<Self, Unsupported>;
}

impl Resizable for Image<u8> {
    fn resize(&self, height: usize, width: usize, method: Method) -> Result<Image<u8>, Unsupported> {
        let (height, width) = (height.max(1), width.max(1));
        let Method { filter, semantics, antialias } = method;
        if filter != Filter::Nearest && semantics == Semantics::OpenCv && !(antialias && filter != Filter::Area) {
            return Ok(opencv::resize(self, height, width, filter));
        }
        let (vertical, horizontal) = plan(self, height, width, method)?;
        Ok(match (filter, semantics) {
            (Filter::Nearest, _) => pick(self, &vertical, &horizontal),
            (_, Semantics::Pil) if alpha::is_premultiplied(self, &vertical, &horizontal) => {
                alpha::divided(pil::resize(&alpha::multiplied(self), &vertical, &horizontal))
            }
            (_, Semantics::Pil) => pil::resize(self, &vertical, &horizontal),
            _ => float::resize(&self.to_f32(), &vertical, &horizontal).map(u8::from_f32),
        })
    }
}

impl Resizable for Image<f32> {
    fn resize(&self, height: usize, width: usize, method: Method) -> Result<Image<f32>, Unsupported> {
        let (vertical, horizontal) = plan(self, height.max(1), width.max(1), method)?;
        Ok(match (method.filter, method.semantics) {
            (Filter::Nearest, _) => pick(self, &vertical, &horizontal),
            (_, Semantics::Pil) if alpha::is_premultiplied(self, &vertical, &horizontal) => {
                alpha::divided_floats(float::resize(&alpha::multiplied_floats(self), &vertical, &horizontal))
            }
            _ => float::resize(self, &vertical, &horizontal),
        })
    }
}

/// 16-bit images are computed in floats, which hold them exactly, and rounded half to even; by Pillow in doubles. It has no such
/// images with alpha: those are computed as floats are.
impl Resizable for Image<u16> {
    fn resize(&self, height: usize, width: usize, method: Method) -> Result<Image<u16>, Unsupported> {
        let (height, width) = (height.max(1), width.max(1));
        let (vertical, horizontal) = match (method.filter, method.semantics) {
            (Filter::Nearest, Semantics::Pil) => {
                filters::nearest_pil_16_bit((self.height(), self.width()), (height, width))
            }
            _ => plan(self, height, width, method)?,
        };
        Ok(match (method.filter, method.semantics) {
            (Filter::Nearest, _) => pick(self, &vertical, &horizontal),
            (_, Semantics::Pil) if !alpha::is_premultiplied(self, &vertical, &horizontal) => {
                pil16::resize(self, &vertical, &horizontal)
            }
            _ => self.to_f32().resize(height, width, method)?.map(u16::from_f32),
        })
    }
}

fn plan<T: Channel>(
    image: &Image<T>,
    height: usize,
    width: usize,
    method: Method,
) -> Result<(Rows, Rows), Unsupported> {
    let input = (image.height(), image.width());
    filters::plan(input, (height, width), method.filter, method.semantics, method.antialias)
}

/// Copies pixels: nearest neighbor.
fn pick<T: Channel>(image: &Image<T>, vertical: &Rows, horizontal: &Rows) -> Image<T> {
    let channels = image.channels();
    let mut output = Image::filled(vertical.output(), horizontal.output(), channels, T::ZERO);
    for row in 0..vertical.output() {
        let source = image.row(vertical.start(row));
        let pixels = output.row_mut(row).chunks_exact_mut(channels);
        for (column, pixel) in pixels.enumerate() {
            pixel.copy_from_slice(&source[horizontal.start(column) * channels..][..channels]);
        }
    }
    output
}

/// The size that makes the longer side `long` and keeps the shape, rounded down as torchvision and Pillow do.
pub fn fit_long_side(height: usize, width: usize, long: usize) -> (usize, usize) {
    let scaled = |short: usize, side: usize| (long * short / side.max(1)).max(1);
    if height >= width { (long, scaled(width, height)) } else { (scaled(height, width), long) }
}

/// The size that makes the shorter side `short` and keeps the shape, rounded down as torchvision does.
pub fn fit_short_side(height: usize, width: usize, short: usize) -> (usize, usize) {
    let scaled = |long: usize, side: usize| (short * long / side.max(1)).max(1);
    if height <= width { (short, scaled(width, height)) } else { (scaled(height, width), short) }
}

/// Resizes into a frame without changing the shape of what is seen, and pads the rest on both sides, as
/// `tf.image.resize_with_pad` does with zeros. Returns the image with the position and the scale of the old one in it.
pub fn resize_with_pad<T: Channel>(
    image: &Image<T>,
    height: usize,
    width: usize,
    method: Method,
    border: Border<T>,
) -> Result<(Image<T>, Placement), Unsupported>
where
    Image<T>: Resizable,
{
    let (height, width) = (height.max(1), width.max(1));
    let (inner_height, inner_width) = fit_frame((image.height(), image.width()), (height, width));
    let inner = image.resize(inner_height, inner_width, method)?;
    let placement = Placement {
        top: (height - inner_height) / 2,
        left: (width - inner_width) / 2,
        scale_y: inner_height as f64 / image.height() as f64,
        scale_x: inner_width as f64 / image.width() as f64,
    };
    let (bottom, right) = (height - inner_height - placement.top, width - inner_width - placement.left);
    Ok((pad(&inner, [placement.top, placement.left, bottom, right], border), placement))
}

/// The largest size of the same shape that fits into a frame, rounded down as TensorFlow does.
pub fn fit_frame((height, width): (usize, usize), (frame_height, frame_width): (usize, usize)) -> (usize, usize) {
    let ratio = (height as f64 / frame_height as f64).max(width as f64 / frame_width as f64);
    let fitted = |side: usize, frame: usize| ((side as f64 / ratio) as usize).clamp(1, frame);
    (fitted(height, frame_height), fitted(width, frame_width))
}

/// Where an old image lies in a new one: new = scale × old + offset. Boxes are moved with it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Placement {
    /// Rows above it.
    pub top: usize,
    /// Columns left of it.
    pub left: usize,
    /// Vertical scale.
    pub scale_y: f64,
    /// Horizontal scale.
    pub scale_x: f64,
}
