//! Sums over the places of images that a call has just made, which the call takes along: those of a norm's statistics.
//!
//! A call sums distances from a number among them and their squares, in parts. Sums of distances from another number follow
//! from these: nothing is lost by it, because the two numbers are close.

use super::pairs::Pair;
use super::stretch::Stretch;
use super::{Pairs, Rectified, Task, makers, tensor_core};
use crate::Options;
use crate::function::{Function, Named};
use crate::ops::{movement, reduce};
use octant_graph::{Binary, Graph, Op, Reduction, Shape, ValueId};
use std::collections::HashMap;

/// The sums of a graph that follow from what calls take along.
#[derive(Default)]
pub struct Moments {
    /// By the nodes that reduce.
    sums: HashMap<usize, Sum>,
    /// The images that calls make, and in how many parts of each they take the moments.
    parts: HashMap<ValueId, usize>,
}

/// A sum over the places of images, of numbers that are moved or of their squares.
#[derive(Debug, Clone)]
pub struct Sum {
    pub moved: Stretch,
    squared: bool,
    /// Whether there is one for every image.
    of_each: bool,
}

impl Moments {
    /// All such sums of a graph.
    pub fn find(graph: &Graph, options: &Options, pairs: &Pairs, rectified: &Rectified) -> Moments {
        let mut found = Moments::default();
        let makers = makers(graph);
        for (index, node) in graph.nodes().iter().enumerate() {
            let Op::Reduce { kind: Reduction::Sum, axes } = &node.op else { continue };
            let of_each = match axes[..] {
                [0, 1, 2] => false,
                [1, 2] => true,
                _ => continue,
            };
            let operand = graph.producer(node.inputs[0]);
            let squared = operand.op == Op::Binary(Binary::Mul) && operand.inputs[0] == operand.inputs[1];
            let value = if squared { operand.inputs[0] } else { node.inputs[0] };
            let moved = Stretch::of(graph, value, &[Binary::Add, Binary::Sub]);
            let Some(&maker) = makers.get(&moved.x) else { continue };
            let pair = pairs.of(maker);
            let called = &graph.nodes()[pair.map_or(maker, |pair| pair.plain)];
            let Some(task) = Task::of_node(graph, called) else { continue };
            let is_called = pair.is_some()
                || rectified.of(called.inputs[0]).is_some()
                || tensor_core::choose(&task, options.precision).is_some();
            if is_called && !pair.is_some_and(Pair::is_joined) && !task.is_gradient {
                found.parts.insert(moved.x, tensor_core::moment_parts(&task));
                found.sums.insert(index, Sum { moved, squared, of_each });
            }
        }
        found
    }

    /// In how many parts the call that makes a value takes its moments, if it does.
    pub fn parts(&self, value: ValueId) -> Option<usize> {
        self.parts.get(&value).copied()
    }

    /// What a reduction is made of, if it follows from moments.
    pub fn of(&self, node: usize) -> Option<&Sum> {
        self.sums.get(&node)
    }
}

impl Sum {
    /// Writes it, from the moments and from what every channel is moved by.
    pub fn write(&self, f: &mut Function, moments: &Named, offset: &Named, shape: &Shape) -> Named {
        let [images, parts, _, channels] = *moments.shape.dims() else { unreachable!("moments have four axes") };
        let part = Shape::new(moments.dtype(), [images, parts, channels]);
        let mut row = |row: usize| {
            let (starts, limits) = (vec![0, 0, row, 0], vec![images, parts, row + 1, channels]);
            let slice = moments.shape.with_dims([images, parts, 1, channels]);
            let slice = movement::slice(f, moments, [&starts, &limits, &vec![1; 4]], &slice);
            f.typed("reshape", &[&slice], "", &part)
        };
        let [count, shift, distances, squares] = [0, 1, 2, 3].map(&mut row);
        let offset = movement::broadcast(f, offset, &[2], &part);
        // Distances d from a shift s of numbers that are moved by o: their sum is Σd + n(s + o), and that of their squares
        // Σd² + (s + o)(2Σd + n(s + o)).
        let away = f.same("add", &[&shift, &offset]);
        let moved = f.same("multiply", &[&count, &away]);
        let mut sums = f.same("add", &[&distances, &moved]);
        if self.squared {
            let twice = f.same("add", &[&distances, &sums]);
            let product = f.same("multiply", &[&away, &twice]);
            sums = f.same("add", &[&squares, &product]);
        }
        let of_images = Shape::new(sums.dtype(), [images, channels]);
        let sums = reduce::reduce(f, &sums, Reduction::Sum, &[1], &of_images);
        if self.of_each {
            return sums;
        }
        // In one step XLA would start as few threads as there are channels.
        let sums = f.apart(&sums);
        reduce::reduce(f, &sums, Reduction::Sum, &[0], shape)
    }
}
