//! Detectors that predict a set of boxes: RT-DETRv2 (Lv et al., "RT-DETRv2: Improved Baseline with Bag-of-Freebies for Real-Time
//! Detection Transformer", 2024) and D-FINE (Peng et al., "D-FINE: Redefine Regression Task in DETRs as Fine-grained Distribution
//! Refinement", 2024) under transformers' names.
//!
//! A backbone's maps go through a hybrid encoder: attention over the coarsest, then a pyramid down and up. The pixels with the
//! highest scores become queries, which a decoder refines layer by layer: each looks at a few points around its box. One box is
//! trained per object, so that nothing has to be suppressed.
//!
//! Start reading at [`Detr`], then `encoder`, `decoder` and `distributions`.

mod attention;
mod backbone;
mod decoder;
mod distributions;
mod encoder;
mod hgnet;
mod noise;
mod resnet_vd;
mod selection;

pub use backbone::Backbone;
pub use hgnet::{HgNet, HgStage};
pub use resnet_vd::ResNetVd;

use crate::model::{BoxCode, CellDetail, SetObjects, SetPrediction, SetPredictions, head_size};
use crate::{DetectorHead, Model};
use noise::Queries;
use octant_graph::composites::SampledMap;
use octant_graph::{DType, Tensor};
use octant_nn::{Init, Scope, WeightLayout, init};

/// How boxes are refined.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Refinement {
    /// Every layer moves the box of the one before (RT-DETRv2).
    Boxes,
    /// Every layer refines distributions of the distances from the first box to its sides (D-FINE). The number is the curvature
    /// of their bins.
    Distributions {
        /// `reg_scale`.
        scale: f64,
    },
}

/// The network.
#[derive(Debug, Clone, PartialEq)]
pub struct Detr {
    /// The backbone.
    pub backbone: Backbone,
    /// Features of the encoder's maps.
    pub encoder_width: usize,
    /// Features of the hidden layer of the encoder's attention.
    pub encoder_hidden: usize,
    /// How wide the blocks of the encoder's pyramid are, relative to its maps.
    pub expansion: f64,
    /// How many convolutions those blocks have.
    pub blocks: usize,
    /// Features of the queries.
    pub width: usize,
    /// Features of the hidden layers of the decoder.
    pub hidden: usize,
    /// Layers of the decoder.
    pub layers: usize,
    /// Points that a head looks at per map, fine to coarse.
    pub points: &'static [usize],
    /// Heads of attention.
    pub heads: usize,
    /// Queries per image.
    pub queries: usize,
    /// How boxes are refined.
    pub refinement: Refinement,
    /// How many classes there are.
    pub classes: usize,
}

/// What is added to variances, and how near to 0 and 1 logits of shares are taken.
const EPSILON: f64 = 1e-5;

