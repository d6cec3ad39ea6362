//! One raw tensor through one network.

use super::{Arguments, Chosen, choose, load};
use crate::output::Json;
use crate::{Ending, device};
use anyhow::{Result, bail};
use octant_graph::{DType, HostTensor, Shape, Trace};
use octant_nn::{Context as Network, Mode};
use octant_runtime::{CompileOptions, Mesh, Program, Sharding};
use octant_tensor::{read_npy, write_npy};
use octant_zoo::ModelEntry;
use serde_json::json;
use std::path::Path;

pub(super) fn run(entry: &'static ModelEntry, input: &Path, output: &Path, arguments: &Arguments) -> Result<Ending> {
    let is_nchw = match arguments.layout.as_str() {
        "nchw" => true,
        "nhwc" => false,
        other => bail!("there is no layout \"{other}\"; use nchw or nhwc"),
    };
    let images = images(input, is_nchw, entry)?;
    let chosen = choose(arguments, entry)?;
    let Chosen { entry, classes, .. } = chosen;
    let model = (entry.build)(classes);
    let trace = Trace::new();
    let placeholder = trace.input("images", images.shape().clone());
    let precision = device::precision(&arguments.precision)?;
    let context = Network::new(&trace, Mode::Evaluate, precision);
    let (scope, converted) = (context.root(), placeholder.convert(precision.dtype()));
    let forward = match chosen.card.warm_up {
        true => model.outputs(&scope, &converted, true).swap_remove(0),
        false => model.forward(&scope, &converted),
    };
    let result = match arguments.features {
        // Traced beside the whole network, which declares all variables in their usual order.
        true => model.pool(&scope, &model.features(&scope, &converted)),
        false => forward,
    };
    let specs: Vec<_> = context.variables().into_iter().map(|variable| variable.spec).collect();
    let values = load(arguments, &chosen, &*model, &specs)?;
    let backend = arguments.device.open()?;
    let program = Program::new("prediction", trace.finish(&[result.convert(DType::F32)])?);
    let executable = backend.compile(&program, &CompileOptions::default())?;
    let upload = |tensor: &HostTensor| backend.upload(tensor, &Mesh::single(), &Sharding::Replicated);
    // The trace declared the images first, then the variables in their order.
    let inputs: Result<Vec<_>, _> = std::iter::once(&images).chain(&values).map(upload).collect();
    let answer = executable.execute(&inputs?)?.remove(0).to_host()?;
    let answer = match is_nchw && answer.dims().len() == 4 {
        true => reordered(&answer, &[0, 3, 1, 2])?,
        false => answer,
    };
    write_npy(output, &answer)?;
    match arguments.json {
        true => Json::line(json!({ "event": "done", "model": entry.name, "output": output, "shape": answer.dims() })),
        false => println!("{} {} → {} {}", entry.name, images.shape(), output.display(), answer.shape()),
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
        bail!("{} is {} ({axes}), but {name} looks at {channels} channels{hint}", input.display(), tensor.shape());
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
