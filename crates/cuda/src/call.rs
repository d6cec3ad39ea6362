//! What every call of a kernel has in common: attributes in, a compiled kernel, a grid, and a start on XLA's stream.

use crate::compiler::{Source, compiler};
use crate::driver::{Grid, Kernel, driver};
use crate::ffi::{CallFrame, Error, Stage, handle};
use crate::store::stored;
use crate::window::{Geometry, Images, Window, images};
use std::collections::HashMap;
use std::ffi::{CStr, c_void};
use std::sync::{LazyLock, Mutex, PoisonError};

/// Words of a table that a kernel takes by value: as much as its parameters may hold on every GPU.
pub const WORDS: usize = 500;

/// A kernel that programs call with a window, operands and results.
pub trait Call {
    /// What programs call it.
    const NAME: &'static str;
    const SOURCE: Source;
    /// Whether it computes the gradient of the kernel from input and cotangent, in as many parts as the result has, and
    /// not the output from input and kernel.
    const GRADIENT: bool;

    /// How many operands and results there are. The kernel takes them in that order.
    fn operands(_: &Window) -> [usize; 2] {
        [2, 1]
    }

    /// The macros that its source is compiled with.
    fn defines(window: &Window) -> Vec<String>;

    /// Bytes of shared memory that are asked for when it starts, beside those that the source declares.
    fn shared(_: &Window) -> u32 {
        0
    }

    /// Whether a result can come in so many parts.
    fn check(_: &Window, _output: &Images, _parts: i64) -> Result<(), String> {
        Ok(())
    }

    /// The blocks for the shapes of the input and of the output or its cotangent, and for so many parts.
    fn grid(window: &Window, input: &Images, output: &Images, parts: i64) -> Grid;
}

/// The `XLA_FFI_Handler` of a call.
///
/// # Safety
/// Only XLA may call it.
pub unsafe extern "C" fn handler<C: Call>(frame: *mut CallFrame) -> *mut Error {
    let work = |frame: &CallFrame, stage: Stage| {
        let window = Window::of(frame)?;
        let kernel = compiled(&C::SOURCE, C::defines(&window), C::shared(&window))?;
        match stage {
            Stage::Instantiate => Ok(()),
            Stage::Execute => start::<C>(frame, &window, kernel),
        }
    };
    // SAFETY: passed on from the caller.
    unsafe { handle(frame, work) }
}

