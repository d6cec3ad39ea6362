//! From an image to what the network sees, and from the network's numbers back to the image.

use crate::error::{Result, refusal, refuse};
use crate::prediction::{Boxes, Classes, Mask, Names, Values};
use crate::tiles::Tiling;
use crate::{Network, Output, PredictError, PredictOptions};
use octant_data::detection::{Fitted, fit};
use octant_data::transforms::Placed;
use octant_data::{AnyImage, Pipeline, Sample, SampleRng, Target, Transform};
use octant_imaging::Image;
use octant_metrics::boxes::{PredictedBox, Rectangle, Suppression, suppress};
use octant_recipe::TaskOutput;
use octant_tensor::{DType, HostTensor};

/// How images are prepared for a network, and how its numbers are read.
pub(crate) struct Preparation {
    /// 1 or 3.
    pub channels: usize,
    pub form: Form,
    pub decoder: Decoder,
}

/// What happens to an image before the network sees it.
pub(crate) enum Form {
    /// The steps of a transform.
    Transformed(Pipeline),
    /// It is fitted into the middle of a gray square of that side.
    Letterboxed(usize),
    /// It is left as it is, in tiles where it is large. Sides of tiles are multiples of one number, and what is made of them is
    /// the other number times larger.
    Tiled { multiple: usize, enlarges: usize },
}

/// An image as the network sees it, and how to get back.
pub struct PreparedImage {
    pub(crate) image: Image<u8>,
    /// Height and width of the original.
    pub(crate) size: [usize; 2],
    /// Where the original lies in the image; none where the transform is random.
    placed: Option<Placed>,
    fitted: Option<Fitted>,
}

impl Preparation {
    pub fn of(network: &Network, options: &PredictOptions) -> Result<Preparation> {
        let entry = network.entry()?;
        let channels = if entry.preprocessing.input[2] == 1 { 1 } else { 3 };
        let names = Names::new(network.names.clone());
        let (outputs, model) = (network.outputs, network.model()?);
        let transform = || network.transform().map(Form::Transformed);
        let (form, decoder) = match network.output()? {
            TaskOutput::Boxes => {
                let side = options.side.or(network.recipe.image_size).unwrap_or(entry.preprocessing.input[0]);
                let head = model.detector();
                let coarsest = head.as_ref().and_then(|head| head.strides.last().copied()).unwrap_or(1);
                if side == 0 || !side.is_multiple_of(coarsest) {
                    refuse!(
                        "--size {side}: the side must be a multiple of {coarsest}, the coarsest cells of the network"
                    );
                }
                let suppresses = !head.is_some_and(|head| head.one_to_one);
                (Form::Letterboxed(side), Decoder::Boxes { classes: outputs, suppresses, names })
            }
            TaskOutput::Image => {
                (Form::Tiled { multiple: model.multiple(), enlarges: model.enlarges() }, Decoder::Image)
            }
            TaskOutput::Mask => (transform()?, Decoder::Mask(names)),
            TaskOutput::Values => (transform()?, Decoder::Values(names)),
            TaskOutput::Classes => (transform()?, Decoder::Classes(names)),
        };
        Ok(Preparation { channels, form, decoder })
    }

    /// Height and width of what the network sees; none where that follows each image.
    pub fn size(&self) -> Option<[usize; 2]> {
        match &self.form {
            Form::Letterboxed(side) => Some([*side; 2]),
            Form::Tiled { .. } => None,
            Form::Transformed(pipeline) => {
                // A transform that fixes the size makes the same of images of any two shapes.
                let after = |height: usize, width: usize| {
                    let image = Image::filled(height, width, self.channels, 0);
                    self.transformed(pipeline, image).ok().map(|image| [image.height(), image.width()])
                };
                let size = after(64, 96)?;
                (after(96, 64)? == size).then_some(size)
            }
        }
    }

    /// In words; `transform` describes the steps of a transform.
    pub fn describe(&self, transform: impl Fn(&Pipeline) -> String) -> String {
        match &self.form {
            Form::Letterboxed(side) => format!("letterbox side={side}, bilinear as OpenCV, gray 114"),
            Form::Tiled { multiple, .. } => format!("the whole image, mirrored to a multiple of {multiple}"),
            Form::Transformed(pipeline) => transform(pipeline),
        }
    }

    pub fn prepare(&self, original: &Image<u8>) -> Result<PreparedImage> {
        let size = [original.height(), original.width()];
        match &self.form {
            Form::Letterboxed(side) => {
                let (image, fitted) = fit(original, *side)?;
                Ok(PreparedImage { image, size, placed: None, fitted: Some(fitted) })
            }
            Form::Transformed(pipeline) => {
                let placed = pipeline.placed(size[0], size[1]);
                Ok(PreparedImage { image: self.transformed(pipeline, original.clone())?, size, placed, fitted: None })
            }
            Form::Tiled { .. } => Ok(PreparedImage { image: original.clone(), size, placed: None, fitted: None }),
        }
    }

