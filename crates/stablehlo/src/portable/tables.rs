//! The tables that operations refer to by index: strings, names of operations, attributes, types and properties.

use super::encoding::{Encoder, Section};
use octant_graph::{DType, Shape};
use std::collections::HashMap;
use std::hash::Hash;
use std::rc::Rc;

/// Who defines an attribute, a type or an operation. The numbers are their indices in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Dialect {
    Builtin = 0,
    Vhlo = 1,
}

/// Different items in the order in which they were first met.
struct Interner<T> {
    items: Vec<Rc<T>>,
    known: HashMap<Rc<T>, usize>,
}

impl<T> Default for Interner<T> {
    fn default() -> Interner<T> {
        Interner { items: Vec::new(), known: HashMap::new() }
    }
}

impl<T: Hash + Eq> Interner<T> {
    fn index(&mut self, item: T) -> usize {
        if let Some(&index) = self.known.get(&item) {
            return index;
        }
        let item = Rc::new(item);
        self.items.push(item.clone());
        self.known.insert(item, self.items.len() - 1);
        self.items.len() - 1
    }
}

/// All tables of a file.
#[derive(Default)]
pub struct Tables {
    strings: Interner<String>,
    operations: Interner<(Dialect, usize)>,
    attributes: Interner<(Dialect, Encoder)>,
    types: Interner<(Dialect, Encoder)>,
    properties: Interner<Encoder>,
}

/// Codes of VHLO's types.
mod code {
    pub const FUNCTION: u64 = 8;
    pub const TENSOR: u64 = 20;
}

/// VHLO's code of an element type.
fn element(dtype: DType) -> u64 {
    match dtype {
        DType::Bool => 0,
        DType::BF16 => 2,
        DType::F16 => 3,
        DType::F32 => 4,
        DType::F64 => 5,
        DType::I8 => 11,
        DType::I16 => 12,
        DType::I32 => 13,
        DType::I64 => 14,
        DType::U8 => 16,
        DType::U16 => 17,
        DType::U32 => 18,
        DType::U64 => 19,
    }
}

impl Tables {
    pub fn string(&mut self, text: &str) -> usize {
        self.strings.index(text.to_string())
    }

    pub fn operation(&mut self, dialect: Dialect, name: &str) -> usize {
        let name = self.string(name);
        self.operations.index((dialect, name))
    }

    pub fn attribute(&mut self, dialect: Dialect, encoded: Encoder) -> usize {
        self.attributes.index((dialect, encoded))
    }

    pub fn properties(&mut self, encoded: Encoder) -> usize {
        self.properties.index(encoded)
    }

    /// The type `i32` of MLIR itself: the width and, in the two lowest bits, that it has no sign.
    pub fn builtin_i32(&mut self) -> usize {
        let mut encoded = Encoder::default();
        encoded.varint(0).varint(32 << 2);
        self.types.index((Dialect::Builtin, encoded))
    }

    pub fn element_type(&mut self, dtype: DType) -> usize {
        let mut encoded = Encoder::default();
        encoded.varint(element(dtype));
        self.types.index((Dialect::Vhlo, encoded))
    }

    pub fn tensor_type(&mut self, shape: &Shape) -> usize {
        let element = self.element_type(shape.dtype());
        let mut encoded = Encoder::default();
        encoded.varint(code::TENSOR).list(shape.dims(), |encoder, &dim| {
            encoder.signed(dim as i64);
        });
        encoded.index(element);
        self.types.index((Dialect::Vhlo, encoded))
    }

    pub fn function_type<'s>(
        &mut self,
        inputs: impl Iterator<Item = &'s Shape>,
        outputs: impl Iterator<Item = &'s Shape>,
    ) -> usize {
        let inputs: Vec<usize> = inputs.map(|shape| self.tensor_type(shape)).collect();
        let outputs: Vec<usize> = outputs.map(|shape| self.tensor_type(shape)).collect();
        let mut encoded = Encoder::default();
        encoded.varint(code::FUNCTION);
        for list in [inputs, outputs] {
            encoded.list(&list, |encoder, &index| {
                encoder.index(index);
            });
        }
        self.types.index((Dialect::Vhlo, encoded))
    }

    /// The sections of the tables, with the operations between them.
    pub fn write(mut self, file: &mut Encoder, operations: &Encoder) {
        let dialects = self.dialects();
        let mut offsets = Encoder::default();
        offsets.index(self.attributes.items.len()).index(self.types.items.len());
        let mut contents = Encoder::default();
        for table in [&self.attributes, &self.types] {
            for group in table.items.chunk_by(|one, other| one.0 == other.0) {
                offsets.index(group[0].0 as usize).list(group, |encoder, item| {
                    // The lowest bit says that the encoding is the dialect's own, not text.
                    encoder.index(item.1.0.len() << 1 | 1);
                });
                group.iter().for_each(|item| contents.0.extend(&item.1.0));
            }
        }
        file.section(Section::Dialects, &dialects);
        file.section(Section::AttributeOffsets, &offsets).section(Section::Attributes, &contents);
        file.section(Section::Operations, operations).section(Section::Strings, &self.strings());
        let mut properties = Encoder::default();
        properties.list(&self.properties.items, |encoder, item| {
            encoder.blob(&item.0);
        });
        file.section(Section::Properties, &properties);
    }

    fn dialects(&mut self) -> Encoder {
        let names = ["builtin", "vhlo"].map(|name| self.string(name));
        let mut encoded = Encoder::default();
        // The lowest bit of a dialect says that a version follows, that of an operation that the dialect knows it.
        encoded.list(&names, |encoder, name| {
            encoder.index(name << 1);
        });
        encoded.index(self.operations.items.len());
        for group in self.operations.items.chunk_by(|one, other| one.0 == other.0) {
            encoded.index(group[0].0 as usize).list(group, |encoder, item| {
                encoder.index(item.1 << 1 | 1);
            });
        }
        encoded
    }

    /// Lengths with the zero at the end, the last one first; then the strings.
    fn strings(&self) -> Encoder {
        let items = &self.strings.items;
        let mut encoded = Encoder::default();
        encoded.index(items.len());
        items.iter().rev().for_each(|item| {
            encoded.index(item.len() + 1);
        });
        items.iter().for_each(|item| {
            encoded.0.extend(item.as_bytes());
            encoded.byte(0);
        });
        encoded
    }
}
