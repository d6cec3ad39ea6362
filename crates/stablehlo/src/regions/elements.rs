//! Elements of values as statements in C.

use super::coordinates::{behind, coordinates, index, reduced};
use super::plan::Root;
use crate::element::{c_type, expression, literal};
use crate::function::Named;
use crate::step::{Action, Step};
use octant_graph::DType;
use std::collections::{BTreeSet, HashMap};
use std::fmt::Write;

/// The text of a block as far as it is written.
pub struct Writer<'p, 'l> {
    pub members: HashMap<&'l str, &'l Step>,
    pub moves: &'p HashMap<&'l str, &'l Step>,
    /// Where values lie among the floats that threads share.
    pub kept: HashMap<&'l str, usize>,
    pub threads: usize,
    pub operands: Vec<&'l Named>,
    pub text: String,
    /// How many loops there are so far; in which of them and at which place operands are read; and which of them write
    /// element `i` of a value.
    pub loops: usize,
    pub reads: BTreeSet<(&'l str, usize, String)>,
    pub writes: HashMap<&'l str, usize>,
}

/// Statements of one pass of a loop, with the variables of elements that are known in it.
#[derive(Default)]
pub struct Pass<'l> {
    pub text: String,
    /// The coordinates of element `i`, and of what.
    places: Option<(Vec<String>, Vec<usize>)>,
    known: HashMap<(&'l str, Vec<String>), String>,
}

/// Where an element comes from.
enum Origin<'l> {
    Literal(String),
    Moved(&'l Step),
    Kept(usize),
    Made(&'l Step),
    Operand,
}

impl<'l> Writer<'_, 'l> {
    fn origin(&self, value: &Named) -> Option<Origin<'l>> {
        let name = value.name.as_str();
        if let Some(&step) = self.moves.get(name) {
            return Some(match step.action {
                Action::Constant(value) => Origin::Literal(literal(value, step.result.dtype())?),
                _ => Origin::Moved(step),
            });
        }
        let kept = self.kept.get(name).map(|&place| Origin::Kept(place));
        Some(kept.or_else(|| self.members.get(name).map(|step| Origin::Made(step))).unwrap_or(Origin::Operand))
    }

    /// A variable or literal that is an element of a value.
    pub fn element(&mut self, value: &'l Named, at: &[String], pass: &mut Pass<'l>) -> Option<String> {
        let expression = match self.origin(value)? {
            Origin::Literal(literal) => return Some(literal),
            Origin::Moved(step) => return self.element(step.operands.first()?, &behind(step, at), pass),
            Origin::Made(step) => return self.made(step, at, pass),
            Origin::Kept(place) => {
                let is_truth = if value.dtype() == DType::Bool { " != 0.0f" } else { "" };
                format!("{}{is_truth}", shared(place, &pass.index(at, value)))
            }
            Origin::Operand => {
                let known = self.operands.iter().position(|operand| operand.name == value.name);
                let place = known.unwrap_or(self.operands.len());
                if known.is_none() {
                    self.operands.push(value);
                }
                let index = pass.index(at, value);
                self.reads.insert((&value.name, self.loops, index.clone()));
                format!("a{place}[{index}]")
            }
        };
        pass.define(value, at, expression)
    }

    /// A variable that is an element of what a step makes from others.
    pub fn made(&mut self, step: &'l Step, at: &[String], pass: &mut Pass<'l>) -> Option<String> {
        if let Some(known) = pass.known.get(&(step.result.name.as_str(), at.to_vec())) {
            return Some(known.clone());
        }
        let Action::Map(name) = &step.action else { return None };
        let mut elements = Vec::new();
        for operand in &step.operands {
            elements.push(self.element(operand, at, pass)?);
        }
        let elements: Vec<&str> = elements.iter().map(String::as_str).collect();
        pass.define(&step.result, at, expression(name, &elements, step.operands.first()?.dtype())?)
    }

    /// The operand whose memory a result takes over, if each of its elements is read only just before it is overwritten.
    pub fn overwritten(&self, result: &Named, taken_over: &[(String, String)]) -> Option<usize> {
        let (operand, _) = taken_over.iter().find(|(_, by)| *by == result.name)?;
        let mut reads = self.reads.iter().filter(|(name, ..)| name == operand);
        let writes = *self.writes.get(result.name.as_str())?;
        let is_safe = reads.all(|(_, reads, at)| *reads == writes && at == "i");
        is_safe.then(|| self.operands.iter().position(|known| known.name == *operand))?
    }

    /// How many pieces of memory the threads of a warp read at once, if neighbors add up the same or different outputs.
    pub fn sectors(&self, roots: &[&Root<'l>], axes: &[usize], lanes: usize, is_along: bool) -> usize {
        const WARP: usize = 32;
        let step = roots[0].step;
        let Some(operand) = step.operands.first() else { return 0 };
        let (dims, outputs) = (operand.shape.dims(), step.result.shape.elements());
        let lengths: Vec<usize> = axes.iter().map(|&axis| dims[axis]).collect();
        let mut read = BTreeSet::new();
        for t in 0..WARP.min(outputs * lanes) {
            let (o, lane) = if is_along { (t / lanes, t % lanes) } else { (t % outputs, t / outputs) };
            let at = reduced(dims, axes, &coordinates(o, step.result.shape.dims()), &coordinates(lane, &lengths));
            roots.iter().filter_map(|root| root.step.operands.first()).for_each(|x| self.reads(x, &at, &mut read));
        }
        read.len()
    }

    /// The pieces of memory behind an element.
    fn reads(&self, value: &'l Named, at: &[usize], read: &mut BTreeSet<(&'l str, usize)>) {
        const SECTOR: usize = 8;
        match self.origin(value) {
            None | Some(Origin::Literal(_)) => {}
            Some(Origin::Moved(step)) => {
                step.operands.iter().for_each(|operand| self.reads(operand, &behind(step, at), read));
            }
            Some(Origin::Made(step)) => step.operands.iter().for_each(|operand| self.reads(operand, at, read)),
            Some(Origin::Kept(_) | Origin::Operand) => {
                read.insert((&value.name, index(at, value.shape.dims()) / SECTOR));
            }
        }
    }
}

impl<'l> Pass<'l> {
    /// One that makes element `i` of arrays, which is at these coordinates.
    pub fn over(at: &[String], dims: &[usize]) -> Pass<'l> {
        Pass { places: Some((at.to_vec(), dims.to_vec())), ..Pass::default() }
    }

    fn index(&self, at: &[String], value: &Named) -> String {
        let dims = value.shape.dims();
        match &self.places {
            Some((places, of)) if places == at && of == dims => "i".to_string(),
            _ => index(at, dims),
        }
    }

    fn define(&mut self, value: &'l Named, at: &[String], expression: String) -> Option<String> {
        let key = (value.name.as_str(), at.to_vec());
        if let Some(known) = self.known.get(&key) {
            return Some(known.clone());
        }
        let name = format!("v{}", self.known.len());
        write!(self.text, "const {} {name} = {expression}; ", c_type(value.dtype())?).ok()?;
        self.known.insert(key, name.clone());
        Some(name)
    }
}

/// An element of what lies at a place among the floats that threads share.
pub fn shared(place: usize, index: &str) -> String {
    if place == 0 { format!("shared[{index}]") } else { format!("shared[{place} + {index}]") }
}
