//! Predictions, typed by what people do with them.

use crate::array::Array;
use crate::error::refused;
use crate::plot::Plot;
use crate::value::from_json;
use octant_data::ObjectDetail;
use octant_imaging::Image;
use octant_metrics::boxes::{PredictedBox, Rectangle};
use octant_predict::{Boxes, Classes, Output, Predictor};
use pyo3::exceptions::PyAttributeError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::path::PathBuf;
use std::sync::Arc;

/// Where the image that was predicted on is: boxes and masks are drawn on it.
pub(crate) enum Original {
    File,
    Image(Image<u8>),
}

/// What a network predicts of an image. Which of `probabilities`, `labels`, `values`, `mask`, `boxes` and `image` there is depends on
/// the network, and `kind` names it; boxes may come with `masks`, `keypoints` or `rotated`. Arrays are read without a copy.
///
/// ```python
/// >>> import numpy
/// >>> detector = octant.load("yolov8-tiny", weights="random", device="cpu", conf=0.0, max_det=3)
/// >>> prediction = detector(numpy.zeros((60, 90, 3), "uint8"))
/// >>> prediction.kind, prediction.boxes.shape, prediction.size
/// ('boxes', (3, 4), (60, 90))
///
/// ```
#[pyclass(frozen, module = "octant", name = "Prediction")]
pub(crate) struct PyPrediction {
    pub prediction: Arc<octant_predict::Prediction>,
    pub original: Original,
    pub predictor: Arc<Predictor>,
}

fn kind(output: &Output) -> &'static str {
    match output {
        Output::Classes(_) => "classes",
        Output::Labels(_) => "labels",
        Output::Values(_) => "values",
        Output::Mask(_) => "mask",
        Output::Boxes(_) => "boxes",
        Output::Image(_) => "image",
        // Numbers of layers are no predictions: `Model.features` returns them.
        _ => "other",
    }
}

impl PyPrediction {
    fn no(&self, wanted: &str) -> PyErr {
        PyAttributeError::new_err(format!(
            "this prediction has {}, and no {wanted}; its `kind` names what there is",
            match kind(&self.prediction.output) {
                "classes" => "probabilities of classes",
                "labels" => "probabilities of labels",
                "mask" => "a mask",
                "image" => "an image",
                other => other,
            }
        ))
    }

    /// What else was predicted of every object; nothing for a detector of boxes alone.
    fn details(&self, wanted: &str) -> PyResult<&[ObjectDetail]> {
        let boxes = self.found(wanted)?;
        match boxes.details.len() == boxes.shown.len() {
            true => Ok(&boxes.details),
            false => Err(self.no(wanted)),
        }
    }

    fn found(&self, wanted: &str) -> PyResult<&Boxes> {
        match &self.prediction.output {
            Output::Boxes(boxes) => Ok(boxes),
            _ => Err(self.no(wanted)),
        }
    }

    fn classified(&self, wanted: &str) -> PyResult<&Classes> {
        match &self.prediction.output {
            Output::Classes(classes) => Ok(classes),
            _ => Err(self.no(wanted)),
        }
    }

    /// Pixels that Python may read as long as it holds them.
    fn pixels(&self, pixels: fn(&Output) -> Option<&Image<u8>>, wanted: &str) -> PyResult<Array> {
        let Some(image) = pixels(&self.prediction.output) else { return Err(self.no(wanted)) };
        let dims: &[usize] = &image.dims();
        let dims = if image.channels() == 1 { &dims[..2] } else { dims };
        // The same function again, on the same prediction.
        let values = |prediction: &octant_predict::Prediction| {
            pixels(&prediction.output).map_or(&[][..], Image::values) as *const [u8]
        };
        Ok(Array::shared(self.prediction.clone(), dims, |prediction| {
            // SAFETY: the slice borrows from the prediction that the array holds.
            unsafe { &*values(prediction) }
        }))
    }

    fn drawn(&self) -> PyResult<Option<Image<u8>>> {
        match (&self.original, &self.prediction.path) {
            (Original::Image(image), _) => Ok(self.prediction.draw(image)),
            (Original::File, Some(path)) => {
                let image = self.predictor.read(path).map_err(refused)?;
                Ok(self.prediction.draw(&image))
            }
            (Original::File, None) => Ok(None),
        }
    }
}