    fn transformed(&self, pipeline: &Pipeline, image: Image<u8>) -> Result<Image<u8>> {
        let sample = Sample { image: AnyImage::U8(image), target: Target::Class(0) };
        match pipeline.apply(sample, &mut SampleRng::new(0, 0, 0))?.image {
            AnyImage::U8(image) => Ok(image),
            other => refuse!("the transform makes elements of {}; put to-u8 at its end", other.dtype()),
        }
    }
}

/// Runs an image through a network in tiles of at most `limit` pixels a side.
pub(crate) fn tiled(
    image: &Image<u8>,
    [limit, multiple, enlarges]: [usize; 3],
    run: impl FnMut(&Image<u8>) -> Result<Image<u8>>,
) -> Result<Image<u8>> {
    Tiling::new([image.height(), image.width()], limit, multiple).run(image, enlarges, run)
}

/// What the network's numbers mean.
pub(crate) enum Decoder {
    Classes(Names),
    Values(Names),
    Mask(Names),
    /// Rows of corners and scores per class; a head without repeated boxes needs no suppression.
    Boxes {
        classes: usize,
        suppresses: bool,
        names: Names,
    },
    Image,
}

impl Decoder {
    /// The prediction in one row of a batch.
    pub fn output(
        &self,
        batch: &HostTensor,
        row: usize,
        prepared: &PreparedImage,
        options: &PredictOptions,
    ) -> Result<Output> {
        match self {
            Decoder::Classes(names) => {
                Ok(Output::Classes(Classes { scores: numbers(batch, row)?, names: names.clone() }))
            }
            Decoder::Values(names) => Ok(Output::Values(Values { values: numbers(batch, row)?, names: names.clone() })),
            Decoder::Mask(names) => mask(batch, row, prepared, names),
            Decoder::Image => image(batch, row).map(Output::Image),
            Decoder::Boxes { classes, suppresses, names } => {
                let rows = row_of(batch.elements::<f32>()?, batch, row);
                let found = |rules: &Suppression| -> Vec<PredictedBox> {
                    let overlap = if *suppresses { rules.overlap } else { 1.0 };
                    let found = suppress(rows, *classes, &Suppression { overlap, ..rules.clone() });
                    found.into_iter().map(|found| prepared.unfitted(found)).collect()
                };
                let (shown, evaluated) = (found(&options.boxes), options.evaluated_boxes.as_ref().map(found));
                Ok(Output::Boxes(Boxes { shown, evaluated: evaluated.unwrap_or_default(), names: names.clone() }))
            }
        }
    }
}

impl PreparedImage {
    /// Its pixels, row by row, as a program takes them: see [`Predictor::run_rows`](crate::Predictor::run_rows).
    pub fn pixels(&self) -> &[u8] {
        self.image.values()
    }

    /// Where the original lies in what the network saw.
    fn placed(&self) -> Result<Placed> {
        self.placed.ok_or_else(|| -> PredictError {
            refusal!("the recipe's eval_transform moves pixels at random, so masks cannot be mapped back to the images")
        })
    }

    /// Scores per pixel of what the network saw, per pixel of the original.
    pub(crate) fn scores(&self, batch: &HostTensor, row: usize) -> Result<Image<u8>> {
        Ok(self.placed()?.back(&image(batch, row)?, 0))
    }

    /// A box of the square in pixels of the original.
    fn unfitted(&self, found: PredictedBox) -> PredictedBox {
        let Some(fitted) = self.fitted else { return found };
        let Rectangle { x, y, width, height } = found.rectangle;
        let corners = fitted.back([x, y, x + width, y + height], self.size[0], self.size[1]);
        PredictedBox { rectangle: Rectangle::of_corners(corners), ..found }
    }
}

/// The part of a batch that belongs to one row.
fn row_of<'a, T>(elements: &'a [T], batch: &HostTensor, row: usize) -> &'a [T] {
    let share = elements.len() / batch.dims().first().copied().unwrap_or(1).max(1);
    &elements[row * share..][..share]
}

fn numbers(batch: &HostTensor, row: usize) -> Result<Vec<f64>> {
    Ok(row_of(batch.elements::<f32>()?, batch, row).iter().map(|&value| f64::from(value)).collect())
}

/// A row of a batch of images.
pub(crate) fn image(batch: &HostTensor, row: usize) -> Result<Image<u8>> {
    let &[_, height, width, channels] = batch.dims() else { refuse!("the network makes {}, no image", batch.shape()) };
    let values = row_of(batch.elements::<u8>()?, batch, row).to_vec();
    Ok(Image::new(height, width, channels, values)?)
}

/// What the network made of every pixel that it saw, as classes of the original's pixels.
fn mask(batch: &HostTensor, row: usize, prepared: &PreparedImage, names: &Names) -> Result<Output> {
    const MARKED: u8 = 128;
    let names = names.clone();
    if batch.dtype() == DType::U8 {
        let scores = prepared.scores(batch, row)?;
        return Ok(Output::Mask(Mask { classes: scores.map(|score| u8::from(score >= MARKED)), count: 1, names }));
    }
    let &[_, height, width, count] = batch.dims() else { refuse!("the network makes {}, no logits", batch.shape()) };
    let logits = row_of(batch.elements::<f32>()?, batch, row);
    Ok(Output::Mask(Mask { classes: prepared.placed()?.classes(logits, [height, width, count]), count, names }))
}
