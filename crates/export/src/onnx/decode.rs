//! From a network's output to predictions.

use super::boxes::BoxRules;
use super::preprocess::Axis;
use super::proto::ValueInfo;
use super::writer::{Writer, int};
use super::{info, name_dimension, of_value};
use crate::ExportError;
use crate::network::Dim;
use octant_graph::{DType, HostTensor, ValueId};

/// What a file returns.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum Decoder {
    /// The outputs of the network, under these names.
    #[default]
    Outputs,
    /// Boxes after suppression. The network's output is rows of corners and scores, `[N, cells, 4 + classes]`, behind which there
    /// may be more; the file's are `boxes`, `scores` and `classes`, and what else is predicted of them.
    Boxes(BoxRules),
    /// The network's output is a probability per class; the file's are `probabilities`, and `labels` and `scores` of the
    /// likeliest.
    Classes {
        /// How many of the likeliest.
        top: usize,
    },
    /// The network's output is a probability per label; the file's are `probabilities`, and `chosen`, 1 for those from their
    /// thresholds on.
    Labels {
        /// One per label.
        thresholds: Vec<f64>,
    },
    /// The network's output is a score from 0 to 255 per pixel, or logits of several classes; the file's is `mask`, 0 or 255 or the
    /// class per pixel of the image.
    Mask,
}

const PATH: &str = "prediction";

