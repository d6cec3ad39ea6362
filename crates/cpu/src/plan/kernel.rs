//! What a fused loop is: loads, instructions on block registers, stores and folds.

use octant_graph::{Binary, Comparison, DType, Reduction, Unary};

/// A block of memory in the plan: an input, an output, a constant or a part of the arena.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct BufferId(pub u32);

/// A block register: as many elements as a block has, all of one lane type.
pub(crate) type Register = usize;

/// The type in which a register holds its elements: 16-bit floats are held as f32, bools as bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Lane {
    F32,
    F64,
    I8,
    I16,
    I32,
    I64,
    U8,
    U16,
    U32,
    U64,
    Bool,
}

impl Lane {
    pub fn of(dtype: DType) -> Lane {
        match dtype {
            DType::F32 | DType::BF16 | DType::F16 => Lane::F32,
            DType::F64 => Lane::F64,
            DType::I8 => Lane::I8,
            DType::I16 => Lane::I16,
            DType::I32 => Lane::I32,
            DType::I64 => Lane::I64,
            DType::U8 => Lane::U8,
            DType::U16 => Lane::U16,
            DType::U32 => Lane::U32,
            DType::U64 => Lane::U64,
            DType::Bool => Lane::Bool,
        }
    }

    pub fn size(self) -> usize {
        match self {
            Lane::I8 | Lane::U8 | Lane::Bool => 1,
            Lane::I16 | Lane::U16 => 2,
            Lane::F32 | Lane::I32 | Lane::U32 => 4,
            Lane::F64 | Lane::I64 | Lane::U64 => 8,
        }
    }
}

/// What an instruction does to its operands' lanes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Code {
    Unary(Unary),
    Binary(Binary),
    Compare(Comparison),
    /// `(condition, on_true, on_false)`.
    Select,
    /// `(low, value, high)`.
    Clamp,
    /// From the operand's lane to this one.
    Convert(Lane),
    /// `(a, b, c)`: `a · b + c`, of f32 lanes as the next two.
    MultiplyAdd,
    /// `a · b - c`.
    MultiplySubtract,
    /// `c - a · b`.
    SubtractProduct,
    /// A float lane to the nearest number that the 16-bit type has, held as f32.
    Round(DType),
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Instruction {
    pub code: Code,
    /// The lane of the operands (of the choices, for a select).
    pub lane: Lane,
    pub to: Register,
    pub from: Vec<Register>,
}

/// Memory as a loop addresses it: one element per iteration.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Operand {
    pub buffer: BufferId,
    pub dtype: DType,
    pub offset: isize,
    pub strides: Vec<isize>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Source {
    Memory(Operand),
    /// One value everywhere.
    Immediate(f64),
    /// The element is its own affine index.
    Count {
        offset: isize,
        strides: Vec<isize>,
    },
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Load {
    pub to: Register,
    pub lane: Lane,
    pub source: Source,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Store {
    pub from: Register,
    pub to: Operand,
}

/// A reduction at the end of a loop; its strides are 0 along the dimensions that are folded.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Fold {
    pub from: Register,
    /// What is summed is the product with this register.
    pub factor: Option<Register>,
    pub kind: Reduction,
    pub to: Operand,
}

/// A loop over `dims` in which every iteration loads, computes, stores and folds. Dimensions of length 1 are gone and
/// neighboring ones are merged where every operand allows it.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Loop {
    pub dims: Vec<usize>,
    pub loads: Vec<Load>,
    pub instructions: Vec<Instruction>,
    pub stores: Vec<Store>,
    pub folds: Vec<Fold>,
    /// The lane of every register.
    pub registers: Vec<Lane>,
}

impl Loop {
    /// All strides in the loop, one list per operand.
    fn strides_mut(&mut self) -> Vec<&mut Vec<isize>> {
        let loads = self.loads.iter_mut().filter_map(|load| match &mut load.source {
            Source::Memory(operand) => Some(&mut operand.strides),
            Source::Count { strides, .. } => Some(strides),
            Source::Immediate(_) => None,
        });
        let stores = self.stores.iter_mut().map(|store| &mut store.to.strides);
        let folds = self.folds.iter_mut().map(|fold| &mut fold.to.strides);
        loads.chain(stores).chain(folds).collect()
    }

    /// Drops dimensions of length 1 and merges neighbors that every operand walks through without a jump.
    pub fn collapse(&mut self) {
        let mut dims = std::mem::take(&mut self.dims);
        let mut strides = self.strides_mut();
        for d in (0..dims.len()).rev() {
            if dims[d] == 1 {
                dims.remove(d);
                strides.iter_mut().for_each(|list| _ = list.remove(d));
            }
        }
        for d in (1..dims.len()).rev() {
            let merges = strides.iter().all(|list| list[d - 1] == list[d] * dims[d] as isize);
            if merges {
                dims[d - 1] *= dims.remove(d);
                strides.iter_mut().for_each(|list| _ = list.remove(d - 1));
            }
        }
        self.dims = dims;
    }

    /// Puts the dimensions into another order; the order of a loop is free.
    pub fn permute(&mut self, order: &[usize]) {
        let pick = |list: &[isize]| order.iter().map(|&d| list[d]).collect::<Vec<_>>();
        self.dims = order.iter().map(|&d| self.dims[d]).collect();
        for list in self.strides_mut() {
            *list = pick(list);
        }
    }

    /// Adds a dimension of length 1.
    pub fn insert_unit(&mut self, at: usize) {
        self.dims.insert(at, 1);
        for list in self.strides_mut() {
            list.insert(at, 0);
        }
    }

    /// How many positions there are.
    pub fn elements(&self) -> usize {
        self.dims.iter().product()
    }

    /// Bytes that are read and written: every element of every operand once.
    pub fn traffic(&self) -> usize {
        let bytes = |operand: &Operand| {
            let walked = self.dims.iter().zip(&operand.strides).filter(|&(_, &stride)| stride != 0);
            walked.map(|(&dim, _)| dim).product::<usize>() * operand.dtype.size()
        };
        let loads = self.loads.iter().map(|load| match &load.source {
            Source::Memory(operand) => bytes(operand),
            Source::Immediate(_) | Source::Count { .. } => 0,
        });
        let stores = self.stores.iter().map(|store| bytes(&store.to));
        loads.chain(stores).sum()
    }

    /// Whether a buffer is read by the loop.
    pub fn loads_from(&self, buffer: BufferId) -> bool {
        self.loads.iter().any(|load| matches!(&load.source, Source::Memory(operand) if operand.buffer == buffer))
    }
}
