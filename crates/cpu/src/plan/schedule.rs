//! The order of steps, and the fusion of loops over the same data.

use super::kernel::{BufferId, Loop, Operand, Store};
use super::looping::{self, Goal, MustStore, StoredBuffers};
use super::nest::Nest;
use super::steps::{KernelStep, LoopStep, Step};
use super::{StoredValues, contract, fuse};
use octant_graph::{Graph, Node, Op, ValueId};
use std::collections::HashMap;

/// How many loops back a loop to fuse with is searched.
const REACH: usize = 12;

impl StoredBuffers for (&Graph, &StoredValues) {
    fn operand_of(&self, value: ValueId) -> Option<Operand> {
        self.1.get(value).map(|buffer| whole(self.0, value, buffer))
    }
}

fn whole(graph: &Graph, value: ValueId, buffer: BufferId) -> Operand {
    Operand { buffer, dtype: graph.shape(value).dtype(), offset: 0, strides: Vec::new() }
}

/// A step before loops are divided into tasks.
#[allow(clippy::large_enum_variant, reason = "a plan has a few thousand at most, and they are never copied")]
enum Draft {
    Loop { goals: Vec<Goal>, body: Loop },
    Done(Step),
}

/// The steps that compute all stored values.
pub(crate) fn steps(graph: &Graph, values: &StoredValues) -> Result<Vec<Step>, MustStore> {
    let mut schedule = Schedule { graph, values, drafts: Vec::new(), ready: HashMap::new() };
    for node in graph.nodes() {
        schedule.node(node)?;
    }
    Ok(schedule.drafts.into_iter().map(finish).collect())
}

fn finish(draft: Draft) -> Step {
    match draft {
        Draft::Done(step) => step,
        Draft::Loop { mut body, .. } => {
            let nest = Nest::cut(&mut body);
            contract::contract(&mut body, nest.fold);
            Step::Loop(LoopStep { body, nest, partials: None })
        }
    }
}

struct Schedule<'a> {
    graph: &'a Graph,
    values: &'a StoredValues,
    drafts: Vec<Draft>,
    /// The step after which a buffer holds its value.
    ready: HashMap<BufferId, usize>,
}

