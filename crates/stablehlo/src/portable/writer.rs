//! The operations of a module in MLIR's bytecode.

use super::attributes::{Attribute, builtin};
use super::encoding::{Encoder, Section};
use super::operations::described;
use super::tables::{Dialect, Tables};
use crate::LowerError;
use crate::operation::{Function, Operation, Region, Value};
use octant_graph::Shape;
use std::collections::HashMap;

/// Which parts of an operation follow its name.
mod mask {
    pub const ATTRIBUTES: u8 = 0x01;
    pub const RESULTS: u8 = 0x02;
    pub const OPERANDS: u8 = 0x04;
    pub const REGIONS: u8 = 0x10;
    pub const PROPERTIES: u8 = 0x40;
}

/// Writes operations and collects what they refer to.
#[derive(Default)]
pub struct Writer {
    pub tables: Tables,
    /// The index of every value that is visible, by its number in the function.
    values: HashMap<usize, usize>,
}

impl Writer {
    /// The block that holds nothing but the module.
    pub fn module(
        &mut self,
        name: &str,
        attributes: Vec<(String, usize)>,
        functions: &[&Function],
    ) -> Result<Encoder, LowerError> {
        let module = self.tables.operation(Dialect::Builtin, "module");
        let location = builtin::location(&mut self.tables, "");
        let attributes = builtin::dictionary(&mut self.tables, attributes);
        let name = builtin::string(&mut self.tables, name);
        let mut properties = Encoder::default();
        // The module's name is there, its visibility is not.
        properties.index(name << 1 | 1).index(0);
        let properties = self.tables.properties(properties);
        let mut body = Encoder::default();
        body.index(1).index(0).index(functions.len() << 1);
        for (i, function) in functions.iter().enumerate() {
            self.function(&mut body, function, if i == 0 { "public" } else { "private" })?;
        }
        let mut block = Encoder::default();
        block.index(1 << 1).index(module).byte(mask::ATTRIBUTES | mask::REGIONS | mask::PROPERTIES);
        block.index(location).index(attributes).index(properties);
        isolated(&mut block, &body);
        Ok(block)
    }

    fn function(&mut self, block: &mut Encoder, function: &Function, visibility: &str) -> Result<(), LowerError> {
        let inputs: Vec<Shape> = function.arguments.iter().map(|argument| argument.shape.clone()).collect();
        let properties = self.property_list(vec![
            ("arg_attrs", Attribute::NoAttributes),
            ("function_type", Attribute::FunctionType(&inputs, &function.results)),
            ("res_attrs", Attribute::NoAttributes),
            ("sym_name", Attribute::Text(&function.name)),
            ("sym_visibility", Attribute::Text(visibility)),
        ]);
        self.values.clear();
        let mut body = Encoder::default();
        self.region(&mut body, &function.arguments, &function.body, 0)?;
        let (name, location) =
            (self.tables.operation(Dialect::Vhlo, "func_v1"), builtin::location(&mut self.tables, ""));
        block.index(name).byte(mask::REGIONS | mask::PROPERTIES).index(location).index(properties);
        isolated(block, &body);
        Ok(())
    }

    /// The indices of attributes in the order of their names.
    fn property_list(&mut self, mut attributes: Vec<(&'static str, Attribute)>) -> usize {
        attributes.sort_by_key(|(name, _)| *name);
        let mut properties = Encoder::default();
        for (_, attribute) in attributes {
            properties.index(attribute.index(&mut self.tables));
        }
        self.tables.properties(properties)
    }

    /// A region of one block. Its own values are numbered from `first` on, those of regions inside of it after them.
    fn region(
        &mut self,
        encoded: &mut Encoder,
        arguments: &[Value],
        body: &[Operation],
        first: usize,
    ) -> Result<(), LowerError> {
        let defined = arguments.iter().chain(body.iter().flat_map(|operation| &operation.results));
        let mut next = first;
        for value in defined {
            self.values.insert(value.id, next);
            next += 1;
        }
        encoded.index(1).index(next - first).index(body.len() << 1 | usize::from(!arguments.is_empty()));
        if !arguments.is_empty() {
            encoded.list(arguments, |encoder, argument| {
                // The lowest bit says that a location follows.
                encoder.index(self.tables.tensor_type(&argument.shape) << 1);
            });
            // No order of uses follows.
            encoded.byte(0);
        }
        body.iter().try_for_each(|operation| self.operation(encoded, operation, next))
    }

    fn operation(&mut self, encoded: &mut Encoder, operation: &Operation, next: usize) -> Result<(), LowerError> {
        let (name, attributes) = described(operation)?;
        let name = self.tables.operation(Dialect::Vhlo, &format!("{name}_v1"));
        let location = builtin::location(&mut self.tables, &operation.path);
        let (operands, results) = (&operation.operands, &operation.results);
        let part = |is_there: bool, bit: u8| if is_there { bit } else { 0 };
        let mask = part(!attributes.is_empty(), mask::PROPERTIES)
            | part(!results.is_empty(), mask::RESULTS)
            | part(!operands.is_empty(), mask::OPERANDS)
            | part(!operation.regions.is_empty(), mask::REGIONS);
        encoded.index(name).byte(mask).index(location);
        if !attributes.is_empty() {
            encoded.index(self.property_list(attributes));
        }
        if !results.is_empty() {
            encoded.list(results, |encoder, result| {
                encoder.index(self.tables.tensor_type(&result.shape));
            });
        }
        if !operands.is_empty() {
            encoded.list(operands, |encoder, operand| {
                encoder.index(self.values[&operand.id]);
            });
        }
        if !operation.regions.is_empty() {
            // The lowest bit would say that regions use no value of those around them.
            encoded.index(operation.regions.len() << 1);
        }
        for Region { arguments, body } in &operation.regions {
            self.region(encoded, arguments, body, next)?;
        }
        Ok(())
    }
}

/// The one region of an operation whose values are its own: a section.
fn isolated(encoded: &mut Encoder, region: &Encoder) {
    encoded.index(1 << 1 | 1).section(Section::Operations, region);
}
