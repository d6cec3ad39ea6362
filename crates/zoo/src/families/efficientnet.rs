//! EfficientNet (Tan and Le, 2019) and EfficientNetV2 (Tan and Le, 2021). The torchvision form has its names and half
//! padding; timm's form has its names, half padding and PyTorch's epsilon; the `tf_` form has timm's names, TensorFlow's
//! padding and epsilon 1e-3, as the published TensorFlow weights need.

use super::mbconv::{MbConvBlock, MbConvVariant, Stage, Style, round_channels};
use crate::{Model, ModelTask};
use octant_graph::Tensor;
use octant_nn::Scope;
use octant_nn::layers::{BatchNorm, dropout};

/// The network.
#[derive(Debug, Clone)]
pub struct EfficientNet {
    /// The stages between stem and head.
    pub stages: Vec<Stage>,
    /// Channels of the convolution before pooling.
    pub last: usize,
    /// Names, padding and norms.
    pub style: Style,
    /// Dropout before the last layer.
    pub dropout: f64,
    /// The rate of stochastic depth that the last block approaches.
    pub stochastic_depth: f64,
    /// Size of the head.
    pub classes: usize,
}

/// `(kind, expand, kernel, stride, input, output, depth)`.
type Row = (MbConvBlock, usize, usize, usize, usize, usize, usize);

const V1: [Row; 7] = [
    (MbConvBlock::MbConv, 1, 3, 1, 32, 16, 1),
    (MbConvBlock::MbConv, 6, 3, 2, 16, 24, 2),
    (MbConvBlock::MbConv, 6, 5, 2, 24, 40, 2),
    (MbConvBlock::MbConv, 6, 3, 2, 40, 80, 3),
    (MbConvBlock::MbConv, 6, 5, 1, 80, 112, 3),
    (MbConvBlock::MbConv, 6, 5, 2, 112, 192, 4),
    (MbConvBlock::MbConv, 6, 3, 1, 192, 320, 1),
];

const V2_S: [Row; 6] = [
    (MbConvBlock::Fused, 1, 3, 1, 24, 24, 2),
    (MbConvBlock::Fused, 4, 3, 2, 24, 48, 4),
    (MbConvBlock::Fused, 4, 3, 2, 48, 64, 4),
    (MbConvBlock::MbConv, 4, 3, 2, 64, 128, 6),
    (MbConvBlock::MbConv, 6, 3, 1, 128, 160, 9),
    (MbConvBlock::MbConv, 6, 3, 2, 160, 256, 15),
];

const V2_M: [Row; 7] = [
    (MbConvBlock::Fused, 1, 3, 1, 24, 24, 3),
    (MbConvBlock::Fused, 4, 3, 2, 24, 48, 5),
    (MbConvBlock::Fused, 4, 3, 2, 48, 80, 5),
    (MbConvBlock::MbConv, 4, 3, 2, 80, 160, 7),
    (MbConvBlock::MbConv, 6, 3, 1, 160, 176, 14),
    (MbConvBlock::MbConv, 6, 3, 2, 176, 304, 18),
    (MbConvBlock::MbConv, 6, 3, 1, 304, 512, 5),
];

const V2_L: [Row; 7] = [
    (MbConvBlock::Fused, 1, 3, 1, 32, 32, 4),
    (MbConvBlock::Fused, 4, 3, 2, 32, 64, 7),
    (MbConvBlock::Fused, 4, 3, 2, 64, 96, 7),
    (MbConvBlock::MbConv, 4, 3, 2, 96, 192, 10),
    (MbConvBlock::MbConv, 6, 3, 1, 192, 224, 19),
    (MbConvBlock::MbConv, 6, 3, 2, 224, 384, 25),
    (MbConvBlock::MbConv, 6, 3, 1, 384, 640, 7),
];

const V2_XL: [Row; 7] = [
    (MbConvBlock::Fused, 1, 3, 1, 32, 32, 4),
    (MbConvBlock::Fused, 4, 3, 2, 32, 64, 8),
    (MbConvBlock::Fused, 4, 3, 2, 64, 96, 8),
    (MbConvBlock::MbConv, 4, 3, 2, 96, 192, 16),
    (MbConvBlock::MbConv, 6, 3, 1, 192, 256, 24),
    (MbConvBlock::MbConv, 6, 3, 2, 256, 512, 32),
    (MbConvBlock::MbConv, 6, 3, 1, 512, 640, 8),
];

const V1_TINY: [Row; 3] = [
    (MbConvBlock::MbConv, 1, 3, 1, 8, 8, 1),
    (MbConvBlock::MbConv, 4, 3, 2, 8, 16, 2),
    (MbConvBlock::MbConv, 4, 5, 2, 16, 16, 1),
];

const V2_TINY: [Row; 4] = [
    (MbConvBlock::Fused, 1, 3, 1, 8, 8, 2),
    (MbConvBlock::Fused, 2, 3, 2, 8, 16, 1),
    (MbConvBlock::MbConv, 4, 3, 2, 16, 24, 2),
    (MbConvBlock::MbConv, 4, 3, 1, 24, 24, 1),
];

fn stages(rows: &[Row], width: f64, depth: f64) -> Vec<Stage> {
    rows.iter()
        .map(|&(kind, expand, kernel, stride, input, output, layers)| Stage {
            kind,
            expand,
            kernel,
            stride,
            input: round_channels(input as f64 * width),
            output: round_channels(output as f64 * width),
            depth: (layers as f64 * depth).ceil() as usize,
        })
        .collect()
}

