//! The decoder's layers, and the refinement of boxes by RT-DETRv2.

use super::attention::self_attention;
use super::noise::Queries;
use super::selection::{head, scores};
use super::{Detr, EPSILON, inverse_sigmoid};
use crate::model::SetPrediction;
use octant_graph::composites::SampledMap;
use octant_graph::{DType, Tensor};
use octant_nn::Scope;
use octant_nn::layers::layer_norm;

impl Detr {
    /// Features that a box's place and size become.
    pub(super) fn placed(&self, cx: &Scope, boxes: &Tensor) -> Tensor {
        head(&cx.at("query_pos_head"), boxes, &[2 * self.width, self.width], false)
    }

    /// Attention among queries, on a residual branch.
    pub(super) fn among_queries(&self, cx: &Scope, x: &Tensor, positions: &Tensor, bias: Option<&Tensor>) -> Tensor {
        let x = x + self_attention(&cx.at("self_attn"), x, positions, bias, self.heads);
        layer_norm(&cx.at("self_attn_layer_norm"), &x, EPSILON)
    }

    /// The prediction of every layer, each of which moves the boxes of the one before.
    pub(super) fn refined_boxes(
        &self,
        cx: &Scope,
        queries: &Queries,
        memory: &Tensor,
        maps: &[SampledMap],
    ) -> Vec<SetPrediction> {
        let mut boxes = queries.boxes.clone();
        let mut x = queries.features.clone();
        let mut predictions = Vec::new();
        for number in 0..self.layers {
            let layer = cx.at(format_args!("layers.{number}"));
            let positions = self.placed(cx, &boxes);
            x = self.among_queries(&layer, &x, &positions, queries.bias.as_ref());
            let placed = &x + positions.convert(x.dtype());
            let seen = self.cross_attention(&layer.at("encoder_attn"), &placed, &boxes, memory, maps);
            x = layer_norm(&layer.at("encoder_attn_layer_norm"), &(&x + seen), EPSILON);
            let y = self.mlp(&layer, &x, self.hidden, Tensor::relu);
            x = layer_norm(&layer.at("final_layer_norm"), &(&x + y), EPSILON);
            let width = self.width;
            let moved = head(&cx.at(format_args!("bbox_embed.{number}")), &x, &[width, width, 4], true);
            let refined = (moved.convert(DType::F32) + inverse_sigmoid(&boxes)).logistic();
            let logits = scores(&cx.at(format_args!("class_embed.{number}")), &x, self.classes);
            boxes = refined.stop_gradient();
            predictions.push(SetPrediction { boxes: refined, logits, distribution: None });
        }
        predictions
    }
}
