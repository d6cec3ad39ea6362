//! Depthwise convolutions and the gradients of their kernels.
//!
//! cuDNN builds a plan of a third of a second for every one of them; these kernels are compiled once per element type and
//! size. A program says in the attribute `window` what to compute:
//! `[side, bits, stride y, x, low padding y, x, input dilation y, x, kernel dilation y, x, reversed]`.

use crate::compiler::{Source, compiler};
use crate::driver::{Grid, Kernel, driver};
use crate::ffi::{Buffer, CallFrame, Error, Stage, handle};
use crate::store::stored;
use std::collections::HashMap;
use std::ffi::{CStr, c_void};
use std::sync::{LazyLock, Mutex, PoisonError};

/// An array of C text, from a file.
macro_rules! text {
    ($file:literal) => {
        match CStr::from_bytes_with_nul(concat!(include_str!(concat!("../kernels/", $file)), "\0").as_bytes()) {
            Ok(text) => text,
            Err(_) => panic!("a source must not hold a zero byte"),
        }
    };
}

const CONVOLUTION: Source = Source {
    name: c"depthwise.cu",
    text: text!("depthwise.cu"),
    entry: c"octant_depthwise",
    header_name: c"depthwise.h",
    header: text!("depthwise.h"),
};
const GRADIENT: Source = Source {
    name: c"depthwise_gradient.cu",
    text: text!("depthwise_gradient.cu"),
    entry: c"octant_depthwise_gradient",
    ..CONVOLUTION
};

/// The widest load.
const VECTOR_BITS: i64 = 128;
/// Threads of a block of the convolution.
const THREADS: i64 = 256;
/// Places in a row that a thread of a plain convolution makes.
const PLACES: i64 = 4;
/// Lanes of a warp and warps of a block of the gradient.
const LANES: i64 = 32;
const WARPS: u32 = 8;

/// The attribute `window`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Window {
    side: i64,
    bits: i64,
    strides: [i64; 2],
    low: [i64; 2],
    input_dilation: [i64; 2],
    kernel_dilation: [i64; 2],
    reversed: i64,
}

impl Window {
    fn of(frame: &CallFrame) -> Result<Window, String> {
        match *frame.integers("window")? {
            [side, bits, sy, sx, ly, lx, iy, ix, ky, kx, reversed] => Ok(Window {
                side,
                bits,
                strides: [sy, sx],
                low: [ly, lx],
                input_dilation: [iy, ix],
                kernel_dilation: [ky, kx],
                reversed,
            }),
            _ => Err("a depthwise call has the wrong number of attributes".to_string()),
        }
    }

    /// Channels that a thread reads at once: a vector for the convolution, and for the gradient as many as there are
    /// registers for all sums.
    fn channels(&self, source: &Source) -> i64 {
        match self.side {
            _ if source.name == CONVOLUTION.name => VECTOR_BITS / self.bits,
            3 => 4,
            _ => 2,
        }
    }

    fn is_plain(&self) -> bool {
        [self.strides, self.input_dilation, self.kernel_dilation] == [[1, 1]; 3]
    }

    /// What a source is compiled with.
    fn defines(&self, source: &Source) -> [String; 4] {
        let number = if self.bits == 16 { "bf16" } else { "float" };
        [
            format!("NUMBER={number}"),
            format!("SIDE={}", self.side),
            format!("PLAIN={}", self.is_plain() as i32),
            format!("CHANNELS={}", self.channels(source)),
        ]
    }

