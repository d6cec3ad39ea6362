//! Weights that are the same in every run with the same inputs.
//!
//! Inference runs one program again and again with the same parameters. Where weights are made from inputs that no run
//! overwrites, a run can keep them in the order in which their kernel reads them, and the loop that makes them (from f32
//! parameters to bf16, say) need not run again.

use super::BufferLocation;
use super::kernel::BufferId;
use super::steps::{KernelStep, Step};
use octant_graph::Op;
use std::collections::HashMap;

/// Weights that depend on some of the program's inputs alone.
pub(crate) struct SteadyWeights {
    /// The step that multiplies with them.
    pub consumer: usize,
    /// The inputs.
    pub inputs: Vec<usize>,
    /// The loop that makes them and nothing else.
    pub producer: Option<usize>,
}

/// All of them in a plan whose buffers are placed.
pub(super) fn steady_weights(
    steps: &[Step],
    locations: &[BufferLocation],
    donated: &[(usize, usize)],
) -> Vec<SteadyWeights> {
    let mut steady = Steady { locations, donated, writers: count(steps, Step::writes), made: HashMap::new() };
    let uses = count(steps, Step::reads);
    let mut found = Vec::new();
    for (at, step) in steps.iter().enumerate() {
        match step {
            Step::Loop(_) => steady.note(at, step),
            Step::Kernel(kernel) if multiplies_weights(kernel) => {
                let weights = kernel.inputs[1].0;
                let Some(inputs) = steady.inputs_of(weights) else { continue };
                let producer = steady.made.get(&weights).map(|(producer, _)| *producer).filter(|&producer| {
                    let in_arena = matches!(locations[weights.0 as usize], BufferLocation::Arena(_));
                    in_arena && uses[&weights] == 1 && steps[producer].writes() == [weights]
                });
                found.push(SteadyWeights { consumer: at, inputs, producer });
            }
            _ => {}
        }
    }
    found
}

fn multiplies_weights(kernel: &KernelStep) -> bool {
    matches!(kernel.op, Op::Convolution(_) | Op::Dot(_)) && kernel.pooling.is_none()
}

/// How many steps touch every buffer.
fn count(steps: &[Step], touched: impl Fn(&Step) -> Vec<BufferId>) -> HashMap<BufferId, usize> {
    let mut counts = HashMap::new();
    steps.iter().flat_map(touched).for_each(|buffer| *counts.entry(buffer).or_default() += 1);
    counts
}

struct Steady<'a> {
    locations: &'a [BufferLocation],
    donated: &'a [(usize, usize)],
    writers: HashMap<BufferId, usize>,
    /// The loop that makes a steady value, and the inputs it is made from.
    made: HashMap<BufferId, (usize, Vec<usize>)>,
}

impl Steady<'_> {
    /// The inputs that a buffer is made from, if it is steady.
    fn inputs_of(&self, buffer: BufferId) -> Option<Vec<usize>> {
        if let Some((_, inputs)) = self.made.get(&buffer) {
            return Some(inputs.clone());
        }
        let is_written = self.writers.contains_key(&buffer);
        match self.locations[buffer.0 as usize] {
            BufferLocation::Constant(_) => Some(Vec::new()),
            BufferLocation::Input(input) if !is_written && self.donated.iter().all(|&(taken, _)| taken != input) => {
                Some(vec![input])
            }
            _ => None,
        }
    }

    /// Remembers what a loop makes, if all it reads is steady. Memory that other steps write too is not.
    fn note(&mut self, at: usize, step: &Step) {
        let sources: Option<Vec<_>> = step.reads().into_iter().map(|buffer| self.inputs_of(buffer)).collect();
        let Some(sources) = sources else { return };
        let mut inputs = sources.concat();
        inputs.sort_unstable();
        inputs.dedup();
        for buffer in step.writes().into_iter().filter(|buffer| self.writers[buffer] == 1) {
            self.made.insert(buffer, (at, inputs.clone()));
        }
    }
}
