//! One call for many operations on small arrays, such as those between the large operations of a network. A kernel for each
//! would take a microsecond and a half whatever it does, and a network has hundreds of them.
//!
//! A program says in the attribute `body` what a block of threads does, in C, and in `counts` how many operands and results
//! there are together, how many threads, and how many bytes they share.

use crate::call::{WORDS, compiled};
use crate::compiler::{Source, source};
use crate::driver::{Grid, driver};
use crate::ffi::{CallFrame, Error, Stage, handle};
use std::ffi::c_void;
use std::ptr::null_mut;

/// What programs call it.
pub const NAME: &str = "octant.small";
const SOURCE: Source = source!("small.cu", c"octant_small");

/// The `XLA_FFI_Handler`.
///
/// # Safety
/// Only XLA may call it.
pub unsafe extern "C" fn handler(frame: *mut CallFrame) -> *mut Error {
    let work = |frame: &CallFrame, stage: Stage| {
        let counts = Counts::of(frame)?;
        let kernel = compiled(&SOURCE, counts.defines(frame.text("body")?), counts.shared)?;
        let Stage::Execute = stage else { return Ok(()) };
        let buffers = frame.buffers();
        if buffers.len() != counts.buffers {
            return Err(format!("a call for {} small arrays has {}", counts.buffers, buffers.len()));
        }
        let places: [*mut c_void; WORDS] =
            std::array::from_fn(|place| buffers.get(place).map_or(null_mut(), |buffer| buffer.data));
        let grid = Grid { blocks: [1, 1, 1], threads: [counts.threads, 1] };
        // SAFETY: the kernel takes a table of that size; every address in it is that of one of XLA's buffers, which it keeps
        // until the stream has passed, and the body was written for these buffers.
        unsafe { driver()?.launch(kernel, grid, counts.shared, frame.stream()?, &[(&raw const places).cast()]) }
    };
    // SAFETY: passed on from the caller.
    unsafe { handle(frame, work) }
}

/// The attribute `counts`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Counts {
    /// Operands and results.
    buffers: usize,
    threads: u32,
    /// Bytes.
    shared: u32,
}

impl Counts {
    fn of(frame: &CallFrame) -> Result<Counts, String> {
        Counts::read(frame.integers("counts")?)
            .ok_or_else(|| "a call for small arrays has the wrong counts".to_string())
    }

    fn read(counts: &[i64]) -> Option<Counts> {
        let &[buffers, threads, shared] = counts else { return None };
        let counts = Counts {
            buffers: buffers.try_into().ok()?,
            threads: threads.try_into().ok()?,
            shared: shared.try_into().ok()?,
        };
        ((1..=WORDS).contains(&counts.buffers) && (1..=1024).contains(&counts.threads)).then_some(counts)
    }

    fn defines(&self, body: &str) -> Vec<String> {
        vec![format!("THREADS={}", self.threads), format!("BODY={body}")]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compiler::compiler;
    use crate::ffi::fake;

    #[test]
    fn counts_are_three_numbers_that_a_block_can_have() {
        assert_eq!(Counts::read(&[3, 256, 4096]), Some(Counts { buffers: 3, threads: 256, shared: 4096 }));
        for wrong in [&[3, 256][..], &[0, 256, 0], &[501, 256, 0], &[3, 0, 0], &[3, 2048, 0], &[3, 256, -1]] {
            assert_eq!(Counts::read(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn a_call_without_counts_is_an_error() {
        let error = fake::call(handler, 3, &[3]).unwrap_or_default();
        assert!(error.contains("counts"), "{error}");
    }

    /// Needs NVIDIA's run-time compiler, which is a pip package of its own and needs no GPU.
    #[test]
    fn bodies_compile_where_there_is_a_compiler() {
        let Ok(compiler) = compiler() else {
            println!("skipped: libnvrtc is not on this machine");
            return;
        };
        // Means from sums in 512 parts, and lengths of pairs of them, as a program has it.
        let body = "const float *restrict a0 = (const float *)places[0]; const float *restrict a1 = (const float \
            *)places[1]; float *restrict r0 = (float *)places[2]; float *restrict r1 = (float *)places[3]; float \
            *restrict r2 = (float *)places[4]; for (unsigned t = thread; t < 1024; t += 1024) { const unsigned o \
            = t / 32, lane = t % 32; float x0 = 0.0f; float x1 = 0.0f; UNROLL for (unsigned p = 0; p < 16; p++) \
            { const unsigned k = lane + p * 32; const float v0 = a0[o * 512 + k]; x0 = x0 + v0; const float v1 = \
            a1[o * 512 + k]; x1 = x1 + v1; } shared[0 + lane * 33 + o] = x0; shared[1088 + lane * 33 + o] = x1; \
            } barrier; if (thread < 128) { float *mine = shared + 0 + thread / 32 * 33 + thread % 32; float x = \
            *mine; UNROLL for (unsigned p = 1; p < 8; p++) { const float y = mine[p * 132]; x = x + y; } *mine = \
            x; } if (thread < 128) { float *mine = shared + 1088 + thread / 32 * 33 + thread % 32; float x = \
            *mine; UNROLL for (unsigned p = 1; p < 8; p++) { const float y = mine[p * 132]; x = x + y; } *mine = \
            x; } barrier; if (thread < 32) { float *mine = shared + 0 + thread / 32 * 33 + thread % 32; float x \
            = *mine; UNROLL for (unsigned p = 1; p < 4; p++) { const float y = mine[p * 33]; x = x + y; } \
            shared[1056 + thread] = x; } if (thread < 32) { float *mine = shared + 1088 + thread / 32 * 33 + \
            thread % 32; float x = *mine; UNROLL for (unsigned p = 1; p < 4; p++) { const float y = mine[p * \
            33]; x = x + y; } shared[2144 + thread] = x; } barrier; for (unsigned i = thread; i < 32; i += 1024) \
            { const float v0 = shared[1056 + i]; const float v1 = v0 / 6.5536e4f; const float v2 = shared[2144 + \
            i]; const float v3 = v2 / 6.5536e4f; r0[i] = v3; const float v4 = v1 + 1e-8f; r1[i] = v4; const \
            float v5 = v1 * v1; const float v6 = v3 * v3; const float v7 = v5 + v6; const float v8 = v7 + 1e-8f; \
            const float v9 = sqrtf(v8); r2[i] = v9; }";
        let counts = Counts { buffers: 5, threads: 1024, shared: 8704 };
        let code = compiler.compile(&SOURCE, 80, &counts.defines(body));
        assert!(code.as_ref().is_ok_and(|code| !code.is_empty()), "{code:?}");
    }
}
