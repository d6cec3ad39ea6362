//! A batch of the loader: images, and targets by name.

use super::pinned::pinned;
use crate::array::Array;
use octant_data::{Position, Targets};
use octant_tensor::{DType, HostTensor};
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// Images and targets that are computed on together. Iterating yields the images and the first of the targets, as training loops
/// unpack them.
///
/// ```python
/// >>> loader = octant.Loader("glyphs", batch=16, transform="none", **{"data.train": 64, "data.test": 4})
/// >>> batch = next(iter(loader))
/// >>> batch.images.shape, list(batch.targets), batch.valid
/// ((16, 28, 28, 1), ['classes'], 16)
///
/// ```
#[pyclass(frozen, module = "octant", name = "Batch")]
pub(crate) struct PyBatch {
    position: Position,
    valid: usize,
    indices: Vec<u64>,
    images: Py<Array>,
    mask: Py<Array>,
    targets: Vec<(&'static str, Py<Array>)>,
}

/// The name of what labels say of objects beside their boxes: see [`Targets::Boxes`] for the forms.
fn detail_name(details: &HostTensor) -> &'static str {
    match (details.shape().dtype(), details.dims().len()) {
        (DType::I32, _) => "owners",
        (_, 4) => "keypoints",
        _ => "rotated",
    }
}

impl PyBatch {
    pub fn new(py: Python, mut batch: octant_data::Batch, is_short: bool, is_pinned: bool) -> PyResult<PyBatch> {
        if is_short {
            batch
                .indices
                .truncate(batch.indices.iter().rposition(|&index| index != u64::MAX).map_or(0, |last| last + 1));
        }
        let rows = batch.indices.len();
        let array = |tensor| {
            let array = Array::of_tensor(tensor).first(rows);
            Py::new(py, if is_pinned { pinned(py, array)? } else { array })
        };
        let targets = match batch.targets {
            Targets::Classes(classes) => vec![("classes", array(classes)?)],
            Targets::Mixed { classes, partners, shares } => {
                vec![("classes", array(classes)?), ("partners", array(partners)?), ("shares", array(shares)?)]
            }
            Targets::Masks(masks) => vec![("masks", array(masks)?)],
            Targets::Labels(labels) => vec![("labels", array(labels)?)],
            Targets::Values(values) => vec![("values", array(values)?)],
            Targets::Images(images) => vec![("target_images", array(images)?)],
            Targets::Boxes { corners, classes, details, .. } => {
                let mut arrays = vec![("boxes", array(corners)?), ("classes", array(classes)?)];
                if let Some(details) = details {
                    arrays.push((detail_name(&details), array(details)?));
                }
                arrays
            }
        };
        let (images, mask) = (array(batch.images)?, array(batch.mask)?);
        Ok(PyBatch { position: batch.position, valid: batch.valid, indices: batch.indices, images, mask, targets })
    }

    fn target(&self, py: Python, name: &str) -> PyResult<Py<Array>> {
        let found = self.targets.iter().find(|(own, _)| *own == name);
        found.map(|(_, array)| array.clone_ref(py)).ok_or_else(|| {
            let names: Vec<&str> = self.targets.iter().map(|(own, _)| *own).collect();
            pyo3::exceptions::PyAttributeError::new_err(format!("this batch has {}, and no {name}", names.join(", ")))
        })
    }
}

#[pymethods]
impl PyBatch {
    /// `[n, height, width, channels]`, nearly always uint8.
    #[getter]
    fn images(&self, py: Python) -> Py<Array> {
        self.images.clone_ref(py)
    }

