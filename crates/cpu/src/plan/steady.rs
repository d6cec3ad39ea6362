//! What is the same in every run with the same inputs.
//!
//! Inference runs one program again and again with the same parameters. What is made from inputs that no run overwrites need
//! not be made again: a kernel keeps its weights in the order in which it reads them, other values (a table of position
//! biases, rounded vectors) are kept in memory of their own, and steps that only lead to something kept are skipped.

use super::arena::{BufferLocation, aligned};
use super::int8::Int8Call;
use super::kernel::BufferId;
use super::steps::{KernelStep, Step};
use octant_graph::Op;
use std::collections::HashMap;

/// Results of a step that take more bytes than this are made again in every run: they may depend on what changes from run to
/// run, such as images, and the arena gives their memory to others in between.
const KEPT_BYTES: usize = 4 << 20;

/// What runs of a plan may keep.
#[derive(Default)]
pub(crate) struct Steady {
    /// Steps that multiply with steady weights, and the inputs that these are made from.
    pub weights: Vec<(usize, Vec<usize>)>,
    /// Steps that need not always run.
    pub steps: Vec<(usize, SteadyStep)>,
    /// The offset of every kept value.
    pub values: Vec<(BufferId, usize)>,
    /// Bytes of all kept values.
    pub bytes: usize,
}

/// When a step need not run.
#[derive(Debug, PartialEq)]
pub(crate) enum SteadyStep {
    /// Its results are kept as long as these inputs are the same.
    Kept(Vec<usize>),
    /// All of these steps have kept what they make from its results.
    Before(Vec<usize>),
}

impl Steady {
    /// What can be kept of a plan, of whose buffers only inputs, outputs and constants have locations.
    pub fn find(
        steps: &[Step],
        sizes: &[usize],
        fixed: &HashMap<BufferId, BufferLocation>,
        donated: &[(usize, usize)],
    ) -> Steady {
        let mut sources = Sources { fixed, donated, writers: by_buffer(steps, Step::writes), made: HashMap::new() };
        let mut steady = Steady::default();
        for (at, step) in steps.iter().enumerate() {
            sources.note(step);
            if let Some(inputs) = weights(step).and_then(|weights| sources.inputs_of(weights)) {
                steady.weights.push((at, inputs));
            }
        }
        let readers = by_buffer(steps, Step::reads);
        let mut found: HashMap<usize, SteadyStep> = HashMap::new();
        for (at, step) in steps.iter().enumerate().rev() {
            let Some(inputs) = sources.inputs_of_step(step) else { continue };
            let results = step.writes();
            let uses =
                results.iter().flat_map(|result| readers.get(result).into_iter().flatten().map(|&at| (*result, at)));
            match keepers(uses, steps, &found) {
                Some(keepers) if !keepers.is_empty() => drop(found.insert(at, SteadyStep::Before(keepers))),
                Some(_) => {}
                None => {
                    let bytes: usize = results.iter().map(|result| aligned(sizes[result.0 as usize])).sum();
                    if bytes <= KEPT_BYTES {
                        steady.keep(&results, sizes);
                        found.insert(at, SteadyStep::Kept(inputs));
                    }
                }
            }
        }
        steady.steps = found.into_iter().collect();
        steady
    }

    fn keep(&mut self, values: &[BufferId], sizes: &[usize]) {
        for &value in values {
            self.values.push((value, self.bytes));
            self.bytes += aligned(sizes[value.0 as usize]);
        }
    }
}

/// The steps that keep what they make from some results; none if other steps use these in every run.
fn keepers(
    uses: impl Iterator<Item = (BufferId, usize)>,
    steps: &[Step],
    found: &HashMap<usize, SteadyStep>,
) -> Option<Vec<usize>> {
    let mut keepers = Vec::new();
    for (result, user) in uses {
        match found.get(&user) {
            Some(SteadyStep::Kept(_)) => keepers.push(user),
            Some(SteadyStep::Before(others)) => keepers.extend(others),
            None if packs(&steps[user], result) => keepers.push(user),
            None => return None,
        }
    }
    keepers.sort_unstable();
    keepers.dedup();
    Some(keepers)
}

/// The weights that a step multiplies with.
fn weights(step: &Step) -> Option<BufferId> {
    let Step::Kernel(kernel) = step else { return None };
    let multiplies = matches!(kernel.op, Op::Convolution(_) | Op::Dot(_)) && kernel.pooling.is_none();
    (multiplies || Int8Call::is_op(&kernel.op)).then(|| kernel.inputs[1].0)
}

/// Whether a step uses a value as weights that it packs, and as nothing else.
fn packs(step: &Step, value: BufferId) -> bool {
    let Step::Kernel(KernelStep { op, .. }) = step else { return false };
    let grouped = matches!(op, Op::Convolution(conv) if conv.feature_groups != 1);
    let only_use = step.reads().iter().filter(|&&read| read == value).count() == 1;
    !grouped && only_use && weights(step) == Some(value)
}

