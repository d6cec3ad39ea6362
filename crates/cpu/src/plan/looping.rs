//! From values of the graph to loops.

use super::access::{Form, Obstacle, Space, linear, through_reshape};
use super::kernel::{Code, Fold, Instruction, Lane, Load, Loop, Operand, Register, Source, Store};
use octant_graph::{DType, Graph, Op, ValueId};
use std::collections::HashMap;

/// What a loop is made for.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Goal {
    /// Store a value; with strides and offset where it goes into a larger one.
    Store { value: ValueId, to: Operand },
    /// Store a reduction.
    Fold { value: ValueId, to: Operand },
    /// Fill another value's buffer with one scalar.
    Fill { value: ValueId, scalar: ValueId, to: Operand },
}

impl Goal {
    pub fn value(&self) -> ValueId {
        match self {
            Goal::Store { value, .. } | Goal::Fold { value, .. } | Goal::Fill { value, .. } => *value,
        }
    }

    /// The dimensions that the loop runs over.
    pub fn dims<'a>(&self, graph: &'a Graph) -> &'a [usize] {
        match self {
            Goal::Store { value, .. } | Goal::Fill { value, .. } => graph.shape(*value).dims(),
            Goal::Fold { value, .. } => graph.shape(graph.producer(*value).inputs[0]).dims(),
        }
    }
}

/// The buffers of stored values; values that exist only in registers have none.
pub(crate) trait StoredBuffers {
    fn operand_of(&self, value: ValueId) -> Option<Operand>;
}

/// Why a loop could not be built as it is: this value must be stored first.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct MustStore(pub ValueId);

enum Failure {
    Split { dimension: usize, inner: usize },
    Store(ValueId),
}

/// Builds the loop for goals over the same dimensions.
pub(crate) fn build(graph: &Graph, goals: &[Goal], buffers: &impl StoredBuffers) -> Result<Loop, MustStore> {
    let mut space = Space::over(goals[0].dims(graph));
    loop {
        let mut builder = Builder::new(graph, buffers, space.dims());
        match builder.goals(goals, &space.identity()) {
            Ok(()) => {
                let mut finished = builder.body;
                finished.collapse();
                return Ok(finished);
            }
            Err(Failure::Split { dimension, inner }) => space.split(dimension, inner),
            Err(Failure::Store(value)) => return Err(MustStore(value)),
        }
    }
}

struct Builder<'a, P> {
    graph: &'a Graph,
    buffers: &'a P,
    body: Loop,
    /// Values already in a register, by the forms with which they are read.
    known: HashMap<(ValueId, Vec<Form>), Register>,
}

impl<'a, P: StoredBuffers> Builder<'a, P> {
    fn new(graph: &'a Graph, buffers: &'a P, dims: Vec<usize>) -> Self {
        Builder { graph, buffers, body: Loop { dims, ..Loop::default() }, known: HashMap::new() }
    }

    fn goals(&mut self, goals: &[Goal], identity: &[Form]) -> Result<(), Failure> {
        for goal in goals {
            match goal {
                Goal::Store { value, to } => {
                    let is_home = self.buffers.operand_of(*value).is_some_and(|operand| operand.buffer == to.buffer);
                    let from = if is_home { self.compute(*value, identity)? } else { self.value(*value, identity)? };
                    // Later goals of the same loop read the register instead of the memory.
                    self.known.insert((*value, identity.to_vec()), from);
                    let to = self.operand(to, identity, self.graph.shape(*value).dims());
                    self.body.stores.push(Store { from, to });
                }
                Goal::Fill { value, scalar, to } => {
                    let from = self.value(*scalar, &[])?;
                    let to = self.operand(to, identity, self.graph.shape(*value).dims());
                    self.body.stores.push(Store { from, to });
                }
                Goal::Fold { value, to } => {
                    let node = self.graph.producer(*value);
                    let Op::Reduce { kind, axes } = &node.op else { unreachable!("folds are made of reductions") };
                    let from = self.value(node.inputs[0], identity)?;
                    let kept: Vec<Form> = (0..identity.len())
                        .filter(|axis| !axes.contains(axis))
                        .map(|axis| identity[axis].clone())
                        .collect();
                    let to = self.operand(to, &kept, self.graph.shape(*value).dims());
                    self.body.folds.push(Fold { from, factor: None, kind: *kind, to });
                }
            }
        }
        Ok(())
    }

    /// A stored value addressed by the forms along its axes. An operand with strides of its own keeps them.
    fn operand(&self, stored: &Operand, forms: &[Form], dims: &[usize]) -> Operand {
        let rank = self.body.dims.len();
        let address = if stored.strides.is_empty() {
            linear(forms, dims, rank)
        } else {
            let start = Form::zero(rank);
            forms.iter().zip(&stored.strides).fold(start, |sum, (form, &stride)| sum.plus(&form.scaled(stride)))
        };
        Operand { offset: stored.offset + address.offset, strides: address.factors, ..stored.clone() }
    }

