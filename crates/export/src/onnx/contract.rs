//! Convolutions and products.

use super::proto::Attribute;
use super::writer::{Writer, element_type, float, int, ints, permuted};
use crate::ExportError;
use crate::network::Dim;
use octant_graph::{AttentionKernel, Binary, Convolution, DType, DotGeneral, HostTensor, Node, Op, Shape, ValueId};
use octant_tensor::{AlignedBytes, Bytes};

/// The addition of a constant per channel that alone reads a convolution.
struct Bias {
    offsets: Vec<f64>,
    result: ValueId,
    node: usize,
}

impl Writer<'_> {
    pub(super) fn convolution(&mut self, index: usize, node: &Node, conv: &Convolution) -> Result<(), ExportError> {
        let spatial = conv.strides.len();
        let rank = spatial + 2;
        if conv.batch_groups > 1 {
            return Err(self.refusal(node, "only training needs groups of a batch"));
        }
        let images = |axes: &octant_graph::op::ImageAxes| -> Vec<usize> {
            [axes.batch, axes.feature].into_iter().chain(axes.spatial.iter().copied()).collect()
        };
        let mut input = self.operand(node.inputs[0], &images(&conv.input))?;
        let bias = self.bias_behind(index, conv);
        let is_transposed = conv.input_dilation.iter().any(|&factor| factor > 1);
        let kernel: Vec<usize> =
            [conv.kernel.output, conv.kernel.input].into_iter().chain(conv.kernel.spatial.iter().copied()).collect();
        let sizes: Vec<usize> =
            conv.kernel.spatial.iter().map(|&axis| self.shape(node.inputs[1]).dims()[axis]).collect();
        let name = match is_transposed {
            false => {
                let (pads, more) = padding(&conv.padding);
                input = self.padded(&input, &more, &node.path);
                let reversed = if conv.reversed { 2..rank } else { 2..2 };
                let weights = self.weights(node, &kernel, reversed, false)?;
                let attributes = vec![
                    ints("kernel_shape", &numbers(&sizes)),
                    ints("strides", &numbers(&conv.strides)),
                    ints("pads", &pads),
                    ints("dilations", &numbers(&conv.kernel_dilation)),
                    int("group", conv.feature_groups as i64),
                ];
                self.contracted("Conv", node, vec![input, weights], bias.as_ref(), attributes)?
            }
            true => self.transposed_convolution(node, conv, input, &kernel, &sizes, bias.as_ref())?,
        };
        self.keep(bias.as_ref().map_or(node.outputs[0], |bias| bias.result), name, images(&conv.output));
        self.done.extend(bias.map(|bias| bias.node));
        Ok(())
    }

    /// A convolution of an image with holes is a transposed convolution with the kernel reversed.
    fn transposed_convolution(
        &mut self,
        node: &Node,
        conv: &Convolution,
        input: String,
        kernel: &[usize],
        sizes: &[usize],
        bias: Option<&Bias>,
    ) -> Result<String, ExportError> {
        let groups = conv.feature_groups;
        if groups > 1 || conv.strides.iter().any(|&stride| stride > 1) {
            return Err(self.refusal(node, "a transposed convolution has no groups and no stride besides"));
        }
        let rank = kernel.len();
        let reversed = if conv.reversed { 2..2 } else { 2..rank };
        let weights = self.weights(node, kernel, reversed, true)?;
        let extents = sizes.iter().zip(&conv.kernel_dilation).map(|(&size, &factor)| ((size - 1) * factor) as i64);
        let edges: Vec<(i64, i64)> =
            extents.zip(&conv.padding).map(|(extent, &(low, high))| (extent - low, extent - high)).collect();
        // What is cut off by more than the kernel reaches is added, and the other way round.
        let pads: Vec<i64> =
            edges.iter().map(|edge| edge.0.max(0)).chain(edges.iter().map(|edge| edge.1.max(0))).collect();
        let more: Vec<(i64, i64)> = edges.iter().map(|&(low, high)| ((-low).max(0), (-high).max(0))).collect();
        let attributes = vec![
            ints("kernel_shape", &numbers(sizes)),
            ints("strides", &numbers(&conv.input_dilation)),
            ints("pads", &pads),
            ints("dilations", &numbers(&conv.kernel_dilation)),
        ];
        if more.iter().any(|&edge| edge != (0, 0)) && bias.is_some() {
            return Err(self.refusal(node, "padding behind a transposed convolution with an offset"));
        }
        let name = self.contracted("ConvTranspose", node, vec![input, weights], bias, attributes)?;
        Ok(self.padded(&name, &more, &node.path))
    }

    fn contracted(
        &mut self,
        op: &str,
        node: &Node,
        mut inputs: Vec<String>,
        bias: Option<&Bias>,
        attributes: Vec<Attribute>,
    ) -> Result<String, ExportError> {
        if let Some(bias) = bias {
            let name = format!("{}.bias", node.path);
            inputs.push(match self.steps_of_products(node) {
                Some(steps) => self.quantized_bias(&name, &bias.offsets, &steps),
                None => {
                    let dtype = self.shape(node.outputs[0]).dtype();
                    let tensor = HostTensor::from_f64s(Shape::new(dtype, [bias.offsets.len()]), &bias.offsets);
                    let tensor = tensor.map_err(|error| ExportError::Refused(error.to_string()))?;
                    self.tensor(&name, &[bias.offsets.len()], dtype, tensor.bytes())
                }
            });
        }
        Ok(self.emit(op, &node.path, inputs, attributes))
    }

    /// Zeros around the spatial axes.
    fn padded(&mut self, name: &str, edges: &[(i64, i64)], path: &str) -> String {
        if edges.iter().all(|&edge| edge == (0, 0)) {
            return name.to_string();
        }
        let side = |pick: fn(&(i64, i64)) -> i64| [0, 0].into_iter().chain(edges.iter().map(pick)).collect::<Vec<_>>();
        let pads = self.integers(&[side(|edge| edge.0), side(|edge| edge.1)].concat());
        self.emit("Pad", path, vec![name.to_string(), pads], vec![])
    }

    /// The kernel with outputs first, or inputs where the convolution is transposed, some axes read backwards.
    fn weights(
        &mut self,
        node: &Node,
        order: &[usize],
        reversed: std::ops::Range<usize>,
        inputs_first: bool,
    ) -> Result<String, ExportError> {
        let value = node.inputs[1];
        let mut written = order.to_vec();
        if inputs_first {
            written.swap(0, 1);
        }
        if reversed.is_empty() {
            return self.operand(value, &written);
        }
        let Op::Constant(tensor) = &self.producer(value).op else {
            return Err(self.refusal(node, "its kernel is no constant"));
        };
        let dims: Vec<usize> = order.iter().map(|&axis| tensor.dims()[axis]).collect();
        let mut numbers = permuted_numbers(tensor, order);
        // The axes that are reversed are the last ones, so that every block of them is read backwards.
        let block: usize = dims[reversed].iter().product();
        if block > 1 {
            numbers.chunks_exact_mut(block).for_each(<[f64]>::reverse);
        }
        let made = HostTensor::from_f64s(Shape::new(tensor.dtype(), dims.clone()), &numbers);
        let made = made.map_err(|error| ExportError::Refused(error.to_string()))?;
        let path = self.producer(value).path.clone();
        let mut axes: Vec<usize> = (0..dims.len()).collect();
        if inputs_first {
            axes.swap(0, 1);
        }
        Ok(self.constant(&path, &made, &axes))
    }

    /// What [`fold_channel_affines`](crate::affine::fold_channel_affines) left behind a convolution.
    fn bias_behind(&self, index: usize, conv: &Convolution) -> Option<Bias> {
        let graph = self.network.graph();
        let value = graph.nodes()[index].outputs[0];
        let &[node] = self.uses.only_consumers(value) else { return None };
        let step = &graph.nodes()[node];
        let is_left = step.inputs[0] == value;
        let (base, axes) = self.repeated(*step.inputs.get(usize::from(is_left))?);
        let Op::Constant(tensor) = &self.producer(base).op else { return None };
        let is_bias = step.op == Op::Binary(Binary::Add) && axes == [conv.output.feature];
        is_bias.then(|| Bias { offsets: tensor.to_f64s(), result: step.outputs[0], node })
    }

    pub(super) fn dot(&mut self, node: &Node, dot: &DotGeneral) -> Result<(), ExportError> {
        let [left, right] = [node.inputs[0], node.inputs[1]];
        let free = |rank: usize, batch: &[usize], contract: &[usize]| -> Vec<usize> {
            (0..rank).filter(|axis| !batch.contains(axis) && !contract.contains(axis)).collect()
        };
        let left_free = free(self.shape(left).rank(), &dot.left_batch, &dot.left_contract);
        let right_free = free(self.shape(right).rank(), &dot.right_batch, &dot.right_contract);
        let left_order = [&dot.left_batch[..], &left_free, &dot.left_contract].concat();
        let right_order = [&dot.right_batch[..], &dot.right_contract, &right_free].concat();
        let mut names = [self.operand(left, &left_order)?, self.operand(right, &right_order)?];
        let dims = |writer: &Self, value: ValueId, axes: &[usize]| -> Result<Vec<Dim>, ExportError> {
            let all = writer.network.dims(value)?;
            Ok(axes.iter().map(|&axis| all[axis]).collect())
        };
        let batch = dims(self, left, &dot.left_batch)?;
        let (rows, columns) = (dims(self, left, &left_free)?, dims(self, right, &right_free)?);
        let summed = dims(self, left, &dot.left_contract)?;
        // A matrix product has one axis of each kind; more are joined, and one that is missing is added.
        let is_linear = batch.is_empty() && columns.len() == 1 && summed.len() == 1 && !rows.is_empty();
        let is_plain = rows.len() == 1 && columns.len() == 1 && summed.len() == 1;
        if !is_linear && !is_plain {
            let joined = [[joined(&rows), joined(&summed)], [joined(&summed), joined(&columns)]];
            for (name, pair) in names.iter_mut().zip(joined) {
                let [a, b] = pair.map(|dim| dim.ok_or_else(|| self.refusal(node, "it sums over the batch")));
                *name = self.reshaped(name, &[&batch[..], &[a?, b?]].concat(), &node.path)?;
            }
        }
        let mut name = self.emit("MatMul", &node.path, names.to_vec(), vec![]);
        if !is_linear && !is_plain {
            name = self.reshaped(&name, &[&batch[..], &rows, &columns].concat(), &node.path)?;
        }
        if self.shape(left).dtype() != dot.dtype {
            let to = i64::from(element_type(dot.dtype));
            name = self.emit("Cast", &node.path, vec![name], vec![int("to", to)]);
        }
        self.keep(node.outputs[0], name, (0..self.shape(node.outputs[0]).rank()).collect());
        Ok(())
    }

    /// Attention as one operator: heads before tokens, queries, keys and values apart.
    pub(super) fn attention(&mut self, node: &Node, kernel: &AttentionKernel) -> Result<(), ExportError> {
        if !self.uses.consumers(node.outputs[1]).is_empty() {
            return Err(self.refusal(node, "the sums of its scores are read"));
        }
        let mut inputs = Vec::new();
        for part in 0..3 {
            inputs.push(match kernel.joint {
                false => self.operand(node.inputs[part], &[0, 2, 1, 3])?,
                true => {
                    let whole = self.operand(node.inputs[0], &[2, 0, 3, 1, 4])?;
                    let index = self.scalar(part as f64, DType::I64)?;
                    self.emit("Gather", &node.path, vec![whole, index], vec![int("axis", 0)])
                }
            });
        }
        if kernel.bias.is_some() {
            let bias = node.inputs[kernel.operands()];
            let (found, wanted) = (self.shape(bias).dtype(), self.shape(node.outputs[0]).dtype());
            let name = self.operand(bias, &[0, 1, 2, 3])?;
            inputs.push(match found == wanted {
                true => name,
                false => self.emit("Cast", &node.path, vec![name], vec![int("to", i64::from(element_type(wanted)))]),
            });
        }
        // Scores and softmax are f32, whatever the operands are.
        let attributes = vec![float("scale", kernel.scale), int("softmax_precision", 1)];
        let name = self.emit("Attention", &node.path, inputs, attributes);
        self.keep(node.outputs[0], name, vec![0, 2, 1, 3]);
        Ok(())
    }

    /// A vector in a type.
    fn vector_in(&mut self, value: ValueId, dtype: DType) -> Result<String, ExportError> {
        if self.shape(value).dtype() == dtype {
            return self.operand(value, &[0]);
        }
        let producer = self.producer(value);
        if let Op::Constant(tensor) = &producer.op {
            let made = HostTensor::from_f64s(tensor.shape().with_dtype(dtype), &tensor.to_f64s());
            let made = made.map_err(|error| ExportError::Refused(error.to_string()))?;
            return Ok(self.constant(&producer.path, &made, &[0]));
        }
        let name = self.operand(value, &[0])?;
        Ok(self.emit("Cast", &producer.path, vec![name], vec![int("to", i64::from(element_type(dtype)))]))
    }

    /// A layer norm over the last axis.
    pub(super) fn layer_norm(&mut self, node: &Node, epsilon: f64) -> Result<(), ExportError> {
        let rank = self.shape(node.inputs[0]).rank();
        let whole: Vec<usize> = (0..rank).collect();
        let mut inputs = vec![self.operand(node.inputs[0], &whole)?];
        let dtype = self.shape(node.inputs[0]).dtype();
        for &vector in &node.inputs[1..3] {
            // ONNX has one type for all three; statistics are f32 in any case (`stash_type`).
            inputs.push(self.vector_in(vector, dtype)?);
        }
        let attributes = vec![int("axis", -1), float("epsilon", epsilon)];
        let name = self.emit("LayerNormalization", &node.path, inputs, attributes);
        self.keep(node.outputs[0], name, whole);
        Ok(())
    }
}

