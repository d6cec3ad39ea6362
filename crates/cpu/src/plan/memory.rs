//! Buffer assignment: donation, in-place reuse and arena offsets, before the first run.

use super::arena::{self, ALIGNMENT, BufferLocation, Lifetime, aligned};
use super::kernel::{BufferId, Lane, Loop, Operand, Source};
use super::steady::Steady;
use super::steps::Step;
use super::{Plan, StoredValues};
use octant_graph::{Graph, HostTensor, Op, ValueId};
use std::collections::{HashMap, HashSet};

/// The operand whose memory a result is, whatever its shape.
pub(crate) fn alias_of(op: &Op, inputs: &[ValueId], output: usize) -> Option<ValueId> {
    if let Op::Reshape { .. } | Op::Bitcast(_) = op {
        return Some(inputs[0]);
    }
    (*op == Op::Barrier).then(|| inputs[output])
}

pub(crate) fn plan_memory(graph: &Graph, values: StoredValues, steps: Vec<Step>, donated: &[(usize, usize)]) -> Plan {
    let mut planner = Planner { values, steps, fixed: HashMap::new(), constants: Vec::new() };
    planner.fix_inputs_and_constants(graph);
    planner.fix_outputs(graph, donated);
    let steady = Steady::find(&planner.steps, &planner.values.sizes, &planner.fixed, donated);
    planner.fixed.extend(steady.values.iter().map(|&(value, offset)| (value, BufferLocation::Kept(offset))));
    planner.add_scratch();
    planner.reuse_dying_operands();
    let lifetimes = planner.lifetimes();
    let (offsets, arena_bytes) = arena::assign_offsets(lifetimes.clone());
    let mut locations = vec![BufferLocation::Arena(0); planner.values.sizes.len()];
    let in_arena = offsets.into_iter().map(|(buffer, offset)| (buffer, BufferLocation::Arena(offset)));
    for (buffer, location) in in_arena.chain(planner.fixed) {
        locations[buffer.0 as usize] = location;
    }
    Plan {
        steady,
        steps: planner.steps,
        locations,
        arena_bytes,
        #[cfg(test)]
        live_bytes: arena::live_bytes(&lifetimes),
        constants: planner.constants,
        outputs: graph.output_shapes(),
    }
}

struct Planner {
    values: StoredValues,
    steps: Vec<Step>,
    fixed: HashMap<BufferId, BufferLocation>,
    constants: Vec<HostTensor>,
}

/// The steps that read and write every buffer.
#[derive(Default)]
struct Uses {
    reads: HashMap<BufferId, Vec<usize>>,
    writes: HashMap<BufferId, Vec<usize>>,
}

impl Uses {
    fn of(steps: &[Step]) -> Uses {
        let mut uses = Uses::default();
        for (at, step) in steps.iter().enumerate() {
            step.reads().into_iter().for_each(|buffer| uses.reads.entry(buffer).or_default().push(at));
            step.writes().into_iter().for_each(|buffer| uses.writes.entry(buffer).or_default().push(at));
        }
        uses
    }
}

impl Planner {
    fn fix_inputs_and_constants(&mut self, graph: &Graph) {
        for (index, &input) in graph.inputs().iter().enumerate() {
            self.fixed.insert(self.values.buffer(input), BufferLocation::Input(index));
        }
        for node in graph.nodes() {
            let Op::Constant(tensor) = &node.op else { continue };
            let stored = self.values.get(node.outputs[0]);
            if let (Some(buffer), super::fuse::Role::Kernel) = (stored, super::fuse::role(&node.op)) {
                self.fixed.insert(buffer, BufferLocation::Constant(self.constants.len()));
                self.constants.push(tensor.clone());
            }
        }
    }

    /// Decides for every output whether its value can be computed in the output's buffer, or must be copied there.
    fn fix_outputs(&mut self, graph: &Graph, donated: &[(usize, usize)]) {
        let overwritten: HashSet<BufferId> =
            donated.iter().map(|&(input, _)| self.values.buffer(graph.inputs()[input])).collect();
        let uses = Uses::of(&self.steps);
        let mut homes = HashMap::new();
        let mut copies_at_start = Vec::new();
        let mut copies_at_end = Vec::new();
        for (index, &output) in graph.outputs().iter().enumerate() {
            let value = self.values.buffer(output);
            let bytes = self.values.sizes[value.0 as usize];
            let target = donated.iter().find(|&&(_, output)| output == index).map(|&(input, _)| graph.inputs()[input]);
            let target = target.map(|input| self.values.buffer(input));
            if target == Some(value) {
                continue;
            }
            let free = !self.fixed.contains_key(&value);
            match target {
                Some(target) if free && self.can_overwrite(&uses, value, target) => {
                    self.fixed.insert(value, self.fixed[&target]);
                    homes.insert(value, target);
                }
                None if free => drop(self.fixed.insert(value, BufferLocation::Output(index))),
                _ => {
                    // An input that is returned must be read before a donated output overwrites it.
                    let source = match overwritten.contains(&value) {
                        true => {
                            let kept = self.values.add(bytes);
                            copies_at_start.push(Step::Copy { from: value, to: kept, bytes });
                            kept
                        }
                        false => value,
                    };
                    let to = target.unwrap_or_else(|| {
                        let fresh = self.values.add(bytes);
                        self.fixed.insert(fresh, BufferLocation::Output(index));
                        fresh
                    });
                    copies_at_end.push(Step::Copy { from: source, to, bytes });
                }
            }
        }
        self.rename(&homes);
        let middle = std::mem::take(&mut self.steps);
        self.steps = copies_at_start.into_iter().chain(middle).chain(copies_at_end).collect();
    }

