//! Models: a network with its weights on a device.

use crate::array::Array;
use crate::error::refused;
use crate::features::features;
use crate::input::{Item, decoded, items};
use crate::library::{Level, downloads, log, refuse_fork};
use crate::prediction::{Original, PyPrediction};
use crate::value::from_json;
use octant_imaging::Image;
use octant_predict::{
    Cancel, ExportBatch, ExportOptions, ExportTarget, Network, Opening, PredictOptions, Prediction, Predictor, Sources,
    Suppression, refuse_box_rules,
};
use octant_recipe::TaskOutput;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::path::PathBuf;
use std::sync::Arc;

/// Files per call of the predictor.
const TOGETHER: usize = 8;

/// A network with its weights, its preprocessing and its decoder. Threads may share it: predictions free Python's global lock,
/// and do not depend on what else runs.
#[pyclass(frozen, module = "octant")]
pub(crate) struct Model {
    pub predictor: Arc<Predictor>,
    /// The run or file, to open the network once more.
    opening: Opening,
    names: Option<Vec<String>>,
    /// Which boxes are shown, and which an export with `nms` has.
    boxes: Suppression,
}

impl Model {
    /// The network once more.
    pub fn network(&self) -> PyResult<Network> {
        opened(&self.opening, self.names.as_deref())
    }
}

/// The network of a run, of a file of weights that names it, or of a model with weights.
fn opened(opening: &Opening, names: Option<&[String]>) -> PyResult<Network> {
    let mut network = opening.network(&downloads(), &mut |_, _, _| {}).map_err(refused)?;
    network.remarks.iter().for_each(|remark| log(Level::Info, remark));
    if let Some(names) = names {
        network.names = names.to_vec();
    }
    Ok(network)
}

/// A network with its weights on a device.
///
/// `source` is a run, a file of weights that names its network, or a model (`octant.models()`) together with `weights`: a
/// file, an address, `"pretrained"`, or `"random"`.
///
/// ```python
/// >>> model = octant.load("resnet-tiny", weights="random", device="cpu")
/// >>> model.name, model.task, model.image_size
/// ('resnet-tiny', 'classify', (32, 32))
///
/// ```
#[pyfunction]
#[pyo3(signature = (
    source, weights=None, *, device="auto", threads=None, checkpoint=None, classes=None, partial=false, precision=None,
    names=None, conf=None, iou=None, max_det=None, size=None, tile=None
))]
pub(crate) fn load(
    py: Python,
    source: PathBuf,
    weights: Option<PathBuf>,
    device: &str,
    threads: Option<usize>,
    checkpoint: Option<String>,
    classes: Option<usize>,
    partial: bool,
    precision: Option<&str>,
    names: Option<Vec<String>>,
    conf: Option<f32>,
    iou: Option<f32>,
    max_det: Option<usize>,
    size: Option<usize>,
    tile: Option<usize>,
) -> PyResult<Model> {
    refuse_fork()?;
    let precision = precision.map(str::parse).transpose().map_err(refused)?;
    let opening = Opening { weights, checkpoint, classes, partial, precision, ..Opening::of(source) };
    let usual = PredictOptions::default();
    let boxes = Suppression {
        score: conf.unwrap_or(usual.boxes.score),
        overlap: iou.unwrap_or(usual.boxes.overlap),
        most: max_det.unwrap_or(usual.boxes.most),
        ..usual.boxes.clone()
    };
    refuse_box_rules(&boxes).map_err(refused)?;
    let options = PredictOptions { boxes, side: size, tile, ..usual };
    py.detach(|| {
        let network = opened(&opening, names.as_deref())?;
        let of_boxes = |name, is_given| {
            (
                name,
                is_given,
                &[TaskOutput::Boxes, TaskOutput::Instances, TaskOutput::Keypoints, TaskOutput::Rotated][..],
                "detectors",
            )
        };
        let ignored = network.refuse_ignored(&[
            of_boxes("conf", conf.is_some()),
            of_boxes("iou", iou.is_some()),
            of_boxes("max_det", max_det.is_some()),
            of_boxes("size", size.is_some()),
            ("tile", tile.is_some(), PredictOptions::TILED, "detectors and networks that make images"),
        ]);
        ignored.map_err(refused)?;
        let device = crate::library::device(device, threads)?;
        let boxes = options.boxes.clone();
        let predictor = Predictor::new(network, &device, options).map_err(refused)?;
        Ok(Model { predictor: Arc::new(predictor), opening, names, boxes })
    })
}

