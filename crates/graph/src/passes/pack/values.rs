//! Values of the new graph, in every form that has uses.

use super::{Form, SIDE};
use crate::{Graph, GraphBuilder, HostTensor, Op, Shape, ValueId};
use std::collections::HashMap;
use std::sync::Arc;

/// The new graph as it is written.
pub(super) struct Build<'g> {
    pub graph: &'g Graph,
    pub builder: GraphBuilder,
    /// Values of the old graph as they are and in packed form.
    pub made: HashMap<(ValueId, Option<Form>), ValueId>,
    /// The layer of the node being written.
    pub path: Arc<str>,
}

impl Build<'_> {
    /// A value in a form, converted if it was made in another.
    pub fn value(&mut self, value: ValueId, form: Option<Form>) -> Result<ValueId, String> {
        if let Some(&made) = self.made.get(&(value, form)) {
            return Ok(made);
        }
        let converted = match form {
            Some(form) => {
                let plain = self.value(value, None)?;
                self.pack(plain, form)?
            }
            None => {
                let (form, packed) = Form::ALL
                    .into_iter()
                    .find_map(|form| Some((form, *self.made.get(&(value, Some(form)))?)))
                    .ok_or("a value that was never made")?;
                self.unpack(packed, self.graph.shape(value).clone(), form)?
            }
        };
        self.made.insert((value, form), converted);
        Ok(converted)
    }

    fn pack(&mut self, value: ValueId, form: Form) -> Result<ValueId, String> {
        let dims = self.builder.shape(value).dims().to_vec();
        let packed = form.packed(&dims).ok_or("a value that cannot be packed")?;
        let (leading, [height, width, channels]) = form.split(&dims).ok_or("a value without pixels")?;
        let split = [leading, &[height / SIDE, SIDE, width / SIDE, SIDE, channels]].concat();
        let split = self.emit(Op::Reshape { dims: split }, &[value])?;
        let moved = self.emit(Op::Transpose { permutation: swapped(leading.len()) }, &[split])?;
        self.emit(Op::Reshape { dims: packed }, &[moved])
    }

    fn unpack(&mut self, value: ValueId, shape: Shape, form: Form) -> Result<ValueId, String> {
        let (leading, [height, width, channels]) = form.split(shape.dims()).ok_or("a value without pixels")?;
        let split = [leading, &[height / SIDE, width / SIDE, SIDE, SIDE, channels]].concat();
        let split = self.emit(Op::Reshape { dims: split }, &[value])?;
        let moved = self.emit(Op::Transpose { permutation: swapped(leading.len()) }, &[split])?;
        self.emit(Op::Reshape { dims: shape.dims().to_vec() }, &[moved])
    }

    pub fn emit(&mut self, op: Op, inputs: &[ValueId]) -> Result<ValueId, String> {
        let results = self.builder.push(op, inputs.to_vec(), self.path.clone())?;
        results.first().copied().ok_or_else(|| "an operation without results".into())
    }

    /// Zeros of a shape.
    pub fn zero(&mut self, shape: &Shape) -> Result<ValueId, String> {
        let zero = HostTensor::from_f64s(Shape::scalar(shape.dtype()), &[0.0]).map_err(|error| error.to_string())?;
        let zero = self.emit(Op::Constant(zero), &[])?;
        if shape.rank() == 0 {
            return Ok(zero);
        }
        self.emit(Op::Broadcast { dims: shape.dims().to_vec(), axes: vec![] }, &[zero])
    }
}

/// Rows inside of blocks and columns of blocks change positions; it is its own inverse.
fn swapped(leading: usize) -> Vec<usize> {
    let order = (0..leading).chain([0, 2, 1, 3, 4].map(|axis| leading + axis));
    order.collect()
}
