//! What is done to pictures, and how the host does it.

use anyhow::{Context, Result, bail};
use octant_data::Picture;
use octant_imaging::blur::{GaussianBlur, blur_f32, blur_u8};
use octant_imaging::geometry::{self, Window};
use octant_imaging::resize::{Method, Resizable};
use octant_imaging::{Channel, Image};
use std::str::FromStr;

/// What is done to a picture.
#[derive(Debug, Clone, Copy)]
pub(super) enum Operation {
    Resize { height: usize, width: usize, method: Method },
    Crop(Window),
    Blur(GaussianBlur),
}

/// What is computed in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Precision {
    /// The type that pictures are stored in, with the fixed-point arithmetic that the libraries use for bytes
    Stored,
    /// Single precision, rounded once at the end
    F32,
    /// Half the bits of f32, for accelerators; only with --device
    Bf16,
}

/// A size as people write it: width, then height.
#[derive(Debug, Clone, Copy)]
pub(super) struct Size {
    pub width: usize,
    pub height: usize,
}

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Size, String> {
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
    /// The result on the host. In f32 it is a float picture in the units of the original, not rounded yet.
    pub fn on_host(&self, picture: &Picture, precision: Precision) -> Result<Picture> {
        if precision == Precision::Bf16 {
            bail!("the host computes in stored or f32 precision; add --device cpu (or another) for bf16");
        }
        let floats = precision == Precision::F32;
        Ok(match (self, picture) {
            (Operation::Crop(window), Picture::U8(image)) => Picture::U8(geometry::crop(image, *window)),
            (Operation::Crop(window), Picture::U16(image)) => Picture::U16(geometry::crop(image, *window)),
            (Operation::Crop(window), Picture::F32(image)) => Picture::F32(geometry::crop(image, *window)),
            (Operation::Resize { height, width, method }, Picture::U8(image)) if !floats => {
                Picture::U8(image.resize(*height, *width, *method)?)
            }
            (Operation::Resize { height, width, method }, Picture::U16(image)) if !floats => {
                Picture::U16(image.resize(*height, *width, *method)?)
            }
            (Operation::Resize { height, width, method }, picture) => {
                Picture::F32(to_floats(picture).resize(*height, *width, *method)?)
            }
            (Operation::Blur(blur), Picture::U8(image)) if !floats => Picture::U8(blur_u8(image, *blur)?),
            (Operation::Blur(blur), Picture::U16(image)) if !floats => {
                Picture::U16(blur_f32(&image.to_f32(), *blur)?.map(u16::from_f32))
            }
            (Operation::Blur(blur), picture) => Picture::F32(blur_f32(&to_floats(picture), *blur)?),
        })
    }
}

/// The same numbers as floats: 0–255 stays 0–255.
pub(super) fn to_floats(picture: &Picture) -> Image<f32> {
    match picture {
        Picture::U8(image) => image.to_f32(),
        Picture::U16(image) => image.to_f32(),
        Picture::F32(image) => image.clone(),
    }
}

/// Floats rounded to the type that the original was stored in.
pub(super) fn stored_like(result: Picture, original: &Picture) -> Picture {
    match (result, original) {
        (Picture::F32(image), Picture::U8(_)) => Picture::U8(image.map(u8::from_f32)),
        (Picture::F32(image), Picture::U16(_)) => Picture::U16(image.map(u16::from_f32)),
        (result, _) => result,
    }
}

/// `left,top,width,height`.
pub(super) fn window(text: &str) -> Result<Window> {
    let numbers: Vec<usize> = text.split(',').filter_map(|part| part.trim().parse().ok()).collect();
    let [left, top, width, height] = numbers[..]
        .try_into()
        .ok()
        .filter(|_| text.matches(',').count() == 3)
        .with_context(|| format!("{text:?} is no window; write left,top,width,height such as 100,50,640,480"))?;
    if width == 0 || height == 0 {
        bail!("a window of {width}×{height} has no pixels");
    }
    Ok(Window { top, left, height, width })
}
