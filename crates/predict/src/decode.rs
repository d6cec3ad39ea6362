//! From an image to what the network sees, and from the network's numbers back to the image.

use crate::error::{Result, refusal, refuse};
use crate::prediction::{Boxes, Classes, Labels, Mask, Names, Values};
use crate::tiles::Tiling;
use crate::{Network, Output, PredictError, PredictOptions};
use octant_data::detection::{Fitted, fit};
use octant_data::transforms::Placed;
use octant_data::{AnyImage, ObjectDetail, Pipeline, Sample, SampleRng, Target, Transform};
use octant_imaging::Image;
use octant_metrics::boxes::{PredictedBox, Suppression};
use octant_recipe::TaskOutput;
use octant_tensor::{DType, HostTensor};
use octant_train::{DetectedRows, PlacedOriginal};
use octant_zoo::CellDetail;

/// Boxes, and what else was predicted of each.
type Objects = (Vec<PredictedBox>, Vec<ObjectDetail>);

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
            TaskOutput::Boxes | TaskOutput::Instances | TaskOutput::Keypoints | TaskOutput::Rotated => {
                let side = options.side.or(network.recipe.image_size).unwrap_or(entry.preprocessing.input[0]);
                let head = model.detector();
                let coarsest = head.as_ref().and_then(|head| head.strides.last().copied()).unwrap_or(1);
                if side == 0 || !side.is_multiple_of(coarsest) {
                    refuse!(
                        "--size {side}: the side must be a multiple of {coarsest}, the coarsest cells of the network"
                    );
                }
                let suppresses = !head.as_ref().is_some_and(|head| head.one_to_one);
                let detail = head.map(|head| head.detail).unwrap_or_default();
                let rows = DetectedRows { classes: outputs, detail, image: [side; 2] };
                (Form::Letterboxed(side), Decoder::Boxes { rows, suppresses, names })
            }
            TaskOutput::Image => {
                (Form::Tiled { multiple: model.multiple(), enlarges: model.enlarges() }, Decoder::Image)
            }
            TaskOutput::Mask => (transform()?, Decoder::Mask(names)),
            TaskOutput::Values => (transform()?, Decoder::Values(names)),
            TaskOutput::Classes => (transform()?, Decoder::Classes(names)),
            TaskOutput::Labels => (transform()?, Decoder::Labels { thresholds: network.thresholds(), names }),
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
    /// The probability from which on each label is predicted.
    Labels {
        thresholds: Vec<f64>,
        names: Names,
    },
    Values(Names),
    Mask(Names),
    /// Rows of corners, scores per class and what else is predicted; a head without repeated boxes needs no suppression.
    Boxes {
        rows: DetectedRows,
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
            Decoder::Labels { thresholds, names } => Ok(Output::Labels(Labels {
                scores: numbers(batch, row)?,
                thresholds: thresholds.clone(),
                names: names.clone(),
            })),
            Decoder::Values(names) => Ok(Output::Values(Values { values: numbers(batch, row)?, names: names.clone() })),
            Decoder::Mask(names) => mask(batch, row, prepared, names),
            Decoder::Image => image(batch, row).map(Output::Image),
            Decoder::Boxes { rows, suppresses, names } => {
                let values = row_of(batch.elements::<f32>()?, batch, row);
                let original = prepared.original();
                let found = |rules: &Suppression| -> Objects {
                    let overlap = if *suppresses { rules.overlap } else { 1.0 };
                    let found = rows.found(values, &Suppression { overlap, ..rules.clone() }, &original);
                    let (boxes, details) = found.into_iter().map(|object| (object.found, object.detail)).unzip();
                    (boxes, if rows.detail == CellDetail::None { Vec::new() } else { details })
                };
                let (shown, details) = found(&options.boxes);
                let (evaluated, evaluated_details) = options.evaluated_boxes.as_ref().map(found).unwrap_or_default();
                Ok(Output::Boxes(Boxes { shown, details, evaluated, evaluated_details, names: names.clone() }))
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

    /// Where the original lies in the square.
    fn original(&self) -> PlacedOriginal {
        match self.fitted {
            Some(fitted) => PlacedOriginal { fitted, size: self.size },
            None => PlacedOriginal::itself(self.size),
        }
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
