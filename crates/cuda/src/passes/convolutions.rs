//! Convolutions as calls of our kernels, with what is around them where it can be fused.

use crate::kernels::CONVOLUTIONS;
use crate::kernels::conv::call::call;
use crate::kernels::conv::descriptor::Pointwise;
use crate::kernels::conv::task::{Choice, ConvTask, Fused, GpuProfile};
use crate::kernels::tensor_core::cotangents::{self, Cotangent};
use crate::kernels::tensor_core::moments::{Moments, sum_in_two_steps};
use crate::kernels::tensor_core::norm_relu::NormRelus;
use crate::kernels::tensor_core::pairs::{Pair, Pairs};
use crate::kernels::tensor_core::{self, ChannelAffine};
use octant_graph::passes::{Replacement, merge_equal, replace_where_possible};
use octant_graph::{Graph, NodeId, Op, Shape, Tensor, Trace, Uses, ValueId};
use std::collections::HashSet;

/// Calls our kernels for the convolutions of a graph where they are faster than cuDNN's. Two calls of one convolution, as its
/// output and its moments have, are merged.
pub fn fuse_convolutions(graph: &Graph, device: &GpuProfile) -> Graph {
    let replacements = Fusion::find(graph, device).replacements();
    match replacements.is_empty() {
        true => graph.clone(),
        false => merge_equal(&replace_where_possible(graph, replacements)),
    }
}

/// What is fused into which convolution of a graph.
struct Fusion<'g> {
    graph: &'g Graph,
    device: &'g GpuProfile,
    pairs: Pairs,
    norms: NormRelus,
    moments: Moments,
    cotangents: Vec<Cotangent>,
}

/// A call, and what it reads of the graph.
struct Call<'g> {
    task: ConvTask<'g>,
    choice: Choice,
    fused: Fused<'g>,
    /// Its operands, but for the scale and shift of a norm + ReLU, which follow from the last of these.
    inputs: Vec<ValueId>,
    norm: Option<ChannelAffine>,
}

