//! MobileNetV3 (Howard et al., 2019): hard-swish in the later blocks, squeeze and excitation with the hard sigmoid. As in
//! torchvision, whose norms have epsilon 1e-3 and momentum 0.01, and as in timm, whose norms have PyTorch's 1e-5 and 0.1
//! and whose last hidden layer is a 1×1 convolution.

use super::encoder::OutputStride;
use super::mbconv::round_channels;
use crate::Model;
use crate::model::head_size;
use octant_graph::Tensor;
use octant_nn::layers::{BatchNorm, Conv2d, Dense, SqueezeExcite, dropout};
use octant_nn::{Fans, Init, Scope, WeightLayout, init};

/// `(kernel, expanded, output, squeeze, hard_swish, stride)`.
type Row = (usize, usize, usize, bool, bool, usize);

/// The network.
#[derive(Debug, Clone)]
pub struct MobileNetV3 {
    form: Form,
    stem: usize,
    rows: &'static [Row],
    /// How many rows make a stage; only timm's names say so.
    stages: &'static [usize],
    hidden: usize,
    /// Dropout before the last layer.
    pub dropout: f64,
    /// Size of the head.
    pub classes: usize,
}

const LARGE: [Row; 15] = [
    (3, 16, 16, false, false, 1),
    (3, 64, 24, false, false, 2),
    (3, 72, 24, false, false, 1),
    (5, 72, 40, true, false, 2),
    (5, 120, 40, true, false, 1),
    (5, 120, 40, true, false, 1),
    (3, 240, 80, false, true, 2),
    (3, 200, 80, false, true, 1),
    (3, 184, 80, false, true, 1),
    (3, 184, 80, false, true, 1),
    (3, 480, 112, true, true, 1),
    (3, 672, 112, true, true, 1),
    (5, 672, 160, true, true, 2),
    (5, 960, 160, true, true, 1),
    (5, 960, 160, true, true, 1),
];

const SMALL: [Row; 11] = [
    (3, 16, 16, true, false, 2),
    (3, 72, 24, false, false, 2),
    (3, 88, 24, false, false, 1),
    (5, 96, 40, true, true, 2),
    (5, 240, 40, true, true, 1),
    (5, 240, 40, true, true, 1),
    (5, 120, 48, true, true, 1),
    (5, 144, 48, true, true, 1),
    (5, 288, 96, true, true, 2),
    (5, 576, 96, true, true, 1),
    (5, 576, 96, true, true, 1),
];

const TINY: [Row; 3] = [(3, 8, 8, true, false, 1), (3, 16, 16, false, true, 2), (5, 32, 16, true, true, 1)];

const TINY_STRIDED: [Row; 4] =
    [(3, 8, 8, false, false, 2), (3, 16, 16, false, false, 2), (5, 24, 16, true, true, 2), (5, 32, 16, true, true, 1)];

impl MobileNetV3 {
    /// A small one with as many strides as segmentation needs.
    pub(crate) const TINY_STRIDED: MobileNetV3 =
        MobileNetV3 { stem: 8, ..MobileNetV3::published(&TINY_STRIDED, &[1, 1, 2], 24) };

    /// The large network.
    pub const LARGE: MobileNetV3 = MobileNetV3::published(&LARGE, &[1, 2, 3, 4, 2, 3], 1280);
    /// The small network.
    pub const SMALL: MobileNetV3 = MobileNetV3::published(&SMALL, &[1, 2, 3, 2, 3], 1024);
    /// A small one for tests.
    pub const TINY: MobileNetV3 =
        MobileNetV3 { stem: 8, hidden: 24, classes: 10, ..MobileNetV3::published(&TINY, &[1, 2], 24) };

    const fn published(rows: &'static [Row], stages: &'static [usize], hidden: usize) -> MobileNetV3 {
        MobileNetV3 { form: Form::Torchvision, stem: 16, rows, stages, hidden, dropout: 0.2, classes: 1000 }
    }

    /// The same network as timm has it, where nothing is dropped by default.
    pub const fn timm(self) -> MobileNetV3 {
        MobileNetV3 { form: Form::Timm, dropout: 0.0, ..self }
    }

    /// A convolution and its norm; timm names each of them.
    fn conv_norm(&self, cx: &Scope, torchvision: &str, timm: [&str; 2], x: &Tensor, conv: Conv2d) -> Tensor {
        let conv = conv.bias(false).init(init::kaiming_normal_fan_out, init::zeros);
        match self.form {
            Form::Torchvision => {
                let cx = cx.at(torchvision);
                let y = conv.apply(&cx.at("0"), x);
                BatchNorm::new().epsilon(1e-3).momentum(0.01).apply(&cx.at("1"), &y)
            }
            Form::Timm => BatchNorm::new().apply(&cx.at(timm[1]), &conv.apply(&cx.at(timm[0]), x)),
        }
    }