    /// The kernel for this window, compiled at the first call.
    fn kernel(&self, source: &'static Source) -> Result<Kernel, String> {
        // By source, side, bits and whether it is plain.
        type Compiled = HashMap<(&'static CStr, i64, i64, bool), Kernel>;
        static COMPILED: LazyLock<Mutex<Compiled>> = LazyLock::new(Mutex::default);
        let mut compiled = COMPILED.lock().unwrap_or_else(PoisonError::into_inner);
        let known = (source.name, self.side, self.bits, self.is_plain());
        if let Some(&kernel) = compiled.get(&known) {
            return Ok(kernel);
        }
        let driver = driver()?;
        let (architecture, defines) = (driver.architecture()?, self.defines(source));
        let compile = || compiler()?.compile(source, architecture, &defines);
        let key = (source.text, source.header, architecture, &defines);
        let kernel = stored(key, compile, |code| driver.kernel(code, source.entry))?;
        compiled.insert(known, kernel);
        Ok(kernel)
    }
}

/// What the kernels read, in the order of their header.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Geometry([i32; 15]);

impl Geometry {
    fn new(input: &[i64; 4], output: &[i64; 4], window: &Window) -> Result<Geometry, String> {
        let [pictures, height, width, channels] = *input;
        let pairs = [[pictures, channels], [height, width], [output[1], output[2]]];
        let pairs =
            pairs.into_iter().chain([window.strides, window.low, window.input_dilation, window.kernel_dilation]);
        let mut fields = [0; 15];
        for (field, value) in fields.iter_mut().zip(pairs.flatten().chain([window.reversed])) {
            *field = i32::try_from(value).map_err(|_| format!("{value} is too much for a depthwise convolution"))?;
        }
        Ok(Geometry(fields))
    }
}

/// The shape of a buffer of channels-last pictures.
fn picture(buffer: &Buffer) -> Result<[i64; 4], String> {
    <[i64; 4]>::try_from(buffer.dims()).map_err(|_| "a depthwise convolution takes pictures".to_string())
}

fn three(frame: &CallFrame) -> Result<[&Buffer; 3], String> {
    <[&Buffer; 3]>::try_from(frame.buffers()).map_err(|_| "a depthwise call has two operands and a result".to_string())
}

fn start(
    frame: &CallFrame,
    kernel: Kernel,
    grid: Grid,
    buffers: [&Buffer; 3],
    geometry: Geometry,
) -> Result<(), String> {
    let pointers = buffers.map(|buffer| buffer.data);
    let [a, b, c] = &pointers;
    let parameters: [*const c_void; 4] =
        [(&raw const *a).cast(), (&raw const *b).cast(), (&raw const *c).cast(), (&raw const geometry).cast()];
    // SAFETY: both kernels take three buffers and the geometry, whose sizes are those of the buffers; XLA keeps the
    // buffers until the stream has passed.
    unsafe { driver()?.launch(kernel, grid, frame.stream()?, &parameters) }
}

/// `(input, kernel) -> output`.
///
/// # Safety
/// Only XLA may call it.
pub unsafe extern "C" fn convolution(frame: *mut CallFrame) -> *mut Error {
    let work = |frame: &CallFrame, stage: Stage| {
        let window = Window::of(frame)?;
        let kernel = window.kernel(&CONVOLUTION)?;
        if let Stage::Execute = stage {
            let buffers = three(frame)?;
            let (input, output) = (picture(buffers[0])?, picture(buffers[2])?);
            let grid = convolution_grid(&output, &window)?;
            start(frame, kernel, grid, buffers, Geometry::new(&input, &output, &window)?)?;
        }
        Ok(())
    };
    // SAFETY: passed on from the caller.
    unsafe { handle(frame, work) }
}

fn convolution_grid(output: &[i64; 4], window: &Window) -> Result<Grid, String> {
    let [pictures, height, width, channels] = *output;
    let places = if window.is_plain() { PLACES } else { 1 };
    let threads = pictures * height * ((width + places - 1) / places) * (channels / window.channels(&CONVOLUTION));
    let blocks = u32::try_from((threads + THREADS - 1) / THREADS);
    let blocks = blocks.map_err(|_| "the pictures are too many for one depthwise convolution".to_string())?;
    Ok(Grid { blocks: [blocks, 1], threads: [THREADS as u32, 1] })
}

/// `(input, cotangent) -> sums`, the kernel's gradient in as many parts as the result has.
///
/// # Safety
/// Only XLA may call it.
pub unsafe extern "C" fn kernel_gradient(frame: *mut CallFrame) -> *mut Error {
    let work = |frame: &CallFrame, stage: Stage| {
        let window = Window::of(frame)?;
        let kernel = window.kernel(&GRADIENT)?;
        if let Stage::Execute = stage {
            let buffers = three(frame)?;
            let (input, cotangent, [parts, _, _, channels]) =
                (picture(buffers[0])?, picture(buffers[1])?, picture(buffers[2])?);
            let warp = LANES * window.channels(&GRADIENT);
            let groups = (channels + warp - 1) / warp;
            let grid = Grid { blocks: [groups as u32, parts as u32], threads: [LANES as u32, WARPS] };
            start(frame, kernel, grid, buffers, Geometry::new(&input, &cotangent, &window)?)?;
        }
        Ok(())
    };
    // SAFETY: passed on from the caller.
    unsafe { handle(frame, work) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ffi::fake;

    const EXECUTE: i32 = 3;

    fn window(side: i64, bits: i64, strides: [i64; 2]) -> Window {
        Window { side, bits, strides, low: [1, 1], input_dilation: [1; 2], kernel_dilation: [1; 2], reversed: 0 }
    }

    #[test]
    fn handlers_speak_the_version_of_the_plugin_and_may_be_replayed() {
        for handler in [convolution, kernel_gradient] {
            assert_eq!(fake::metadata(handler), (fake::VERSION.0, fake::VERSION.1, 1));
        }
    }

    #[test]
    fn a_call_with_other_attributes_is_an_error() {
        let error = fake::call(convolution, EXECUTE, &[3, 16, 1, 1]).unwrap_or_default();
        assert!(error.contains("wrong number of attributes"), "{error}");
    }

    #[test]
    fn plain_convolutions_make_four_places_per_thread() {
        let output = [2, 7, 6, 64];
        let plain = convolution_grid(&output, &window(3, 16, [1, 1])).map(|grid| grid.blocks[0]);
        let strided = convolution_grid(&output, &window(3, 16, [2, 2])).map(|grid| grid.blocks[0]);
        // Rows of 6 places are two strips of four; 64 channels in bf16 are 8 vectors.
        assert_eq!(plain, Ok((2u32 * 7 * 2 * 8).div_ceil(256)));
        assert_eq!(strided, Ok((2u32 * 7 * 6 * 8).div_ceil(256)));
    }

    #[test]
    fn the_geometry_has_the_order_of_the_header() {
        let window = Window { low: [-1, 2], kernel_dilation: [3, 4], reversed: 1, ..window(5, 32, [2, 1]) };
        let geometry = Geometry::new(&[8, 30, 40, 12], &[8, 15, 40, 12], &window);
        assert_eq!(geometry, Ok(Geometry([8, 12, 30, 40, 15, 40, 2, 1, -1, 2, 1, 1, 3, 4, 1])));
        assert!(Geometry::new(&[1 << 40, 1, 1, 1], &[1; 4], &window).is_err());
    }

    /// Needs NVIDIA's run-time compiler, which is a pip package of its own and needs no GPU.
    #[test]
    fn every_kernel_compiles_where_there_is_a_compiler() {
        let Ok(compiler) = compiler() else {
            println!("skipped: libnvrtc is not on this machine");
            return;
        };
        for (source, side, number) in
            [(&CONVOLUTION, 3, 16), (&CONVOLUTION, 5, 32), (&GRADIENT, 3, 16), (&GRADIENT, 7, 32)]
        {
            for strides in [[1, 1], [2, 2]] {
                let code = compiler.compile(source, 80, &window(side, number, strides).defines(source));
                assert!(code.is_ok_and(|code| !code.is_empty()));
            }
        }
    }
}