impl<'g> Fusion<'g> {
    fn find(graph: &'g Graph, device: &'g GpuProfile) -> Fusion<'g> {
        let uses = Uses::of(graph);
        let pairs = Pairs::find(graph, &uses, device);
        let norms = NormRelus::find(graph, &uses, device, &pairs);
        let moments = Moments::find(graph, device, &pairs, &norms);
        let cotangents = cotangents::find(graph, &uses, device, &pairs, &norms);
        Fusion { graph, device, pairs, norms, moments, cotangents }
    }

    fn replacements(&self) -> Vec<Replacement> {
        let of_cotangents: HashSet<NodeId> = self.cotangents.iter().map(|cotangent| cotangent.conv).collect();
        let mut made: Vec<Replacement> = self.cotangents.iter().filter_map(|found| self.cotangent(found)).collect();
        for (index, node) in self.graph.nodes().iter().enumerate() {
            let is_conv = matches!(node.op, Op::Convolution(_)) && !of_cotangents.contains(&index);
            // A pair is written once, for its 3×3 convolution.
            let is_second = self.pairs.of(index).is_some_and(|pair| pair.plain != index);
            if is_conv && !is_second {
                made.extend(self.call_of(index).map(|call| self.convolution(index, &call)));
            }
            made.extend(self.sum(index));
        }
        made
    }

    fn output(&self, node: NodeId) -> ValueId {
        self.graph.nodes()[node].outputs[0]
    }

    /// The call that makes the output of a convolution.
    fn call_of(&self, index: NodeId) -> Option<Call<'g>> {
        if let Some(pair) = self.pairs.of(index) {
            return self.call_of_pair(pair);
        }
        let node = &self.graph.nodes()[index];
        let task = ConvTask::of(self.graph, node)?;
        let moments = self.moments.parts(self.output(index));
        if let Some(norm) = self.norms.of(node.inputs[0]) {
            let choice = tensor_core::choose_fused(&task, self.device)?;
            let fused = Fused { norm_relu: true, moments, ..Fused::default() };
            let inputs = [vec![norm.x, node.inputs[1]], norm.operands()].concat();
            return Some(Call { task, choice, fused, inputs, norm: Some(norm.clone()) });
        }
        let choice = CONVOLUTIONS.iter().find_map(|choose| choose(&task, self.device))?;
        let fused = Fused { moments, ..Fused::default() };
        Some(Call { task, choice, fused, inputs: node.inputs.clone(), norm: None })
    }

    fn call_of_pair(&self, pair: &Pair) -> Option<Call<'g>> {
        let [plain, pointwise] = [pair.plain, pair.pointwise].map(|node| &self.graph.nodes()[node]);
        let Op::Convolution(beside) = &pointwise.op else { return None };
        let task = ConvTask::of(self.graph, plain)?;
        let choice = tensor_core::choose(&task, self.device)?;
        let (pointwise, inputs) = match pair.sum {
            Some(_) => (Pointwise::Added, [&plain.inputs[..], &pointwise.inputs].concat()),
            None => (Pointwise::Beside, [&plain.inputs[..], &pointwise.inputs[1..]].concat()),
        };
        let outputs = [pair.plain, pair.pointwise].map(|node| self.output(node));
        let moments = outputs.iter().find_map(|&output| self.moments.parts(output));
        let moments = moments.filter(|_| pair.sum.is_none());
        let fused = Fused { pointwise, beside: Some(beside), moments, ..Fused::default() };
        Some(Call { task, choice, fused, inputs, norm: None })
    }

    /// The outputs of a convolution, or of a pair, by a call.
    fn convolution(&self, index: NodeId, call: &Call) -> Replacement {
        let outputs = match self.pairs.of(index) {
            None => vec![self.output(index)],
            Some(Pair { sum: Some(sum), .. }) => vec![self.output(*sum)],
            Some(pair) => vec![self.output(pair.plain), self.output(pair.pointwise)],
        };
        let count = outputs.len();
        self.replacement(call.inputs.clone(), outputs, |trace, inputs| {
            let mut results = call.emit(trace, inputs);
            results.truncate(count);
            results
        })
    }

    /// A sum over pixels from the moments of a call.
    fn sum(&self, index: NodeId) -> Option<Replacement> {
        let sum = self.moments.sums.get(&index)?;
        let conv = self.graph.values()[sum.shifted.x.index()].producer;
        let call = self.call_of(self.pairs.of(conv).map_or(conv, |pair| pair.plain))?;
        // The moments follow the outputs: of a pair first those of the 3×3 convolution.
        let pair = self.pairs.of(conv);
        let moments = pair.map_or(1, |pair| 2 + usize::from(pair.pointwise == conv));
        let channels = channels_of(self.graph.shape(sum.shifted.x));
        let inputs = [call.inputs.clone(), sum.shifted.operands()].concat();
        Some(self.replacement(inputs, vec![self.output(index)], |trace, inputs| {
            let (inputs, operands) = inputs.split_at(call.inputs.len());
            let results = call.emit(trace, inputs);
            let offset = match operands.is_empty() {
                true => trace.full(&channels, 0.0),
                false => sum.shifted.scale_and_shift(operands, &channels)[1].clone(),
            };
            vec![sum.of_moments(&results[moments], &offset)]
        }))
    }

    /// The cotangent of a norm + ReLU and its sums by a call.
    fn cotangent(&self, found: &Cotangent) -> Option<Replacement> {
        let node = &self.graph.nodes()[found.conv];
        let task = ConvTask::of(self.graph, node)?;
        let choice = tensor_core::choose_fused(&task, self.device)?;
        let fused = Fused { cotangent: Some(found.parts), ..Fused::default() };
        let channels = channels_of(self.graph.shape(found.norm.x));
        let inputs = [&node.inputs[..], &[found.norm.x], &found.norm.operands(), &found.centered.operands()].concat();
        let sums = found.sums.iter().map(|&(sum, _)| sum);
        let outputs: Vec<ValueId> = found.chosen.iter().copied().chain(sums).collect();
        Some(self.replacement(inputs, outputs, |trace, inputs| {
            let (first, operands) = inputs.split_at(3);
            let (of_norm, of_center) = operands.split_at(found.norm.steps.len());
            let [scale, shift] = found.norm.scale_and_shift(of_norm, &channels);
            let [_, center] = found.centered.scale_and_shift(of_center, &channels);
            let results = call(trace, &task, &choice, &fused, &[first, &[scale, shift, center]].concat());
            let sums = sum_in_two_steps(&results[1], false);
            let row = |of_products: bool| {
                let row = usize::from(of_products);
                sums.slice_axis(0, row, row + 1).reshape(channels.dims())
            };
            let chosen = found.chosen.iter().map(|_| results[0].clone());
            chosen.chain(found.sums.iter().map(|&(_, of_products)| row(of_products))).collect()
        }))
    }

    /// The graph that `make` traces over inputs of these shapes.
    fn replacement(
        &self,
        inputs: Vec<ValueId>,
        outputs: Vec<ValueId>,
        make: impl FnOnce(&Trace, &[Tensor]) -> Vec<Tensor>,
    ) -> Replacement {
        let trace = Trace::new();
        let tensors: Vec<Tensor> =
            inputs.iter().map(|&input| trace.input("x", self.graph.shape(input).clone())).collect();
        let results = make(&trace, &tensors);
        Replacement {
            inputs,
            outputs,
            graph: trace.finish(&results).expect("a call has the shapes of what it replaces"),
        }
    }
}

impl Call<'_> {
    fn emit(&self, trace: &Trace, inputs: &[Tensor]) -> Vec<Tensor> {
        let operands = match &self.norm {
            None => inputs.to_vec(),
            Some(norm) => {
                let (own, steps) = inputs.split_at(2);
                let [scale, shift] = norm.scale_and_shift(steps, &channels_of(self.task.input));
                [own, &[scale, shift]].concat()
            }
        };
        call(trace, &self.task, &self.choice, &self.fused, &operands)
    }
}

/// A vector with an element per channel of images.
fn channels_of(images: &Shape) -> Shape {
    Shape::new(images.dtype(), [images.dims().last().copied().unwrap_or(1)])
}
