//! The preprocessing of a network as an exported file has it.

use crate::decode::{Form, Preparation};
use crate::error::{Result, refuse};
use octant_data::{Pipeline, TransformStep};
use octant_export::onnx::{ImageInput, Kernel, Position, ResizedTo, Sampling};
use octant_imaging::resize::Method;
use octant_imaging::{Filter, Semantics};

/// The gray around what a detector sees.
const GRAY: u8 = 114;

/// The preprocessing in a file; a step that has no counterpart there is refused by name.
pub(super) fn image_input(preparation: &Preparation) -> Result<ImageInput> {
    let channels = preparation.channels;
    match &preparation.form {
        Form::Letterboxed(side) => Ok(ImageInput {
            channels,
            frame: [*side; 2],
            resized: ResizedTo::InsideRoundedUp,
            position: Position::Letterbox,
            fill: GRAY,
            sampling: Sampling::Linear { opencv: true },
        }),
        Form::Tiled { .. } => refuse!("networks that make images are exported without preprocessing"),
        Form::Transformed(pipeline) => of_pipeline(pipeline, channels),
    }
}

fn of_pipeline(pipeline: &Pipeline, channels: usize) -> Result<ImageInput> {
    let steps: Vec<&TransformStep> = pipeline.steps.iter().filter(|step| **step != TransformStep::ToU8).collect();
    let (resized, method, frame, fill) = match &steps[..] {
        [TransformStep::Resize { size, method }] => (ResizedTo::Frame, method, size, 0),
        [TransformStep::ResizeShort { side, method }, TransformStep::CenterCrop { size }] => {
            (ResizedTo::Short(*side), method, size, 0)
        }
        [TransformStep::ResizeLong { side, method }, TransformStep::CenterCrop { size }] => {
            (ResizedTo::Long(*side), method, size, 0)
        }
        [TransformStep::ResizeWithPad { size, fill, method }] => (ResizedTo::Inside, method, size, *fill),
        _ => refuse!(
            "an exported file has a resize and a crop of the middle, not {}; export it without preprocessing",
            crate::network::described(pipeline)
        ),
    };
    let (frame, position) = ([frame.0, frame.1], Position::Center);
    Ok(ImageInput { channels, frame, resized, position, fill, sampling: sampling(*method)? })
}

fn sampling(method: Method) -> Result<Sampling> {
    let Method { filter, semantics, antialias } = method;
    let antialiased = |kernel| Sampling::Antialiased { kernel, bytes_between: semantics == Semantics::Pil };
    Ok(match (filter, semantics, antialias) {
        (Filter::Bilinear, Semantics::Pil, _) | (Filter::Bilinear, Semantics::Torchvision, true) => {
            antialiased(Kernel::Triangle)
        }
        (Filter::Bicubic, Semantics::Pil, _) | (Filter::Bicubic, Semantics::Torchvision, true) => {
            antialiased(Kernel::Cubic)
        }
        (Filter::Bilinear, Semantics::OpenCv, false) => Sampling::Linear { opencv: true },
        (Filter::Bilinear, Semantics::Torchvision | Semantics::TensorFlow, false) => Sampling::Linear { opencv: false },
        (Filter::Nearest, Semantics::Pil | Semantics::TensorFlow, _) => Sampling::Nearest,
        _ => refuse!(
            "an exported file has no {filter} resize of {semantics}{}; export it without preprocessing",
            if antialias { " with antialias" } else { "" }
        ),
    })
}
