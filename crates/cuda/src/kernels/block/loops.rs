//! Loops of a block over the elements of values, and the barriers between them.

use super::coordinates::{coordinates, reduced};
use super::elements::{BlockWriter, LoopBody, shared};
use super::plan::{Root, lanes, stride};
use super::step::{Action, Step, Steps};
use crate::c::binary;
use octant_graph::{DType, Reduction};
use std::fmt::Write;

/// Parts of a sum that one thread adds up, when all have their own.
const PARTS: usize = 8;

impl BlockWriter<'_> {
    /// All loops of a phase; those over the same elements are one.
    pub fn phase(&mut self, roots: &[&Root]) -> Option<()> {
        let mut loops: Vec<Vec<&Root>> = Vec::new();
        for &root in roots {
            match loops.iter_mut().find(|others| is_alike(self.steps, others[0].step, root.step)) {
                Some(others) => others.push(root),
                None => loops.push(vec![root]),
            }
        }
        for roots in &loops {
            self.loops += 1;
            match &roots[0].step.action {
                Action::Reduce { axes, .. } => self.reductions(roots, axes)?,
                Action::Map(_) => self.elements(roots)?,
                _ => return None,
            }
        }
        self.fold(roots)
    }

    fn elements(&mut self, roots: &[&Root]) -> Option<()> {
        let shape = self.steps.graph.shape(roots[0].step.result);
        let at = coordinates("i".to_string(), shape.dims());
        let mut pass = LoopBody::over(&at, shape.dims());
        for root in roots {
            let value = self.made(root.step, &at, &mut pass)?;
            pass.text += &stores(root, "i", &value);
            self.writes.insert(root.step.result, self.loops);
        }
        let (elements, threads) = (shape.elements(), self.threads);
        write!(self.text, "for (unsigned i = thread; i < {elements}; i += {threads}) {{ {}}} ", pass.text).ok()
    }

    /// Sums over the parts that threads take. Neighbors take neighboring elements of what they read, as far as they can.
    fn reductions(&mut self, roots: &[&Root], axes: &[usize]) -> Option<()> {
        let step = roots[0].step;
        let (dims, outputs) = (self.steps.dims(*step.operands.first()?), self.steps.elements(step.result));
        let each = dims.iter().product::<usize>() / outputs;
        let (lanes, threads) = (lanes(self.steps, step, self.threads), self.threads);
        let lengths: Vec<usize> = axes.iter().map(|&axis| dims[axis]).collect();
        let kept = coordinates("o".to_string(), self.steps.dims(step.result));
        let at = reduced(dims, axes, &kept, &coordinates("k".to_string(), &lengths));
        let mut pass = LoopBody::default();
        let (mut starts, mut ends) = (String::new(), String::new());
        for (number, root) in roots.iter().enumerate() {
            let value = self.element(*root.step.operands.first()?, &at, &mut pass)?;
            let (sum, kind) = (format!("x{number}"), kind(root.step)?);
            let combined = binary(kind.combining(), &sum, &value, DType::F32)?;
            write!(pass.text, "{sum} = {combined}; ").ok()?;
            let start = if kind == Reduction::Max { "-INFINITY" } else { "0.0f" };
            write!(starts, "float {sum} = {start}; ").ok()?;
            ends += &match root.parts {
                Some(parts) => format!("shared[{parts} + lane * {} + o] = {sum}; ", stride(outputs)),
                None => stores(root, "o", &sum),
            };
        }
        let is_along = self.sectors(roots, axes, lanes, true) < self.sectors(roots, axes, lanes, false);
        let job = match is_along {
            true => format!("const unsigned o = t / {lanes}, lane = t % {lanes}; "),
            false => format!("const unsigned o = t % {outputs}, lane = t / {outputs}; "),
        };
        // A loop whose length is a number can be unrolled, and then its reads do not wait for each other.
        let head = match each % lanes {
            0 => format!("for (unsigned p = 0; p < {}; p++) {{ const unsigned k = lane + p * {lanes};", each / lanes),
            _ => format!("for (unsigned k = lane; k < {each}; k += {lanes}) {{"),
        };
        let (tasks, text) = (outputs * lanes, pass.text);
        write!(
            self.text,
            "for (unsigned t = thread; t < {tasks}; t += {threads}) {{ {job}{starts}UNROLL {head} {text}}} {ends}}} "
        )
        .ok()
    }

    /// Adds up the parts of reductions, a few at a time.
    fn fold(&mut self, roots: &[&Root]) -> Option<()> {
        let mut open: Vec<(&Root, usize, usize)> = roots
            .iter()
            .filter_map(|root| Some((*root, root.parts?, lanes(self.steps, root.step, self.threads))))
            .collect();
        while !open.is_empty() {
            self.text += "barrier; ";
            for (root, parts, lanes) in &mut open {
                let (outputs, left) = (self.steps.elements(root.step.result), lanes.div_ceil(PARTS));
                let (tasks, several, stride) = (outputs * left, *lanes / left, stride(outputs));
                let combined = binary(kind(root.step)?.combining(), "x", "y", DType::F32)?;
                let end = match left {
                    1 => stores(root, "thread", "x"),
                    _ => "*mine = x; ".to_string(),
                };
                write!(
                    self.text,
                    "if (thread < {tasks}) {{ float *mine = shared + {parts} + thread / {outputs} * {stride} + thread % \
                     {outputs}; float x = *mine; UNROLL for (unsigned p = 1; p < {several}; p++) {{ const float y = \
                     mine[p * {}]; x = {combined}; }} {end}}} ",
                    left * stride
                )
                .ok()?;
                *lanes = left;
            }
            open.retain(|&(_, _, lanes)| lanes > 1);
        }
        Some(())
    }
}

/// Whether two values are made by loops over the same elements.
fn is_alike(steps: &Steps, one: &Step, other: &Step) -> bool {
    let walked = |step: &Step| match &step.action {
        Action::Reduce { axes, .. } => (Some(axes.clone()), step.operands.first().map(|&x| steps.dims(x).to_vec())),
        _ => (None, Some(steps.dims(step.result).to_vec())),
    };
    walked(one) == walked(other)
}

fn kind(step: &Step) -> Option<Reduction> {
    match step.action {
        Action::Reduce { kind, .. } => Some(kind),
        _ => None,
    }
}

/// Stores a finished element wherever it is wanted.
fn stores(root: &Root, index: &str, value: &str) -> String {
    let kept = root.kept.map(|offset| format!("{} = {value}; ", shared(offset, index)));
    let output = root.output.map(|output| format!("r{output}[{index}] = {value}; "));
    kept.into_iter().chain(output).collect()
}
