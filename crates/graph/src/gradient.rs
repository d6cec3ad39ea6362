//! Reverse-mode gradients, graph to graph.
//!
//! The backward pass is traced like everything else: it walks the recorded nodes from the loss to the front and calls
//! the rule of every operation (`pull_back` in [`crate::ops`], beside the shape inference), which emits more nodes.
//! Only nodes on a path from the wanted values to the loss are visited, so frozen parameters cost nothing, and it may
//! be called any number of times in one trace, for other losses or other parameters.
//!
//! Loops, branches and calls need values from inside their bodies. Their rules replace the node in place by one that
//! returns these values as well (see [`body`]), so the forward pass is computed once.

pub(crate) mod body;
pub(crate) mod step;

use crate::{DType, NodeId, Tensor, Trace, ValueId, ops};
use std::collections::HashMap;
use step::{Gradients, Step, dependants};

impl Trace {
    /// The gradients of a scalar loss with respect to some values, in their order; zeros where the loss does not depend
    /// on them. A value that depends on another one of the list passes its gradient on to it.
    ///
    /// ```
    /// # use octant_graph::{DType, Shape, Trace};
    /// let trace = Trace::new();
    /// let x = trace.input("x", Shape::new(DType::F32, [3]));
    /// let loss = (&x * &x).sum_all();
    /// let gradients = trace.gradients(&loss, &[x]);
    /// assert!(trace.finish(&gradients).is_ok());
    /// ```
    pub fn gradients(&self, loss: &Tensor, wrt: &[Tensor]) -> Vec<Tensor> {
        if loss.rank() != 0 || !loss.dtype().is_float() {
            let message = format!("gradients: the loss must be a floating-point scalar, found {}", loss.shape());
            return wrt.iter().map(|value| self.fail(message.clone(), value.shape().clone())).collect();
        }
        self.vjp(std::slice::from_ref(loss), &[loss.full_like(1.0)], wrt)
    }

    /// The product of cotangents of some outputs with the outputs' derivatives with respect to `wrt`: the sum over the
    /// outputs, one result per entry of `wrt`, zeros where nothing is connected.
    pub fn vjp(&self, outputs: &[Tensor], cotangents: &[Tensor], wrt: &[Tensor]) -> Vec<Tensor> {
        let found = self.connected_vjp(outputs, cotangents, wrt);
        wrt.iter().zip(found).map(|(value, found)| found.unwrap_or_else(|| value.zeros_like())).collect()
    }

    /// Like [`Trace::vjp`], with none where nothing is connected.
    pub(crate) fn connected_vjp(&self, outputs: &[Tensor], cotangents: &[Tensor], wrt: &[Tensor]) -> Gradients {
        if let Some(message) = mistake_in(outputs, cotangents, wrt) {
            return wrt.iter().map(|value| Some(self.fail(message.clone(), value.shape().clone()))).collect();
        }
        let trace = self.innermost(&outputs.iter().chain(wrt).collect::<Vec<_>>());
        let ids = |values: &[Tensor]| values.iter().map(|value| trace.import(value)).collect::<Option<Vec<ValueId>>>();
        let (Some(output_ids), Some(wrt_ids)) = (ids(outputs), ids(wrt)) else {
            return wrt.iter().map(|value| Some(self.fail("", value.shape().clone()))).collect();
        };
        let mut sweep = Sweep::new(&trace, &wrt_ids);
        for (&id, cotangent) in output_ids.iter().zip(cotangents) {
            sweep.accumulate(id, cotangent.clone());
        }
        sweep.run();
        wrt_ids.iter().map(|id| sweep.cotangents.get(id).cloned()).collect()
    }
}

fn mistake_in(outputs: &[Tensor], cotangents: &[Tensor], wrt: &[Tensor]) -> Option<String> {
    if let Some(value) = wrt.iter().chain(outputs).find(|value| !value.dtype().is_float()) {
        return Some(format!("gradients: only floating-point values have gradients, found {}", value.shape()));
    }
    let unequal = outputs.iter().zip(cotangents).find(|(output, cotangent)| output.shape() != cotangent.shape());
    match unequal {
        Some((output, cotangent)) => {
            Some(format!("vjp: the output {} was given the cotangent {}", output.shape(), cotangent.shape()))
        }
        None if outputs.len() != cotangents.len() => {
            Some(format!("vjp: {} outputs were given {} cotangents", outputs.len(), cotangents.len()))
        }
        None => None,
    }
}

/// One walk from the outputs to the front.
struct Sweep<'a> {
    trace: &'a Trace,
    /// By value: whether it depends on what gradients are wanted for. Values made during the walk are not in it.
    depends: Vec<bool>,
    cotangents: HashMap<ValueId, Tensor>,
    nodes: NodeId,
}

impl<'a> Sweep<'a> {
    fn new(trace: &'a Trace, wrt: &[ValueId]) -> Sweep<'a> {
        let (depends, nodes) = trace.with_graph(|graph| (dependants(graph, wrt), graph.nodes().len()));
        Sweep { trace, depends, cotangents: HashMap::new(), nodes }
    }

    fn accumulate(&mut self, value: ValueId, cotangent: Tensor) {
        if !self.depends[value.index()] {
            return;
        }
        let sum = match self.cotangents.remove(&value) {
            Some(sum) => sum + cotangent,
            None => cotangent,
        };
        self.cotangents.insert(value, sum);
    }

    fn run(&mut self) {
        for index in (0..self.nodes).rev() {
            let reached = self.trace.with_graph(|graph| {
                let node = &graph.nodes()[index];
                let reached = node.outputs.iter().any(|output| self.cotangents.contains_key(output))
                    && node.inputs.iter().any(|input| self.depends[input.index()]);
                reached.then(|| node.clone())
            });
            let Some(node) = reached else { continue };
            let _scope = self.trace.scope(node.path.clone());
            let handles = |ids: &[ValueId]| ids.iter().map(|&id| self.trace.handle(id)).collect::<Vec<_>>();
            let step = Step {
                trace: self.trace.clone(),
                node: index,
                inputs: handles(&node.inputs),
                outputs: handles(&node.outputs),
                cotangents: node.outputs.iter().map(|output| self.cotangents.get(output).cloned()).collect(),
                wanted: node.inputs.iter().map(|input| self.depends[input.index()]).collect(),
            };
            let gradients = ops::pull_back(&node.op, &step);
            if self.trace.error().is_some() {
                // What follows would be computed from invalid values; finishing the trace returns the mistake.
                return;
            }
            for (&input, gradient) in node.inputs.iter().zip(gradients) {
                if let Some(gradient) = gradient {
                    debug_assert_eq!(gradient.shape(), self.trace.handle(input).shape(), "{}", node.op.name());
                    self.accumulate(input, gradient);
                }
            }
        }
    }
}

impl Tensor {
    /// The same value, but no gradient flows back through it.
    ///
    /// Integers carry no gradient, so the detour through the integers of the same width stops it, also inside of loops
    /// and calls; simplification removes the detour from the finished graph.
    pub fn stop_gradient(&self) -> Tensor {
        let bits = match self.dtype() {
            DType::F16 | DType::BF16 => DType::U16,
            DType::F32 => DType::U32,
            DType::F64 => DType::U64,
            _ => return self.clone(),
        };
        self.bitcast(bits).bitcast(self.dtype())
    }
}