/// The steps that touch every buffer.
fn by_buffer(steps: &[Step], touched: impl Fn(&Step) -> Vec<BufferId>) -> HashMap<BufferId, Vec<usize>> {
    let mut found: HashMap<BufferId, Vec<usize>> = HashMap::new();
    for (at, step) in steps.iter().enumerate() {
        touched(step).into_iter().for_each(|buffer| found.entry(buffer).or_default().push(at));
    }
    found
}

struct Sources<'a> {
    fixed: &'a HashMap<BufferId, BufferLocation>,
    donated: &'a [(usize, usize)],
    writers: HashMap<BufferId, Vec<usize>>,
    /// The inputs that steady values are made from.
    made: HashMap<BufferId, Vec<usize>>,
}

impl Sources<'_> {
    /// The inputs that a buffer is made from, if it is steady.
    fn inputs_of(&self, buffer: BufferId) -> Option<Vec<usize>> {
        if let Some(inputs) = self.made.get(&buffer) {
            return Some(inputs.clone());
        }
        let is_written = self.writers.contains_key(&buffer);
        match self.fixed.get(&buffer)? {
            BufferLocation::Constant(_) => Some(Vec::new()),
            BufferLocation::Input(input) if !is_written && self.donated.iter().all(|(taken, _)| taken != input) => {
                Some(vec![*input])
            }
            BufferLocation::Input(_) | BufferLocation::Output(_) => None,
            BufferLocation::Arena(_) | BufferLocation::Kept(_) => None,
        }
    }

    /// The inputs that all results of a step are made from, if none of them is returned.
    fn inputs_of_step(&self, step: &Step) -> Option<Vec<usize>> {
        let results = step.writes();
        let own = |result: &BufferId| self.made.contains_key(result) && !self.fixed.contains_key(result);
        let inputs = self.made.get(results.first()?)?;
        results.iter().all(own).then(|| inputs.clone())
    }

    /// Records the results of a loop or a lookup, if all it reads is steady. Memory that other steps write too is not, nor are
    /// results of products: those are layers of a network.
    fn note(&mut self, step: &Step) {
        if !matches!(step, Step::Loop(_) | Step::Kernel(KernelStep { op: Op::Gather(_), .. })) {
            return;
        }
        let sources: Option<Vec<_>> = step.reads().into_iter().map(|buffer| self.inputs_of(buffer)).collect();
        let Some(sources) = sources else { return };
        let mut inputs = sources.concat();
        inputs.sort_unstable();
        inputs.dedup();
        for buffer in step.writes().into_iter().filter(|buffer| self.writers[buffer].len() == 1) {
            self.made.insert(buffer, inputs.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Plan, compile};
    use octant_graph::{DType, HostTensor, Shape, Trace};

    /// A product with rounded weights and a bias that is looked up; `donated` overwrites the table.
    fn plan(rows: usize, donated: &[(usize, usize)]) -> Plan {
        let trace = Trace::new();
        let x = trace.input("x", Shape::new(DType::BF16, [rows, 24]));
        let table = trace.input("table", Shape::new(DType::F32, [7, 20]));
        let matrix = trace.input("matrix", Shape::new(DType::F32, [24, 20]));
        let index: Vec<i32> = (0..rows as i32).map(|row| row % 7).collect();
        let index = trace.constant(HostTensor::new([rows], &index).expect("one per row"));
        let product = x.matmul(&matrix.convert(DType::BF16)).convert(DType::F32);
        let result = product.exp() + table.take(&index);
        let outputs = [result.sum(&[1]), &table * 2.0];
        compile(&trace.finish(&outputs).expect("a sound graph"), donated)
    }

    #[test]
    fn tables_are_kept_and_rounded_weights_are_left_to_their_product() {
        let plan = plan(30, &[]);
        let is_lookup = |at: usize| matches!(&plan.steps[at], Step::Kernel(KernelStep { op: Op::Gather(_), .. }));
        let kept: Vec<_> = plan.steady.steps.iter().filter(|(_, step)| matches!(step, SteadyStep::Kept(_))).collect();
        assert!(matches!(kept[..], [(at, SteadyStep::Kept(inputs))] if is_lookup(*at) && *inputs == [1]), "{kept:?}");
        assert_eq!(plan.steady.bytes, aligned(30 * 20 * 4));
        let product = plan.steps.iter().position(|step| weights(step).is_some()).expect("there is a product");
        assert_eq!(plan.steady.weights, [(product, vec![2])]);
        let rounding: Vec<_> =
            plan.steady.steps.iter().filter(|(_, step)| *step == SteadyStep::Before(vec![product])).collect();
        assert_eq!(rounding.len(), 1);
    }

    #[test]
    fn neither_large_values_nor_those_of_donated_inputs_are_kept() {
        for plan in [plan(60_000, &[]), plan(30, &[(1, 1)])] {
            assert_eq!(plan.steady.bytes, 0);
            assert!(plan.steady.steps.iter().all(|(_, step)| matches!(step, SteadyStep::Before(_))));
        }
    }
}