    /// All targets by name.
    #[getter]
    fn targets<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let targets = PyDict::new(py);
        self.targets.iter().try_for_each(|(name, array)| targets.set_item(name, array))?;
        Ok(targets)
    }

    /// Numbers of classes: int32 `[n]`, of boxes `[n, boxes]` with −1 where there is no box.
    #[getter]
    fn classes(&self, py: Python) -> PyResult<Py<Array>> {
        self.target(py, "classes")
    }

    /// Of mixed images, the class of the one that was mixed in: int32 `[n]`.
    #[getter]
    fn partners(&self, py: Python) -> PyResult<Py<Array>> {
        self.target(py, "partners")
    }

    /// Of mixed images, how much of the first one is left: float32 `[n]`.
    #[getter]
    fn shares(&self, py: Python) -> PyResult<Py<Array>> {
        self.target(py, "shares")
    }

    /// Label images: uint8 `[n, height, width, 1]`.
    #[getter]
    fn masks(&self, py: Python) -> PyResult<Py<Array>> {
        self.target(py, "masks")
    }

    /// 1 for every label that an image has, 0 for the others: float32 `[n, k]`.
    #[getter]
    fn labels(&self, py: Python) -> PyResult<Py<Array>> {
        self.target(py, "labels")
    }

    /// Numbers to regress: float32 `[n, k]`.
    #[getter]
    fn values(&self, py: Python) -> PyResult<Py<Array>> {
        self.target(py, "values")
    }

    /// Images to be made: uint8 `[n, height, width, channels]`.
    #[getter]
    fn target_images(&self, py: Python) -> PyResult<Py<Array>> {
        self.target(py, "target_images")
    }

    /// Left, top, right and bottom in pixels: float32 `[n, boxes, 4]`.
    #[getter]
    fn boxes(&self, py: Python) -> PyResult<Py<Array>> {
        self.target(py, "boxes")
    }

    /// Of outlines, which box's object is seen at every pixel of a grid of a quarter of the image's size, counted from 1, and 0 where
    /// there is none: int32 `[n, height / 4, width / 4]`.
    #[getter]
    fn owners(&self, py: Python) -> PyResult<Py<Array>> {
        self.target(py, "owners")
    }

    /// Of every box, column, row and 0, 1 or 2 for unknown, hidden and visible of its keypoints: float32
    /// `[n, boxes, keypoints, 3]`.
    #[getter]
    fn keypoints(&self, py: Python) -> PyResult<Py<Array>> {
        self.target(py, "keypoints")
    }

    /// Column and row of the center, width, height and radians of every rotated box: float32 `[n, boxes, 5]`.
    #[getter]
    fn rotated(&self, py: Python) -> PyResult<Py<Array>> {
        self.target(py, "rotated")
    }

    /// 1 for rows that count, 0 for padding and samples that were left out, whose content has no meaning: float32 `[n]`.
    #[getter]
    fn mask(&self, py: Python) -> Py<Array> {
        self.mask.clone_ref(py)
    }

    /// How many rows count.
    #[getter]
    fn valid(&self) -> usize {
        self.valid
    }

    /// The sample of every row; none for padding.
    #[getter]
    fn indices(&self) -> Vec<Option<u64>> {
        self.indices.iter().map(|&index| (index != u64::MAX).then_some(index)).collect()
    }

    /// The epoch, from 0.
    #[getter]
    fn epoch(&self) -> u64 {
        self.position.epoch
    }

    /// The number of the batch in its epoch, from 0.
    #[getter]
    fn index(&self) -> u64 {
        self.position.batch
    }

    fn __len__(&self) -> usize {
        1 + self.targets.len().min(1)
    }

    fn __getitem__(&self, py: Python, index: usize) -> PyResult<Py<Array>> {
        match (index, self.targets.first()) {
            (0, _) => Ok(self.images(py)),
            (1, Some((_, array))) => Ok(array.clone_ref(py)),
            _ => Err(pyo3::exceptions::PyIndexError::new_err("a batch has images and targets")),
        }
    }

    fn __repr__(&self, py: Python) -> String {
        let names: Vec<&str> = self.targets.iter().map(|(name, _)| *name).collect();
        let shape = self.images.bind(py).get().shape().to_vec();
        format!("<octant.Batch {} of epoch {}: images {shape:?}, {}>", self.index(), self.epoch(), names.join(", "))
    }
}