impl Model {
    /// Files, folders, patterns, lists and addresses as single files; the rest as it is.
    fn found(&self, given: Vec<Item>) -> PyResult<Vec<Item>> {
        let mut found = Vec::with_capacity(given.len());
        for item in given {
            let Item::Path(path) = item else {
                found.push(item);
                continue;
            };
            let sources = Sources::find(&[path], &downloads(), &mut |_, _, _| {}).map_err(refused)?;
            if let Some((_, error)) = sources.unreachable.into_iter().next() {
                return Err(refused(error));
            }
            for source in sources.files {
                if source.is_video() {
                    let path = source.path.display();
                    return Err(refused(format!(
                        "{path} is a video; `octant predict` takes videos, and `predict` images"
                    )));
                }
                found.push(Item::Path(source.path));
            }
        }
        Ok(found)
    }

    fn predicted(&self, given: Vec<Item>) -> PyResult<Vec<PyPrediction>> {
        let mut predictions = Vec::with_capacity(given.len());
        let mut rest = self.found(given)?.into_iter().peekable();
        while rest.peek().is_some() {
            let together = rest.by_ref().take(TOGETHER).map(|item| decoded(&self.predictor, item));
            let (paths, images): (Vec<Option<PathBuf>>, Vec<Image<u8>>) =
                together.collect::<PyResult<Vec<_>>>()?.into_iter().unzip();
            let made = self.predictor.predict_images(&images, &Cancel::never()).map_err(refused)?;
            predictions.extend(made.into_iter().zip(paths).zip(images).map(|((made, path), image)| PyPrediction {
                // A file is read again if it is drawn on; what came from memory is nowhere else.
                original: if path.is_some() { Original::File } else { Original::Image(image) },
                prediction: Arc::new(Prediction { path, ..made }),
                predictor: self.predictor.clone(),
            }));
        }
        Ok(predictions)
    }
}

#[pymethods]
impl Model {
    /// A prediction per image, in their order. Give a path (of a file, a folder, a pattern, a list or an address), the bytes of
    /// an image file, an image of Pillow, an array of height × width × channels in uint8 or a batch of those, or a list of any
    /// of them. Arrays are NumPy's, PyTorch's, JAX's or of any other library with `__dlpack__`.
    ///
    /// ```python
    /// >>> import numpy
    /// >>> model = octant.load("resnet-tiny", weights="random", device="cpu")
    /// >>> images = numpy.zeros((2, 40, 50, 3), "uint8")
    /// >>> [prediction.kind for prediction in model.predict(images)]
    /// ['classes', 'classes']
    ///
    /// ```
    fn predict(&self, py: Python, images: &Bound<PyAny>) -> PyResult<Vec<PyPrediction>> {
        refuse_fork()?;
        let mut given = Vec::new();
        items(images, self.predictor.channels(), &mut given)?;
        py.detach(|| self.predicted(given))
    }

    /// The prediction of one image.
    fn __call__(&self, py: Python, image: &Bound<PyAny>) -> PyResult<PyPrediction> {
        let mut predictions = self.predict(py, image)?;
        match (predictions.pop(), predictions.len()) {
            (Some(prediction), 0) => Ok(prediction),
            (_, others) => {
                Err(refused(format!("this is for one image, and {} were given; `predict` takes several", others + 1)))
            }
        }
    }

    /// What a layer computes of every image, in their order: float32 `[images, …]`. Layers are `pooled`, what the last linear layer
    /// sees; `output`, the network's result; and `map`, the last feature map, or all tokens. Images are given as to `predict`.
    ///
    /// ```python
    /// >>> import numpy
    /// >>> model = octant.load("resnet-tiny", weights="random", device="cpu")
    /// >>> features = model.features(numpy.zeros((5, 40, 50, 3), "uint8"))
    /// >>> features.shape, features.dtype == "float32"
    /// ((5, 20), True)
    ///
    /// ```
    #[pyo3(signature = (images, layer="pooled"))]
    fn features(&self, py: Python, images: &Bound<PyAny>, layer: &str) -> PyResult<Array> {
        refuse_fork()?;
        let layer = layer.parse().map_err(refused)?;
        let mut given = Vec::new();
        items(images, self.predictor.channels(), &mut given)?;
        py.detach(|| features(&self.predictor, self.found(given)?.into_iter(), layer, TOGETHER))
    }

