//! Nodes, initializers and names of the model under construction, and how values of the graph lie in it.

use super::OnnxOptions;
use super::proto::{Attribute, GraphProto, NodeProto, TensorProto, ValueInfo};
use crate::network::Dim;
use crate::{ExportError, Network};
use octant_graph::{DType, HostTensor, Node, Op, Shape, Uses, ValueId};
use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

/// A value of the graph as ONNX has it: axis `i` of the tensor is axis `order[i]` of the value.
#[derive(Debug, Clone)]
pub(super) struct Stored {
    pub name: String,
    pub order: Vec<usize>,
}

pub(super) struct Writer<'n> {
    pub network: &'n Network,
    pub options: &'n OnnxOptions,
    pub uses: Uses,
    nodes: Vec<NodeProto>,
    initializers: Vec<TensorProto>,
    taken: HashSet<String>,
    values: HashMap<ValueId, Stored>,
    /// Tensors in other orders, by name and permutation.
    transposed: HashMap<(String, Vec<usize>), String>,
    /// Initializers by the hash of their bytes: equal ones are written once.
    constants: HashMap<u64, Vec<usize>>,
    batch: Option<String>,
    /// Nodes that were written as a part of another one.
    pub done: HashSet<usize>,
}

impl<'n> Writer<'n> {
    pub fn new(network: &'n Network, options: &'n OnnxOptions) -> Writer<'n> {
        Writer {
            network,
            options,
            uses: Uses::of(network.graph()),
            nodes: Vec::new(),
            initializers: Vec::new(),
            taken: HashSet::new(),
            values: HashMap::new(),
            transposed: HashMap::new(),
            constants: HashMap::new(),
            batch: None,
            done: HashSet::new(),
        }
    }

    /// The order of axes that an input or output has outside.
    pub fn outer_layout(&self, value: ValueId) -> Vec<usize> {
        let rank = self.shape(value).rank();
        match rank == 4 && self.options.channels_first {
            true => channels_first(rank),
            false => (0..rank).collect(),
        }
    }

    pub fn shape(&self, value: ValueId) -> &'n Shape {
        self.network.graph().shape(value)
    }

    pub fn producer(&self, value: ValueId) -> &'n Node {
        self.network.graph().producer(value)
    }

    pub fn input(&mut self, value: ValueId, name: &str, order: Vec<usize>) {
        self.taken.insert(name.to_string());
        self.values.insert(value, Stored { name: name.to_string(), order });
    }

    /// Names a tensor as an output of the model.
    pub fn output(&mut self, found: String, name: &str) {
        self.nodes.push(node("Identity", vec![found], vec![name.to_string()], name, vec![]));
    }

    /// All operations of the graph.
    pub fn nodes(&mut self) -> Result<(), ExportError> {
        for (index, node) in self.network.graph().nodes().iter().enumerate() {
            if !self.done.contains(&index) && !self.pattern(index, node)? {
                self.primitive(index, node)?;
            }
        }
        Ok(())
    }

    fn primitive(&mut self, index: usize, node: &Node) -> Result<(), ExportError> {
        match &node.op {
            // Inputs are there; constants and repetitions are written where they are read.
            Op::Parameter { .. } | Op::Constant(_) | Op::Broadcast { .. } => Ok(()),
            Op::Iota { shape, axis } => self.iota(node, shape, *axis),
            Op::Unary(unary) => self.unary(node, *unary),
            Op::Binary(binary) => self.binary(node, *binary),
            Op::Compare(comparison) => self.compare(node, *comparison),
            Op::Select => self.elementwise(node, "Where", &node.inputs, vec![]),
            Op::Clamp => self.clamp(node),
            Op::Convert(dtype) => self.convert(node, *dtype),
            Op::Reshape { dims } => self.reshape(node, dims),
            Op::Transpose { permutation } => self.transpose(node, permutation),
            Op::Reverse { axes } => self.reverse(node, axes),
            Op::Slice { starts, limits, strides } => self.slice(index, node, starts, limits, strides),
            Op::Pad { low, high, interior } => self.pad(node, low, high, interior),
            Op::Concatenate { axis } => self.concatenate(node, *axis),
            Op::Reduce { kind, axes } => self.reduce(node, *kind, axes),
            Op::ArgReduce { largest, axis } => self.arg_reduce(node, *largest, *axis),
            Op::ReduceWindow { kind, window } => self.pool(node, *kind, window),
            Op::Dot(dot) => self.dot(node, dot),
            Op::Convolution(conv) => self.convolution(index, node, conv),
            Op::Gather(gather) => self.gather(node, gather),
            Op::Sort { axis, descending } => self.sort(node, *axis, *descending),
            Op::Barrier => {
                for (&input, &output) in node.inputs.iter().zip(&node.outputs) {
                    let stored = self.stored(input)?;
                    self.values.insert(output, stored);
                }
                Ok(())
            }
            Op::Call { .. } => Err(self.refusal(node, "its body was not inlined")),
            Op::While { .. } | Op::If { .. } => Err(self.refusal(node, "loops and branches are not written")),
            Op::Bitcast(dtype) => self.bitcast(node, *dtype),
            Op::RandomBits { .. } => Err(self.refusal(node, "ONNX does not look at bits")),
            Op::DynamicSlice { .. } | Op::DynamicUpdateSlice => Err(self.refusal(node, "its position is data")),
            Op::SelectAndScatter { .. } | Op::Scatter(_) => Err(self.refusal(node, "only training needs it")),
        }
    }

    /// Bits that are read as another type and back hide a value from its gradient: nothing is written for the pair.
    fn bitcast(&mut self, node: &Node, dtype: DType) -> Result<(), ExportError> {
        let before = self.producer(node.inputs[0]);
        if matches!(before.op, Op::Bitcast(_)) && self.shape(before.inputs[0]).dtype() == dtype {
            let stored = self.stored(before.inputs[0])?;
            self.keep(node.outputs[0], stored.name, stored.order);
            return Ok(());
        }
        let nodes = self.network.graph().nodes();
        let is_undone = |&next: &usize| matches!(nodes[next].op, Op::Bitcast(_));
        match self.uses.consumers(node.outputs[0]).iter().all(is_undone) {
            true => Ok(()),
            false => Err(self.refusal(node, "ONNX does not look at bits")),
        }
    }

    pub fn refusal(&self, node: &Node, reason: &str) -> ExportError {
        let layer = if node.path.is_empty() { "the network".into() } else { node.path.to_string() };
        let operation = node.op.name().to_string();
        ExportError::Unsupported { format: "ONNX", operation, layer, reason: reason.into() }
    }

    /// Writes an operation with one result; the tensor's name.
    pub fn emit(&mut self, op: &str, path: &str, inputs: Vec<String>, attributes: Vec<Attribute>) -> String {
        self.emit_many(op, path, inputs, 1, attributes).remove(0)
    }

    pub fn emit_many(
        &mut self,
        op: &str,
        path: &str,
        inputs: Vec<String>,
        results: usize,
        attributes: Vec<Attribute>,
    ) -> Vec<String> {
        let base = if path.is_empty() { op.to_string() } else { format!("{path}/{op}") };
        let outputs: Vec<String> = (0..results).map(|_| self.name(&base)).collect();
        self.nodes.push(node(op, inputs, outputs.clone(), &outputs[0], attributes));
        outputs
    }

    /// Keeps a name from being used for something else.
    pub fn reserve(&mut self, name: &str) {
        self.taken.insert(name.to_string());
    }

    /// Begins the body of a branch: what is written from now on belongs to it.
    pub fn branch(&self) -> usize {
        self.nodes.len()
    }

    /// What was written since a body begun, which it belongs to.
    pub fn since(&mut self, begun: usize) -> Vec<NodeProto> {
        self.nodes.split_off(begun)
    }

    /// Ends a branch whose result is a tensor of f32 with three axes.
    pub fn end_branch(&mut self, begun: usize, result: &str) -> GraphProto {
        let mut output = super::info(result, DType::F32, &[Dim::Fixed(0); 3]);
        ["channels", "rows", "columns"]
            .iter()
            .enumerate()
            .for_each(|(index, name)| super::name_dimension(&mut output, index, name));
        GraphProto { node: self.since(begun), name: result.to_string(), output: vec![output], ..GraphProto::default() }
    }

    fn name(&mut self, base: &str) -> String {
        let mut name = base.to_string();
        let mut number = 1;
        while !self.taken.insert(name.clone()) {
            name = format!("{base}_{number}");
            number += 1;
        }
        name
    }

    /// Keeps the result of a node.
    pub fn keep(&mut self, value: ValueId, name: String, order: Vec<usize>) {
        self.values.insert(value, Stored { name, order });
    }

    /// A tensor written into the file.
    pub fn tensor(&mut self, name: &str, dims: &[usize], dtype: DType, bytes: &[u8]) -> String {
        let dims: Vec<i64> = dims.iter().map(|&dim| dim as i64).collect();
        let data_type = element_type(dtype);
        let mut hasher = DefaultHasher::new();
        (&dims, data_type, bytes).hash(&mut hasher);
        let key = hasher.finish();
        let is_same = |&&index: &&usize| {
            let known = &self.initializers[index];
            known.dims == dims && known.data_type == data_type && known.raw_data == bytes
        };
        if let Some(&known) = self.constants.get(&key).and_then(|known| known.iter().find(is_same)) {
            return self.initializers[known].name.clone();
        }
        self.constants.entry(key).or_default().push(self.initializers.len());
        self.written(name, dims, data_type, bytes)
    }

    /// A tensor of one operator alone, whatever equals it.
    pub fn own_tensor(&mut self, name: &str, dims: &[usize], dtype: DType, bytes: &[u8]) -> String {
        let dims = dims.iter().map(|&dim| dim as i64).collect();
        self.written(name, dims, element_type(dtype), bytes)
    }

    fn written(&mut self, name: &str, dims: Vec<i64>, data_type: i32, bytes: &[u8]) -> String {
        let name = self.name(if name.is_empty() { "constant" } else { name });
        let raw_data = bytes.to_vec();
        self.initializers.push(TensorProto { dims, data_type, name: name.clone(), raw_data, ..Default::default() });
        name
    }

    /// A list of whole numbers as a tensor.
    pub fn integers(&mut self, values: &[i64]) -> String {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.tensor("integers", &[values.len()], DType::I64, &bytes)
    }

    /// A scalar.
    pub fn scalar(&mut self, value: f64, dtype: DType) -> Result<String, ExportError> {
        let tensor = HostTensor::from_f64s(Shape::scalar(dtype), &[value]);
        let tensor = tensor.map_err(|error| ExportError::Refused(error.to_string()))?;
        Ok(self.tensor("constant", &[], dtype, tensor.bytes()))
    }

    /// A constant in an order of axes.
    pub fn constant(&mut self, path: &str, tensor: &HostTensor, order: &[usize]) -> String {
        let moved = permuted(tensor, order);
        let dims: Vec<usize> = order.iter().map(|&axis| tensor.dims()[axis]).collect();
        self.tensor(path, &dims, tensor.dtype(), &moved)
    }

    /// How a value lies in the model; constants and repetitions are written now, in the order of their axes.
    pub fn stored(&mut self, value: ValueId) -> Result<Stored, ExportError> {
        if let Some(stored) = self.values.get(&value) {
            return Ok(stored.clone());
        }
        let node = self.producer(value);
        let order: Vec<usize> = (0..self.shape(value).rank()).collect();
        let name = match &node.op {
            Op::Constant(tensor) => self.constant(&node.path, tensor, &order),
            Op::Broadcast { .. } => {
                let spread = self.spread(value, &order)?;
                let dims = self.network.dims(value)?;
                let shape = self.dims_tensor(&dims)?;
                self.emit("Expand", &node.path, vec![spread, shape], vec![])
            }
            _ => return Err(self.refusal(node, "its result was not written")),
        };
        self.keep(value, name.clone(), order.clone());
        Ok(Stored { name, order })
    }

    /// A value as a tensor in an order of axes.
    pub fn operand(&mut self, value: ValueId, order: &[usize]) -> Result<String, ExportError> {
        if let Op::Constant(tensor) = &self.producer(value).op {
            let path = self.producer(value).path.clone();
            return Ok(self.constant(&path, tensor, order));
        }
        if let Some(written) = self.dequantized_constant(value, order) {
            return Ok(written);
        }
        let stored = self.stored(value)?;
        let position = |axis: &usize| stored.order.iter().position(|found| found == axis).unwrap_or(0) as i64;
        let permutation: Vec<i64> = order.iter().map(position).collect();
        Ok(self.permute(&stored.name, &permutation))
    }

    /// A tensor with its axes in another order.
    pub fn permute(&mut self, name: &str, permutation: &[i64]) -> String {
        if permutation.iter().enumerate().all(|(index, &axis)| index as i64 == axis) {
            return name.to_string();
        }
        let key = (name.to_string(), permutation.iter().map(|&axis| axis as usize).collect());
        if let Some(known) = self.transposed.get(&key) {
            return known.clone();
        }
        let made = self.emit("Transpose", "", vec![name.to_string()], vec![ints("perm", permutation)]);
        self.transposed.insert(key, made.clone());
        made
    }

    /// Through repetitions to what is repeated, and which axis of the result each of its axes is.
    pub fn repeated(&self, value: ValueId) -> (ValueId, Vec<usize>) {
        crate::affine::repeated(self.network.graph(), value)
    }

    /// A tensor that ONNX repeats to the dimensions of `value` in an order of axes.
    pub fn spread(&mut self, value: ValueId, order: &[usize]) -> Result<String, ExportError> {
        let (base, axes) = self.repeated(value);
        let at = |axis: usize| order.iter().position(|&found| found == axis).unwrap_or(0);
        // Axes of what is repeated, in the order of the result.
        let mut own: Vec<usize> = (0..axes.len()).collect();
        own.sort_by_key(|&axis| at(axes[axis]));
        let taken: Vec<usize> = own.iter().map(|&axis| at(axes[axis])).collect();
        let first = taken.first().copied().unwrap_or(order.len());
        let added: Vec<i64> =
            (first..order.len()).filter(|position| !taken.contains(position)).map(|p| (p - first) as i64).collect();
        if let Op::Constant(tensor) = &self.producer(base).op {
            let path = self.producer(base).path.clone();
            let mut dims: Vec<usize> = own.iter().map(|&axis| tensor.dims()[axis]).collect();
            added.iter().for_each(|&position| dims.insert(position as usize, 1));
            return Ok(self.tensor(&path, &dims, tensor.dtype(), &permuted(tensor, &own)));
        }
        let name = self.operand(base, &own)?;
        if added.is_empty() {
            return Ok(name);
        }
        let axes = self.integers(&added);
        Ok(self.emit("Unsqueeze", "", vec![name, axes], vec![]))
    }

    /// Dimensions as a tensor, which is computed where they follow the batch.
    pub fn dims_tensor(&mut self, dims: &[Dim]) -> Result<String, ExportError> {
        let fixed = |dim: &Dim| match dim {
            Dim::Fixed(length) => Some(*length as i64),
            Dim::Batch(_) => None,
        };
        if let Some(all) = dims.iter().map(fixed).collect::<Option<Vec<i64>>>() {
            return Ok(self.integers(&all));
        }
        let mut parts = Vec::new();
        for dim in dims {
            parts.push(match *dim {
                Dim::Fixed(length) => self.integers(&[length as i64]),
                Dim::Batch(factor) => self.batch(factor)?,
            });
        }
        Ok(match parts.len() {
            1 => parts.remove(0),
            _ => self.emit("Concat", "", parts, vec![int("axis", 0)]),
        })
    }

    /// A multiple of the batch size as a tensor of one number.
    fn batch(&mut self, factor: usize) -> Result<String, ExportError> {
        let graph = self.network.graph();
        let one = match &self.batch {
            Some(name) => name.clone(),
            None => {
                let &input = graph.inputs().first().ok_or_else(|| ExportError::Refused("there is no input".into()))?;
                let name = graph.input_names()[0].to_string();
                if self.network.dims(input)?.first() != Some(&Dim::Batch(1)) {
                    return Err(ExportError::Refused(format!("{name} does not begin with the batch")));
                }
                let made = self.emit("Shape", "", vec![name], vec![int("start", 0), int("end", 1)]);
                self.batch = Some(made.clone());
                made
            }
        };
        if factor == 1 {
            return Ok(one);
        }
        let factor = self.integers(&[factor as i64]);
        Ok(self.emit("Mul", "", vec![one, factor], vec![]))
    }

    /// What was written and is read by an output.
    pub fn finish(self, outputs: &[ValueInfo]) -> (Vec<NodeProto>, Vec<TensorProto>) {
        let mut read: HashSet<String> = outputs.iter().map(|output| output.name.clone()).collect();
        let mut kept: Vec<NodeProto> = Vec::new();
        for node in self.nodes.into_iter().rev() {
            if node.output.iter().any(|output| read.contains(output)) {
                read.extend(node.input.iter().cloned());
                let bodies = node.attribute.iter().flat_map(|attribute| &attribute.g).flat_map(|body| &body.node);
                read.extend(bodies.flat_map(|inner| inner.input.iter().cloned()));
                kept.push(node);
            }
        }
        kept.reverse();
        (kept, self.initializers.into_iter().filter(|tensor| read.contains(&tensor.name)).collect())
    }
}

