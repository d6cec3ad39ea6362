//! One call for what an optimizer does to many small variables. A kernel for each would take a microsecond and a half
//! whatever it does, and a network has hundreds of them.
//!
//! A program says in the attribute `statements` what to do with element `i` of a variable's `arrays`, in C, and in `counts`
//! how many arrays a variable has, how many scalars all of them read, and how many of the arrays are written. Operands
//! are the arrays of every variable in turn, then the scalars; the results are the arrays that are written, in their places.

use crate::call::{WORDS, compiled, enough};
use crate::compiler::{Source, source};
use crate::driver::{Grid, driver};
use crate::ffi::{Buffer, CallFrame, Error, Stage, handle};
use std::ffi::c_void;

/// What programs call it.
pub const NAME: &str = "octant.update";
const SOURCE: Source = source!("update.cu", c"octant_update");

/// Threads of a block, and elements of a block, as in the source.
const THREADS: u32 = 256;
const ELEMENTS: i64 = THREADS as i64 * 4;

/// The `XLA_FFI_Handler`.
///
/// # Safety
/// Only XLA may call it.
pub unsafe extern "C" fn handler(frame: *mut CallFrame) -> *mut Error {
    let work = |frame: &CallFrame, stage: Stage| {
        let counts = Counts::of(frame)?;
        let defines = counts.defines(frame.text("statements")?);
        let kernel = compiled(&SOURCE, defines, 0)?;
        let Stage::Execute = stage else { return Ok(()) };
        let (table, blocks) = counts.table(&frame.buffers())?;
        let count = ((table.len() - counts.scalars) / (counts.arrays + 1)) as i32;
        let table: [u64; WORDS] = std::array::from_fn(|word| table.get(word).copied().unwrap_or(0));
        let parameters: [*const c_void; 2] = [(&raw const table).cast(), (&raw const count).cast()];
        let grid = Grid { blocks: [blocks, 1, 1], threads: [THREADS, 1] };
        // SAFETY: the kernel takes a table of that size and the number of variables in it; every address in it is that of
        // one of XLA's buffers, which it keeps until the stream has passed, with as many elements as the table says.
        unsafe { driver()?.launch(kernel, grid, 0, frame.stream()?, &parameters) }
    };
    // SAFETY: passed on from the caller.
    unsafe { handle(frame, work) }
}

/// The attribute `counts`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Counts {
    /// Arrays of a variable, of which the first are written.
    arrays: usize,
    scalars: usize,
    written: usize,
}

impl Counts {
    fn of(frame: &CallFrame) -> Result<Counts, String> {
        let counts =
            frame.integers("counts")?.iter().map(|&count| usize::try_from(count)).collect::<Result<Vec<_>, _>>();
        match counts.as_deref() {
            Ok(&[arrays, scalars, written]) if (1..=arrays).contains(&written) => {
                Ok(Counts { arrays, scalars, written })
            }
            _ => Err("an update has the wrong counts".to_string()),
        }
    }

    fn defines(&self, statements: &str) -> Vec<String> {
        vec![format!("ARRAYS={}", self.arrays), format!("SCALARS={}", self.scalars), format!("STATEMENTS={statements}")]
    }

    /// What the kernel reads, and in how many blocks it runs.
    fn table(&self, buffers: &[&Buffer]) -> Result<(Vec<u64>, u32), String> {
        // A variable has its arrays among the operands and those that are written once more among the results.
        let variables = buffers.len().saturating_sub(self.scalars) / (self.arrays + self.written);
        let operands = variables * self.arrays + self.scalars;
        let words = variables * (self.arrays + 1) + self.scalars;
        if buffers.len() != operands + variables * self.written || words > WORDS {
            return Err(format!("an update of {variables} variables has {} buffers", buffers.len()));
        }
        let (operands, results) = buffers.split_at(operands);
        let (arrays, scalars) = operands.split_at(variables * self.arrays);
        let mut table: Vec<u64> = scalars.iter().map(|scalar| scalar.data as u64).collect();
        let mut blocks = 0;
        for (arrays, results) in arrays.chunks(self.arrays).zip(results.chunks(self.written)) {
            let elements: i64 = arrays[0].dims().iter().product();
            let alike = arrays.iter().all(|array| array.dims() == arrays[0].dims());
            let in_place = arrays.iter().zip(results).all(|(array, result)| array.data == result.data);
            if !alike || !in_place || i32::try_from(elements).is_err() {
                return Err("an update writes over arrays of one shape".to_string());
            }
            blocks += enough(elements, ELEMENTS);
            table.extend(arrays.iter().map(|array| array.data as u64));
            table.push(elements as u64 | u64::from(blocks) << 32);
        }
        Ok((table, blocks))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compiler::compiler;
    use crate::ffi::fake;

    #[test]
    fn the_table_says_where_every_variable_lies_and_ends() {
        let counts = Counts { arrays: 2, scalars: 1, written: 1 };
        let dims = [[3, 500], [7, 1]];
        let [first, second] = dims.each_ref().map(|dims| move |address| fake::buffer(address, dims));
        let buffers = [first(16), first(32), second(48), second(64), fake::buffer(80, &[]), first(16), second(48)];
        let buffers: Vec<&Buffer> = buffers.iter().collect();
        let (table, blocks) = counts.table(&buffers).unwrap_or_default();
        assert_eq!(table, [80, 16, 32, 1500 | 2 << 32, 48, 64, 7 | 3 << 32]);
        assert_eq!(blocks, 3);

        let elsewhere = first(96);
        let moved = [&buffers[..5], &[&elsewhere, buffers[6]]].concat();
        assert!(counts.table(&moved).is_err_and(|error| error.contains("writes over")), "results elsewhere");
        assert!(counts.table(&buffers[1..]).is_err(), "an operand is missing");
    }

    #[test]
    fn an_update_without_counts_is_an_error() {
        let error = fake::call(handler, 3, &[3]).unwrap_or_default();
        assert!(error.contains("counts"), "{error}");
    }

    /// Needs NVIDIA's run-time compiler, which is a pip package of its own and needs no GPU.
    #[test]
    fn statements_compile_where_there_is_a_compiler() {
        let Ok(compiler) = compiler() else {
            println!("skipped: libnvrtc is not on this machine");
            return;
        };
        let statements = "const float v0 = arrays[0][i]; const float v1 = *(const float *)scalars[0]; \
                          const bool v2 = *(const bool *)scalars[1]; const float v3 = v2 ? sqrtf(v0) * v1 : v0; \
                          arrays[0][i] = v3;";
        for (arrays, scalars) in [(2, 2), (4, 3)] {
            let defines = Counts { arrays, scalars, written: 1 }.defines(statements);
            let code = compiler.compile(&SOURCE, 80, &defines);
            assert!(code.as_ref().is_ok_and(|code| !code.is_empty()), "{code:?}");
        }
    }
}
