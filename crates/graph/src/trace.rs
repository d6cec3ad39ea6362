//! Tracing: running model code to record what it would compute.

use crate::{Graph, GraphBuilder, HostTensor, NodeId, Op, Shape, Tensor, ValueId};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

/// The first mistake of a trace: what was asked, with which shapes, by which layer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}{message}", if .path.is_empty() { String::new() } else { format!("in {}: ", .path) })]
pub struct GraphError {
    /// The path of the layer.
    pub path: String,
    /// The mistake in a sentence.
    pub message: String,
}

/// A graph being recorded. Clones are handles to the same recording.
///
/// Bodies of loops, branches and calls are traced as children. A value of an enclosing trace may be used inside a body:
/// it becomes an additional input of the body by itself.
#[derive(Clone)]
pub struct Trace {
    body: Rc<Body>,
}

struct Body {
    builder: RefCell<GraphBuilder>,
    /// Values of the parent that this body uses, and the inputs that stand for them.
    captures: RefCell<Vec<(Tensor, ValueId)>>,
    parent: Option<Trace>,
    depth: usize,
    session: Rc<Session>,
}

/// What all bodies of one trace share.
#[derive(Default)]
struct Session {
    error: RefCell<Option<GraphError>>,
    scopes: RefCell<Vec<(u64, Arc<str>)>>,
    next_scope: Cell<u64>,
}

impl Default for Trace {
    fn default() -> Trace {
        Trace::new()
    }
}

impl Trace {
    /// An empty recording.
    pub fn new() -> Trace {
        Trace::with_parent(None, Rc::default())
    }

    fn with_parent(parent: Option<Trace>, session: Rc<Session>) -> Trace {
        let depth = parent.as_ref().map_or(0, |parent| parent.body.depth + 1);
        Trace {
            body: Rc::new(Body { builder: RefCell::default(), captures: RefCell::default(), parent, depth, session }),
        }
    }

    /// An input of the program.
    pub fn input(&self, name: &str, shape: Shape) -> Tensor {
        let id = self.body.builder.borrow_mut().input(name, shape.clone());
        Tensor::new(self.clone(), Some(id), shape)
    }

    /// A tensor known now.
    pub fn constant(&self, tensor: HostTensor) -> Tensor {
        self.emit_one(Op::Constant(tensor), &[])
    }

    /// Ends the recording. Returns the first mistake if there was one.
    pub fn finish(self, outputs: &[Tensor]) -> Result<Graph, GraphError> {
        let outputs: Vec<Option<ValueId>> = outputs.iter().map(|output| self.import(output)).collect();
        if let Some(error) = self.body.session.error.borrow().clone() {
            return Err(error);
        }
        let outputs = outputs.into_iter().map(|id| id.expect("an invalid value comes with an error")).collect();
        Ok(self.body.builder.take().finish(outputs))
    }

    /// The first mistake so far.
    pub fn error(&self) -> Option<GraphError> {
        self.body.session.error.borrow().clone()
    }

    /// Everything recorded while the guard lives belongs to the layer of that path.
    pub fn scope(&self, path: impl Into<Arc<str>>) -> ScopeGuard {
        let session = self.body.session.clone();
        let id = session.next_scope.replace(session.next_scope.get() + 1);
        session.scopes.borrow_mut().push((id, path.into()));
        ScopeGuard { session, id }
    }

    /// The path of the layer being recorded.
    pub fn path(&self) -> Arc<str> {
        self.body.session.scopes.borrow().last().map_or_else(|| "".into(), |(_, path)| path.clone())
    }

    /// Records a mistake; only the first one counts. The value returned is invalid, of the shape that was hoped for.
    pub fn fail(&self, message: impl Into<String>, hoped_for: Shape) -> Tensor {
        let mut error = self.body.session.error.borrow_mut();
        if error.is_none() {
            *error = Some(GraphError { path: self.path().to_string(), message: message.into() });
        }
        Tensor::new(self.clone(), None, hoped_for)
    }

    /// Appends an operation with one result.
    pub fn emit_one(&self, op: Op, inputs: &[&Tensor]) -> Tensor {
        self.emit(op, inputs).swap_remove(0)
    }

    /// Appends an operation. It lands in the innermost body that one of its inputs belongs to.
    pub fn emit(&self, op: Op, inputs: &[&Tensor]) -> Vec<Tensor> {
        let trace = self.innermost(inputs);
        let ids: Option<Vec<ValueId>> = inputs.iter().map(|input| trace.import(input)).collect();
        let guess = || inputs.first().map_or(Shape::scalar(octant_tensor::DType::F32), |input| input.shape().clone());
        let count = crate::ops::result_count(&op, inputs.len());
        let Some(ids) = ids else {
            return vec![Tensor::new(trace.clone(), None, guess()); count];
        };
        let name = op.name();
        let pushed = trace.body.builder.borrow_mut().push(op, ids, self.path());
        match pushed {
            Ok(results) => {
                let builder = trace.body.builder.borrow();
                results.iter().map(|&id| Tensor::new(trace.clone(), Some(id), builder.shape(id).clone())).collect()
            }
            Err(message) => vec![trace.fail(format!("{name}: {message}"), guess()); count],
        }
    }