/// Batch, channels, then space.
pub(super) fn channels_first(rank: usize) -> Vec<usize> {
    [0, rank - 1].into_iter().chain(1..rank - 1).collect()
}

fn node(op: &str, input: Vec<String>, output: Vec<String>, name: &str, attribute: Vec<Attribute>) -> NodeProto {
    NodeProto { input, output, name: name.to_string(), op_type: op.to_string(), attribute }
}

pub(super) fn int(name: &str, value: i64) -> Attribute {
    Attribute { name: name.into(), i: value, kind: 2, ..Default::default() }
}

pub(super) fn float(name: &str, value: f64) -> Attribute {
    Attribute { name: name.into(), f: value as f32, kind: 1, ..Default::default() }
}

pub(super) fn text(name: &str, value: &str) -> Attribute {
    Attribute { name: name.into(), s: value.as_bytes().to_vec(), kind: 3, ..Default::default() }
}

pub(super) fn ints(name: &str, values: &[i64]) -> Attribute {
    Attribute { name: name.into(), ints: values.to_vec(), kind: 7, ..Default::default() }
}

pub(super) fn graph(name: &str, body: GraphProto) -> Attribute {
    Attribute { name: name.into(), g: Some(body), kind: 5, ..Default::default() }
}

/// ONNX's number of an element type.
pub(super) fn element_type(dtype: DType) -> i32 {
    match dtype {
        DType::F32 => 1,
        DType::U8 => 2,
        DType::I8 => 3,
        DType::U16 => 4,
        DType::I16 => 5,
        DType::I32 => 6,
        DType::I64 => 7,
        DType::Bool => 9,
        DType::F16 => 10,
        DType::F64 => 11,
        DType::U32 => 12,
        DType::U64 => 13,
        DType::BF16 => 16,
    }
}

