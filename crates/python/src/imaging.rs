//! Exact imaging: arrays in, arrays out.

use crate::array::{Array, View};
use crate::error::refused;
use octant_imaging::resize::{Method, Resizable};
use octant_imaging::{Channel, Filter, Image, Semantics};
use octant_tensor::{DType, Element};
use pyo3::prelude::*;

/// Resizes an image or a batch as a named library would: see `octant.imaging.resize`.
#[pyfunction]
#[pyo3(signature = (image, size, filter="bilinear", semantics="pil", antialias=None))]
pub(crate) fn resize(
    py: Python,
    image: &Bound<PyAny>,
    size: (usize, usize),
    filter: &str,
    semantics: &str,
    antialias: Option<bool>,
) -> PyResult<Array> {
    let filter: Filter = filter.parse().map_err(refused)?;
    // Pillow's own name is understood, too.
    let semantics: Semantics =
        if semantics == "pillow" { Semantics::Pil } else { semantics.parse().map_err(refused)? };
    let usual = Method::new(filter, semantics);
    let method = Method { antialias: antialias.unwrap_or(usual.antialias), ..usual };
    if size.0 == 0 || size.1 == 0 {
        return Err(refused("`size` is a height and a width of at least 1"));
    }
    let view = View::required(image, "the image")?;
    match view.dtype() {
        DType::U8 => resized::<u8>(py, &view, size, method),
        DType::U16 => resized::<u16>(py, &view, size, method),
        DType::F32 => resized::<f32>(py, &view, size, method),
        other => Err(refused(format!("images are uint8, uint16 or float32, not {other}; convert it first"))),
    }
}

fn resized<T: Channel + Element>(py: Python, view: &View, size: (usize, usize), method: Method) -> PyResult<Array>
where
    Image<T>: Resizable,
{
    let is_batch = view.shape().len() == 4;
    let images: Vec<Image<T>> = match is_batch {
        true => view.parts(py).iter().map(View::to_image).collect::<PyResult<_>>()?,
        false => vec![view.to_image()?],
    };
    let made =
        py.detach(|| images.iter().map(|image| image.resize(size.0, size.1, method)).collect::<Result<Vec<_>, _>>());
    let made = made.map_err(refused)?;
    let channels = view.shape().get(if is_batch { 3 } else { 2 }).copied();
    let inner: Vec<usize> = [Some(size.0), Some(size.1), channels].into_iter().flatten().collect();
    let dims: Vec<usize> = if is_batch { std::iter::once(made.len()).chain(inner).collect() } else { inner };
    let values: Vec<T> = made.into_iter().flat_map(Image::into_values).collect();
    Ok(Array::of_vec(&dims, values))
}
