//! Images and charts that Python shows: in notebooks by themselves, elsewhere as files or as images of Pillow.

use crate::array::Array;
use crate::error::refused;
use octant_data::{AnyImage, encode_png};
use octant_imaging::Image;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::path::PathBuf;
use std::sync::Arc;

/// A drawn image. Notebooks show it; `pil()` is an image of Pillow, `save()` writes a PNG file, and NumPy reads its pixels.
///
/// ```python
/// >>> import numpy
/// >>> detector = octant.load("yolov8-tiny", weights="random", device="cpu", conf=0.0, max_det=3)
/// >>> plot = detector(numpy.zeros((60, 90, 3), "uint8")).plot()
/// >>> plot.save(folder / "drawn.png")
/// >>> numpy.asarray(plot).shape
/// (60, 90, 3)
///
/// ```
#[pyclass(frozen, module = "octant")]
pub(crate) struct Plot {
    image: Arc<Image<u8>>,
}

impl Plot {
    pub fn of_image(image: Image<u8>) -> Plot {
        Plot { image: Arc::new(image) }
    }
}

#[pymethods]
impl Plot {
    /// Its pixels: uint8 `[height, width, channels]`.
    #[getter]
    fn pixels(&self) -> Array {
        Array::shared(self.image.clone(), &self.image.dims(), |image| image.values())
    }

    #[getter]
    fn __array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Bound::new(py, self.pixels())?.getattr("__array_interface__")
    }

    /// The content of a PNG file.
    pub fn png<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let png = py.detach(|| encode_png(&AnyImage::U8((*self.image).clone())));
        Ok(PyBytes::new(py, &png.map_err(refused)?))
    }

    fn _repr_png_<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        self.png(py)
    }

    /// Writes a PNG file.
    fn save(&self, py: Python, path: PathBuf) -> PyResult<()> {
        py.detach(|| octant_data::write_png_u8(&path, &self.image)).map_err(refused)
    }

    /// An image of Pillow, which must be installed.
    fn pil<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        py.import("PIL.Image")?.call_method1("fromarray", (Bound::new(py, self.pixels())?,))
    }

    fn __repr__(&self) -> String {
        let [height, width, channels] = self.image.dims();
        format!("<octant.Plot {height}×{width}×{channels}>")
    }
}
