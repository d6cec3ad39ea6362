//! What people predict on, in Python's types: paths, file contents, images of Pillow, arrays of any library, lists of them.

use crate::array::View;
use crate::error::refused;
use octant_imaging::Image;
use octant_predict::Predictor;
use octant_tensor::DType;
use pyo3::exceptions::PyTypeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyList, PyMemoryView, PyString, PyTuple};
use std::path::PathBuf;

/// Something to predict on, owned: nothing of Python is needed any more.
pub(crate) enum Item {
    /// A file, a folder, a pattern, a list or an address.
    Path(PathBuf),
    /// The content of an image file.
    File(Vec<u8>),
    /// Pixels.
    Image(Image<u8>),
}

/// Reads everything that was given. `channels` is what the network takes.
pub(crate) fn items(object: &Bound<PyAny>, channels: usize, items: &mut Vec<Item>) -> PyResult<()> {
    if object.is_instance_of::<PyString>() {
        items.push(Item::Path(object.extract()?));
    } else if let Ok(bytes) = object.cast::<PyBytes>() {
        items.push(Item::File(bytes.as_bytes().to_vec()));
    } else if object.is_instance_of::<PyByteArray>() || object.is_instance_of::<PyMemoryView>() {
        let bytes = object
            .call_method0(intern!(object.py(), "__bytes__"))
            .or_else(|_| object.py().get_type::<PyBytes>().call1((object,)))?;
        items.push(Item::File(bytes.extract()?));
    } else if object.is_instance_of::<PyList>() || object.is_instance_of::<PyTuple>() {
        for item in object.try_iter()? {
            self::items(&item?, channels, items)?;
        }
    } else if let Some(image) = pillow(object, channels)? {
        items.push(Item::Image(image));
    } else if let Some(view) = View::of(object)? {
        images(&view, object.py(), items)?;
    } else if let Ok(path) = object.extract::<PathBuf>() {
        items.push(Item::Path(path));
    } else {
        let kind = object.get_type().name()?;
        return Err(PyTypeError::new_err(format!(
            "give a path, the bytes of a file, an image of Pillow, an array of height × width × channels, or a list of them, \
             not {kind}"
        )));
    }
    Ok(())
}

/// An image of Pillow, in the channels of the network.
fn pillow(object: &Bound<PyAny>, channels: usize) -> PyResult<Option<Image<u8>>> {
    let py = object.py();
    let is_pillow = ["mode", "convert", "tobytes", "size"].iter().all(|name| object.hasattr(*name).unwrap_or(false));
    if !is_pillow {
        return Ok(None);
    }
    let mode = if channels == 1 { "L" } else { "RGB" };
    let is_mode = object.getattr(intern!(py, "mode"))?.eq(mode)?;
    let image = if is_mode { object.clone() } else { object.call_method1(intern!(py, "convert"), (mode,))? };
    let (width, height): (usize, usize) = image.getattr(intern!(py, "size"))?.extract()?;
    let bytes = image.call_method0(intern!(py, "tobytes"))?;
    let values = bytes.cast::<PyBytes>()?.as_bytes().to_vec();
    Image::new(height, width, if channels == 1 { 1 } else { 3 }, values).map(Some).map_err(refused)
}

/// The images of an array: one of height × width (× channels), or a batch of them.
fn images(view: &View, py: Python, items: &mut Vec<Item>) -> PyResult<()> {
    let shape = view.shape();
    if view.dtype() != DType::U8 {
        return Err(refused(format!(
            "images are uint8 from 0 to 255; this array has {}: scale it to 0–255 and convert it, such as with \
             (x * 255).astype(\"uint8\")",
            view.dtype()
        )));
    }
    match shape {
        [_, _] => items.push(Item::Image(view.to_image()?)),
        [first @ (1 | 3 | 4), _, last] if !(1..=4).contains(last) => {
            return Err(refused(format!(
                "images are height × width × channels; this array has shape {shape:?}, with {first} channels first: move them \
                 to the end, such as with x.transpose(1, 2, 0) or x.permute(1, 2, 0)"
            )));
        }
        [_, _, _] => items.push(Item::Image(view.to_image()?)),
        [_, first @ (1 | 3 | 4), _, last] if !(1..=4).contains(last) => {
            return Err(refused(format!(
                "batches are images × height × width × channels; this array has shape {shape:?}, with {first} channels first: \
                 move them to the end, such as with x.transpose(0, 2, 3, 1) or x.permute(0, 2, 3, 1)"
            )));
        }
        [_, _, _, _] => {
            for part in view.parts(py) {
                items.push(Item::Image(part.to_image()?));
            }
        }
        _ => {
            return Err(refused(format!(
                "images are height × width × channels, or a batch of those; this array has shape {shape:?}"
            )));
        }
    }
    Ok(())
}

/// Reads files and decodes their contents; images stay as they are.
pub(crate) fn decoded(predictor: &Predictor, item: Item) -> PyResult<(Option<PathBuf>, Image<u8>)> {
    match item {
        Item::Path(path) => predictor.read(&path).map(|image| (Some(path), image)),
        Item::File(bytes) => predictor.read_bytes(&bytes).map(|image| (None, image)),
        Item::Image(image) => Ok((None, image)),
    }
    .map_err(refused)
}
