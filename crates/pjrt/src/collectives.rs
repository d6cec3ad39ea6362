//! What a compiled program exchanges between its devices, read from XLA's optimized module.

use crate::executable::CompiledExecutable;
use prost::Message;
use std::collections::BTreeMap;

/// The operations that exchange data, as XLA names them.
const KINDS: [&str; 7] =
    ["all-reduce", "all-gather", "reduce-scatter", "collective-permute", "all-to-all", "send", "collective-broadcast"];

/// Bytes of results on each device, by operation; a loop's body counts once.
pub type Collectives = BTreeMap<&'static str, u64>;

/// What is read of XLA's `hlo.proto`.
#[derive(Clone, PartialEq, Message)]
struct Module {
    #[prost(message, repeated, tag = "3")]
    computations: Vec<Computation>,
}

/// A module with how it was compiled.
#[derive(Clone, PartialEq, Message)]
struct ModuleWithConfig {
    #[prost(message, optional, tag = "1")]
    module: Option<Module>,
}

#[derive(Clone, PartialEq, Message)]
struct Computation {
    #[prost(message, repeated, tag = "2")]
    instructions: Vec<Instruction>,
}

#[derive(Clone, PartialEq, Message)]
struct Instruction {
    #[prost(string, tag = "2")]
    opcode: String,
    #[prost(message, optional, tag = "3")]
    shape: Option<ResultShape>,
}

/// `ShapeProto` of `xla_data.proto`.
#[derive(Clone, PartialEq, Message)]
struct ResultShape {
    #[prost(uint32, tag = "2")]
    element: u32,
    #[prost(uint64, repeated, tag = "3")]
    dims: Vec<u64>,
    #[prost(message, repeated, tag = "4")]
    tuple: Vec<ResultShape>,
}

impl CompiledExecutable {
    /// What it exchanges; none where the plugin does not return its programs.
    pub fn collectives(&self) -> Option<Collectives> {
        let program = self.optimized_program().ok()?;
        let code = &program.code[..];
        let module = match program.format.as_str() {
            "hlo_with_config" => ModuleWithConfig::decode(code).ok()?.module.unwrap_or_default(),
            "hlo" => Module::decode(code).ok()?,
            _ => return None,
        };
        Some(module.collectives())
    }
}

impl Module {
    fn collectives(&self) -> Collectives {
        let mut found = Collectives::new();
        for instruction in self.computations.iter().flat_map(|computation| &computation.instructions) {
            // What was begun counts where it begins.
            let begun = instruction.opcode.strip_suffix("-start").unwrap_or(&instruction.opcode);
            let Some(kind) = KINDS.iter().find(|kind| **kind == begun) else { continue };
            let begins = instruction.opcode.ends_with("-start") && begun != "all-reduce";
            *found.entry(kind).or_default() += instruction.shape.as_ref().map_or(0, |shape| shape.bytes(begins));
        }
        found
    }
}

impl ResultShape {
    /// Bytes of a value. What begins an exchange returns a tuple of its operand, its result and buffers: the second is the
    /// result.
    fn bytes(&self, begins: bool) -> u64 {
        match (&self.tuple[..], begins) {
            ([], _) => self.dims.iter().fold(size(self.element), |product, &dim| product.saturating_mul(dim)),
            (parts, true) => parts.get(1).map_or(0, |result| result.bytes(false)),
            (parts, false) => parts.iter().map(|part| part.bytes(false)).sum(),
        }
    }
}

/// Bytes of an element, by its number in `xla_data.proto`; types of a byte and less count as one.
fn size(element: u32) -> u64 {
    match element {
        4 | 8 | 11 => 4,
        5 | 9 | 12 | 15 => 8,
        3 | 7 | 10 | 16 => 2,
        18 => 16,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(element: u32, dims: &[u64]) -> ResultShape {
        ResultShape { element, dims: dims.to_vec(), tuple: Vec::new() }
    }

    #[test]
    fn exchanges_are_counted_where_they_begin() {
        let (weights, halves) = (shape(11, &[300, 2]), shape(16, &[128]));
        let tuple = ResultShape { tuple: vec![shape(16, &[64]), halves.clone()], ..shape(13, &[]) };
        let instructions = [
            ("all-reduce", weights.clone()),
            ("all-gather-start", tuple),
            ("all-gather-done", halves),
            ("add", weights),
        ];
        let instructions =
            instructions.map(|(opcode, shape)| Instruction { opcode: opcode.into(), shape: Some(shape) });
        let module = Module { computations: vec![Computation { instructions: instructions.to_vec() }] };
        let read = Module::decode(&module.encode_to_vec()[..]).unwrap();
        assert_eq!(read.collectives(), Collectives::from([("all-reduce", 2400), ("all-gather", 256)]));
    }
}
