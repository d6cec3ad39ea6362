//! What a convolution's call says about itself, and what its kernel reads of that.
//!
//! A program says in the attribute `window` what to compute: `[side, bits, input channels, output channels, stride y, x,
//! low padding y, x, input dilation y, x, kernel dilation y, x, reversed, turned, split, joined, rectified, moments,
//! cotangent, apart]`, all of the convolution, or of the one whose kernel's gradient it is.

use crate::ffi::{Buffer, CallFrame};

/// The attribute `window`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// Height and width of the kernel.
    pub side: i64,
    /// Of a number.
    pub bits: i64,
    pub inputs: i64,
    pub outputs: i64,
    pub strides: [i64; 2],
    pub low: [i64; 2],
    pub input_dilation: [i64; 2],
    pub kernel_dilation: [i64; 2],
    /// Whether the last tap comes first.
    pub reversed: i64,
    /// Whether the kernel holds a row of input channels for every output channel.
    pub turned: i64,
    /// Whether a pointwise convolution of as many channels reads the same input.
    pub split: i64,
    /// Whether such a convolution reads an input of its own, and the results are added: the gradient of both with respect to
    /// their input.
    pub joined: i64,
    /// Whether the input is still to be multiplied with a factor for every channel, moved by an offset, and rectified: a
    /// norm that was never written.
    pub rectified: i64,
    /// Whether the moments of the output's channels are a result too.
    pub moments: i64,
    /// Whether the output is the cotangent of a rectified norm, whose sums are a result too.
    pub cotangent: i64,
    /// How many channels the first of two arrays has that the input lies in; all of them if there is one.
    pub apart: i64,
}

impl Window {
    pub fn of(frame: &CallFrame) -> Result<Window, String> {
        let numbers: [i64; 20] = (*frame.integers("window")?)
            .try_into()
            .map_err(|_| "a call has the wrong number of attributes".to_string())?;
        let [side, bits, inputs, outputs, sy, sx, ly, lx, iy, ix, ky, kx, ..] = numbers;
        let [.., reversed, turned, split, joined, rectified, moments, cotangent, apart] = numbers;
        Ok(Window {
            side,
            bits,
            inputs,
            outputs,
            strides: [sy, sx],
            low: [ly, lx],
            input_dilation: [iy, ix],
            kernel_dilation: [ky, kx],
            reversed,
            turned,
            split,
            joined,
            rectified,
            moments,
            cotangent,
            apart,
        })
    }

    /// How many arrays the input lies in, beyond the first.
    pub fn others(&self) -> i64 {
        i64::from(self.apart != self.inputs)
    }

    /// Whether it has neither strides nor holes.
    pub fn is_plain(&self) -> bool {
        [self.strides, self.input_dilation, self.kernel_dilation] == [[1, 1]; 3]
    }
}

/// Images, height, width, channels.
pub type Images = [i64; 4];

/// The shape of a buffer of channels-last images.
pub fn images(buffer: &Buffer) -> Result<Images, String> {
    Images::try_from(buffer.dims()).map_err(|_| "a convolution takes images".to_string())
}

/// What the kernels read, in the order of their header.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Geometry([i32; 16]);

impl Geometry {
    pub fn new(input: &Images, output: &Images, window: &Window) -> Result<Geometry, String> {
        let [count, height, width, channels] = *input;
        let sizes = [count, channels, output[3], height, width, output[1], output[2]];
        let pairs = [window.strides, window.low, window.input_dilation, window.kernel_dilation];
        let mut fields = [0; 16];
        for (field, value) in fields.iter_mut().zip(sizes.into_iter().chain(pairs.concat()).chain([window.reversed])) {
            *field = i32::try_from(value).map_err(|_| format!("{value} is too much for a convolution"))?;
        }
        Ok(Geometry(fields))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub fn plain(side: i64, bits: i64, inputs: i64, outputs: i64) -> Window {
        let (ones, low) = ([1; 2], [side / 2; 2]);
        Window {
            side,
            bits,
            inputs,
            outputs,
            strides: ones,
            low,
            input_dilation: ones,
            kernel_dilation: ones,
            reversed: 0,
            turned: 0,
            split: 0,
            joined: 0,
            rectified: 0,
            moments: 0,
            cotangent: 0,
            apart: inputs,
        }
    }

    #[test]
    fn the_geometry_has_the_order_of_the_header() {
        let window =
            Window { strides: [2, 1], low: [-1, 2], kernel_dilation: [3, 4], reversed: 1, ..plain(5, 32, 12, 24) };
        let geometry = Geometry::new(&[8, 30, 40, 12], &[8, 15, 40, 24], &window);
        assert_eq!(geometry, Ok(Geometry([8, 12, 24, 30, 40, 15, 40, 2, 1, -1, 2, 1, 1, 3, 4, 1])));
        assert!(Geometry::new(&[1 << 40, 1, 1, 1], &[1; 4], &window).is_err());
    }
}