/// The numbers of a tensor with its axes in another order.
fn permuted_numbers(tensor: &HostTensor, order: &[usize]) -> Vec<f64> {
    let dims: Vec<usize> = order.iter().map(|&axis| tensor.dims()[axis]).collect();
    let bytes = Bytes::new(AlignedBytes::copy_of(&permuted(tensor, order)));
    let moved = HostTensor::from_bytes(Shape::new(tensor.dtype(), dims), bytes);
    moved.expect("the same elements in another order").to_f64s()
}

/// Several dimensions as one; none where two of them follow the batch.
fn joined(dims: &[Dim]) -> Option<Dim> {
    dims.iter().try_fold(Dim::Fixed(1), |all, dim| match (all, *dim) {
        (Dim::Fixed(a), Dim::Fixed(b)) => Some(Dim::Fixed(a * b)),
        (Dim::Fixed(a), Dim::Batch(b)) | (Dim::Batch(a), Dim::Fixed(b)) => Some(Dim::Batch(a * b)),
        (Dim::Batch(_), Dim::Batch(_)) => None,
    })
}

/// ONNX's list of paddings, and what is left where some are negative.
fn padding(edges: &[(i64, i64)]) -> (Vec<i64>, Vec<(i64, i64)>) {
    if edges.iter().all(|&(low, high)| low >= 0 && high >= 0) {
        let pads = edges.iter().map(|edge| edge.0).chain(edges.iter().map(|edge| edge.1));
        return (pads.collect(), vec![(0, 0); edges.len()]);
    }
    (vec![0; 2 * edges.len()], edges.to_vec())
}

fn numbers(values: &[usize]) -> Vec<i64> {
    values.iter().map(|&value| value as i64).collect()
}