    /// The innermost body that one of the values belongs to; this one if there are none.
    pub(crate) fn innermost(&self, values: &[&Tensor]) -> Trace {
        let deepest = values.iter().map(|value| value.trace()).max_by_key(|trace| trace.body.depth);
        deepest.unwrap_or(self).clone()
    }

    /// Records the nodes of a finished graph once more, on other inputs.
    pub(crate) fn replay(&self, graph: &Graph, inputs: &[Tensor]) -> Vec<Tensor> {
        let mut renamed: HashMap<ValueId, Tensor> =
            graph.inputs().iter().copied().zip(inputs.iter().cloned()).collect();
        for node in graph.nodes().iter().filter(|node| !matches!(node.op, Op::Parameter { .. })) {
            let _scope = self.scope(node.path.clone());
            let inputs: Vec<&Tensor> = node.inputs.iter().map(|input| &renamed[input]).collect();
            let results = self.emit(node.op.clone(), &inputs);
            renamed.extend(node.outputs.iter().copied().zip(results));
        }
        graph.outputs().iter().map(|output| renamed[output].clone()).collect()
    }

    /// Replaces a recorded operation. The new one reads the same values and has the same results,
    /// followed by additional ones, which are returned.
    pub(crate) fn replace(&self, node: NodeId, op: Op) -> Vec<Tensor> {
        let added = self.body.builder.borrow_mut().replace(node, op);
        match added {
            Ok(added) => added.into_iter().map(|id| self.handle(id)).collect(),
            Err(message) => {
                self.fail(message, Shape::scalar(octant_tensor::DType::F32));
                vec![]
            }
        }
    }

    /// Traces a body over arguments of these shapes. Returns it and the values of this trace that it captured, which
    /// are its further inputs. A body with a mistake is empty; the mistake surfaces when the trace is finished.
    pub fn body(
        &self,
        arguments: &[Shape],
        make: impl FnOnce(&Trace, &[Tensor]) -> Vec<Tensor>,
    ) -> (Arc<Graph>, Vec<Tensor>) {
        let child = Trace::with_parent(Some(self.clone()), self.body.session.clone());
        let inputs: Vec<Tensor> =
            arguments.iter().enumerate().map(|(i, shape)| child.input(&format!("arg{i}"), shape.clone())).collect();
        let outputs = make(&child, &inputs);
        let outputs: Option<Vec<ValueId>> = outputs.iter().map(|output| child.import(output)).collect();
        let captured = child.body.captures.borrow().iter().map(|(outer, _)| outer.clone()).collect();
        let graph = outputs.map(|outputs| child.body.builder.take().finish(outputs)).unwrap_or_default();
        (Arc::new(graph), captured)
    }

    /// Runs `read` on the graph recorded so far.
    pub fn with_graph<R>(&self, read: impl FnOnce(&Graph) -> R) -> R {
        read(self.body.builder.borrow().graph())
    }

    /// The handle of a value recorded in this very body.
    pub fn handle(&self, id: ValueId) -> Tensor {
        let shape = self.body.builder.borrow().shape(id).clone();
        Tensor::new(self.clone(), Some(id), shape)
    }

    /// Whether two handles are of the same body.
    pub fn same(&self, other: &Trace) -> bool {
        Rc::ptr_eq(&self.body, &other.body)
    }

    /// The id of a value in this body; a value of an enclosing body is captured.
    pub(crate) fn import(&self, tensor: &Tensor) -> Option<ValueId> {
        let id = tensor.id()?;
        if self.same(tensor.trace()) {
            return Some(id);
        }
        let Some(parent) = &self.body.parent else {
            self.fail("a value was used outside of the loop, branch or call that made it", tensor.shape().clone());
            return None;
        };
        let outer = parent.handle(parent.import(tensor)?);
        let known = self.body.captures.borrow().iter().find(|(known, _)| known.id() == outer.id()).map(|&(_, id)| id);
        Some(known.unwrap_or_else(|| {
            let count = self.body.captures.borrow().len();
            let id = self.body.builder.borrow_mut().input(&format!("captured{count}"), outer.shape().clone());
            self.body.captures.borrow_mut().push((outer, id));
            id
        }))
    }
}

/// Ends a [scope](Trace::scope) when dropped.
pub struct ScopeGuard {
    session: Rc<Session>,
    id: u64,
}

impl Drop for ScopeGuard {
    fn drop(&mut self) {
        self.session.scopes.borrow_mut().retain(|(id, _)| *id != self.id);
    }
}