    fn block(
        &self,
        cx: &Scope,
        x: &Tensor,
        &(kernel, expanded, output, squeeze, hard_swish, published_stride): &Row,
        [stride, dilation]: [usize; 2],
    ) -> Tensor {
        let keeps_size = published_stride == 1;
        let activation = if hard_swish { Tensor::hard_swish } else { Tensor::relu };
        let mut part = 0;
        let mut next = || {
            part += 1;
            format!("block.{}", part - 1)
        };
        let mut y = x.clone();
        let expands = expanded != x.channels();
        if expands {
            y = activation(&self.conv_norm(cx, &next(), ["conv_pw", "bn1"], &y, Conv2d::new(expanded, 1)));
        }
        // timm calls a block without expansion another block, whose last convolution has the name of the missing one.
        let (middle, last) = match expands {
            true => (["conv_dw", "bn2"], ["conv_pwl", "bn3"]),
            false => (["conv_dw", "bn1"], ["conv_pw", "bn2"]),
        };
        let depthwise = Conv2d::new(expanded, kernel).stride(stride).dilation(dilation).groups(expanded);
        y = activation(&self.conv_norm(cx, &next(), middle, &y, depthwise));
        if squeeze {
            let (path, names) = match self.form {
                Form::Torchvision => (next(), ["fc1", "fc2"]),
                Form::Timm => ("se".to_string(), ["conv_reduce", "conv_expand"]),
            };
            let squeeze = SqueezeExcite::new(round_channels((expanded / 4) as f64)).names(names);
            let squeeze = squeeze.functions(Tensor::relu, Tensor::hard_sigmoid);
            y = squeeze.init(init::kaiming_normal_fan_out, init::zeros).apply(&cx.at(path), &y);
        }
        y = self.conv_norm(cx, &next(), last, &y, Conv2d::new(output, 1));
        if keeps_size && x.channels() == output { y + x } else { y }
    }

    /// Where the block of a row lies.
    fn block_path(&self, row: usize) -> String {
        if self.form == Form::Torchvision {
            return format!("features.{}", row + 1);
        }
        let mut first = 0;
        for (stage, &rows) in self.stages.iter().enumerate() {
            if row < first + rows {
                return format!("blocks.{stage}.{}", row - first);
            }
            first += rows;
        }
        format!("blocks.{}.0", self.stages.len())
    }

    /// The maps after the first convolution, after every row and after the last convolution. Names begin with `prefix`.
    pub(crate) fn maps(&self, cx: &Scope, images: &Tensor, prefix: Option<&str>, grid: MobileGrid) -> Vec<Tensor> {
        let path = |path: String| match prefix {
            Some(prefix) => path.replacen("features", prefix, 1),
            None => path,
        };
        let last_stride = self.rows.iter().rposition(|row| row.5 > 1).unwrap_or(self.rows.len());
        let mut limited = OutputStride::new(if let MobileGrid::Limited(limit) = grid { limit } else { usize::MAX });
        let stem = Conv2d::new(self.stem, 3).stride(2);
        let stem_path = path("features.0".into());
        let mut maps = vec![self.conv_norm(cx, &stem_path, ["conv_stem", "bn1"], images, stem).hard_swish()];
        for (index, row) in self.rows.iter().enumerate() {
            let step = match grid {
                MobileGrid::Dilated if index >= last_stride => [1, 2],
                MobileGrid::Dilated | MobileGrid::Limited(_) => limited.next(row.5),
            };
            let next = cx.at(path(self.block_path(index))).block(&maps[index], |cx, y| self.block(cx, y, row, step));
            maps.push(next);
        }
        let last = path(self.block_path(self.rows.len()));
        let y = &maps[self.rows.len()];
        let wide = Conv2d::new(6 * y.channels(), 1);
        let [conv, norm] = ["conv", "bn1"].map(|name| format!("{last}.{name}"));
        maps.push(self.conv_norm(cx, &last, [&conv, &norm], y, wide).hard_swish());
        maps
    }

    /// The position in [`maps`](Self::maps) of the map that the second-to-last stride makes: auxiliary heads and fine details are
    /// taken from there.
    pub(crate) fn fine(&self) -> usize {
        let mut strided: Vec<usize> =
            (0..self.rows.len()).filter(|&row| self.rows[row].5 > 1).map(|row| row + 1).collect();
        // The first convolution and the last one are stages of their own.
        strided.insert(0, 0);
        strided.push(self.rows.len() + 1);
        strided[strided.len().saturating_sub(4)]
    }

    fn last_paths(&self) -> [&'static str; 2] {
        match self.form {
            Form::Torchvision => ["classifier.0", "classifier.3"],
            Form::Timm => ["conv_head", "classifier"],
        }
    }
}

/// The size of the last maps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MobileGrid {
    /// torchvision's for segmentation: the rows from the last stride on keep the size of what is before it and are dilated.
    Dilated,
    /// No smaller than the image over this, by timm's rule.
    Limited(usize),
}

/// Which reference gives the names and the details.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Torchvision,
    Timm,
}

fn narrow(_: Fans) -> Init {
    Init::Normal { deviation: 0.01 }
}

impl Model for MobileNetV3 {
    head_size!(classes);

    fn set_drop(&mut self, dropout: f64, _: f64) {
        self.dropout = dropout;
    }

    fn head_paths(&self) -> Vec<String> {
        vec![self.last_paths()[1].into()]
    }

    fn features(&self, cx: &Scope, images: &Tensor) -> Tensor {
        self.maps(cx, images, None, MobileGrid::Limited(usize::MAX)).pop().expect("a network has a last convolution")
    }

    fn pool(&self, cx: &Scope, features: &Tensor) -> Tensor {
        let hidden = Dense::new(self.hidden).init(narrow, init::zeros);
        let hidden = if self.form == Form::Timm { hidden.layout(WeightLayout::Pointwise) } else { hidden };
        hidden.apply(&cx.at(self.last_paths()[0]), &features.global_avg_pool()).hard_swish()
    }

    fn head(&self, cx: &Scope, features: &Tensor) -> Tensor {
        let pooled = dropout(&cx.at("classifier.2"), &self.pool(cx, features), self.dropout);
        Dense::new(self.classes).init(narrow, init::zeros).apply(&cx.at(self.last_paths()[1]), &pooled)
    }
}