    /// Whether a value may be computed in the memory of a donated input: one loop writes it, in the same order in which
    /// that loop reads the input, and nothing reads the input later.
    fn can_overwrite(&self, uses: &Uses, value: BufferId, target: BufferId) -> bool {
        let Some(&[at]) = uses.writes.get(&value).map(Vec::as_slice) else { return false };
        let Step::Loop(writer) = &self.steps[at] else { return false };
        let read_later = uses.reads.get(&target).is_some_and(|reads| reads.iter().any(|&read| read > at));
        let written = uses.writes.contains_key(&target);
        !read_later && !written && stores_in_reading_order(&writer.body, value, target)
    }

    /// Scratch memory lives for one step.
    fn add_scratch(&mut self) {
        for step in &mut self.steps {
            match step {
                Step::Loop(step) if step.nest.partials() > 0 => {
                    let widest = step.body.folds.iter().map(|fold| Lane::of(fold.to.dtype).size()).max().unwrap_or(0);
                    let bytes = step.body.folds.len() * step.nest.partials() * widest;
                    step.partials = Some(self.values.add(bytes));
                }
                Step::While { scratch, outputs, condition, body, .. } => {
                    let carried: usize =
                        outputs.iter().map(|output| aligned(self.values.sizes[output.0 as usize])).sum();
                    let bytes = ALIGNMENT + aligned(carried) + condition.arena_bytes.max(body.arena_bytes);
                    *scratch = self.values.add(bytes);
                }
                Step::If { scratch, then, otherwise, .. } => {
                    *scratch = self.values.add(then.arena_bytes.max(otherwise.arena_bytes));
                }
                Step::Loop(_) | Step::Kernel(_) | Step::Copy { .. } => {}
            }
        }
    }

    /// The last step that touches every buffer of the arena.
    fn last_uses(&self) -> HashMap<BufferId, usize> {
        let touched = self
            .steps
            .iter()
            .enumerate()
            .flat_map(|(at, step)| step.reads().into_iter().chain(step.writes()).map(move |buffer| (buffer, at)));
        touched.collect()
    }

    /// A loop may write its result over an operand without later uses.
    fn reuse_dying_operands(&mut self) {
        let mut last = self.last_uses();
        let writers = Uses::of(&self.steps).writes;
        // The buffer whose memory each reusing buffer gets.
        let mut homes: HashMap<BufferId, BufferId> = HashMap::new();
        for at in 0..self.steps.len() {
            let Step::Loop(step) = &self.steps[at] else { continue };
            for store in &step.body.stores {
                let value = store.to.buffer;
                if self.fixed.contains_key(&value) || writers[&value].len() > 1 {
                    continue;
                }
                let dying = Step::reads_of(&step.body).into_iter().find(|&operand| {
                    let home = homes.get(&operand).copied().unwrap_or(operand);
                    last.get(&home) == Some(&at)
                        && !self.fixed.contains_key(&home)
                        && self.values.sizes[home.0 as usize] == self.values.sizes[value.0 as usize]
                        && stores_in_reading_order(&step.body, value, operand)
                });
                if let Some(operand) = dying {
                    let home = homes.get(&operand).copied().unwrap_or(operand);
                    last.insert(home, last[&value]);
                    homes.insert(value, home);
                }
            }
        }
        self.rename(&homes);
    }

    /// Renames buffers in all steps after in-place reuse.
    fn rename(&mut self, homes: &HashMap<BufferId, BufferId>) {
        for buffer in self.steps.iter_mut().flat_map(Step::buffers_mut) {
            if let Some(&home) = homes.get(buffer) {
                *buffer = home;
            }
        }
    }

    /// The lifetimes of all buffers in the arena.
    fn lifetimes(&self) -> Vec<Lifetime> {
        let mut first: HashMap<BufferId, usize> = HashMap::new();
        for (at, step) in self.steps.iter().enumerate().rev() {
            first.extend(step.reads().into_iter().chain(step.writes()).map(|buffer| (buffer, at)));
        }
        let in_arena = self.last_uses().into_iter().filter(|(buffer, _)| !self.fixed.contains_key(buffer));
        let lifetime = |(buffer, end): (BufferId, usize)| {
            let bytes = aligned(self.values.sizes[buffer.0 as usize]);
            Lifetime { buffer, begin: first[&buffer], end, bytes }
        };
        in_arena.map(lifetime).collect()
    }
}

/// Whether a loop reads `operand` only at the element where it stores `value`, and folds neither of them.
fn stores_in_reading_order(body: &Loop, value: BufferId, operand: BufferId) -> bool {
    let stores: Vec<&Operand> = body.stores.iter().map(|store| &store.to).filter(|to| to.buffer == value).collect();
    let [store] = stores[..] else { return false };
    let folded = body.folds.iter().any(|fold| fold.to.buffer == value || fold.to.buffer == operand);
    let in_order = body.loads.iter().all(|load| match &load.source {
        Source::Memory(from) if from.buffer == operand => {
            from.offset == store.offset && from.strides == store.strides && from.dtype.size() == store.dtype.size()
        }
        _ => true,
    });
    // Another store may copy the operand unchanged, from its old buffer.
    let handed_on = body.loads.iter().any(|load| match &load.source {
        Source::Memory(from) if from.buffer == operand => {
            body.stores.iter().any(|other| other.from == load.to && other.to.buffer != value)
        }
        _ => false,
    });
    // A stride of 0 would read an element again after it was overwritten.
    let walks = store.strides.iter().zip(&body.dims).all(|(&stride, &dim)| stride != 0 || dim == 1);
    !folded && in_order && !handed_on && walks
}
