//! Attributes in VHLO's encoding, and those of MLIR itself that a module has.

use super::encoding::Encoder;
use super::tables::{Dialect, Tables};
use crate::MatmulPrecision;
use crate::constant::uniform;
use crate::operation::ElementOrder;
use octant_graph::{DType, HostTensor, Shape};

/// An attribute of an operation of VHLO.
#[derive(Debug)]
pub enum Attribute<'a> {
    Bool(bool),
    Integer(usize),
    /// A tensor of one axis.
    Integers(Vec<i64>),
    /// A tensor of pairs.
    Pairs(&'a [(i64, i64)]),
    /// So many times `false`.
    NoFlags(usize),
    /// The elements of a tensor of that shape; a scalar stands for all of them.
    Tensor(&'a HostTensor, &'a Shape),
    /// By StableHLO's name.
    Direction(&'static str),
    Order(ElementOrder),
    /// Of both operands.
    Precision(MatmulPrecision),
    Text(&'a str),
    NoAttributes,
    FunctionType(&'a [Shape], &'a [Shape]),
}

/// VHLO's codes of attributes.
mod code {
    pub const ARRAY: u64 = 1;
    pub const BOOL: u64 = 2;
    pub const DIRECTION: u64 = 3;
    pub const ORDER: u64 = 4;
    pub const INTEGER: u64 = 9;
    pub const PRECISION: u64 = 11;
    pub const STRING: u64 = 14;
    pub const TENSOR: u64 = 15;
    pub const TYPE: u64 = 17;
}

impl Attribute<'_> {
    pub fn axes(axes: &[usize]) -> Attribute<'static> {
        Attribute::Integers(axes.iter().map(|&axis| axis as i64).collect())
    }

    /// Its index in the tables.
    pub fn index(&self, tables: &mut Tables) -> usize {
        let mut encoded = Encoder::default();
        match *self {
            Attribute::Bool(value) => encoded.varint(code::BOOL).varint(value.into()),
            Attribute::Integer(value) => {
                encoded.varint(code::INTEGER).index(tables.element_type(DType::I64)).signed(value as i64)
            }
            Attribute::Integers(ref values) => integers(&mut encoded, tables, &[values.len()], values.iter().copied()),
            Attribute::Pairs(pairs) => {
                let values = pairs.iter().flat_map(|&(low, high)| [low, high]);
                integers(&mut encoded, tables, &[pairs.len(), 2], values)
            }
            Attribute::NoFlags(count) => {
                let bytes = vec![0; count.div_ceil(8).min(1)];
                tensor(&mut encoded, tables, &Shape::new(DType::Bool, [count]), &bytes)
            }
            Attribute::Tensor(elements, shape) => tensor(&mut encoded, tables, shape, &raw(elements, shape)),
            Attribute::Direction(name) => encoded.varint(code::DIRECTION).varint(direction(name)),
            Attribute::Order(order) => encoded.varint(code::ORDER).varint(match order {
                ElementOrder::Float => 1,
                ElementOrder::Signed => 3,
                ElementOrder::Unsigned => 4,
            }),
            Attribute::Precision(precision) => {
                let mut one = Encoder::default();
                one.varint(code::PRECISION).varint(match precision {
                    MatmulPrecision::Fast => 0,
                    MatmulPrecision::High => 1,
                    MatmulPrecision::Highest => 2,
                });
                let one = tables.attribute(Dialect::Vhlo, one);
                encoded.varint(code::ARRAY).index(2).index(one).index(one)
            }
            Attribute::Text(text) => encoded.varint(code::STRING).index(tables.string(text)),
            Attribute::NoAttributes => encoded.varint(code::ARRAY).index(0),
            Attribute::FunctionType(inputs, outputs) => {
                encoded.varint(code::TYPE).index(tables.function_type(inputs.iter(), outputs.iter()))
            }
        };
        tables.attribute(Dialect::Vhlo, encoded)
    }
}

fn direction(name: &str) -> u64 {
    const NAMES: [&str; 6] = ["EQ", "NE", "GE", "GT", "LE", "LT"];
    NAMES.iter().position(|known| *known == name).expect("StableHLO has six comparisons") as u64
}

