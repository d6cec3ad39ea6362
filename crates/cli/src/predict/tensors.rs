//! One raw tensor through one network.

use super::{Arguments, of_model};
use crate::Ending;
use crate::output::Json;
use anyhow::{Result, bail};
use octant_predict::{Layer, PredictOptions, Predictor, is_channels_first};
use octant_tensor::{DType, HostTensor, Shape, read_npy, write_npy};
use octant_zoo::ModelEntry;
use serde_json::json;
use std::path::Path;

pub(super) fn run(model: &str, input: &Path, output: &Path, arguments: &Arguments) -> Result<Ending> {
    let is_nchw = is_channels_first(&arguments.layout)?;
    let images = images(input, is_nchw, octant_zoo::find(model)?)?;
    let network = of_model(model, arguments)?;
    let backend = arguments.device.open()?;
    let predictor = Predictor::new(network, &backend, PredictOptions::default())?;
    let result = predictor.raw(&images, if arguments.features { Layer::Pooled } else { Layer::Output })?;
    let result = match is_nchw && result.dims().len() == 4 {
        true => reordered(&result, &[0, 3, 1, 2])?,
        false => result,
    };
    write_npy(output, &result)?;
    let name = predictor.network().recipe.model.as_str();
    match arguments.json {
        true => Json::line(json!({ "event": "done", "model": name, "output": output, "shape": result.dims() })),
        false => println!("{name} {} → {} {}", images.shape(), output.display(), result.shape()),
    }
    Ok(Ending::Done)
}

/// The tensor in the network's layout, as f32.
fn images(input: &Path, is_nchw: bool, entry: &ModelEntry) -> Result<HostTensor> {
    let tensor = read_npy(input)?;
    let [_, _, channels] = entry.preprocessing.input;
    let &[_, second, _, last] = tensor.dims() else {
        bail!("{} is {}; images have four axes: {}", input.display(), tensor.shape(), axes(is_nchw));
    };
    let (found, other) = if is_nchw { (second, last) } else { (last, second) };
    if found != channels {
        let hint = match other == channels {
            true => format!("; did you mean --layout {}?", if is_nchw { "nhwc" } else { "nchw" }),
            false => String::new(),
        };
        let (name, axes) = (entry.name, axes(is_nchw));
        bail!("{} is {} ({axes}), but {name} takes {channels} channels{hint}", input.display(), tensor.shape());
    }
    let tensor = HostTensor::from_f64s(tensor.shape().with_dtype(DType::F32), &tensor.to_f64s())?;
    if is_nchw { reordered(&tensor, &[0, 2, 3, 1]) } else { Ok(tensor) }
}

fn axes(is_nchw: bool) -> &'static str {
    if is_nchw { "images, channels, rows, columns" } else { "images, rows, columns, channels" }
}

fn reordered(tensor: &HostTensor, axes: &[usize]) -> Result<HostTensor> {
    let strides = tensor.shape().strides();
    let dims: Vec<usize> = axes.iter().map(|&axis| tensor.dims()[axis]).collect();
    let along: Vec<usize> = axes.iter().map(|&axis| strides[axis]).collect();
    Ok(HostTensor::from_strides(Shape::new(tensor.dtype(), dims), tensor.bytes(), 0, &along)?)
}
