//! Suppression of overlapping boxes.

use super::info;
use super::preprocess::Axis;
use super::proto::ValueInfo;
use super::rotated::{CONSIDERED, Rotated};
use super::writer::{Writer, int};
use crate::ExportError;
use crate::network::Dim;
use octant_graph::{DType, HostTensor, Shape, ValueId};

/// Which boxes of a detector are returned, and what else of them.
#[derive(Debug, Clone, PartialEq)]
pub struct BoxRules {
    /// Boxes need a higher score.
    pub score: f32,
    /// A box that overlaps one of its class with a higher score more than this is dropped; none keeps all.
    pub overlap: Option<f32>,
    /// The most boxes per image.
    pub most: usize,
    /// What a row of the network has behind its scores.
    pub detail: BoxDetail,
}

/// What a detector predicts of an object beside its box.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum BoxDetail {
    /// Nothing.
    #[default]
    None,
    /// Coefficients of prototypes, the network's second output, whose pixels stand for so many of the image's side. The file has
    /// `mask_logits`; with its preprocessing `masks`.
    Masks {
        /// Pixels of the image's side per pixel of a prototype.
        stride: usize,
    },
    /// Points in pixels: `keypoints`.
    Keypoints {
        /// How many there are.
        count: usize,
        /// Two, or three with a visibility.
        columns: usize,
    },
    /// The radians by which the box is rotated around its center: `corners`. Overlaps are probabilistic.
    Angle,
}

impl BoxDetail {
    /// Numbers behind the scores of a row.
    fn columns(self, prototypes: usize) -> usize {
        match self {
            BoxDetail::None => 0,
            BoxDetail::Masks { .. } => prototypes,
            BoxDetail::Keypoints { count, columns } => count * columns,
            BoxDetail::Angle => 1,
        }
    }
}

/// The boxes of a file, `[N, most, …]`.
pub(super) struct KeptBoxes {
    pub corners: String,
    pub scores: String,
    pub classes: String,
    /// What lies behind the scores of their rows; empty where that is nothing.
    pub details: String,
    pub most: usize,
}

const PATH: &str = "suppression";