    /// Compiles programs for so many images at a time, so that no later call waits for a compiler.
    #[pyo3(signature = (batches=vec![1]))]
    fn warm_up(&self, py: Python, batches: Vec<usize>) -> PyResult<()> {
        refuse_fork()?;
        if batches.contains(&0) {
            return Err(refused("`batches` are numbers of images that go through the network together, at least 1"));
        }
        py.detach(|| self.predictor.warm_up(&batches)).map_err(refused)
    }

    /// The weights with the reference's names and layouts, as arrays: what PyTorch's `load_state_dict` takes after
    /// `torch.from_dlpack`.
    ///
    /// ```python
    /// >>> model = octant.load("resnet-tiny", weights="random", device="cpu")
    /// >>> model.state_dict()["conv1.weight"].shape
    /// (64, 3, 7, 7)
    ///
    /// ```
    fn state_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let tensors = py.detach(|| self.predictor.network().state_dict()).map_err(refused)?;
        // Weights are shared with the network, and these are the caller's own.
        let dict = PyDict::new(py);
        tensors.into_iter().try_for_each(|(name, tensor)| dict.set_item(name, Array::of_tensor(tensor).copied()))?;
        Ok(dict)
    }

    /// Writes the network as a file that other runtimes execute, and returns what it takes and returns. With `nms` a detector's file
    /// returns boxes by the `conf`, `iou` and `max_det` that the model was loaded with.
    ///
    /// ```python
    /// >>> model = octant.load("resnet-tiny", weights="random", device="cpu")
    /// >>> model.export(folder / "network.onnx", batch=2)["inputs"]
    /// ['images f32[2, 3, 32, 32]']
    ///
    /// ```
    #[pyo3(signature = (
        path, *, format=None, opset=None, half=false, layout=None, batch=None, image_size=None, nms=false,
        with_preprocessing=false, weights_beside=false
    ))]
    fn export<'py>(
        &self,
        py: Python<'py>,
        path: PathBuf,
        format: Option<&str>,
        opset: Option<i64>,
        half: bool,
        layout: Option<String>,
        batch: Option<usize>,
        image_size: Option<usize>,
        nms: bool,
        with_preprocessing: bool,
        weights_beside: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        refuse_fork()?;
        let options = ExportOptions {
            opset,
            half,
            layout,
            batch: batch.map_or(ExportBatch::Usual, ExportBatch::Of),
            image_size,
            boxes: nms.then(|| self.boxes.clone()),
            with_preprocessing,
            weights_beside,
        };
        let written = py.detach(|| -> PyResult<_> {
            let target = match format {
                Some(format) => format.parse(),
                None => ExportTarget::of_file(&path),
            };
            self.network()?.export(target.map_err(refused)?, &options, &path).map_err(refused)
        })?;
        from_json(py, &written.json())
    }

    /// The name of the model.
    #[getter]
    fn name(&self) -> String {
        self.predictor.network().recipe.model.clone()
    }

    /// What it was trained for, such as `classify`.
    #[getter]
    fn task(&self) -> String {
        self.predictor.network().recipe.task.clone()
    }

    /// The names of classes or columns, as far as they are known.
    #[getter]
    fn names(&self) -> Vec<String> {
        self.predictor.network().names.clone()
    }

    /// What should be known of its weights, as sentences.
    #[getter]
    fn remarks(&self) -> Vec<String> {
        self.predictor.network().remarks.clone()
    }

    /// The channels of its images: 1 for gray ones, 3 for colored ones.
    #[getter]
    fn channels(&self) -> usize {
        self.predictor.channels()
    }

    /// Height and width of what the network sees; none where that follows each image.
    #[getter]
    fn image_size(&self) -> Option<(usize, usize)> {
        self.predictor.image_size().map(|[height, width]| (height, width))
    }

    /// How images are prepared, in words.
    #[getter]
    fn preprocessing(&self) -> String {
        self.predictor.preprocessing()
    }

    /// The device that it runs on.
    #[getter]
    fn device(&self) -> String {
        self.predictor.device().name().to_string()
    }

    fn __repr__(&self) -> String {
        let network = self.predictor.network();
        let weights = network.source.path.as_ref().map_or("random weights".into(), |path| path.display().to_string());
        format!("<octant.Model {} from {weights}, on {}>", network.recipe.model, self.predictor.device().name())
    }
}