    /// The register of a value, loaded if it is stored and computed otherwise.
    fn value(&mut self, value: ValueId, forms: &[Form]) -> Result<Register, Failure> {
        if let Some(&register) = self.known.get(&(value, forms.to_vec())) {
            return Ok(register);
        }
        let register = match self.buffers.operand_of(value) {
            Some(stored) => {
                let shape = self.graph.shape(value);
                let operand = self.operand(&stored, forms, shape.dims());
                let operand = Operand { dtype: shape.dtype(), ..operand };
                self.load(Lane::of(shape.dtype()), Source::Memory(operand))
            }
            None => self.compute(value, forms)?,
        };
        self.known.insert((value, forms.to_vec()), register);
        Ok(register)
    }

    fn compute(&mut self, value: ValueId, forms: &[Form]) -> Result<Register, Failure> {
        let node = self.graph.producer(value);
        let operand_dims = |index: usize| self.graph.shape(node.inputs[index]).dims();
        let lane_of = |value: ValueId| Lane::of(self.graph.shape(value).dtype());
        match &node.op {
            Op::Constant(tensor) => Ok(self.load(Lane::of(tensor.dtype()), Source::Immediate(tensor.to_f64s()[0]))),
            Op::Iota { shape, axis } => {
                let Form { offset, factors } = forms[*axis].clone();
                Ok(self.load(Lane::of(shape.dtype()), Source::Count { offset, strides: factors }))
            }
            Op::Broadcast { dims, axes } => {
                let rank = self.body.dims.len();
                let inner = axes.iter().zip(operand_dims(0)).map(|(&axis, &length)| match length == dims[axis] {
                    true => forms[axis].clone(),
                    false => Form::zero(rank),
                });
                let inner: Vec<Form> = inner.collect();
                self.value(node.inputs[0], &inner)
            }
            Op::Reshape { dims } => {
                let inner = through_reshape(forms, dims, operand_dims(0), &self.body.dims);
                let inner = inner.map_err(|obstacle| match obstacle {
                    Obstacle::Split { dimension, inner } => Failure::Split { dimension, inner },
                    Obstacle::Opaque => Failure::Store(node.inputs[0]),
                })?;
                self.value(node.inputs[0], &inner)
            }
            Op::Transpose { permutation } => {
                let mut inner = forms.to_vec();
                permutation.iter().zip(forms).for_each(|(&axis, form)| inner[axis] = form.clone());
                self.value(node.inputs[0], &inner)
            }
            Op::Reverse { axes } => {
                let mut inner = forms.to_vec();
                for &axis in axes {
                    inner[axis] = forms[axis].scaled(-1).shifted(operand_dims(0)[axis] as isize - 1);
                }
                self.value(node.inputs[0], &inner)
            }
            Op::Slice { starts, strides, .. } => {
                let window = starts.iter().zip(strides);
                let inner =
                    forms.iter().zip(window).map(|(form, (&s, &step))| form.scaled(step as isize).shifted(s as isize));
                self.value(node.inputs[0], &inner.collect::<Vec<_>>())
            }
            Op::Convert(dtype) => {
                let from = self.value(node.inputs[0], forms)?;
                let (before, after) = (lane_of(node.inputs[0]), Lane::of(*dtype));
                let rounds = matches!(dtype, DType::BF16 | DType::F16);
                // f64 is rounded once, not through f32.
                if rounds && before == Lane::F64 {
                    return Ok(self.instruction(Code::Round(*dtype), before, after, vec![from]));
                }
                let converted = match before == after {
                    true => from,
                    false => self.instruction(Code::Convert(after), before, after, vec![from]),
                };
                match rounds {
                    true => Ok(self.instruction(Code::Round(*dtype), Lane::F32, Lane::F32, vec![converted])),
                    false => Ok(converted),
                }
            }
            op => {
                let code = match op {
                    Op::Unary(unary) => Code::Unary(*unary),
                    Op::Binary(binary) => Code::Binary(*binary),
                    Op::Compare(comparison) => Code::Compare(*comparison),
                    Op::Select => Code::Select,
                    Op::Clamp => Code::Clamp,
                    other => unreachable!("{} is stored, never computed in a loop", other.name()),
                };
                let from: Result<Vec<Register>, Failure> =
                    node.inputs.iter().map(|&input| self.value(input, forms)).collect();
                let operand_lane = lane_of(if code == Code::Select { node.inputs[1] } else { node.inputs[0] });
                Ok(self.instruction(code, operand_lane, lane_of(value), from?))
            }
        }
    }

    fn register(&mut self, lane: Lane) -> Register {
        self.body.registers.push(lane);
        self.body.registers.len() - 1
    }

    fn load(&mut self, lane: Lane, source: Source) -> Register {
        if let Some(same) = self.body.loads.iter().find(|load| load.source == source && load.lane == lane) {
            return same.to;
        }
        let to = self.register(lane);
        self.body.loads.push(Load { to, lane, source });
        to
    }

    fn instruction(&mut self, code: Code, lane: Lane, result: Lane, from: Vec<Register>) -> Register {
        let to = self.register(result);
        self.body.instructions.push(Instruction { code, lane, to, from });
        to
    }
}
