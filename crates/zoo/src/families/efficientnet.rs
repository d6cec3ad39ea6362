//! EfficientNet (Tan and Le, 2019) and EfficientNetV2 (Tan and Le, 2021). The torchvision form has its names and half
//! padding; timm's form has its names, half padding and PyTorch's epsilon; the `tf_` form has timm's names, TensorFlow's
//! padding and epsilon 1e-3, as the published TensorFlow weights need.

use super::encoder::OutputStride;
use super::mbconv::MbConvBlock::{self, Fused, MbConv};
use super::mbconv::{MbConvVariant, Stage, Style, round_channels};
use crate::Model;
use crate::model::head_size;
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

/// A stage before scaling: block, expansion, kernel, stride, channels and number of blocks.
type Row = (MbConvBlock, usize, usize, usize, usize, usize);

const V1_STEM: usize = 32;
const V1: [Row; 7] = [
    (MbConv, 1, 3, 1, 16, 1),
    (MbConv, 6, 3, 2, 24, 2),
    (MbConv, 6, 5, 2, 40, 2),
    (MbConv, 6, 3, 2, 80, 3),
    (MbConv, 6, 5, 1, 112, 3),
    (MbConv, 6, 5, 2, 192, 4),
    (MbConv, 6, 3, 1, 320, 1),
];

const TINY_STEM: usize = 8;
const V1_TINY: [Row; 3] = [(MbConv, 1, 3, 1, 8, 1), (MbConv, 4, 3, 2, 16, 2), (MbConv, 4, 5, 2, 16, 1)];
const V2_TINY: [Row; 4] =
    [(Fused, 1, 3, 1, 8, 2), (Fused, 2, 3, 2, 16, 1), (MbConv, 4, 3, 2, 24, 2), (MbConv, 4, 3, 1, 24, 1)];

/// The stages of EfficientNetV2: all sizes have the same blocks, the smallest one lacks the last stage.
fn v2_rows(channels: &[usize], depths: &[usize]) -> Vec<Row> {
    const BLOCKS: [(MbConvBlock, usize, usize); 7] =
        [(Fused, 1, 1), (Fused, 4, 2), (Fused, 4, 2), (MbConv, 4, 2), (MbConv, 6, 1), (MbConv, 6, 2), (MbConv, 6, 1)];
    let sizes = channels.iter().zip(depths);
    BLOCKS.iter().zip(sizes).map(|(&(kind, expand, stride), (&c, &n))| (kind, expand, 3, stride, c, n)).collect()
}

/// The rows with their channels multiplied by `width` and their blocks by `depth`. A stage's input is the output of the one
/// before it.
fn stages(stem: usize, rows: &[Row], width: f64, depth: f64) -> Vec<Stage> {
    let channels = |unscaled: usize| round_channels(unscaled as f64 * width);
    let inputs = std::iter::once(stem).chain(rows.iter().map(|row| row.4));
    let rows = inputs.zip(rows).map(|(input, &(kind, expand, kernel, stride, output, blocks))| Stage {
        kind,
        expand,
        kernel,
        stride,
        input: channels(input),
        output: channels(output),
        depth: (blocks as f64 * depth).ceil() as usize,
    });
    rows.collect()
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
        let stages = stages(V1_STEM, &V1, width, depth);
        let last = 4 * stages.last().map_or(0, |stage| stage.output);
        let style = Style { form, norm };
        EfficientNet { stages, last, style, dropout, stochastic_depth, classes }
    }

    /// A small EfficientNet for tests.
    pub fn v1_tiny(form: MbConvVariant, classes: usize) -> EfficientNet {
        let stages = stages(TINY_STEM, &V1_TINY, 1.0, 1.0);
        EfficientNet { stages, last: 64, ..EfficientNet::v1(1.0, 1.0, 0.2, form, classes) }
    }

    /// EfficientNetV2 in one of its forms. timm's models have no dropout by default.
    pub fn v2(size: V2Size, form: MbConvVariant, classes: usize) -> EfficientNet {
        let (stem, rows, dropout) = match size {
            V2Size::Tiny => (TINY_STEM, V2_TINY.to_vec(), 0.2),
            V2Size::S => (24, v2_rows(&[24, 48, 64, 128, 160, 256], &[2, 4, 4, 6, 9, 15]), 0.2),
            V2Size::M => (24, v2_rows(&[24, 48, 80, 160, 176, 304, 512], &[3, 5, 5, 7, 14, 18, 5]), 0.3),
            V2Size::L => (32, v2_rows(&[32, 64, 96, 192, 224, 384, 640], &[4, 7, 7, 10, 19, 25, 7]), 0.4),
            V2Size::Xl => (32, v2_rows(&[32, 64, 96, 192, 256, 512, 640], &[4, 8, 8, 16, 24, 32, 8]), 0.4),
        };
        let norm = BatchNorm::new();
        let norm = if form == MbConvVariant::Timm { norm } else { norm.epsilon(1e-3) };
        let style = Style { form, norm };
        let (dropout, stochastic_depth) = if form == MbConvVariant::Torchvision { (dropout, 0.2) } else { (0.0, 0.0) };
        let last = if size == V2Size::Tiny { 64 } else { 1280 };
        EfficientNet { stages: stages(stem, &rows, 1.0, 1.0), last, style, dropout, stochastic_depth, classes }
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

    /// The maps after the first convolution and after every block, no smaller than the image over `output_stride`.
    pub(crate) fn maps(&self, cx: &Scope, images: &Tensor, output_stride: usize) -> Vec<Tensor> {
        let mut grid = OutputStride::new(output_stride);
        let style = &self.style;
        let [stem, _] = self.stem_and_last_names();
        let stem_width = self.stages.first().map_or(0, |stage| stage.input);
        let mut maps = vec![style.conv_norm(cx, [&stem[0], &stem[1]], style.conv(stem_width, 3, 2), images).silu()];
        let total: usize = self.stages.iter().map(|stage| stage.depth).sum();
        for (number, stage) in self.stages.iter().enumerate() {
            for block in 0..stage.depth {
                let (last, index) = (&maps[maps.len() - 1], maps.len() - 1);
                let step = grid.next(if block == 0 { stage.stride } else { 1 });
                let drop = self.stochastic_depth * index as f64 / total as f64;
                let path = cx.at(self.stage_path(number, block));
                maps.push(path.block(last, |cx, y| style.block(cx, y, stage, step, drop)));
            }
        }
        maps
    }

    fn classifier_path(&self) -> &'static str {
        match self.style.form {
            MbConvVariant::Torchvision => "classifier.1",
            MbConvVariant::Timm | MbConvVariant::TimmTf => "classifier",
        }
    }
}

impl Model for EfficientNet {
    head_size!(classes);

    fn set_drop(&mut self, dropout: f64, stochastic_depth: f64) {
        (self.dropout, self.stochastic_depth) = (dropout, stochastic_depth);
    }

    fn head_paths(&self) -> Vec<String> {
        vec![self.classifier_path().into()]
    }

    fn features(&self, cx: &Scope, images: &Tensor) -> Tensor {
        let style = &self.style;
        let [_, last] = self.stem_and_last_names();
        let y = self.maps(cx, images, usize::MAX).pop().expect("a network has a first convolution");
        style.conv_norm(cx, [&last[0], &last[1]], style.conv(self.last, 1, 1), &y).silu()
    }

    fn head(&self, cx: &Scope, features: &Tensor) -> Tensor {
        let pooled = dropout(&cx.at("dropout"), &self.pool(cx, features), self.dropout);
        self.style.classifier(self.classes).apply(&cx.at(self.classifier_path()), &pooled)
    }
}