fn tensor<'e>(encoded: &'e mut Encoder, tables: &mut Tables, shape: &Shape, bytes: &[u8]) -> &'e mut Encoder {
    encoded.varint(code::TENSOR).index(tables.tensor_type(shape)).blob(bytes)
}

fn integers<'e>(
    encoded: &'e mut Encoder,
    tables: &mut Tables,
    dims: &[usize],
    values: impl Iterator<Item = i64>,
) -> &'e mut Encoder {
    let values: Vec<i64> = values.collect();
    let is_splat = values.windows(2).all(|pair| pair[0] == pair[1]);
    let written = if is_splat { &values[..values.len().min(1)] } else { &values };
    let bytes: Vec<u8> = written.iter().flat_map(|value| value.to_le_bytes()).collect();
    tensor(encoded, tables, &Shape::new(DType::I64, dims), &bytes)
}

/// The elements in little-endian order: one where all are equal. Bools are bits, the lowest first, but one that stands for
/// several is a whole byte.
fn raw(tensor: &HostTensor, shape: &Shape) -> Vec<u8> {
    let count = shape.elements();
    let splat = uniform(tensor).filter(|_| count > 1);
    let bytes = match splat {
        _ if count == 0 => &[],
        Some(_) => &tensor.bytes()[..tensor.dtype().size()],
        None => tensor.bytes(),
    };
    if tensor.dtype() == DType::Bool {
        let bits = |eight: &[u8]| eight.iter().enumerate().fold(0, |byte, (i, bit)| byte | (u8::from(*bit != 0) << i));
        return match splat {
            Some(value) => vec![if value == 0.0 { 0 } else { u8::MAX }],
            None => bytes.chunks(8).map(bits).collect(),
        };
    }
    match cfg!(target_endian = "big") {
        true => bytes.chunks(tensor.dtype().size()).flat_map(|element| element.iter().rev().copied()).collect(),
        false => bytes.to_vec(),
    }
}

/// Attributes of MLIR itself.
pub mod builtin {
    use super::{Dialect, Encoder, Tables};

    /// The codes of their encodings.
    pub mod code {
        pub const DICTIONARY: u64 = 1;
        pub const STRING: u64 = 2;
        pub const INTEGER: u64 = 8;
        pub const NAMED_LOCATION: u64 = 14;
        pub const UNKNOWN_LOCATION: u64 = 15;
    }

    pub fn string(tables: &mut Tables, text: &str) -> usize {
        let mut encoded = Encoder::default();
        encoded.varint(code::STRING).index(tables.string(text));
        tables.attribute(Dialect::Builtin, encoded)
    }

    pub fn i32(tables: &mut Tables, value: i64) -> usize {
        let mut encoded = Encoder::default();
        encoded.varint(code::INTEGER).index(tables.builtin_i32()).signed(value);
        tables.attribute(Dialect::Builtin, encoded)
    }

    /// Names and values, in the order of the names.
    pub fn dictionary(tables: &mut Tables, mut entries: Vec<(String, usize)>) -> usize {
        entries.sort();
        let entries: Vec<[usize; 2]> =
            entries.into_iter().map(|(name, value)| [string(tables, &name), value]).collect();
        let mut encoded = Encoder::default();
        encoded.varint(code::DICTIONARY).list(&entries, |encoder, [name, value]| {
            encoder.index(*name).index(*value);
        });
        tables.attribute(Dialect::Builtin, encoded)
    }

    /// The layer that an operation belongs to.
    pub fn location(tables: &mut Tables, path: &str) -> usize {
        let mut unknown = Encoder::default();
        unknown.varint(code::UNKNOWN_LOCATION);
        let unknown = tables.attribute(Dialect::Builtin, unknown);
        if path.is_empty() {
            return unknown;
        }
        let name = string(tables, path);
        let mut encoded = Encoder::default();
        encoded.varint(code::NAMED_LOCATION).index(name).index(unknown);
        tables.attribute(Dialect::Builtin, encoded)
    }
}