impl Detr {
    const BASE: Detr = Detr {
        backbone: Backbone::ResNetVd(ResNetVd::R50),
        encoder_width: 256,
        encoder_hidden: 1024,
        expansion: 1.0,
        blocks: 3,
        width: 256,
        hidden: 1024,
        layers: 6,
        points: &[4, 4, 4],
        heads: 8,
        queries: 300,
        refinement: Refinement::Boxes,
        classes: 80,
    };
    /// RT-DETRv2 with ResNet-18.
    pub const R18: Detr = Detr { backbone: Backbone::ResNetVd(ResNetVd::R18), expansion: 0.5, layers: 3, ..Detr::BASE };
    /// RT-DETRv2 with ResNet-34.
    pub const R34: Detr = Detr { backbone: Backbone::ResNetVd(ResNetVd::R34), expansion: 0.5, layers: 4, ..Detr::BASE };
    /// RT-DETRv2 with ResNet-50.
    pub const R50: Detr = Detr::BASE;
    /// RT-DETRv2 with ResNet-101.
    pub const R101: Detr =
        Detr { backbone: Backbone::ResNetVd(ResNetVd::R101), encoder_width: 384, encoder_hidden: 2048, ..Detr::BASE };
    const FINE: Detr = Detr {
        backbone: Backbone::HgNet(HgNet::B4),
        points: &[3, 6, 3],
        refinement: Refinement::Distributions { scale: 4.0 },
        ..Detr::BASE
    };
    /// D-FINE-N: two maps.
    pub const FINE_N: Detr = Detr {
        backbone: Backbone::HgNet(HgNet { maps: 2, ..HgNet::B0 }),
        encoder_width: 128,
        encoder_hidden: 512,
        expansion: 0.34,
        blocks: 2,
        width: 128,
        hidden: 512,
        layers: 3,
        points: &[6, 6],
        ..Detr::FINE
    };
    /// D-FINE-S.
    pub const FINE_S: Detr =
        Detr { backbone: Backbone::HgNet(HgNet::B0), expansion: 0.5, blocks: 1, layers: 3, ..Detr::FINE };
    /// D-FINE-M.
    pub const FINE_M: Detr = Detr { backbone: Backbone::HgNet(HgNet::B2), blocks: 2, layers: 4, ..Detr::FINE };
    /// D-FINE-L.
    pub const FINE_L: Detr = Detr::FINE;
    /// D-FINE-X.
    pub const FINE_X: Detr = Detr {
        backbone: Backbone::HgNet(HgNet::B5),
        encoder_width: 384,
        encoder_hidden: 2048,
        refinement: Refinement::Distributions { scale: 8.0 },
        ..Detr::FINE
    };
    /// A small RT-DETRv2 for tests and demonstrations.
    pub const TINY: Detr = Detr {
        backbone: Backbone::ResNetVd(ResNetVd::TINY),
        encoder_width: 32,
        encoder_hidden: 64,
        expansion: 0.5,
        blocks: 3,
        width: 32,
        hidden: 64,
        layers: 2,
        points: &[2, 2, 2],
        heads: 4,
        queries: 20,
        refinement: Refinement::Boxes,
        classes: 10,
    };
    /// A small D-FINE for tests and demonstrations.
    pub const FINE_TINY: Detr = Detr {
        backbone: Backbone::HgNet(HgNet::TINY),
        blocks: 1,
        points: &[1, 2, 1],
        refinement: Refinement::Distributions { scale: 4.0 },
        ..Detr::TINY
    };

    fn is_fine(&self) -> bool {
        matches!(self.refinement, Refinement::Distributions { .. })
    }

    /// The encoder's maps, fine to coarse.
    fn encoded(&self, cx: &Scope, images: &Tensor) -> Vec<Tensor> {
        let maps = self.backbone.maps(&cx.at("model.backbone.model"), images);
        let project = |(level, map): (usize, &Tensor)| {
            let cx = cx.at(format_args!("model.encoder_input_proj.{level}"));
            encoder::projected(&cx, map, self.encoder_width)
        };
        let projected = maps.iter().enumerate().map(project).collect();
        self.pyramid(&cx.at("model.encoder"), projected)
    }

    /// The pixels of all maps that the decoder looks at, `[n, pixels, width]`, and the maps' sizes.
    fn memory(&self, cx: &Scope, images: &Tensor) -> (Tensor, Vec<SampledMap>) {
        let maps = self.encoded(cx, images);
        let levels = maps.iter().zip(self.points).enumerate();
        let (rows, maps): (Vec<Tensor>, Vec<SampledMap>) = levels
            .map(|(level, (map, &points))| {
                let cx = cx.at(format_args!("model.decoder_input_proj.{level}"));
                // D-FINE leaves maps that fit as they are.
                let map = match self.is_fine() && self.encoder_width == self.width {
                    true => map.clone(),
                    false => encoder::projected(&cx, map, self.width),
                };
                let [n, height, width, features] = [0, 1, 2, 3].map(|axis| map.dim(axis));
                (map.reshape(&[n, height * width, features]), SampledMap { height, width, points })
            })
            .unzip();
        (Tensor::concatenate(&rows, 1), maps)
    }

    /// The embedding of classes that only training with noisy objects uses; the last row stands for none.
    fn class_embedding(&self, cx: &Scope) -> Tensor {
        let dims = [self.classes + 1, self.width];
        let fans = octant_nn::Fans { inputs: self.width, outputs: self.classes + 1 };
        cx.at("model.denoising_class_embed").param("weight", &dims, init::glorot_uniform(fans), WeightLayout::Same)
    }

