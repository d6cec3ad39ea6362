//! What happens to images on their way to the network.

use crate::error::refuse;
use crate::{Recipe, Result, Transforms};
use octant_data::{AnyImage, Dataset, Pipeline, SampleRng, Step, Transform};
use octant_imaging::resize::Method;
use octant_imaging::{Filter, Semantics};
use octant_zoo::{Entry, Interpolation};

/// The steps that a name stands for.
pub fn transform(recipe: &Recipe, choice: &Transforms, learns: bool, entry: &Entry) -> Result<Pipeline> {
    let side = recipe.image_size.unwrap_or(entry.preprocessing.input[0]);
    let base = recipe.base_size.unwrap_or(side);
    let filter = match entry.preprocessing.interpolation {
        Interpolation::Bicubic => Filter::Bicubic,
        Interpolation::Bilinear => Filter::Bilinear,
        Interpolation::Nearest => Filter::Nearest,
    };
    let crop = entry.preprocessing.crop as f32;
    let name = match choice {
        Transforms::Steps(pipeline) => return Ok(pipeline.clone()),
        Transforms::Named(name) => name.as_str(),
    };
    Ok(match (name, learns) {
        ("none", _) => Pipeline::default(),
        ("model", _) if crop >= 1.0 => {
            Pipeline::new([Step::Resize { size: (side, side), method: Method::new(filter, Semantics::Pil) }])
        }
        ("model", _) => Pipeline::imagenet_eval(side, crop, filter),
        ("imagenet", true) => Pipeline::imagenet_train(side),
        ("imagenet", false) => Pipeline::imagenet_eval(side, crop, filter),
        ("cifar-finetune", true) => Pipeline::cifar_finetune_train(side),
        ("cifar-finetune" | "cifar-eval", _) => Pipeline::cifar_finetune_eval(side),
        ("irstd", true) => Pipeline::irstd_train(base, recipe.crop_size.unwrap_or(base)),
        ("irstd", false) => Pipeline::irstd_eval(base),
        (other, _) => refuse!(
            "there is no transform \"{other}\"; there are none, model, imagenet, cifar-finetune, cifar-eval, irstd, or a list of steps"
        ),
    })
}

/// The size of images after a transform, tried on the first one.
pub fn image(dataset: &dyn Dataset, transform: &dyn Transform) -> Result<[usize; 3]> {
    let sample = transform.apply(dataset.get(0)?, &mut SampleRng::new(0, 0, 0))?;
    match sample.image {
        AnyImage::U8(image) => Ok(image.dims()),
        other => {
            refuse!("images of {} cannot be trained on; put {{ op = \"to-u8\" }} into the transform", other.dtype())
        }
    }
}