impl Writer<'_> {
    /// The boxes of every image by descending score, from rows of corners and a score per class: `boxes [N, most, 4]`,
    /// `scores [N, most]`, `classes [N, most]` and what else is predicted. Every cell has its likeliest class alone; rows behind
    /// the last box have score 0 and class -1. With the preprocessing in the file there is no batch, and boxes are in pixels of
    /// the image.
    pub(super) fn suppressed(
        &mut self,
        outputs: &[ValueId],
        rules: &BoxRules,
        axes: Option<&[Axis; 2]>,
    ) -> Result<Vec<ValueInfo>, ExportError> {
        let (rows, prototypes) = match (outputs, rules.detail) {
            (&[rows, prototypes], BoxDetail::Masks { .. }) => (rows, Some(prototypes)),
            (&[rows], BoxDetail::None | BoxDetail::Keypoints { .. } | BoxDetail::Angle) => (rows, None),
            _ => return Err(ExportError::Refused("suppression needs rows of corners and scores".into())),
        };
        let &[batch, Dim::Fixed(_), Dim::Fixed(_)] = &self.network.dims(rows)?[..] else {
            return Err(ExportError::Refused("suppression needs rows of corners and scores".into()));
        };
        let count = prototypes.map_or(0, |maps| self.shape(maps).dims().last().copied().unwrap_or(0));
        let kept = self.kept(rows, rules, rules.detail.columns(count))?;
        let batched = |dims: &[Dim]| match axes {
            Some(_) => dims.to_vec(),
            None => [&[batch], dims].concat(),
        };
        let most = Dim::Fixed(kept.most);
        let [scores, classes] = [&kept.scores, &kept.classes].map(|name| match axes {
            Some(_) => self.alone(name),
            None => name.clone(),
        });
        let (boxes, more) = match (rules.detail, prototypes) {
            (BoxDetail::Masks { stride }, Some(prototypes)) => self.with_masks(&kept, prototypes, stride, axes)?,
            (BoxDetail::Keypoints { count, columns }, _) => self.with_keypoints(&kept, [count, columns], axes)?,
            (BoxDetail::Angle, _) => self.with_corners(&kept, axes)?,
            (BoxDetail::None | BoxDetail::Masks { .. }, _) => (self.in_image(&kept.corners, axes)?, vec![]),
        };
        let mut declared = Vec::new();
        let plain = [("boxes", boxes, DType::F32), ("scores", scores, DType::F32), ("classes", classes, DType::I64)];
        for (name, found, dtype) in plain {
            self.output(found, name);
            let dims = if name == "boxes" { vec![most, Dim::Fixed(4)] } else { vec![most] };
            declared.push(info(name, dtype, &batched(&dims)));
        }
        for (found, detail) in more {
            self.output(found, detail.name);
            let mut described = info(detail.name, detail.dtype, &batched(&detail.dims));
            let varying = detail.varying.iter().enumerate();
            varying.for_each(|(index, name)| super::name_dimension(&mut described, index, name));
            declared.push(described);
        }
        Ok(declared)
    }

    /// The rows that stay.
    ///
    /// NonMaxSuppression returns a list over all images and classes. It is scattered back to the cells, so that the number
    /// of boxes is limited for every image of a batch, and shapes do not depend on what is detected.
    fn kept(&mut self, rows: ValueId, rules: &BoxRules, details: usize) -> Result<KeptBoxes, ExportError> {
        let &[_, cells, columns] = self.shape(rows).dims() else {
            return Err(ExportError::Refused("suppression needs rows of corners and scores".into()));
        };
        let classes = columns - 4 - details;
        let table = self.operand(rows, &[0, 1, 2])?;
        let corners = self.columns(&table, 0, 4, PATH);
        let scores = self.columns(&table, 4, 4 + classes, PATH);
        let details = if details == 0 { String::new() } else { self.columns(&table, 4 + classes, columns, PATH) };
        // Cells by their likeliest class.
        let class = self.emit("ArgMax", PATH, vec![scores.clone()], vec![int("axis", 2), int("keepdims", 0)]);
        let axis = self.integers(&[2]);
        let best = self.emit("ReduceMax", PATH, vec![scores, axis], vec![int("keepdims", 0)]);
        let [zero, limit] = [0.0, f64::from(rules.score)].map(|number| self.scalar(number, DType::F32));
        let (zero, limit) = (zero?, limit?);
        let is_sure = self.emit("Greater", PATH, vec![best.clone(), limit], vec![]);
        let best = self.emit("Where", PATH, vec![is_sure, best, zero.clone()], vec![]);
        let (kept, candidates) = match (rules.overlap, rules.detail) {
            (None, _) => (best, None),
            (Some(overlap), BoxDetail::Angle) => {
                let of_cells = Rotated { corners: &corners, angles: &details, classes: &class, cells };
                let (kept, candidates) = self.without_rotated(&best, &of_cells, overlap)?;
                (kept, Some(candidates))
            }
            (Some(overlap), _) => {
                let of_classes = self.by_class(&best, &class, classes, &zero, PATH)?;
                let most_per_class = self.integers(&[cells as i64]);
                let overlap = self.vector(&[overlap], PATH)?;
                let limit = self.vector(&[rules.score], PATH)?;
                let inputs = vec![corners.clone(), of_classes, most_per_class, overlap, limit];
                let chosen = self.emit("NonMaxSuppression", PATH, inputs, vec![int("center_point_box", 0)]);
                (self.at_cells(&best, &chosen, PATH), None)
            }
        };
        let most = rules.most.min(cells).min(if candidates.is_some() { CONSIDERED } else { usize::MAX });
        let [scores, mut cell] = self.top(kept, most);
        if let Some(candidates) = candidates {
            cell = self.emit("GatherElements", PATH, vec![candidates, cell], vec![int("axis", 1)]);
        }
        let class = self.emit("GatherElements", PATH, vec![class, cell.clone()], vec![int("axis", 1)]);
        let is_box = self.emit("Greater", PATH, vec![scores.clone(), zero], vec![]);
        let none = self.scalar(-1.0, DType::I64)?;
        let classes = self.emit("Where", PATH, vec![is_box, class, none], vec![]);
        let corners = self.rows_at(corners, &cell);
        let details = if details.is_empty() { details } else { self.rows_at(details, &cell) };
        Ok(KeptBoxes { corners, scores, classes, details, most })
    }

    /// The largest of every row, descending, and where they are.
    pub(super) fn top(&mut self, values: String, count: usize) -> [String; 2] {
        let count = self.integers(&[count as i64]);
        let attributes = vec![int("axis", 1), int("largest", 1), int("sorted", 1)];
        let top = self.emit_many("TopK", PATH, vec![values, count], 2, attributes);
        [top[0].clone(), top[1].clone()]
    }

    /// Rows of a table `[N, cells, columns]` at `[N, count]` cells.
    pub(super) fn rows_at(&mut self, table: String, cell: &str) -> String {
        let last = self.integers(&[-1]);
        let at = self.emit("Unsqueeze", PATH, vec![cell.into(), last], vec![]);
        self.emit("GatherND", PATH, vec![table, at], vec![int("batch_dims", 1)])
    }

    /// Corners `[N, most, 4]` as the file returns them.
    pub(super) fn in_image(&mut self, corners: &str, axes: Option<&[Axis; 2]>) -> Result<String, ExportError> {
        let Some(axes) = axes else { return Ok(corners.into()) };
        let alone = self.alone(corners);
        self.unfitted(&alone, axes)
    }

    /// Scores `[N, classes, cells]` that are 0 but for the class of each cell.
    fn by_class(
        &mut self,
        best: &str,
        class: &str,
        count: usize,
        zero: &str,
        path: &str,
    ) -> Result<String, ExportError> {
        let axis = self.integers(&[1]);
        let numbers: Vec<f64> = (0..count).map(|number| number as f64).collect();
        let numbers = HostTensor::from_f64s(Shape::new(DType::I64, [1, count, 1]), &numbers);
        let numbers = numbers.map_err(|error| ExportError::Refused(error.to_string()))?;
        let numbers = self.tensor("class_numbers", &[1, count, 1], DType::I64, numbers.bytes());
        let [best, class] =
            [best, class].map(|name| self.emit("Unsqueeze", path, vec![name.into(), axis.clone()], vec![]));
        let is_class = self.emit("Equal", path, vec![class, numbers], vec![]);
        Ok(self.emit("Where", path, vec![is_class, best, zero.into()], vec![]))
    }

    /// Scores `[N, cells]` that are 0 but for cells in a list of (image, class, cell).
    fn at_cells(&mut self, best: &str, chosen: &str, path: &str) -> String {
        let (columns, one) = (self.integers(&[0, 2]), vec![int("axis", 1)]);
        let places = self.emit("Gather", path, vec![chosen.into(), columns], one);
        let found = self.emit("GatherND", path, vec![best.into(), places.clone()], vec![]);
        let nothing = self.emit("Sub", path, vec![best.into(), best.into()], vec![]);
        self.emit("ScatterND", path, vec![nothing, places, found], vec![])
    }

    /// Columns of a table.
    pub(super) fn columns(&mut self, table: &str, from: usize, to: usize, path: &str) -> String {
        let bounds = [from as i64, to as i64, -1].map(|number| self.integers(&[number]));
        let inputs = std::iter::once(table.to_string()).chain(bounds).collect();
        self.emit("Slice", path, inputs, vec![])
    }

    fn vector(&mut self, numbers: &[f32], path: &str) -> Result<String, ExportError> {
        let tensor = HostTensor::new([numbers.len()], numbers);
        let tensor = tensor.map_err(|error| ExportError::Refused(error.to_string()))?;
        Ok(self.tensor(path, &[numbers.len()], DType::F32, tensor.bytes()))
    }
}
