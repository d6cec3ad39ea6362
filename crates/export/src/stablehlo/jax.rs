//! The message of `jax.export`: a portable artifact, and what JAX has to know to call it.

use super::flatbuffer::{Field, Item, bytes_of_root, message};
use octant_graph::{DType, Shape};

/// The form of the message. Readers accept any; this is what JAX itself writes.
const SERIALIZATION_VERSION: u16 = 3;

/// How `main` is called: arguments and results one by one, without effects or tokens.
const CALLING_CONVENTION: u16 = 9;

/// The numbers of the root's fields.
mod field {
    pub const VERSION: usize = 0;
    pub const NAME: usize = 1;
    pub const INPUT_TREE: usize = 2;
    pub const INPUTS: usize = 3;
    pub const OUTPUT_TREE: usize = 4;
    pub const OUTPUTS: usize = 5;
    pub const DEVICES_SHORT: usize = 6;
    pub const INPUT_SHARDINGS: usize = 7;
    pub const OUTPUT_SHARDINGS: usize = 8;
    pub const PLATFORMS: usize = 9;
    pub const DISABLED_CHECKS: usize = 12;
    pub const MODULE: usize = 13;
    pub const CALLING_CONVENTION: usize = 14;
    pub const KEPT_INPUTS: usize = 15;
    pub const DEVICES: usize = 18;
    pub const TYPES: usize = 19;
    pub const INPUT_TYPES: usize = 22;
    pub const OUTPUT_TYPES: usize = 23;
    pub const INPUT_SHARDING_NUMBERS: usize = 24;
    pub const OUTPUT_SHARDING_NUMBERS: usize = 25;
}

/// Arguments and results of a call, as JAX nests them.
pub enum Tree {
    Leaf,
    Tuple(Vec<Tree>),
    /// By names in their order.
    Dictionary(Vec<String>),
}

impl Tree {
    fn item(&self) -> Item {
        let kind = |kind: u8| (0, Field::Byte(kind));
        let children = |children: Vec<Item>| (1, Field::Item(Item::Items(children)));
        match self {
            Tree::Leaf => Item::Table(vec![kind(0)]),
            Tree::Tuple(items) => Item::Table(vec![kind(2), children(items.iter().map(Tree::item).collect())]),
            Tree::Dictionary(names) => {
                let leaves = names.iter().map(|_| Tree::Leaf.item()).collect();
                let names = names.iter().map(|name| Item::Text(name.clone())).collect();
                Item::Table(vec![kind(4), children(leaves), (2, Field::Item(Item::Items(names)))])
            }
        }
    }
}

/// What JAX calls.
pub struct Exported<'a> {
    pub name: &'a str,
    pub module: Vec<u8>,
    pub inputs: &'a [Shape],
    /// The arguments of a call; each leaf is an input.
    pub arguments: Vec<Tree>,
    pub outputs: &'a [Shape],
}

/// The message. Types and shardings are there twice: versions of 2026 read lists of numbers, older ones the items.
pub fn exported(Exported { name, module, inputs, arguments, outputs }: Exported) -> Vec<u8> {
    let keywords = Tree::Dictionary(Vec::new());
    let input_tree = Tree::Tuple(vec![Tree::Tuple(arguments), keywords]);
    let output_tree = match outputs {
        [_] => Tree::Leaf,
        several => Tree::Tuple(several.iter().map(|_| Tree::Leaf).collect()),
    };
    let types = |shapes: &[Shape]| Item::Items(shapes.iter().map(array).collect());
    let unspecified = |shapes: &[Shape]| Item::Items(shapes.iter().map(|_| Item::Table(vec![])).collect());
    let numbers = |range: std::ops::Range<usize>| Item::Words(range.map(|number| number as u32).collect());
    let zeros = |count: usize| Item::Words(vec![0; count]);
    let (taken, all) = (inputs.len(), inputs.len() + outputs.len());
    // The program is for one device of any platform, so JAX need not compare platforms.
    let any_platform = Item::Table(vec![(0, Field::Byte(0))]);
    let fields = vec![
        (field::VERSION, Field::Short(SERIALIZATION_VERSION)),
        (field::NAME, Field::Item(Item::Text(name.into()))),
        (field::INPUT_TREE, Field::Item(input_tree.item())),
        (field::INPUTS, Field::Item(types(inputs))),
        (field::OUTPUT_TREE, Field::Item(output_tree.item())),
        (field::OUTPUTS, Field::Item(types(outputs))),
        (field::DEVICES_SHORT, Field::Short(1)),
        (field::INPUT_SHARDINGS, Field::Item(unspecified(inputs))),
        (field::OUTPUT_SHARDINGS, Field::Item(unspecified(outputs))),
        (field::PLATFORMS, Field::Item(Item::Items(vec![Item::Text("cpu".into())]))),
        (field::DISABLED_CHECKS, Field::Item(Item::Items(vec![any_platform]))),
        (field::CALLING_CONVENTION, Field::Short(CALLING_CONVENTION)),
        (field::KEPT_INPUTS, Field::Item(Item::Shorts((0..taken).map(|number| number as u16).collect()))),
        (field::DEVICES, Field::Word(1)),
        (field::TYPES, Field::Item(Item::Items(inputs.iter().chain(outputs).map(array).collect()))),
        (field::INPUT_TYPES, Field::Item(numbers(0..taken))),
        (field::OUTPUT_TYPES, Field::Item(numbers(taken..all))),
        (field::INPUT_SHARDING_NUMBERS, Field::Item(zeros(inputs.len()))),
        (field::OUTPUT_SHARDING_NUMBERS, Field::Item(zeros(outputs.len()))),
        (field::MODULE, Field::Item(Item::Bytes(module))),
    ];
    message(&Item::Table(fields))
}

/// The portable artifact inside of a message.
pub fn module(message: &[u8]) -> Option<&[u8]> {
    bytes_of_root(message, field::MODULE)
}

/// The type of an array: dimensions as text, since they may be symbols, and the element type.
fn array(shape: &Shape) -> Item {
    let dims = shape.dims().iter().map(|dim| Item::Text(dim.to_string())).collect();
    Item::Table(vec![(1, Field::Item(Item::Items(dims))), (2, Field::Byte(element(shape.dtype())))])
}

fn element(dtype: DType) -> u8 {
    match dtype {
        DType::Bool => 0,
        DType::I8 => 1,
        DType::I16 => 2,
        DType::I32 => 3,
        DType::I64 => 4,
        DType::U8 => 5,
        DType::U16 => 6,
        DType::U32 => 7,
        DType::U64 => 8,
        DType::F16 => 9,
        DType::F32 => 10,
        DType::F64 => 11,
        DType::BF16 => 14,
    }
}