impl Writer<'_> {
    /// Writes the outputs. `axes` are those of the preprocessing, where it is a part of the file: then outputs have no batch,
    /// and boxes and masks are in pixels of the image.
    pub(super) fn decoded(&mut self, axes: Option<&[Axis; 2]>) -> Result<Vec<ValueInfo>, ExportError> {
        let values = self.network.graph().outputs();
        match (&self.options.decoder, values, axes) {
            (Decoder::Outputs, values, _) => {
                values.iter().enumerate().map(|(index, &value)| self.as_it_is(index, value, axes.is_some())).collect()
            }
            (Decoder::Boxes(rules), outputs, axes) => self.suppressed(outputs, rules, axes),
            (Decoder::Classes { top }, &[value], Some(_)) => self.classes(value, *top),
            (Decoder::Labels { thresholds }, &[value], Some(_)) => self.labels(value, thresholds),
            (Decoder::Mask, &[value], Some(axes)) => self.mask(value, axes),
            (Decoder::Classes { .. } | Decoder::Labels { .. } | Decoder::Mask, _, _) => {
                Err(ExportError::Refused("predictions need a network with one output, and its preprocessing".into()))
            }
        }
    }

    fn as_it_is(&mut self, index: usize, value: ValueId, is_alone: bool) -> Result<ValueInfo, ExportError> {
        let name = self.options.outputs.get(index).cloned().unwrap_or_else(|| format!("output{index}"));
        let order = self.outer_layout(value);
        let mut found = self.operand(value, &order)?;
        let mut declared = of_value(self, value, &name, &order)?;
        if is_alone {
            found = self.alone(&found);
            declared = super::without_batch(declared);
        }
        self.output(found, &name);
        Ok(declared)
    }

    /// A tensor without its batch of one.
    pub(super) fn alone(&mut self, name: &str) -> String {
        let first = self.integers(&[0]);
        self.emit("Squeeze", PATH, vec![name.into(), first], vec![])
    }

    fn classes(&mut self, value: ValueId, top: usize) -> Result<Vec<ValueInfo>, ExportError> {
        let count = self.shape(value).dims().last().copied().unwrap_or(0);
        let batch = self.operand(value, &[0, 1])?;
        let probabilities = self.alone(&batch);
        let top = top.clamp(1, count.max(1));
        let most = self.integers(&[top as i64]);
        let attributes = vec![int("axis", 0), int("largest", 1), int("sorted", 1)];
        let best = self.emit_many("TopK", PATH, vec![probabilities.clone(), most], 2, attributes);
        let outputs = [
            ("labels", best[1].clone(), DType::I64, top),
            ("scores", best[0].clone(), DType::F32, top),
            ("probabilities", probabilities, DType::F32, count),
        ];
        Ok(outputs
            .map(|(name, found, dtype, length)| {
                self.output(found, name);
                info(name, dtype, &[Dim::Fixed(length)])
            })
            .to_vec())
    }

    fn labels(&mut self, value: ValueId, thresholds: &[f64]) -> Result<Vec<ValueInfo>, ExportError> {
        let batch = self.operand(value, &[0, 1])?;
        let probabilities = self.alone(&batch);
        let count = thresholds.len();
        let limits: Vec<f32> = thresholds.iter().map(|&threshold| at_least(threshold)).collect();
        let limits = HostTensor::new([count], &limits).map_err(|error| ExportError::Refused(error.to_string()))?;
        let limits = self.tensor("thresholds", &[count], DType::F32, limits.bytes());
        let is_chosen = self.emit("GreaterOrEqual", PATH, vec![probabilities.clone(), limits], vec![]);
        let chosen = self.emit("Cast", PATH, vec![is_chosen], vec![int("to", 2)]);
        let outputs = [("probabilities", probabilities, DType::F32), ("chosen", chosen, DType::U8)];
        Ok(outputs
            .map(|(name, found, dtype)| {
                self.output(found, name);
                info(name, dtype, &[Dim::Fixed(count)])
            })
            .to_vec())
    }

    /// Scores of what the network saw, as marked pixels of the image, or logits as classes: straight lines between them. Where the
    /// network saw nothing, nothing is marked, and the nearest logits count.
    fn mask(&mut self, value: ValueId, [vertical, horizontal]: &[Axis; 2]) -> Result<Vec<ValueInfo>, ExportError> {
        let has_classes = self.shape(value).dtype() != DType::U8;
        let batch = self.operand(value, &[0, 3, 1, 2])?;
        let squeezed = if has_classes { self.integers(&[0]) } else { self.integers(&[0, 1]) };
        let scores = self.emit("Squeeze", PATH, vec![batch, squeezed], vec![]);
        let scores = self.emit("Cast", PATH, vec![scores], vec![int("to", 1)]);
        let rows = self.weights_back(vertical, has_classes)?;
        let columns = self.weights_back(horizontal, has_classes)?;
        let across = self.permute(&columns, &[1, 0]);
        let wide = self.emit("MatMul", PATH, vec![scores, across], vec![]);
        let back = self.emit("MatMul", PATH, vec![rows, wide], vec![]);
        let mask = match has_classes {
            true => {
                let best = self.emit("ArgMax", PATH, vec![back], vec![int("axis", 0), int("keepdims", 0)]);
                self.emit("Cast", PATH, vec![best], vec![int("to", 2)])
            }
            false => {
                // Rounded to whole scores, of which 128 is the first that is marked.
                let limit = self.scalar(127.5, DType::F32)?;
                let is_marked = self.emit("GreaterOrEqual", PATH, vec![back, limit], vec![]);
                let [marked, free] = [self.scalar(255.0, DType::U8)?, self.scalar(0.0, DType::U8)?];
                self.emit("Where", PATH, vec![is_marked, marked, free], vec![])
            }
        };
        self.output(mask, "mask");
        let mut declared = info("mask", DType::U8, &[Dim::Fixed(0), Dim::Fixed(0)]);
        ["height", "width"].iter().enumerate().for_each(|(index, name)| name_dimension(&mut declared, index, name));
        Ok(vec![declared])
    }

    /// Corners in pixels of the frame, `[most, 4]`, in pixels of the image and clipped to it.
    pub(super) fn unfitted(
        &mut self,
        corners: &str,
        [vertical, horizontal]: &[Axis; 2],
    ) -> Result<String, ExportError> {
        let mut parts = Vec::new();
        let first = self.integers(&[0]);
        for of_axis in
            [|axis: &Axis| axis.offset.clone(), |axis: &Axis| axis.scale.clone(), |axis: &Axis| axis.old.clone()]
        {
            let pair = [of_axis(horizontal), of_axis(vertical)];
            let mut numbers = Vec::new();
            for scalar in pair {
                numbers.push(self.emit("Unsqueeze", PATH, vec![scalar, first.clone()], vec![]));
            }
            let four = vec![numbers[0].clone(), numbers[1].clone(), numbers[0].clone(), numbers[1].clone()];
            parts.push(self.emit("Concat", PATH, four, vec![int("axis", 0)]));
        }
        let exact = self.emit("Cast", PATH, vec![corners.into()], vec![int("to", 11)]);
        let moved = self.emit("Sub", PATH, vec![exact, parts[0].clone()], vec![]);
        let scaled = self.emit("Div", PATH, vec![moved, parts[1].clone()], vec![]);
        let zero = self.double(0.0)?;
        let above = self.emit("Max", PATH, vec![scaled, zero], vec![]);
        let inside = self.emit("Min", PATH, vec![above, parts[2].clone()], vec![]);
        Ok(self.emit("Cast", PATH, vec![inside], vec![int("to", 1)]))
    }
}

/// The smallest number of f32 that is no less than another one.
fn at_least(number: f64) -> f32 {
    let near = number as f32;
    if f64::from(near) < number { near.next_up() } else { near }
}