impl Schedule<'_> {
    fn node(&mut self, node: &Node) -> Result<(), MustStore> {
        let stored = node.outputs.iter().any(|&output| self.values.get(output).is_some());
        if !stored || node.outputs.iter().all(|&output| self.graph.shape(output).elements() == 0) {
            return Ok(());
        }
        let is_stored_reshape = matches!(node.op, Op::Reshape { .. }) && self.values.get(node.inputs[0]).is_some();
        let is_same_memory =
            is_stored_reshape || matches!(node.op, Op::Parameter { .. } | Op::Bitcast(_) | Op::Barrier);
        let is_stored_constant = matches!(node.op, Op::Constant(_)) && fuse::role(&node.op) == fuse::Role::Kernel;
        if is_same_memory || is_stored_constant {
            return Ok(());
        }
        let value = node.outputs[0];
        if let Op::Pad { low, interior, .. } = &node.op {
            return self.pad(node, low, interior);
        }
        if let Op::Concatenate { axis } = node.op {
            return self.concatenate(node, axis);
        }
        match fuse::role(&node.op) {
            fuse::Role::Reduction => self.add(Goal::Fold { value, to: self.stored(value) }),
            fuse::Role::Fusible | fuse::Role::Alias => self.add(Goal::Store { value, to: self.stored(value) }),
            fuse::Role::Kernel => {
                let step = self.kernel(node);
                self.push(step);
                Ok(())
            }
        }
    }

    /// The step of an operation over stored operands.
    fn kernel(&self, node: &Node) -> Step {
        if let Op::While { condition, body, .. } = &node.op {
            return Step::While {
                inputs: self.buffers(&node.inputs),
                outputs: self.buffers(&node.outputs),
                condition: super::compile(condition, &[]),
                body: super::compile(body, &[]),
                scratch: BufferId(u32::MAX),
            };
        }
        if let Op::If { then, otherwise } = &node.op {
            return Step::If {
                condition: self.values.buffer(node.inputs[0]),
                inputs: self.buffers(&node.inputs[1..]),
                outputs: self.buffers(&node.outputs),
                then: super::compile(then, &[]),
                otherwise: super::compile(otherwise, &[]),
                scratch: BufferId(u32::MAX),
            };
        }
        let with_shape = |&value: &ValueId| (self.values.buffer(value), self.graph.shape(value).clone());
        Step::Kernel(KernelStep {
            op: node.op.clone(),
            inputs: node.inputs.iter().map(with_shape).collect(),
            outputs: node.outputs.iter().map(with_shape).collect(),
            path: node.path.clone(),
            epilogue: None,
            lends_sums: false,
            pooling: None,
        })
    }

    fn buffers(&self, values: &[ValueId]) -> Vec<BufferId> {
        values.iter().map(|&value| self.values.buffer(value)).collect()
    }

    fn stored(&self, value: ValueId) -> Operand {
        whole(self.graph, value, self.values.buffer(value))
    }

    /// First the padding everywhere, then the operand's elements where they belong.
    fn pad(&mut self, node: &Node, low: &[i64], interior: &[usize]) -> Result<(), MustStore> {
        let value = node.outputs[0];
        let target = self.stored(value);
        self.add(Goal::Fill { value, scalar: node.inputs[1], to: target.clone() })?;
        let shape = self.graph.shape(value);
        let strides: Vec<isize> = shape.strides().iter().zip(interior).map(|(&s, &i)| (s * (i + 1)) as isize).collect();
        let offset: isize = shape.strides().iter().zip(low).map(|(&s, &l)| s as isize * l as isize).sum();
        let operand = self.graph.shape(node.inputs[0]);
        if operand.elements() == 0 {
            return Ok(());
        }
        self.add_apart(Goal::Store { value: node.inputs[0], to: Operand { offset, strides, ..target } })
    }

    fn concatenate(&mut self, node: &Node, axis: usize) -> Result<(), MustStore> {
        let target = self.stored(node.outputs[0]);
        let strides = self.graph.shape(node.outputs[0]).strides().iter().map(|&stride| stride as isize).collect();
        self.parts(node, axis, &Operand { strides, ..target })
    }

    /// Writes the operands of a concatenation to where its result belongs.
    fn parts(&mut self, node: &Node, axis: usize, to: &Operand) -> Result<(), MustStore> {
        let mut offset = to.offset;
        for &input in &node.inputs {
            let dims = self.graph.shape(input).dims();
            if !dims.contains(&0) {
                self.place(input, Operand { offset, ..to.clone() })?;
            }
            offset += dims[axis] as isize * to.strides[axis];
        }
        Ok(())
    }

    /// Writes a value to where it belongs. A concatenation that has no memory of its own is written part by part.
    fn place(&mut self, value: ValueId, to: Operand) -> Result<(), MustStore> {
        let mut joined = (value, to.strides.clone());
        while self.values.get(joined.0).is_none() {
            let node = self.graph.producer(joined.0);
            if let Op::Concatenate { axis } = node.op {
                return self.parts(node, axis, &Operand { strides: joined.1, ..to });
            }
            let Op::Reshape { dims } = &node.op else { break };
            let source = node.inputs[0];
            match fuse::through_merge(self.graph.shape(source).dims(), dims, &joined.1) {
                Some(strides) => joined = (source, strides),
                None => break,
            }
        }
        self.add_apart(Goal::Store { value, to })
    }

    fn push(&mut self, step: Step) {
        for buffer in step.writes() {
            self.ready.insert(buffer, self.drafts.len());
        }
        self.drafts.push(Draft::Done(step));
    }

    /// Adds a loop, or fuses it into an earlier one.
    fn add(&mut self, goal: Goal) -> Result<(), MustStore> {
        let body = self.build(std::slice::from_ref(&goal))?;
        let target =
            body.stores.iter().map(|store| store.to.buffer).chain(body.folds.iter().map(|f| f.to.buffer)).next();
        let at = match self.join(&goal, &body) {
            Some(at) => at,
            None => {
                self.drafts.push(Draft::Loop { goals: vec![goal], body });
                self.drafts.len() - 1
            }
        };
        self.ready.extend(target.map(|buffer| (buffer, at)));
        Ok(())
    }

    /// Adds a loop that fills a part of a value and is never fused.
    fn add_apart(&mut self, goal: Goal) -> Result<(), MustStore> {
        let body = self.build(std::slice::from_ref(&goal))?;
        let buffer = body.stores[0].to.buffer;
        self.ready.insert(buffer, self.drafts.len());
        self.drafts.push(Draft::Loop { goals: vec![], body });
        Ok(())
    }

    fn build(&self, goals: &[Goal]) -> Result<Loop, MustStore> {
        // A stored value is computed where it is the goal and read everywhere else.
        let mut body = looping::build(self.graph, goals, &(self.graph, self.values))?;
        // A fold over axes of length 1 folds nothing.
        let (folds, plain) = body.folds.into_iter().partition(|fold| fold.to.strides.contains(&0));
        body.folds = folds;
        body.stores.extend(plain.into_iter().map(|fold: super::kernel::Fold| Store { from: fold.from, to: fold.to }));
        Ok(body)
    }

    /// Fuses a loop into an earlier one over the same dimensions that reads the same data, if everything it needs was
    /// computed by then. Returns the index.
    fn join(&mut self, goal: &Goal, alone: &Loop) -> Option<usize> {
        let reads: Vec<BufferId> = Step::reads_of(alone);
        let needs = reads.iter().filter_map(|buffer| self.ready.get(buffer)).copied().max();
        let first = self.drafts.len().saturating_sub(REACH).max(needs.unwrap_or(0));
        for at in (first..self.drafts.len()).rev() {
            let Draft::Loop { goals, body } = &self.drafts[at] else { continue };
            let fits = goals.first().is_some_and(|first| {
                first.dims(self.graph) == goal.dims(self.graph)
                    && self.same_axes(goals, goal)
                    && goals.len() < 8
                    && shares_data(body, alone)
            });
            if !fits {
                continue;
            }
            let joined = [goals.as_slice(), std::slice::from_ref(goal)].concat();
            if let Ok(body) = self.build(&joined)
                && !reads_what_it_writes(&body)
            {
                self.drafts[at] = Draft::Loop { goals: joined, body };
                return Some(at);
            }
        }
        None
    }

    /// Whether a fold would be over the same axes as the folds that are there.
    fn same_axes(&self, goals: &[Goal], goal: &Goal) -> bool {
        let axes = |goal: &Goal| {
            let Op::Reduce { axes, .. } = &self.graph.producer(goal.value()).op else { return None };
            matches!(goal, Goal::Fold { .. }).then(|| axes.clone())
        };
        let Some(wanted) = axes(goal) else { return true };
        goals.iter().filter_map(axes).all(|there| there == wanted)
    }
}

/// Whether fusing two loops saves memory traffic: they load a common operand, or one stores what the other loads.
fn shares_data(first: &Loop, second: &Loop) -> bool {
    let stored: Vec<BufferId> = first.stores.iter().map(|store| store.to.buffer).collect();
    Step::reads_of(second).into_iter().any(|buffer| first.loads_from(buffer) || stored.contains(&buffer))
}

/// A loop must not read memory that the same loop writes in another order.
fn reads_what_it_writes(body: &Loop) -> bool {
    let writes = body.stores.iter().map(|store| store.to.buffer).chain(body.folds.iter().map(|fold| fold.to.buffer));
    writes.into_iter().any(|buffer| body.loads_from(buffer))
}
