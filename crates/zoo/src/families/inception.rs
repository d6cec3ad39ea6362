//! InceptionV3 (Szegedy et al., "Rethinking the Inception Architecture for Computer Vision", 2015) as in torchvision, without
//! the second head that only its training uses; and in the form whose features the Fréchet distance (FID) is defined by.

use crate::Model;
use crate::model::head_size;
use octant_graph::Tensor;
use octant_graph::composites::{PaddingCounts, Pool};
use octant_nn::layers::{BatchNorm, Conv2d, Dense, Padding, dropout};
use octant_nn::{Scope, init};

/// Whose averages over 3×3 windows the blocks take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InceptionVariant {
    /// Padding counts.
    Torchvision,
    /// The network of 2015 in TensorFlow: padding does not count, and the last block takes maxima.
    Fid,
}

/// The network.
#[derive(Debug, Clone)]
pub struct Inception {
    /// How blocks pool.
    pub form: InceptionVariant,
    /// The share of features that training drops before the head.
    pub dropout: f64,
    /// Size of the head.
    pub classes: usize,
}

/// A convolution with its batch norm and ReLU; `same` keeps the size.
struct Unit {
    conv: Conv2d,
}

fn unit(features: usize, kernel: usize) -> Unit {
    Unit { conv: Conv2d::new(features, kernel).bias(false).init(init::kaiming_normal_fan_out, init::zeros) }
}

impl Unit {
    fn shaped(self, rows: usize, columns: usize) -> Unit {
        Unit { conv: self.conv.kernel([rows, columns]) }
    }

    /// Without padding.
    fn valid(self, stride: usize) -> Unit {
        Unit { conv: self.conv.padding(Padding::Valid).stride(stride) }
    }

    fn apply(&self, cx: &Scope, x: &Tensor) -> Tensor {
        BatchNorm::new().epsilon(1e-3).apply(&cx.at("bn"), &self.conv.apply(&cx.at("conv"), x)).relu()
    }
}

/// Units one after another, named `branch_1`, `branch_2`, ….
fn chain(cx: &Scope, branch: &str, x: &Tensor, units: impl IntoIterator<Item = Unit>) -> Tensor {
    let numbered = units.into_iter().zip(1..);
    numbered.fold(x.clone(), |y, (unit, number)| unit.apply(&cx.at(format_args!("{branch}_{number}")), &y))
}

fn joined(parts: &[Tensor]) -> Tensor {
    Tensor::concatenate(parts, 3)
}

/// Halves the size.
fn halved(x: &Tensor) -> Tensor {
    x.max_pool(Pool::square(3, 2))
}

impl Inception {
    fn averaged(&self, x: &Tensor) -> Tensor {
        let counts = if self.form == InceptionVariant::Fid { PaddingCounts::No } else { PaddingCounts::Yes };
        x.avg_pool(Pool::square(3, 1).padded(1), counts)
    }

    /// 35×35: factorized 5×5 convolutions.
    fn fine(&self, cx: &Scope, x: &Tensor, pooled: usize) -> Tensor {
        joined(&[
            unit(64, 1).apply(&cx.at("branch1x1"), x),
            chain(cx, "branch5x5", x, [unit(48, 1), unit(64, 5)]),
            chain(cx, "branch3x3dbl", x, [unit(64, 1), unit(96, 3), unit(96, 3)]),
            unit(pooled, 1).apply(&cx.at("branch_pool"), &self.averaged(x)),
        ])
    }

    /// 17×17: 7×7 convolutions as rows and columns.
    fn middle(&self, cx: &Scope, x: &Tensor, width: usize) -> Tensor {
        let row = |features| unit(features, 1).shaped(1, 7);
        let column = |features| unit(features, 1).shaped(7, 1);
        let long = [unit(width, 1), column(width), row(width), column(width), row(192)];
        joined(&[
            unit(192, 1).apply(&cx.at("branch1x1"), x),
            chain(cx, "branch7x7", x, [unit(width, 1), row(width), column(192)]),
            chain(cx, "branch7x7dbl", x, long),
            unit(192, 1).apply(&cx.at("branch_pool"), &self.averaged(x)),
        ])
    }

