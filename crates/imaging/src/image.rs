//! An image in memory: rows of pixels, channels interleaved.

use std::fmt;

/// Images have at most this many channels, so that per-pixel work can live in a fixed array.
pub const MAX_CHANNELS: usize = 16;

/// A type that one channel of a pixel can have.
pub trait Channel: bytemuck::Pod + PartialOrd + fmt::Debug + Send + Sync + 'static {
    /// Zero.
    const ZERO: Self;
    /// The value that means "full": the largest integer, or 1.0.
    const FULL: Self;
    /// The nearest value of this type, ties to even, saturating.
    fn from_f32(value: f32) -> Self;
    /// This value as a float.
    fn to_f32(self) -> f32;
}

impl Channel for u8 {
    const ZERO: u8 = 0;
    const FULL: u8 = u8::MAX;
    fn from_f32(value: f32) -> u8 {
        value.round_ties_even() as u8
    }
    fn to_f32(self) -> f32 {
        self as f32
    }
}

impl Channel for u16 {
    const ZERO: u16 = 0;
    const FULL: u16 = u16::MAX;
    fn from_f32(value: f32) -> u16 {
        value.round_ties_even() as u16
    }
    fn to_f32(self) -> f32 {
        self as f32
    }
}

impl Channel for f32 {
    const ZERO: f32 = 0.0;
    const FULL: f32 = 1.0;
    fn from_f32(value: f32) -> f32 {
        value
    }
    fn to_f32(self) -> f32 {
        self
    }
}

/// Pixels that do not fit the size they were given with.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ImageError {
    /// The number of values is not height × width × channels.
    #[error("an image of {height}×{width}×{channels} does not have {given} values")]
    Size {
        /// Rows.
        height: usize,
        /// Columns.
        width: usize,
        /// Values per pixel.
        channels: usize,
        /// Values that came.
        given: usize,
    },
    /// The image has no pixels, or more channels than are supported.
    #[error("an image needs at least one pixel and 1 to {MAX_CHANNELS} channels, not {height}×{width}×{channels}")]
    Empty {
        /// Rows.
        height: usize,
        /// Columns.
        width: usize,
        /// Values per pixel.
        channels: usize,
    },
}

/// An image: `height` rows of `width` pixels of `channels` values, row-major (HWC). It is never empty.
#[derive(Debug, Clone, PartialEq)]
pub struct Image<T> {
    height: usize,
    width: usize,
    channels: usize,
    values: Vec<T>,
}

impl<T: Channel> Image<T> {
    /// An image over values that are already in HWC order.
    pub fn new(height: usize, width: usize, channels: usize, values: Vec<T>) -> Result<Image<T>, ImageError> {
        if height == 0 || width == 0 || channels == 0 || channels > MAX_CHANNELS {
            return Err(ImageError::Empty { height, width, channels });
        }
        let wanted = height.checked_mul(width).and_then(|pixels| pixels.checked_mul(channels));
        if wanted != Some(values.len()) {
            return Err(ImageError::Size { height, width, channels, given: values.len() });
        }
        Ok(Image { height, width, channels, values })
    }

    /// An image of one value everywhere. A size of zero is taken as one.
    pub fn filled(height: usize, width: usize, channels: usize, value: T) -> Image<T> {
        let (height, width) = (height.max(1), width.max(1));
        let channels = channels.clamp(1, MAX_CHANNELS);
        Image { height, width, channels, values: vec![value; height * width * channels] }
    }

    /// An image whose value at (row, column, channel) is computed. A size of zero is taken as one.
    pub fn from_fn(
        height: usize,
        width: usize,
        channels: usize,
        mut value: impl FnMut(usize, usize, usize) -> T,
    ) -> Image<T> {
        let mut image = Image::filled(height, width, channels, T::ZERO);
        let (width, channels) = (image.width, image.channels);
        for (position, slot) in image.values.iter_mut().enumerate() {
            *slot = value(position / (width * channels), position / channels % width, position % channels);
        }
        image
    }

    /// Rows.
    pub fn height(&self) -> usize {
        self.height
    }

    /// Columns.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Values per pixel: 1 is gray, 3 is RGB, 4 is RGB with alpha.
    pub fn channels(&self) -> usize {
        self.channels
    }

    /// Values per row.
    pub fn stride(&self) -> usize {
        self.width * self.channels
    }

    /// Height, width and channels.
    pub fn dims(&self) -> [usize; 3] {
        [self.height, self.width, self.channels]
    }

    /// All values in HWC order.
    pub fn values(&self) -> &[T] {
        &self.values
    }

    /// All values in HWC order, to change.
    pub fn values_mut(&mut self) -> &mut [T] {
        &mut self.values
    }

    /// All values in HWC order, without the image.
    pub fn into_values(self) -> Vec<T> {
        self.values
    }

    /// The values of one row.
    pub fn row(&self, row: usize) -> &[T] {
        &self.values[row * self.stride()..][..self.width * self.channels]
    }

    /// The values of one row, to change.
    pub fn row_mut(&mut self, row: usize) -> &mut [T] {
        let stride = self.stride();
        &mut self.values[row * stride..][..stride]
    }

    /// The channels of one pixel.
    pub fn pixel(&self, row: usize, column: usize) -> &[T] {
        &self.row(row)[column * self.channels..][..self.channels]
    }

    /// The same image with every value converted.
    pub fn map<U: Channel>(&self, convert: impl Fn(T) -> U) -> Image<U> {
        Image {
            height: self.height,
            width: self.width,
            channels: self.channels,
            values: self.values.iter().map(|&value| convert(value)).collect(),
        }
    }

    /// The same numbers as floats: 0–255 stays 0–255.
    pub fn to_f32(&self) -> Image<f32> {
        self.map(T::to_f32)
    }
}
