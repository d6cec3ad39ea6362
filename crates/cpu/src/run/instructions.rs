//! What instructions do: one compiled loop per code, lane type and instruction set.

#[macro_use]
mod maps;
mod binary;
mod choice;
mod convert;
mod folding;
mod rows;
mod unary;

pub(crate) use choice::{multiply, multiply_add};
pub(crate) use convert::{narrow, widen};
pub(crate) use folding::{FoldRows, RowsToFold, combine, fold_rows, identity};
pub(crate) use rows::{BytesToStream, MoveRows, RowSteps, RowsToMove, Stream, load_rows, store_rows, stream};

use crate::plan::kernel::{Code, Lane};
use crate::simd::Simd;

/// The operands of an instruction: registers or memory, `count` elements each.
#[derive(Clone, Copy)]
pub(crate) struct Operands {
    pub to: *mut u8,
    pub from: [*const u8; 3],
    pub count: usize,
}

/// A compiled instruction.
///
/// # Safety
/// The pointers are valid for `count` elements of the types that the instruction was chosen for, aligned to them; `to`
/// is one of `from` or overlaps none of them.
pub(crate) type Run = unsafe fn(Operands);

/// The compiled loop for an instruction.
pub(crate) fn select(simd: Simd, code: Code, lane: Lane) -> Run {
    match code {
        Code::Unary(unary) => unary::select_unary(simd, unary, lane),
        Code::Binary(binary) => binary::select_binary(simd, binary, lane),
        Code::Compare(comparison) => choice::select_compare(simd, comparison, lane),
        Code::Select => choice::select_choice(simd, lane),
        Code::Clamp => choice::select_clamp(simd, lane),
        Code::MultiplyAdd => choice::multiply_add(simd),
        Code::MultiplySubtract => choice::multiply_subtract(simd),
        Code::SubtractProduct => choice::subtract_product(simd),
        Code::Convert(to) => convert::select_convert(simd, lane, to),
        Code::Round(dtype) => convert::select_round(simd, dtype, lane),
    }
}

/// The bits of a number in a lane.
pub(crate) fn immediate(value: f64, lane: Lane) -> [u8; 8] {
    match lane {
        Lane::F32 => bits(value as f32),
        Lane::F64 => bits(value),
        Lane::I8 => bits(value as i8),
        Lane::I16 => bits(value as i16),
        Lane::I32 => bits(value as i32),
        Lane::I64 => bits(value as i64),
        Lane::U8 => bits(value as u8),
        Lane::U16 => bits(value as u16),
        Lane::U32 => bits(value as u32),
        Lane::U64 => bits(value as u64),
        Lane::Bool => bits((value != 0.0) as u8),
    }
}

/// The bits of an index in a lane; integers that are too short for it wrap.
pub(crate) fn counted(value: i64, lane: Lane) -> [u8; 8] {
    match lane {
        Lane::F32 | Lane::F64 => immediate(value as f64, lane),
        _ => value.to_ne_bytes(),
    }
}

fn bits<T: bytemuck::Pod>(value: T) -> [u8; 8] {
    let mut bytes = [0; 8];
    let source = bytemuck::bytes_of(&value);
    bytes[..source.len()].copy_from_slice(source);
    bytes
}
