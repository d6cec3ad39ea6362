//! Features of images: what a layer of a network computes, as one array.

use crate::array::Array;
use crate::error::refused;
use crate::input::{Item, decoded};
use octant_predict::{Layer, Predictor, PreparedImage, RowShape};
use pyo3::prelude::*;

/// What a layer computes of single files and images, in their order: `[images, …]`. So many go through the network `together`.
pub(crate) fn features(
    predictor: &Predictor,
    items: impl Iterator<Item = Item>,
    layer: Layer,
    together: usize,
) -> PyResult<Array> {
    let Some(rows) = predictor.image_rows() else {
        let model = &predictor.network().recipe.model;
        return Err(refused(format!("{model} takes images of any size, so its features have no shape in common")));
    };
    let shape = RowShape { layer, ..rows };
    let (mut values, mut dims, mut items) = (Vec::new(), vec![0], items.peekable());
    while items.peek().is_some() {
        let prepare = |item| {
            let (_, image) = decoded(predictor, item)?;
            predictor.prepare(&image).map_err(refused)
        };
        let prepared: Vec<PreparedImage> = items.by_ref().take(together).map(prepare).collect::<PyResult<_>>()?;
        let pixels: Vec<&[u8]> = prepared.iter().map(PreparedImage::pixels).collect();
        let found = predictor.run_rows(&shape, &pixels).map_err(refused)?;
        let elements: &[f32] = found.elements().map_err(refused)?;
        let of_one = &found.dims()[1..];
        // The program may have more rows than there are images.
        values.extend_from_slice(&elements[..pixels.len() * of_one.iter().product::<usize>()]);
        let count = dims[0] + pixels.len();
        dims = [&[count], of_one].concat();
    }
    match dims[0] {
        0 => Err(refused("there are no images, so there are no features")),
        _ => Ok(Array::of_vec(&dims, values)),
    }
}
