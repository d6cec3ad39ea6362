//! Suppression of overlapping boxes.

use super::info;
use super::preprocess::Axis;
use super::proto::ValueInfo;
use super::writer::{Writer, int};
use crate::ExportError;
use crate::network::Dim;
use octant_graph::{DType, HostTensor, Shape, ValueId};

/// Which boxes of a detector are returned.
#[derive(Debug, Clone, PartialEq)]
pub struct BoxRules {
    /// Boxes need a higher score.
    pub score: f32,
    /// A box that overlaps one of its class with a higher score more than this is dropped; none keeps all.
    pub overlap: Option<f32>,
    /// The most boxes per image.
    pub most: usize,
}

impl Writer<'_> {
    /// The boxes of every image by descending score, from rows of corners and a score per class: `boxes [N, most, 4]`,
    /// `scores [N, most]` and `classes [N, most]`. Every cell has its likeliest class alone; rows behind the last box have
    /// score 0 and class -1. With the preprocessing in the file there is no batch, and boxes are in pixels of the image.
    ///
    /// NonMaxSuppression returns a list over all images and classes. It is scattered back to the cells, so that the number
    /// of boxes is limited for every image of a batch, and shapes do not depend on what is detected.
    pub(super) fn suppressed(
        &mut self,
        rows: ValueId,
        rules: &BoxRules,
        axes: Option<&[Axis; 2]>,
    ) -> Result<Vec<ValueInfo>, ExportError> {
        const PATH: &str = "suppression";
        let &[batch, Dim::Fixed(cells), Dim::Fixed(columns)] = &self.network.dims(rows)?[..] else {
            return Err(ExportError::Refused("suppression needs rows of corners and scores".into()));
        };
        let most = rules.most.min(cells);
        let table = self.operand(rows, &[0, 1, 2])?;
        let corners = self.columns(&table, 0, 4, PATH);
        let scores = self.columns(&table, 4, columns, PATH);
        // Cells by their likeliest class.
        let class = self.emit("ArgMax", PATH, vec![scores.clone()], vec![int("axis", 2), int("keepdims", 0)]);
        let axis = self.integers(&[2]);
        let best = self.emit("ReduceMax", PATH, vec![scores, axis], vec![int("keepdims", 0)]);
        let [zero, limit] = [0.0, f64::from(rules.score)].map(|number| self.scalar(number, DType::F32));
        let (zero, limit) = (zero?, limit?);
        let is_sure = self.emit("Greater", PATH, vec![best.clone(), limit.clone()], vec![]);
        let best = self.emit("Where", PATH, vec![is_sure, best, zero.clone()], vec![]);
        let kept = match rules.overlap {
            None => best,
            Some(overlap) => {
                let count = columns - 4;
                let of_classes = self.by_class(&best, &class, count, &zero, PATH)?;
                let most_per_class = self.integers(&[cells as i64]);
                let overlap = self.vector(&[overlap], PATH)?;
                let limit = self.vector(&[rules.score], PATH)?;
                let inputs = vec![corners.clone(), of_classes, most_per_class, overlap, limit];
                let chosen = self.emit("NonMaxSuppression", PATH, inputs, vec![int("center_point_box", 0)]);
                self.at_cells(&best, &chosen, PATH)
            }
        };
        let count = self.integers(&[most as i64]);
        let attributes = vec![int("axis", 1), int("largest", 1), int("sorted", 1)];
        let top = self.emit_many("TopK", PATH, vec![kept, count], 2, attributes);
        let (scores, cell) = (top[0].clone(), top[1].clone());
        let class = self.emit("GatherElements", PATH, vec![class, cell.clone()], vec![int("axis", 1)]);
        let is_box = self.emit("Greater", PATH, vec![scores.clone(), zero], vec![]);
        let none = self.scalar(-1.0, DType::I64)?;
        let class = self.emit("Where", PATH, vec![is_box.clone(), class, none], vec![]);
        let last = self.integers(&[-1]);
        let cell = self.emit("Unsqueeze", PATH, vec![cell, last], vec![]);
        let boxes = self.emit("GatherND", PATH, vec![corners, cell], vec![int("batch_dims", 1)]);
        let mut found = [boxes, scores, class];
        if let Some(axes) = axes {
            found = found.map(|name| self.alone(&name));
            found[0] = self.unfitted(&found[0], axes)?;
        }
        let outputs = [("boxes", DType::F32), ("scores", DType::F32), ("classes", DType::I64)];
        let named = outputs.into_iter().zip(found).map(|((name, dtype), found)| {
            self.output(found, name);
            let dims = [vec![Dim::Fixed(most)], if name == "boxes" { vec![Dim::Fixed(4)] } else { vec![] }].concat();
            let batched = [vec![batch], dims.clone()].concat();
            info(name, dtype, if axes.is_some() { &dims } else { &batched })
        });
        Ok(named.collect())
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
    fn columns(&mut self, table: &str, from: usize, to: usize, path: &str) -> String {
        let bounds = [from as i64, to as i64, 2].map(|number| self.integers(&[number]));
        let inputs = std::iter::once(table.to_string()).chain(bounds).collect();
        self.emit("Slice", path, inputs, vec![])
    }

    fn vector(&mut self, numbers: &[f32], path: &str) -> Result<String, ExportError> {
        let tensor = HostTensor::new([numbers.len()], numbers);
        let tensor = tensor.map_err(|error| ExportError::Refused(error.to_string()))?;
        Ok(self.tensor(path, &[numbers.len()], DType::F32, tensor.bytes()))
    }
}
