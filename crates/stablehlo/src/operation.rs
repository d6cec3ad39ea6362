//! A StableHLO program as operations: the text and the portable artifact are both written from them, so they cannot differ.

use crate::MatmulPrecision;
use octant_graph::{Convolution, DType, DotGeneral, Gather, HostTensor, Scatter, Shape, Window};
use std::sync::Arc;

/// A value of a function: its number, which is unique in the function, and its type.
#[derive(Debug, Clone)]
pub struct Value {
    pub id: usize,
    pub shape: Shape,
}

impl Value {
    pub fn dtype(&self) -> DType {
        self.shape.dtype()
    }
}

/// The shapes of some values.
pub fn shapes(values: &[Value]) -> Vec<&Shape> {
    values.iter().map(|value| &value.shape).collect()
}

/// A function of a module.
#[derive(Debug)]
pub struct Function {
    pub name: String,
    pub arguments: Vec<Value>,
    pub results: Vec<Shape>,
    pub body: Vec<Operation>,
}

/// One operation.
#[derive(Debug)]
pub struct Operation {
    pub kind: Kind,
    pub operands: Vec<Value>,
    pub results: Vec<Value>,
    pub regions: Vec<Region>,
    /// The layer that it belongs to; empty if none.
    pub path: Arc<str>,
}

/// A block of operations inside of an operation. It sees the values around it.
#[derive(Debug)]
pub struct Region {
    pub arguments: Vec<Value>,
    pub body: Vec<Operation>,
}

/// Which operation, with its attributes. Unless stated otherwise they are those of StableHLO.
#[derive(Debug)]
pub enum Kind {
    /// By name; operands and result have one type, and there are no attributes.
    Elementwise(&'static str),
    /// By name; types differ, and there are no attributes.
    Typed(&'static str),
    /// The elements; a scalar stands for a tensor with that element everywhere.
    Constant(HostTensor),
    Iota {
        axis: usize,
    },
    Broadcast {
        axes: Vec<usize>,
    },
    Transpose {
        permutation: Vec<usize>,
    },
    Reverse {
        axes: Vec<usize>,
    },
    Slice {
        starts: Vec<usize>,
        limits: Vec<usize>,
        strides: Vec<usize>,
    },
    DynamicSlice {
        sizes: Vec<usize>,
    },
    Pad {
        low: Vec<i64>,
        high: Vec<i64>,
        interior: Vec<usize>,
    },
    Concatenate {
        axis: usize,
    },
    Compare {
        direction: &'static str,
        order: ElementOrder,
    },
    Select,
    Reduce {
        axes: Vec<usize>,
    },
    ReduceWindow(Window),
    SelectAndScatter(Window),
    Dot(DotGeneral, MatmulPrecision),
    Convolution(Box<Convolution>, MatmulPrecision),
    Gather(Gather),
    Scatter(Scatter),
    Sort {
        axis: usize,
    },
    While,
    If,
    Barrier,
    /// Of a function of the module, by its name.
    Call(String),
    /// Of a kernel that the compiled program knows; the attributes are text, since no other form than the text has such calls.
    CustomCall {
        target: String,
        attributes: String,
    },
    /// The error function of the extension dialect `chlo`.
    ExtendedErf,
    /// The end of a region.
    Return,
    /// The end of a function.
    FunctionReturn,
}

/// How elements are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ElementOrder {
    Float,
    Signed,
    Unsigned,
}

impl ElementOrder {
    pub fn of(dtype: DType) -> ElementOrder {
        match () {
            () if dtype.is_float() => ElementOrder::Float,
            () if dtype.is_signed() => ElementOrder::Signed,
            () => ElementOrder::Unsigned,
        }
    }
}