/// The sizes of EfficientNetV2.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are the sizes")]
pub enum V2Size {
    Tiny,
    S,
    M,
    L,
    Xl,
}

impl EfficientNet {
    /// EfficientNet b0 to b7 by their factors of width and depth; torchvision's b5 and larger came with other norms.
    pub fn v1(width: f64, depth: f64, dropout: f64, form: MbConvVariant, classes: usize) -> EfficientNet {
        let norm = match form == MbConvVariant::Torchvision && width >= 1.6 {
            true => BatchNorm::new().epsilon(1e-3).momentum(0.01),
            false => BatchNorm::new(),
        };
        let (dropout, stochastic_depth) = if form == MbConvVariant::Torchvision { (dropout, 0.2) } else { (0.0, 0.0) };
        let stages = stages(&V1, width, depth);
        let last = 4 * stages.last().map_or(0, |stage| stage.output);
        let style = Style { form, norm };
        EfficientNet { stages, last, style, dropout, stochastic_depth, classes }
    }

    /// A small EfficientNet for tests.
    pub fn v1_tiny(form: MbConvVariant, classes: usize) -> EfficientNet {
        EfficientNet { stages: stages(&V1_TINY, 1.0, 1.0), last: 64, ..EfficientNet::v1(1.0, 1.0, 0.2, form, classes) }
    }

    /// EfficientNetV2 in one of its forms. timm's models have no dropout unless it is asked for.
    pub fn v2(size: V2Size, form: MbConvVariant, classes: usize) -> EfficientNet {
        let (rows, dropout): (&[Row], f64) = match size {
            V2Size::Tiny => (&V2_TINY, 0.2),
            V2Size::S => (&V2_S, 0.2),
            V2Size::M => (&V2_M, 0.3),
            V2Size::L => (&V2_L, 0.4),
            V2Size::Xl => (&V2_XL, 0.4),
        };
        let norm = BatchNorm::new();
        let norm = if form == MbConvVariant::Timm { norm } else { norm.epsilon(1e-3) };
        let style = Style { form, norm };
        let (dropout, stochastic_depth) = if form == MbConvVariant::Torchvision { (dropout, 0.2) } else { (0.0, 0.0) };
        let last = if size == V2Size::Tiny { 64 } else { 1280 };
        EfficientNet { stages: stages(rows, 1.0, 1.0), last, style, dropout, stochastic_depth, classes }
    }

    fn stage_path(&self, stage: usize, block: usize) -> String {
        match self.style.form {
            MbConvVariant::Torchvision => format!("features.{}.{block}", stage + 1),
            MbConvVariant::Timm | MbConvVariant::TimmTf => format!("blocks.{stage}.{block}"),
        }
    }

    fn stem_and_last_names(&self) -> [[String; 2]; 2] {
        let last = self.stages.len() + 1;
        match self.style.form {
            MbConvVariant::Torchvision => {
                [["features.0.0".into(), "features.0.1".into()], [0, 1].map(|i| format!("features.{last}.{i}"))]
            }
            MbConvVariant::Timm | MbConvVariant::TimmTf => {
                [["conv_stem".into(), "bn1".into()], ["conv_head".into(), "bn2".into()]]
            }
        }
    }

    fn classifier_path(&self) -> &'static str {
        match self.style.form {
            MbConvVariant::Torchvision => "classifier.1",
            MbConvVariant::Timm | MbConvVariant::TimmTf => "classifier",
        }
    }
}

impl Model for EfficientNet {
    fn task(&self) -> ModelTask {
        ModelTask::Classify
    }

    fn classes(&self) -> usize {
        self.classes
    }

    fn reset_head(&mut self, classes: usize) {
        self.classes = classes;
    }

    fn set_drop(&mut self, dropout: f64, stochastic_depth: f64) {
        (self.dropout, self.stochastic_depth) = (dropout, stochastic_depth);
    }

    fn head_paths(&self) -> Vec<String> {
        vec![self.classifier_path().into()]
    }

    fn features(&self, cx: &Scope, images: &Tensor) -> Tensor {
        let style = &self.style;
        let [stem, last] = self.stem_and_last_names();
        let stem_width = self.stages.first().map_or(0, |stage| stage.input);
        let mut y = style.conv_norm(cx, [&stem[0], &stem[1]], style.conv(stem_width, 3, 2), images).silu();
        let total: usize = self.stages.iter().map(|stage| stage.depth).sum();
        let mut index = 0;
        for (number, stage) in self.stages.iter().enumerate() {
            for block in 0..stage.depth {
                let stride = if block == 0 { stage.stride } else { 1 };
                let drop = self.stochastic_depth * index as f64 / total as f64;
                let path = cx.at(self.stage_path(number, block));
                y = path.block(&y, |cx, y| style.block(cx, y, stage, stride, drop));
                index += 1;
            }
        }
        style.conv_norm(cx, [&last[0], &last[1]], style.conv(self.last, 1, 1), &y).silu()
    }

    fn pool(&self, _: &Scope, features: &Tensor) -> Tensor {
        features.global_avg_pool()
    }

    fn head(&self, cx: &Scope, features: &Tensor) -> Tensor {
        let pooled = dropout(&cx.at("dropout"), &self.pool(cx, features), self.dropout);
        self.style.classifier(self.classes).apply(&cx.at(self.classifier_path()), &pooled)
    }
}