    /// 8×8: 3×3 convolutions as a row beside a column.
    fn coarse(&self, cx: &Scope, x: &Tensor, pooled: &Tensor) -> Tensor {
        let pair = |name: &str, x: &Tensor| {
            let row = unit(384, 1).shaped(1, 3).apply(&cx.at(format_args!("{name}a")), x);
            joined(&[row, unit(384, 1).shaped(3, 1).apply(&cx.at(format_args!("{name}b")), x)])
        };
        let narrow = unit(384, 1).apply(&cx.at("branch3x3_1"), x);
        let deep = chain(cx, "branch3x3dbl", x, [unit(448, 1), unit(384, 3)]);
        joined(&[
            unit(320, 1).apply(&cx.at("branch1x1"), x),
            pair("branch3x3_2", &narrow),
            pair("branch3x3dbl_3", &deep),
            unit(192, 1).apply(&cx.at("branch_pool"), pooled),
        ])
    }

    fn to_middle(&self, cx: &Scope, x: &Tensor) -> Tensor {
        joined(&[
            unit(384, 3).valid(2).apply(&cx.at("branch3x3"), x),
            chain(cx, "branch3x3dbl", x, [unit(64, 1), unit(96, 3), unit(96, 3).valid(2)]),
            halved(x),
        ])
    }

    fn to_coarse(&self, cx: &Scope, x: &Tensor) -> Tensor {
        let (row, column) = (unit(192, 1).shaped(1, 7), unit(192, 1).shaped(7, 1));
        joined(&[
            chain(cx, "branch3x3", x, [unit(192, 1), unit(320, 3).valid(2)]),
            chain(cx, "branch7x7x3", x, [unit(192, 1), row, column, unit(192, 3).valid(2)]),
            halved(x),
        ])
    }
}

impl Model for Inception {
    head_size!(classes);

    fn set_drop(&mut self, dropout: f64, _: f64) {
        self.dropout = dropout;
    }

    fn head_paths(&self) -> Vec<String> {
        vec!["fc".into()]
    }

    fn ignores(&self, key: &str) -> bool {
        key.starts_with("AuxLogits.")
    }

    fn features(&self, cx: &Scope, images: &Tensor) -> Tensor {
        let y = unit(32, 3).valid(2).apply(&cx.at("Conv2d_1a_3x3"), images);
        let y = unit(32, 3).valid(1).apply(&cx.at("Conv2d_2a_3x3"), &y);
        let y = halved(&unit(64, 3).apply(&cx.at("Conv2d_2b_3x3"), &y));
        let y = unit(80, 1).apply(&cx.at("Conv2d_3b_1x1"), &y);
        let mut y = halved(&unit(192, 3).valid(1).apply(&cx.at("Conv2d_4a_3x3"), &y));
        for (name, pooled) in [("Mixed_5b", 32), ("Mixed_5c", 64), ("Mixed_5d", 64)] {
            y = cx.at(name).block(&y, |cx, y| self.fine(cx, y, pooled));
        }
        y = self.to_middle(&cx.at("Mixed_6a"), &y);
        for (name, width) in [("Mixed_6b", 128), ("Mixed_6c", 160), ("Mixed_6d", 160), ("Mixed_6e", 192)] {
            y = cx.at(name).block(&y, |cx, y| self.middle(cx, y, width));
        }
        y = self.to_coarse(&cx.at("Mixed_7a"), &y);
        y = cx.at("Mixed_7b").block(&y, |cx, y| self.coarse(cx, y, &self.averaged(y)));
        cx.at("Mixed_7c").block(&y, |cx, y| {
            let pooled = match self.form {
                InceptionVariant::Torchvision => self.averaged(y),
                InceptionVariant::Fid => y.max_pool(Pool::square(3, 1).padded(1)),
            };
            self.coarse(cx, y, &pooled)
        })
    }

    fn head(&self, cx: &Scope, features: &Tensor) -> Tensor {
        let y = dropout(cx, &self.pool(cx, features), self.dropout);
        Dense::new(self.classes).apply(&cx.at("fc"), &y)
    }
}