    /// The predictions of all layers. `objects` are used in training alone.
    fn predictions(&self, cx: &Scope, images: &Tensor, objects: Option<&SetObjects>) -> SetPredictions {
        let (memory, maps) = self.memory(cx, images);
        let embedding = self.class_embedding(cx);
        let selected = self.selected(&cx.at("model"), &memory, &maps);
        let begun =
            SetPrediction { boxes: selected.boxes.clone(), logits: selected.logits.clone(), distribution: None };
        let noisy = objects.and_then(|objects| self.noisy(cx, &embedding, objects));
        let (queries, groups) = match noisy {
            Some(noisy) => (noisy.before(&selected), noisy.groups),
            None => (Queries::of(&selected), 0),
        };
        let decoder = cx.at("model.decoder");
        let layers = match self.refinement {
            Refinement::Boxes => self.refined_boxes(&decoder, &queries, &memory, &maps),
            Refinement::Distributions { scale } => {
                self.refined_distributions(&decoder, &queries, &memory, &maps, scale)
            }
        };
        // Small images have fewer pixels than there could be queries.
        let own = selected.boxes.dim(1);
        let count = queries.boxes.dim(1) - own;
        let part = |from: usize, to: usize| move |layer: &SetPrediction| layer.part(from, to);
        let noisy = if groups > 0 { layers.iter().map(part(0, count)).collect() } else { Vec::new() };
        let selected = layers.iter().map(part(count, count + own));
        SetPredictions { layers: std::iter::once(begun).chain(selected).collect(), noisy: (noisy, groups) }
    }
}

impl Model for Detr {
    head_size!(classes);

    fn head_paths(&self) -> Vec<String> {
        ["model.denoising_class_embed", "model.enc_score_head", "model.decoder.class_embed"].map(String::from).to_vec()
    }

    /// The encoder's coarsest map.
    fn features(&self, cx: &Scope, images: &Tensor) -> Tensor {
        self.encoded(cx, images).pop().expect("a backbone has maps")
    }

    /// The class logits of pixels alone; queries need all maps, see [`forward`](Model::forward).
    fn head(&self, cx: &Scope, features: &Tensor) -> Tensor {
        selection::scores(&cx.at("model.enc_score_head"), features, self.classes)
    }

    /// Boxes and class logits of the last layer, `[n, queries, 4 + classes]`.
    fn forward(&self, cx: &Scope, images: &Tensor) -> Tensor {
        let last = self.predictions(cx, images, None).layers.pop().expect("a decoder has layers");
        Tensor::concatenate(&[last.boxes, last.logits], 2)
    }

    fn sets(&self, cx: &Scope, images: &Tensor, objects: Option<&SetObjects>) -> SetPredictions {
        self.predictions(cx, images, objects)
    }

    fn detector(&self) -> Option<DetectorHead> {
        let strides = if self.points.len() == 2 { vec![16, 32] } else { vec![8, 16, 32] };
        let code = BoxCode::Shares { queries: self.queries };
        Some(DetectorHead { strides, code, one_to_one: true, detail: CellDetail::None })
    }

    /// transformers keeps the decoder's heads under two names.
    fn ignores(&self, key: &str) -> bool {
        ["class_embed.", "bbox_embed."].iter().any(|head| key.starts_with(head))
    }
}

/// A norm that training leaves as it is, its scale and shift too: `weight`, `bias`, `running_mean` and `running_var`.
fn frozen_norm(cx: &Scope, x: &Tensor) -> Tensor {
    let _scope = cx.enter();
    let channels = [x.channels()];
    let (scale, shift) = (cx.statistic("weight", &channels, init::ONES), cx.statistic("bias", &channels, init::ZEROS));
    let mean = cx.statistic("running_mean", &channels, init::ZEROS);
    let variance = cx.statistic("running_var", &channels, init::ONES);
    x.channel_affine(&mean, &((variance + EPSILON).rsqrt() * scale), &shift)
}

/// The bias of class logits at the start: every class is as likely as one among all and none.
fn prior(classes: usize) -> Init {
    Init::Constant(-(classes as f64).ln())
}

/// Logits of shares, which stay finite at 0 and 1.
fn inverse_sigmoid(x: &Tensor) -> Tensor {
    let x = x.convert(DType::F32);
    let [zero, one, least] = [0.0, 1.0, EPSILON].map(|value| x.scalar_like(value));
    let x = x.max(&zero).min(&one);
    (x.max(&least) / (1.0 - &x).max(&least)).log()
}
