//! The work of a thread block in C: loops over the elements of values, with barriers in between.
//!
//! The text knows the number of its `thread`, the addresses of operands and then outputs as `buffers`, and the floats that all
//! threads have as `shared`. Values that are read once, or only moved, are written out where they are read. Operands that only
//! later phases read are fetched while the first one works, so that these do not wait for memory, each for itself.

use super::BlockDescriptor;
use super::elements::BlockWriter;
use super::plan::{MOST_ADDED, Plan, Root};
use super::step::{Step, Steps};
use crate::GpuFacts;
use crate::c::c_type;
use crate::runtime::launch::WORDS;
use octant_graph::{DType, Graph, KernelHint};
use std::collections::{BTreeSet, HashMap};
use std::fmt::Write;

/// Threads of a block, as many as a GPU allows and fewer if there is little to do.
const MOST_THREADS: usize = 1024;
const FEWEST_THREADS: usize = 128;

/// Bytes that the threads may share. With more, attention over 128 channels fits, and is slower than by XLA.
const MOST_SHARED: usize = 96 << 10;

/// Elements of an operand that is fetched.
const MOST_FETCHED: usize = 1 << 12;

/// What a block does.
#[derive(Debug)]
pub struct BlockProgram {
    descriptor: BlockDescriptor,
    /// Outputs that are written over inputs, by their numbers.
    in_place: Vec<(usize, usize)>,
}

impl BlockProgram {
    /// The program of a body, whose outputs may be written over inputs where that is safe: `(output, input)`. None if it does
    /// not fit a block.
    pub fn of(body: &Graph, over: &[(usize, usize)], gpu: &GpuFacts) -> Option<BlockProgram> {
        let steps = Steps::of(body);
        let members: Vec<&Step> =
            body.nodes().iter().filter_map(|node| steps.computed(*node.outputs.first()?)).collect();
        let work = |step: &&Step| step.operands.iter().map(|&operand| steps.elements(operand)).max().unwrap_or(1);
        let work = members.iter().map(work).max()?.min(MOST_ADDED);
        let threads = work.next_power_of_two().clamp(FEWEST_THREADS, MOST_THREADS);
        let plan = Plan::of(&steps, &members, body.outputs(), threads);
        let kept = plan.roots.iter().filter_map(|root| Some((root.step.result, root.kept?))).collect();
        let mut writer = BlockWriter {
            steps: &steps,
            kept,
            threads,
            text: String::new(),
            loops: 0,
            reads: BTreeSet::new(),
            writes: HashMap::new(),
        };
        let phases = plan.roots.last().map_or(0, |root| root.phase + 1);
        let mut read_at_once = BTreeSet::new();
        for phase in 0..phases {
            let roots: Vec<&Root> = plan.roots.iter().filter(|root| root.phase == phase).collect();
            writer.text += ["", "FETCHED; barrier; ", "barrier; "][phase.min(2)];
            writer.phase(&roots)?;
            if phase == 0 {
                read_at_once = writer.reads.iter().map(|&(input, ..)| input).collect();
            }
        }
        let in_place: Vec<(usize, usize)> =
            over.iter().copied().filter(|&(output, input)| writer.may_overwrite(output, input)).collect();
        let most_shared = MOST_SHARED.min(gpu.shared_memory);
        let mut declared = Declarations { body, in_place: &in_place, floats: plan.floats, text: String::new() };
        for input in 0..body.inputs().len() {
            declared.input(input, !read_at_once.contains(&input), most_shared)?;
        }
        for output in 0..body.outputs().len() {
            declared.output(output)?;
        }
        let (buffers, shared) = (body.inputs().len() + body.outputs().len(), 4 * declared.floats);
        let text = declared.text + writer.text.trim_end();
        let descriptor = BlockDescriptor { buffers, threads: threads as u32, shared: shared as u32, body: text.into() };
        (shared <= most_shared && buffers <= WORDS).then_some(BlockProgram { descriptor, in_place })
    }

    /// The hint of a call of it.
    pub fn into_hint(self) -> KernelHint {
        KernelHint { in_place: self.in_place, ..self.descriptor.hint() }
    }
}

/// The pointers that the text begins with.
struct Declarations<'b> {
    body: &'b Graph,
    in_place: &'b [(usize, usize)],
    /// Shared floats so far.
    floats: usize,
    text: String,
}

impl Declarations<'_> {
    /// An operand in memory or, if it `may_wait` and there is room, one that is fetched.
    fn input(&mut self, input: usize, may_wait: bool, most_shared: usize) -> Option<()> {
        let shape = self.body.shape(self.body.inputs()[input]);
        let (elements, floats) = (shape.elements(), self.floats);
        let fits = elements <= MOST_FETCHED && 4 * (floats + elements) <= most_shared;
        if may_wait && shape.dtype() == DType::F32 && fits {
            self.floats += elements;
            let fetch = format!("FETCH({floats}, {input}, {elements})");
            return write!(self.text, "{fetch} const float *a{input} = shared + {floats}; ").ok();
        }
        let c_type = c_type(shape.dtype())?;
        let alone = alone(self.in_place.iter().any(|&(_, over)| over == input));
        write!(self.text, "const {c_type} *{alone}a{input} = (const {c_type} *)buffers[{input}]; ").ok()
    }

    fn output(&mut self, output: usize) -> Option<()> {
        let c_type = c_type(self.body.shape(self.body.outputs()[output]).dtype())?;
        let alone = alone(self.in_place.iter().any(|&(written, _)| written == output));
        let buffer = self.body.inputs().len() + output;
        write!(self.text, "{c_type} *{alone}r{output} = ({c_type} *)buffers[{buffer}]; ").ok()
    }
}

fn alone(is_overwritten: bool) -> &'static str {
    if is_overwritten { "" } else { "restrict " }
}
