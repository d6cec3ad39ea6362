//! A program as text for a PJRT compiler.

use crate::sys;
use std::marker::PhantomData;

/// The C form of a program; borrows the text.
pub(crate) struct Program<'a> {
    program: sys::PJRT_Program,
    text: PhantomData<&'a str>,
}

impl<'a> Program<'a> {
    /// StableHLO as MLIR text.
    pub(crate) fn mlir(text: &'a str) -> Program<'a> {
        const FORMAT: &str = "mlir";
        let program = sys::PJRT_Program {
            // The field is mutable because other functions write through it; the compilers only read.
            code: text.as_ptr().cast_mut().cast(),
            code_size: text.len(),
            format: FORMAT.as_ptr().cast(),
            format_size: FORMAT.len(),
            ..Default::default()
        };
        Program { program, text: PhantomData }
    }

    pub(crate) fn as_c(&self) -> *const sys::PJRT_Program {
        &self.program
    }
}
