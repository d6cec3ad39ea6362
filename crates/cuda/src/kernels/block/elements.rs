//! Generates C statements that compute elements of values.

use super::coordinates::{behind, coordinates, index, reduced};
use super::plan::Root;
use super::step::{Action, Step, Steps};
use crate::c::{c_type, expression, literal};
use octant_graph::{DType, ValueId};
use std::collections::{BTreeSet, HashMap};
use std::fmt::Write;

/// The C text of a block kernel, and what the generator tracks while writing it.
pub struct BlockWriter<'s> {
    pub steps: &'s Steps<'s>,
    /// The offsets of values in shared memory, in floats.
    pub kept: HashMap<ValueId, usize>,
    pub threads: usize,
    pub text: String,
    /// How many loops there are so far; in which of them and at which position inputs are read; and which of them write
    /// element `i` of a value.
    pub loops: usize,
    pub reads: BTreeSet<(usize, usize, String)>,
    pub writes: HashMap<ValueId, usize>,
}

/// The statements of a loop body, with the C variables of the elements that it has computed.
#[derive(Default)]
pub struct LoopBody {
    pub text: String,
    /// The coordinates of element `i`, and the dims they refer to.
    current: Option<(Vec<String>, Vec<usize>)>,
    known: HashMap<(ValueId, Vec<String>), String>,
}

/// Where an element comes from.
enum Origin<'s> {
    Literal(String),
    Moved(&'s Step),
    Kept(usize),
    Made(&'s Step),
    /// The input of that number.
    Input(usize),
}

impl<'s> BlockWriter<'s> {
    fn origin(&self, value: ValueId) -> Option<Origin<'s>> {
        if let Some(step) = self.steps.moved(value) {
            let dtype = self.steps.graph.shape(value).dtype();
            return Some(match step.action {
                Action::Constant(value) => Origin::Literal(literal(value, dtype)?),
                _ => Origin::Moved(step),
            });
        }
        if let Some(&offset) = self.kept.get(&value) {
            return Some(Origin::Kept(offset));
        }
        let input = || self.steps.graph.inputs().iter().position(|&input| input == value).map(Origin::Input);
        self.steps.computed(value).map(Origin::Made).or_else(input)
    }

    /// A variable or literal that is an element of a value.
    pub fn element(&mut self, value: ValueId, at: &[String], pass: &mut LoopBody) -> Option<String> {
        let text = match self.origin(value)? {
            Origin::Literal(literal) => return Some(literal),
            Origin::Moved(step) => {
                return self.element(*step.operands.first()?, &behind(self.steps, step, at), pass);
            }
            Origin::Made(step) => return self.made(step, at, pass),
            Origin::Kept(offset) => {
                let to_bool = if self.steps.graph.shape(value).dtype() == DType::Bool { " != 0.0f" } else { "" };
                format!("{}{to_bool}", shared(offset, &pass.index(at, self.steps.dims(value))))
            }
            Origin::Input(input) => {
                let index = pass.index(at, self.steps.dims(value));
                self.reads.insert((input, self.loops, index.clone()));
                format!("a{input}[{index}]")
            }
        };
        pass.define(self.steps, value, at, text)
    }

    /// Computes an element of a step's result into a variable.
    pub fn made(&mut self, step: &Step, at: &[String], pass: &mut LoopBody) -> Option<String> {
        if let Some(known) = pass.known.get(&(step.result, at.to_vec())) {
            return Some(known.clone());
        }
        let Action::Map(op) = &step.action else { return None };
        let mut elements = Vec::new();
        for &operand in &step.operands {
            elements.push(self.element(operand, at, pass)?);
        }
        let elements: Vec<&str> = elements.iter().map(String::as_str).collect();
        let dtype = self.steps.graph.shape(*step.operands.first()?).dtype();
        pass.define(self.steps, step.result, at, expression(op, &elements, dtype)?)
    }

    /// Whether an output can be written over an input: each of its elements is read only just before it is overwritten.
    pub fn may_overwrite(&self, output: usize, input: usize) -> bool {
        let written = self.writes.get(&self.steps.graph.outputs()[output]);
        let mut reads = self.reads.iter().filter(|(read, ..)| *read == input);
        written.is_some_and(|writes| reads.all(|(_, reads, at)| reads == writes && at == "i"))
    }

    /// How many 32-byte sectors a warp reads at once, if neighboring threads reduce the same or different outputs.
    pub fn sectors(&self, roots: &[&Root], axes: &[usize], lanes: usize, is_along: bool) -> usize {
        const WARP: usize = 32;
        let step = roots[0].step;
        let Some(&operand) = step.operands.first() else { return 0 };
        let (dims, outputs) = (self.steps.dims(operand), self.steps.elements(step.result));
        let lengths: Vec<usize> = axes.iter().map(|&axis| dims[axis]).collect();
        let mut read = BTreeSet::new();
        for t in 0..WARP.min(outputs * lanes) {
            let (o, lane) = if is_along { (t / lanes, t % lanes) } else { (t % outputs, t / outputs) };
            let at = reduced(dims, axes, &coordinates(o, self.steps.dims(step.result)), &coordinates(lane, &lengths));
            roots.iter().filter_map(|root| root.step.operands.first()).for_each(|&x| self.reads(x, &at, &mut read));
        }
        read.len()
    }

    /// The memory sectors that an element is computed from.
    fn reads(&self, value: ValueId, at: &[usize], read: &mut BTreeSet<(ValueId, usize)>) {
        const SECTOR: usize = 8;
        match self.origin(value) {
            None | Some(Origin::Literal(_)) => {}
            Some(Origin::Moved(step)) => {
                let at = behind(self.steps, step, at);
                step.operands.iter().for_each(|&operand| self.reads(operand, &at, read));
            }
            Some(Origin::Made(step)) => step.operands.iter().for_each(|&operand| self.reads(operand, at, read)),
            Some(Origin::Kept(_) | Origin::Input(_)) => {
                read.insert((value, index(at, self.steps.dims(value)) / SECTOR));
            }
        }
    }
}

impl LoopBody {
    /// A body that computes element `i` of arrays, at these coordinates.
    pub fn over(at: &[String], dims: &[usize]) -> LoopBody {
        LoopBody { current: Some((at.to_vec(), dims.to_vec())), ..LoopBody::default() }
    }

    fn index(&self, at: &[String], dims: &[usize]) -> String {
        match &self.current {
            Some((current, of)) if current == at && of == dims => "i".to_string(),
            _ => index(at, dims),
        }
    }

    fn define(&mut self, steps: &Steps, value: ValueId, at: &[String], text: String) -> Option<String> {
        let key = (value, at.to_vec());
        if let Some(known) = self.known.get(&key) {
            return Some(known.clone());
        }
        let name = format!("v{}", self.known.len());
        write!(self.text, "const {} {name} = {text}; ", c_type(steps.graph.shape(value).dtype())?).ok()?;
        self.known.insert(key, name.clone());
        Some(name)
    }
}

/// An element of the shared memory from `offset` on.
pub fn shared(offset: usize, index: &str) -> String {
    if offset == 0 { format!("shared[{index}]") } else { format!("shared[{offset} + {index}]") }
}
