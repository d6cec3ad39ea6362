//! Reductions, poolings and sorting.

use super::movement::positions;
use super::writer::{Writer, channels_first, element_type, int, ints};
use crate::ExportError;
use crate::network::Dim;
use octant_graph::{DType, Node, Op, Reduction, Window};

impl Writer<'_> {
    pub(super) fn reduce(&mut self, node: &Node, kind: Reduction, axes: &[usize]) -> Result<(), ExportError> {
        let op = match kind {
            Reduction::Sum => "ReduceSum",
            Reduction::Product => "ReduceProd",
            Reduction::Max => "ReduceMax",
            Reduction::Min => "ReduceMin",
            Reduction::And | Reduction::Or => return self.reduce_bools(node, kind, axes),
        };
        let stored = self.stored(node.inputs[0])?;
        let name = self.reduced(op, &node.path, stored.name, &positions(&stored.order, axes));
        self.keep(node.outputs[0], name, without(&stored.order, axes));
        Ok(())
    }

    pub(super) fn reduced(&mut self, op: &str, path: &str, name: String, at: &[i64]) -> String {
        if at.is_empty() {
            return name;
        }
        let axes = self.integers(at);
        self.emit(op, path, vec![name, axes], vec![int("keepdims", 0)])
    }

    /// `and` is the minimum of 0 and 1, `or` the maximum.
    fn reduce_bools(&mut self, node: &Node, kind: Reduction, axes: &[usize]) -> Result<(), ExportError> {
        let stored = self.stored(node.inputs[0])?;
        let numbers = self.emit("Cast", &node.path, vec![stored.name], vec![int("to", 6)]);
        let op = if kind == Reduction::And { "ReduceMin" } else { "ReduceMax" };
        let reduced = self.reduced(op, &node.path, numbers, &positions(&stored.order, axes));
        let name = self.emit("Cast", &node.path, vec![reduced], vec![int("to", 9)]);
        self.keep(node.outputs[0], name, without(&stored.order, axes));
        Ok(())
    }

    pub(super) fn arg_reduce(&mut self, node: &Node, largest: bool, axis: usize) -> Result<(), ExportError> {
        let stored = self.stored(node.inputs[0])?;
        let at = positions(&stored.order, &[axis]);
        let (reduce, arg) = if largest { ("ReduceMax", "ArgMax") } else { ("ReduceMin", "ArgMin") };
        let order = without(&stored.order, &[axis]);
        let value = self.reduced(reduce, &node.path, stored.name.clone(), &at);
        self.keep(node.outputs[0], value, order.clone());
        let attributes = vec![int("axis", at[0]), int("keepdims", 0)];
        let index = self.emit(arg, &node.path, vec![stored.name], attributes);
        let index = self.emit("Cast", &node.path, vec![index], vec![int("to", 6)]);
        self.keep(node.outputs[1], index, order);
        Ok(())
    }

    /// A window over height and width of images.
    pub(super) fn pool(&mut self, node: &Node, kind: Reduction, window: &Window) -> Result<(), ExportError> {
        let rank = window.size.len();
        let spatial = 1..rank.saturating_sub(1);
        let is_plain =
            |axis: usize| window.size[axis] == 1 && window.strides[axis] == 1 && window.padding[axis] == (0, 0);
        let has_holes = window.base_dilation.iter().any(|&factor| factor > 1);
        if rank < 3 || !is_plain(0) || !is_plain(rank - 1) || has_holes {
            return Err(self.refusal(node, "its window does not lie over height and width"));
        }
        let order = channels_first(rank);
        let name = self.operand(node.inputs[0], &order)?;
        let list = |values: &[usize]| spatial.clone().map(|axis| values[axis] as i64).collect::<Vec<_>>();
        let edges = |pick: fn(&(i64, i64)) -> i64| spatial.clone().map(move |axis| pick(&window.padding[axis]));
        let pads: Vec<i64> = edges(|edge| edge.0).chain(edges(|edge| edge.1)).collect();
        if pads.iter().any(|&edge| edge < 0) {
            return Err(self.refusal(node, "its padding is negative"));
        }
        let mut attributes = vec![
            ints("kernel_shape", &list(&window.size)),
            ints("strides", &list(&window.strides)),
            ints("pads", &pads),
            ints("dilations", &list(&window.window_dilation)),
        ];
        let name = match kind {
            Reduction::Max => self.emit("MaxPool", &node.path, vec![name], attributes),
            Reduction::Sum => {
                // Dilated means are known from opset 19 on; padding counts as zeros.
                if window.window_dilation.iter().all(|&factor| factor == 1) {
                    attributes.pop();
                }
                attributes.push(int("count_include_pad", 1));
                let mean = self.emit("AveragePool", &node.path, vec![name], attributes);
                let count: usize = window.size.iter().product();
                let count = self.scalar(count as f64, self.shape(node.inputs[0]).dtype())?;
                self.emit("Mul", &node.path, vec![mean, count], vec![])
            }
            Reduction::Product | Reduction::Min | Reduction::And | Reduction::Or => {
                return Err(self.refusal(node, "ONNX pools maxima and means alone"));
            }
        };
        self.keep(node.outputs[0], name, order);
        Ok(())
    }

    /// All operands in the order that sorts the first. Where only the first elements are used, no others are sorted.
    pub(super) fn sort(&mut self, node: &Node, axis: usize, descending: bool) -> Result<(), ExportError> {
        let stored = self.stored(node.inputs[0])?;
        let Dim::Fixed(length) = self.network.dims(node.inputs[0])?[axis] else {
            return Err(self.refusal(node, "it sorts the images of a batch"));
        };
        let first = self.first_of(node, axis);
        let at = positions(&stored.order, &[axis])[0];
        let count = self.integers(&[first.unwrap_or(length) as i64]);
        let attributes = vec![int("axis", at), int("largest", i64::from(descending)), int("sorted", 1)];
        let sorted = self.emit_many("TopK", &node.path, vec![stored.name, count], 2, attributes);
        for (number, (&input, &output)) in node.inputs.iter().zip(&node.outputs).enumerate() {
            let counts = matches!(&self.producer(input).op, Op::Iota { axis: along, .. } if *along == axis);
            let name = match (number, counts) {
                (0, _) => sorted[0].clone(),
                (_, true) => {
                    let to = i64::from(element_type(self.shape(input).dtype()));
                    self.emit("Cast", &node.path, vec![sorted[1].clone()], vec![int("to", to)])
                }
                (_, false) => {
                    let other = self.operand(input, &stored.order)?;
                    let inputs = vec![other, sorted[1].clone()];
                    self.emit("GatherElements", &node.path, inputs, vec![int("axis", at)])
                }
            };
            self.keep(output, name.clone(), stored.order.clone());
            if first.is_some() {
                for &slice in self.uses.consumers(output).to_vec().iter() {
                    self.keep(self.network.graph().nodes()[slice].outputs[0], name.clone(), stored.order.clone());
                    self.done.insert(slice);
                }
            }
        }
        Ok(())
    }

    /// How many of the first elements along an axis all consumers of a node take; none if one of them takes something else.
    fn first_of(&self, node: &Node, axis: usize) -> Option<usize> {
        let nodes = self.network.graph().nodes();
        let taken = |slice: usize| {
            let Op::Slice { starts, limits, strides } = &nodes[slice].op else { return None };
            let dims = self.shape(nodes[slice].inputs[0]).dims();
            let is_first = starts.iter().all(|&start| start == 0) && strides.iter().all(|&stride| stride == 1);
            let is_whole = (0..dims.len()).all(|other| other == axis || limits[other] == dims[other]);
            (is_first && is_whole).then_some(limits[axis])
        };
        let is_output = node.outputs.iter().any(|&output| self.uses.is_output(output));
        let mut counts = node.outputs.iter().flat_map(|&output| self.uses.consumers(output)).map(|&slice| taken(slice));
        let first = counts.next()??;
        (!is_output && counts.all(|count| count == Some(first))).then_some(first)
    }

    /// Whether a value has a type that ONNX's own kernels take everywhere.
    pub(super) fn is_float(&self, value: octant_graph::ValueId) -> bool {
        matches!(self.shape(value).dtype(), DType::F16 | DType::F32 | DType::F64 | DType::BF16)
    }
}

/// An order of axes after some are gone.
fn without(order: &[usize], gone: &[usize]) -> Vec<usize> {
    let kept = order.iter().filter(|axis| !gone.contains(axis));
    kept.map(|&axis| axis - gone.iter().filter(|&&other| other < axis).count()).collect()
}