#[pymethods]
impl PyPrediction {
    /// What was predicted: `classes`, `labels`, `values`, `mask`, `boxes` or `image`.
    #[getter]
    fn kind(&self) -> &'static str {
        kind(&self.prediction.output)
    }

    /// The file that the image came from, if it came from one.
    #[getter]
    fn path(&self) -> Option<PathBuf> {
        self.prediction.path.clone()
    }

    /// Height and width of the original image; boxes and masks are in its pixels.
    #[getter]
    fn size(&self) -> (usize, usize) {
        let [height, width] = self.prediction.size;
        (height, width)
    }

    /// The names of classes or columns, as far as they are known.
    #[getter]
    fn names(&self) -> Vec<String> {
        match &self.prediction.output {
            Output::Classes(classes) => classes.names.all().to_vec(),
            Output::Labels(labels) => labels.names.all().to_vec(),
            Output::Values(values) => values.names.columns(values.values.len()),
            Output::Boxes(boxes) => boxes.names.all().to_vec(),
            Output::Mask(mask) => mask.names.all().to_vec(),
            _ => Vec::new(),
        }
    }

    /// A probability per class, or per label of which an image may have any number: float64 `[classes]`.
    #[getter]
    fn probabilities(&self) -> PyResult<Array> {
        let scores = match &self.prediction.output {
            Output::Labels(labels) => labels.scores.clone(),
            _ => self.classified("probabilities")?.scores.clone(),
        };
        Ok(Array::of_vec(&[scores.len()], scores))
    }

    /// The labels that are predicted, each with its name and probability, the likeliest first.
    #[getter]
    fn labels(&self) -> PyResult<Vec<(String, f64)>> {
        match &self.prediction.output {
            Output::Labels(labels) => {
                Ok(labels.chosen().into_iter().map(|(label, score)| (labels.names.of(label), score)).collect())
            }
            _ => Err(self.no("labels")),
        }
    }

    /// The probability from which on each label is predicted: float64 `[labels]`.
    #[getter]
    fn thresholds(&self) -> PyResult<Array> {
        match &self.prediction.output {
            Output::Labels(labels) => {
                let thresholds: Vec<f64> = (0..labels.scores.len()).map(|label| labels.threshold(label)).collect();
                Ok(Array::of_vec(&[thresholds.len()], thresholds))
            }
            _ => Err(self.no("thresholds")),
        }
    }

    /// The number of the likeliest class.
    #[getter]
    fn class_id(&self) -> PyResult<usize> {
        Ok(self.classified("class_id")?.top(1).first().map_or(0, |(class, _)| *class))
    }

    /// The name of the likeliest class.
    #[getter]
    fn class_name(&self) -> PyResult<String> {
        Ok(self.classified("class_name")?.names.of(self.class_id()?))
    }

    /// The likeliest classes, each with its name and probability.
    #[pyo3(signature = (count=5))]
    fn top(&self, count: usize) -> PyResult<Vec<(String, f64)>> {
        let classes = self.classified("top")?;
        Ok(classes.top(count).into_iter().map(|(class, score)| (classes.names.of(class), score)).collect())
    }

    /// Numbers: float64 `[columns]`; `names` has their columns.
    #[getter]
    fn values(&self) -> PyResult<Array> {
        match &self.prediction.output {
            Output::Values(values) => Ok(Array::of_vec(&[values.values.len()], values.values.clone())),
            _ => Err(self.no("values")),
        }
    }

    /// Left, top, right and bottom of every box in pixels, by descending score: float64 `[boxes, 4]`.
    #[getter]
    fn boxes(&self) -> PyResult<Array> {
        let shown = &self.found("boxes")?.shown;
        let corners = |found: &PredictedBox| {
            let Rectangle { x, y, width, height } = found.rectangle;
            [x, y, x + width, y + height]
        };
        Ok(Array::of_vec(&[shown.len(), 4], shown.iter().flat_map(corners).collect::<Vec<f64>>()))
    }

    /// The score of every box: float64 `[boxes]`.
    #[getter]
    fn scores(&self) -> PyResult<Array> {
        let shown = &self.found("scores")?.shown;
        Ok(Array::of_vec(&[shown.len()], shown.iter().map(|found| found.score).collect::<Vec<f64>>()))
    }

    /// The number of every box's class: int64 `[boxes]`.
    #[getter]
    fn class_ids(&self) -> PyResult<Array> {
        let shown = &self.found("class_ids")?.shown;
        Ok(Array::of_vec(&[shown.len()], shown.iter().map(|found| found.class as i64).collect::<Vec<i64>>()))
    }

    /// The name of every box's class.
    #[getter]
    fn class_names(&self) -> PyResult<Vec<String>> {
        let boxes = self.found("class_names")?;
        Ok(boxes.shown.iter().map(|found| boxes.names.of(found.class)).collect())
    }

    /// The mask of every object: uint8 `[objects, height, width]`, 1 where it is.
    #[getter]
    fn masks(&self) -> PyResult<Array> {
        let details = self.details("masks")?;
        let mask = |detail: &ObjectDetail| match detail {
            ObjectDetail::Mask(mask) => Some(mask.pixels().into_iter().map(u8::from).collect::<Vec<u8>>()),
            _ => None,
        };
        let masks: Option<Vec<Vec<u8>>> = details.iter().map(mask).collect();
        let [height, width] = self.prediction.size;
        masks.map(|masks| Array::of_vec(&[masks.len(), height, width], masks.concat())).ok_or_else(|| self.no("masks"))
    }

    /// Column, row and visibility of every object's keypoints: float64 `[objects, keypoints, 3]`.
    #[getter]
    fn keypoints(&self) -> PyResult<Array> {
        let details = self.details("keypoints")?;
        let points = |detail: &ObjectDetail| match detail {
            ObjectDetail::Keypoints(points) => Some(points.clone()),
            _ => None,
        };
        let all: Option<Vec<Vec<[f64; 3]>>> = details.iter().map(points).collect();
        let all = all.ok_or_else(|| self.no("keypoints"))?;
        let count = all.first().map_or(0, Vec::len);
        Ok(Array::of_vec(&[all.len(), count, 3], all.concat().concat()))
    }

    /// Column and row of the center, width, height and radians of every rotated box: float64 `[objects, 5]`.
    #[getter]
    fn rotated(&self) -> PyResult<Array> {
        let details = self.details("rotated")?;
        let numbers = |detail: &ObjectDetail| match detail {
            ObjectDetail::Rotated(found) => {
                Some([found.center[0], found.center[1], found.size[0], found.size[1], found.angle])
            }
            _ => None,
        };
        let all: Option<Vec<[f64; 5]>> = details.iter().map(numbers).collect();
        all.map(|all| Array::of_vec(&[all.len(), 5], all.concat())).ok_or_else(|| self.no("rotated boxes"))
    }

    /// The number of the class of every pixel of the original image, 1 where a network that marks a single class does: uint8
    /// `[height, width]`.
    #[getter]
    fn mask(&self) -> PyResult<Array> {
        self.pixels(|output| if let Output::Mask(mask) = output { Some(&mask.classes) } else { None }, "mask")
    }

    /// The image that was made: uint8 `[height, width, channels]`.
    #[getter]
    fn image(&self) -> PyResult<Array> {
        self.pixels(|output| if let Output::Image(image) = output { Some(image) } else { None }, "image")
    }

    /// The original image with the prediction drawn on it; an image that was made instead of it.
    fn plot(&self, py: Python) -> PyResult<Plot> {
        let drawn = py.detach(|| self.drawn())?;
        drawn.map(Plot::of_image).ok_or_else(|| {
            refused(format!(
                "{} are numbers, and there is nothing to draw; `top()` lists classes and `json()` everything",
                kind(&self.prediction.output)
            ))
        })
    }

    /// Everything as a dictionary, as `octant predict --json` prints it; of classes, `top` are listed.
    #[pyo3(signature = (top=5))]
    fn json<'py>(&self, py: Python<'py>, top: usize) -> PyResult<Bound<'py, PyAny>> {
        from_json(py, &serde_json::Value::Object(self.prediction.json(top)))
    }

    fn _repr_png_<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let drawn = py.detach(|| self.drawn())?;
        drawn.map(|image| Plot::of_image(image).png(py)).transpose()
    }

    fn __repr__(&self) -> String {
        let [height, width] = self.prediction.size;
        let what = match &self.prediction.output {
            Output::Classes(classes) => match classes.top(1).first() {
                Some((class, score)) => format!("{} {score:.4}", classes.names.of(*class)),
                None => "no classes".into(),
            },
            Output::Labels(labels) => {
                let names = labels.chosen().into_iter().map(|(label, _)| labels.names.of(label));
                format!("labels [{}]", names.collect::<Vec<_>>().join(", "))
            }
            Output::Boxes(boxes) => format!("{} boxes", boxes.shown.len()),
            output => kind(output).to_string(),
        };
        let source = self.prediction.source();
        let source = if source.is_empty() { String::new() } else { format!(" of {source}") };
        format!("<octant.Prediction {what}{source}, {height}×{width}>")
    }
}
