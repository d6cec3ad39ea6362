//! Raw tensors in files through a network, as it sees images: after normalization.

use crate::error::{Result, refuse};
use crate::{Layer, PredictError, Predictor};
use octant_tensor::{DType, HostTensor, Shape, read_npy, write_npy};
use octant_zoo::ModelEntry;
use std::path::Path;

/// The images of a `.npy` file in the layout of networks here, as f32; `channels_first` says whether the file is `[N, C, H, W]`.
pub fn read_images(path: &Path, channels_first: bool, entry: &ModelEntry) -> Result<HostTensor> {
    let tensor = read_npy(path).map_err(refused)?;
    let [_, _, channels] = entry.preprocessing.input;
    let (shape, axes) = (tensor.shape(), axes(channels_first));
    let &[_, second, _, last] = tensor.dims() else {
        refuse!("{} is {shape}; images have four axes: {axes}", path.display());
    };
    let (found, other) = if channels_first { (second, last) } else { (last, second) };
    if found != channels {
        let hint = match other == channels {
            true => format!("; did you mean `layout = {}`?", if channels_first { "nhwc" } else { "nchw" }),
            false => String::new(),
        };
        refuse!("{} is {shape} ({axes}), but {} takes {channels} channels{hint}", path.display(), entry.name);
    }
    let tensor = HostTensor::from_f64s(shape.with_dtype(DType::F32), &tensor.to_f64s())?;
    if channels_first { reordered(&tensor, &[0, 2, 3, 1]) } else { Ok(tensor) }
}

fn refused(error: impl std::error::Error) -> PredictError {
    PredictError::Refused(error.to_string())
}

fn axes(channels_first: bool) -> &'static str {
    if channels_first { "images, channels, rows, columns" } else { "images, rows, columns, channels" }
}

fn reordered(tensor: &HostTensor, axes: &[usize]) -> Result<HostTensor> {
    let strides = tensor.shape().strides();
    let dims: Vec<usize> = axes.iter().map(|&axis| tensor.dims()[axis]).collect();
    let along: Vec<usize> = axes.iter().map(|&axis| strides[axis]).collect();
    HostTensor::from_strides(Shape::new(tensor.dtype(), dims), tensor.bytes(), 0, &along).map_err(refused)
}

impl Predictor {
    /// Computes a layer of images that [`read_images`] read, and writes it to a `.npy` file in the layout that theirs had.
    pub fn raw_to_file(&self, images: &HostTensor, layer: Layer, channels_first: bool, to: &Path) -> Result<Shape> {
        let result = self.raw(images, layer)?;
        let result = match channels_first && result.dims().len() == 4 {
            true => reordered(&result, &[0, 3, 1, 2])?,
            false => result,
        };
        write_npy(to, &result).map_err(refused)?;
        Ok(result.shape().clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_other_layout_is_proposed_where_it_would_fit() {
        let folder = tempfile::tempdir().unwrap();
        let (path, entry) = (folder.path().join("x.npy"), octant_zoo::find("resnet-tiny").unwrap());
        let values: Vec<f32> = (0..2 * 3 * 4 * 5).map(|value| value as f32).collect();
        write_npy(&path, &HostTensor::new(vec![2, 3, 4, 5], &values).unwrap()).unwrap();
        let images = read_images(&path, true, entry).unwrap();
        assert_eq!(images.dims(), [2, 4, 5, 3]);
        assert_eq!(&images.to_f64s()[..3], [0.0, 20.0, 40.0]);
        let error = read_images(&path, false, entry).unwrap_err().to_string();
        assert!(error.contains("did you mean `layout = nchw`?"), "{error}");
    }
}
