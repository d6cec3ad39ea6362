//! Loops of a block over the elements of values, and the barriers between them.

use super::coordinates::{coordinates, reduced};
use super::elements::{Pass, Writer, shared};
use super::plan::{Root, lanes, stride};
use crate::element::expression;
use crate::ops::reduction_name;
use crate::step::{Action, Step};
use octant_graph::{DType, Reduction};
use std::fmt::Write;

/// Parts of a sum that one thread adds up, when all have their own.
const PARTS: usize = 8;

impl<'l> Writer<'_, 'l> {
    /// All loops of a phase; those over places of one shape are one.
    pub fn phase(&mut self, roots: &[&Root<'l>]) -> Option<()> {
        let mut loops: Vec<Vec<&Root<'l>>> = Vec::new();
        for &root in roots {
            match loops.iter_mut().find(|others| is_alike(others[0].step, root.step)) {
                Some(others) => others.push(root),
                None => loops.push(vec![root]),
            }
        }
        for roots in &loops {
            self.loops += 1;
            match &roots[0].step.action {
                Action::Reduce { axes, .. } => self.reductions(roots, axes)?,
                _ => self.elements(roots)?,
            }
        }
        self.fold(roots)
    }

    fn elements(&mut self, roots: &[&Root<'l>]) -> Option<()> {
        let shape = &roots[0].step.result.shape;
        let at = coordinates("i".to_string(), shape.dims());
        let mut pass = Pass::over(&at, shape.dims());
        for root in roots {
            let value = self.made(root.step, &at, &mut pass)?;
            pass.text += &stores(root, "i", &value);
            self.writes.insert(&root.step.result.name, self.loops);
        }
        let (elements, threads) = (shape.elements(), self.threads);
        write!(self.text, "for (unsigned i = thread; i < {elements}; i += {threads}) {{ {}}} ", pass.text).ok()
    }

    /// Sums over the parts that threads take. Neighbors take neighboring elements of what they read, as far as they can.
    fn reductions(&mut self, roots: &[&Root<'l>], axes: &[usize]) -> Option<()> {
        let step = roots[0].step;
        let (operand, outputs) = (step.operands.first()?, step.result.shape.elements());
        let each = operand.shape.elements() / outputs;
        let (lanes, threads) = (lanes(step, self.threads), self.threads);
        let lengths: Vec<usize> = axes.iter().map(|&axis| operand.shape.dims()[axis]).collect();
        let kept = coordinates("o".to_string(), step.result.shape.dims());
        let at = reduced(operand.shape.dims(), axes, &kept, &coordinates("k".to_string(), &lengths));
        let mut pass = Pass::default();
        let (mut starts, mut ends) = (String::new(), String::new());
        for (number, root) in roots.iter().enumerate() {
            let value = self.element(root.step.operands.first()?, &at, &mut pass)?;
            let (sum, kind) = (format!("x{number}"), kind(root.step)?);
            let combined = expression(reduction_name(kind), &[&sum, &value], DType::F32)?;
            write!(pass.text, "{sum} = {combined}; ").ok()?;
            let start = if kind == Reduction::Max { "-INFINITY" } else { "0.0f" };
            write!(starts, "float {sum} = {start}; ").ok()?;
            ends += &match root.parts {
                Some(parts) => format!("shared[{parts} + lane * {} + o] = {sum}; ", stride(outputs)),
                None => stores(root, "o", &sum),
            };
        }
        let is_along = self.sectors(roots, axes, lanes, true) < self.sectors(roots, axes, lanes, false);
        let place = match is_along {
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
            "for (unsigned t = thread; t < {tasks}; t += {threads}) {{ {place}{starts}UNROLL {head} {text}}} {ends}}} "
        )
        .ok()
    }

    /// Adds up the parts of reductions, a few at a time.
    fn fold(&mut self, roots: &[&Root<'l>]) -> Option<()> {
        let mut open: Vec<(&Root, usize, usize)> =
            roots.iter().filter_map(|root| Some((*root, root.parts?, lanes(root.step, self.threads)))).collect();
        while !open.is_empty() {
            self.text += "barrier; ";
            for (root, parts, lanes) in &mut open {
                let (outputs, left) = (root.step.result.shape.elements(), lanes.div_ceil(PARTS));
                let (tasks, several, stride) = (outputs * left, *lanes / left, stride(outputs));
                let combined = expression(reduction_name(kind(root.step)?), &["x", "y"], DType::F32)?;
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

/// Whether two values are made by loops over the same places.
fn is_alike(one: &Step, other: &Step) -> bool {
    let axes = |step: &Step| match &step.action {
        Action::Reduce { axes, .. } => Some(axes.clone()),
        _ => None,
    };
    let dims = |step: &Step| match &step.action {
        Action::Reduce { .. } => step.operands.first().map(|operand| operand.shape.dims().to_vec()),
        _ => Some(step.result.shape.dims().to_vec()),
    };
    (axes(one), dims(one)) == (axes(other), dims(other))
}

fn kind(step: &Step) -> Option<Reduction> {
    match step.action {
        Action::Reduce { kind, .. } => Some(kind),
        _ => None,
    }
}

/// Puts a finished element wherever it is wanted.
fn stores(root: &Root, index: &str, value: &str) -> String {
    let kept = root.kept.map(|place| format!("{} = {value}; ", shared(place, index)));
    let result = root.result.map(|result| format!("r{result}[{index}] = {value}; "));
    kept.into_iter().chain(result).collect()
}