/// The name of an element type by ONNX's number.
pub(super) fn element_name(number: i32) -> &'static str {
    DType::ALL.iter().find(|&&dtype| element_type(dtype) == number).map_or("?", |dtype| dtype.name())
}

/// The bytes of a tensor with its axes in another order.
pub(super) fn permuted(tensor: &HostTensor, order: &[usize]) -> Vec<u8> {
    if order.iter().enumerate().all(|(index, &axis)| index == axis) {
        return tensor.bytes().to_vec();
    }
    let (dims, strides) = (tensor.dims(), tensor.shape().strides());
    let bytes = tensor.bytes();
    let mut moved = Vec::with_capacity(bytes.len());
    // Rows along the last axis are copied in a loop of their own; the others are counted.
    let Some((&last, outer)) = order.split_last() else { return bytes.to_vec() };
    let mut index = vec![0; outer.len()];
    let rows: usize = outer.iter().map(|&axis| dims[axis]).product();
    let size = tensor.dtype().size();
    for _ in 0..rows {
        let start: usize = outer.iter().zip(&index).map(|(&axis, &at)| strides[axis] * at).sum();
        let elements = (0..dims[last]).map(|at| start + at * strides[last]);
        match size {
            4 => elements.for_each(|at| moved.extend_from_slice(&bytes[4 * at..4 * at + 4])),
            _ => elements.for_each(|at| moved.extend_from_slice(&bytes[size * at..][..size])),
        }
        for position in (0..outer.len()).rev() {
            index[position] += 1;
            if index[position] < dims[outer[position]] {
                break;
            }
            index[position] = 0;
        }
    }
    moved
}