/// The kernel for these macros, compiled at the first call.
pub fn compiled(source: &Source, defines: Vec<String>, shared: u32) -> Result<Kernel, String> {
    type Compiled = HashMap<(&'static CStr, Vec<String>), Kernel>;
    static COMPILED: LazyLock<Mutex<Compiled>> = LazyLock::new(Mutex::default);
    let mut compiled = COMPILED.lock().unwrap_or_else(PoisonError::into_inner);
    let known = (source.name, defines);
    if let Some(&kernel) = compiled.get(&known) {
        return Ok(kernel);
    }
    let driver = driver()?;
    let architecture = driver.architecture()?;
    let compile = || compiler()?.compile(source, architecture, &known.1);
    let key = (source.contents(), architecture, &known.1);
    let kernel = stored(key, compile, |code| driver.kernel(code, source.entry, shared))?;
    compiled.insert(known, kernel);
    Ok(kernel)
}

fn start<C: Call>(frame: &CallFrame, window: &Window, kernel: Kernel) -> Result<(), String> {
    let buffers = frame.buffers();
    let [operands, results] = C::operands(window);
    if buffers.len() != operands + results {
        return Err(format!("{} takes {operands} operands here and has {results} results", C::NAME));
    }
    let result = buffers[operands];
    let (mut input, output) = (images(buffers[0])?, images(if C::GRADIENT { buffers[1] } else { result })?);
    if input[3] != window.apart {
        return Err(format!("{} reads {} channels of images that have {}", C::NAME, window.apart, input[3]));
    }
    // Those of the array behind it included.
    input[3] = window.inputs;
    // The gradient of a kernel comes in parts, and so do moments, for every image.
    let parts = if C::GRADIENT { result.dims().first() } else { buffers[buffers.len() - 1].dims().get(1) };
    let parts = parts.copied().unwrap_or(1);
    C::check(window, &output, parts)?;
    let grid = C::grid(window, &input, &output, parts);
    let geometry = Geometry::new(&input, &output, window)?;
    let pointers: Vec<*mut c_void> = buffers.iter().map(|buffer| buffer.data).collect();
    let parameters: Vec<*const c_void> =
        pointers.iter().map(|pointer| (&raw const *pointer).cast()).chain([(&raw const geometry).cast()]).collect();
    // SAFETY: every kernel takes its operands, its results and the geometry, whose sizes are those of the buffers; XLA keeps
    // the buffers until the stream has passed.
    unsafe { driver()?.launch(kernel, grid, C::shared(window), frame.stream()?, &parameters) }
}

/// Threads or blocks that are enough for `work` pieces.
pub fn enough(work: i64, each: i64) -> u32 {
    u32::try_from((work + each - 1) / each).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ffi::fake;
    use crate::{depthwise, few_channels, tensor_core};

    const EXECUTE: i32 = 3;

    #[test]
    fn handlers_speak_the_version_of_the_plugin_and_may_be_replayed() {
        for handler in [handler::<depthwise::Convolution>, handler::<tensor_core::Gradient>] {
            assert_eq!(fake::metadata(handler), (fake::VERSION.0, fake::VERSION.1, 1));
        }
    }

    #[test]
    fn a_call_with_other_attributes_is_an_error() {
        let error = fake::call(handler::<few_channels::Convolution>, EXECUTE, &[3, 16, 1, 1]).unwrap_or_default();
        assert!(error.contains("wrong number of attributes"), "{error}");
    }

    /// Needs NVIDIA's run-time compiler, which is a pip package of its own and needs no GPU.
    #[test]
    fn every_kernel_compiles_where_there_is_a_compiler() {
        use crate::window::tests::plain;
        let Ok(compiler) = compiler() else {
            println!("skipped: libnvrtc is not on this machine");
            return;
        };
        fn defined<C: Call>(window: Window) -> (Source, Vec<String>) {
            (C::SOURCE, C::defines(&window))
        }
        let strided = Window { strides: [2, 2], ..plain(7, 32, 64, 64) };
        let turned = Window { turned: 1, ..plain(3, 32, 16, 48) };
        for (source, defines) in [
            defined::<depthwise::Convolution>(plain(3, 16, 64, 64)),
            defined::<depthwise::Convolution>(strided),
            defined::<depthwise::Gradient>(plain(5, 16, 64, 64)),
            defined::<depthwise::Gradient>(strided),
            defined::<few_channels::Convolution>(plain(7, 32, 2, 1)),
            defined::<few_channels::Gradient>(plain(3, 32, 4, 1)),
            defined::<tensor_core::Convolution>(turned),
            defined::<tensor_core::Convolution>(plain(3, 32, 48, 16)),
            defined::<tensor_core::Convolution>(plain(3, 32, 32, 32)),
            defined::<tensor_core::Convolution>(plain(3, 32, 16, 16)),
            defined::<tensor_core::Gradient>(plain(3, 32, 32, 48)),
            defined::<tensor_core::Gradient>(plain(3, 32, 48, 16)),
            defined::<tensor_core::Gradient>(plain(3, 32, 64, 64)),
            defined::<tensor_core::Convolution>(Window { split: 1, moments: 1, ..plain(3, 32, 48, 16) }),
            defined::<tensor_core::Convolution>(Window { joined: 1, ..turned }),
            defined::<tensor_core::Convolution>(Window { rectified: 1, moments: 1, ..plain(3, 32, 32, 32) }),
            defined::<tensor_core::Convolution>(Window { cotangent: 1, ..plain(3, 32, 16, 16) }),
            defined::<tensor_core::Convolution>(Window { cotangent: 1, turned: 1, ..plain(3, 32, 32, 32) }),
            defined::<tensor_core::Gradient>(Window { split: 1, ..plain(3, 32, 96, 32) }),
            defined::<tensor_core::Gradient>(Window { rectified: 1, ..plain(3, 32, 16, 16) }),
            defined::<tensor_core::Convolution>(Window { split: 1, moments: 1, apart: 16, ..plain(3, 32, 48, 16) }),
            defined::<tensor_core::Gradient>(Window { split: 1, apart: 32, ..plain(3, 32, 96, 32) }),
        ] {
            let code = compiler.compile(&source, 80, &defines);
            assert!(code.as_ref().is_ok_and(|code| !code.is_empty()), "{:?}: {code:?}", source.name);
        }
    }
}
