//! Predictions as tensors, named as in files that are exported with their preprocessing.

use crate::error::{Reason, Refusal, invalid};
use crate::protocol::{Data, DataType, Tensor, TensorSpec};
use octant_data::ObjectDetail;
use octant_imaging::Image;
use octant_predict::{Boxes, Output, PredictError, Prediction, Predictor};
use octant_recipe::TaskOutput;

/// How many of the likeliest classes are listed.
const TOP: usize = 5;
/// The most bytes of masks in a response.
const LARGEST_MASKS: usize = 256 << 20;
/// The class of rows that hold no box.
const NO_CLASS: i64 = -1;

/// The outputs for encoded images.
pub(crate) fn specs(predictor: &Predictor) -> Result<Vec<TensorSpec>, PredictError> {
    let network = predictor.network();
    let (count, any) = (network.outputs, None);
    let spec = TensorSpec::new;
    Ok(match network.output()? {
        TaskOutput::Classes => {
            let top = Some(count.min(TOP));
            vec![
                spec("probabilities", DataType::Fp32, &[any, Some(count)]),
                spec("classes", DataType::Int64, &[any, top]),
                spec("scores", DataType::Fp32, &[any, top]),
                spec("labels", DataType::Bytes, &[any, top]),
            ]
        }
        TaskOutput::Labels => vec![
            spec("probabilities", DataType::Fp32, &[any, Some(count)]),
            spec("chosen", DataType::Uint8, &[any, Some(count)]),
        ],
        TaskOutput::Values => vec![spec("values", DataType::Fp32, &[any, Some(count)])],
        TaskOutput::Mask => vec![spec("mask", DataType::Uint8, &[any, any, any])],
        output @ (TaskOutput::Boxes | TaskOutput::Instances | TaskOutput::Keypoints | TaskOutput::Rotated) => {
            let mut outputs = vec![
                spec("boxes", DataType::Fp32, &[any, any, Some(4)]),
                spec("scores", DataType::Fp32, &[any, any]),
                spec("classes", DataType::Int64, &[any, any]),
                spec("labels", DataType::Bytes, &[any, any]),
            ];
            match output {
                TaskOutput::Instances => outputs.push(spec("masks", DataType::Uint8, &[any; 4])),
                TaskOutput::Keypoints => outputs.push(spec("keypoints", DataType::Fp32, &[any, any, any, Some(3)])),
                TaskOutput::Rotated => outputs.push(spec("corners", DataType::Fp32, &[any, any, Some(4), Some(2)])),
                _ => (),
            }
            outputs
        }
        TaskOutput::Image => vec![spec("image", DataType::Uint8, &[any, any, any, Some(predictor.channels())])],
    })
}

fn tensor(name: &str, datatype: DataType, shape: &[usize], data: Data) -> Tensor {
    Tensor { name: name.into(), datatype, shape: shape.to_vec(), data }
}

fn strings(texts: Vec<String>) -> Data {
    Data::Strings(texts.into_iter().map(|text| text.into_bytes().into()).collect())
}

/// The outputs for the predictions of a request, which are of one network.
pub(crate) fn tensors(predictions: &[Prediction], output: TaskOutput) -> Result<Vec<Tensor>, Refusal> {
    let count = predictions.len();
    let mixed = || Refusal::new(Reason::Failed, "the network returned predictions of several kinds");
    match predictions.first().map(|prediction| &prediction.output) {
        Some(Output::Classes(first)) => {
            let top = first.scores.len().min(TOP);
            let (mut all, mut classes, mut scores, mut labels) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
            for prediction in predictions {
                let Output::Classes(found) = &prediction.output else { return Err(mixed()) };
                all.extend(found.scores.iter().map(|&score| score as f32));
                for (class, score) in found.top(top) {
                    classes.push(class as i64);
                    scores.push(score as f32);
                    labels.push(found.names.of(class));
                }
            }
            Ok(vec![
                tensor("probabilities", DataType::Fp32, &[count, first.scores.len()], Data::of_f32s(&all)),
                tensor("classes", DataType::Int64, &[count, top], Data::of_i64s(&classes)),
                tensor("scores", DataType::Fp32, &[count, top], Data::of_f32s(&scores)),
                tensor("labels", DataType::Bytes, &[count, top], strings(labels)),
            ])
        }
        Some(Output::Labels(first)) => {
            let (mut all, mut chosen) = (Vec::new(), Vec::new());
            for prediction in predictions {
                let Output::Labels(found) = &prediction.output else { return Err(mixed()) };
                all.extend(found.scores.iter().map(|&score| score as f32));
                let is_chosen = |(label, score): (usize, &f64)| u8::from(*score >= found.threshold(label));
                chosen.extend(found.scores.iter().enumerate().map(is_chosen));
            }
            let shape = [count, first.scores.len()];
            Ok(vec![
                tensor("probabilities", DataType::Fp32, &shape, Data::of_f32s(&all)),
                tensor("chosen", DataType::Uint8, &shape, Data::Raw(chosen.into())),
            ])
        }
        Some(Output::Values(first)) => {
            let mut all = Vec::new();
            for prediction in predictions {
                let Output::Values(found) = &prediction.output else { return Err(mixed()) };
                all.extend(found.values.iter().map(|&value| value as f32));
            }
            Ok(vec![tensor("values", DataType::Fp32, &[count, first.values.len()], Data::of_f32s(&all))])
        }
        Some(Output::Boxes(_)) => boxes(predictions, output),
        Some(Output::Mask(first)) => {
            let masks = predictions.iter().map(|prediction| match &prediction.output {
                Output::Mask(mask) => Some(mask.levels()),
                _ => None,
            });
            let masks: Vec<Image<u8>> = masks.collect::<Option<_>>().ok_or_else(mixed)?;
            let pixels = stacked(masks.iter().collect())?;
            let shape = [count, first.classes.height(), first.classes.width()];
            Ok(vec![tensor("mask", DataType::Uint8, &shape, pixels)])
        }
        Some(Output::Image(first)) => {
            let images = predictions.iter().map(|prediction| match &prediction.output {
                Output::Image(image) => Some(image),
                _ => None,
            });
            let pixels = stacked(images.collect::<Option<Vec<_>>>().ok_or_else(mixed)?)?;
            let shape = [count, first.height(), first.width(), first.channels()];
            Ok(vec![tensor("image", DataType::Uint8, &shape, pixels)])
        }
        Some(other) => Err(Refusal::new(Reason::Failed, format!("{other:?} is not served"))),
        None => Err(invalid!("the request has no image")),
    }
}

/// Images of one size as one tensor.
fn stacked(images: Vec<&Image<u8>>) -> Result<Data, Refusal> {
    if images.windows(2).any(|pair| pair[0].dims() != pair[1].dims()) {
        return Err(invalid!("the images have several sizes, and so have their results; send one per request"));
    }
    Ok(Data::Raw(images.iter().flat_map(|image| image.values().iter().copied()).collect::<Vec<u8>>().into()))
}

/// Boxes by descending score. Images with fewer than the others have rows of zeros with class -1 behind theirs.
fn boxes(predictions: &[Prediction], output: TaskOutput) -> Result<Vec<Tensor>, Refusal> {
    let shown = predictions.iter().map(|prediction| match &prediction.output {
        Output::Boxes(boxes) => Some(boxes),
        _ => None,
    });
    let mixed = || Refusal::new(Reason::Failed, "the network returned predictions of several kinds");
    let shown = shown.collect::<Option<Vec<_>>>().ok_or_else(mixed)?;
    let most = shown.iter().map(|boxes| boxes.shown.len()).max().unwrap_or(0);
    let (mut corners, mut scores, mut classes, mut labels) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for boxes in &shown {
        for row in 0..most {
            let found = boxes.shown.get(row);
            let place = found.map(|found| found.rectangle);
            corners.extend(place.map_or([0.0; 4], |place| {
                [place.x, place.y, place.x + place.width, place.y + place.height].map(|edge| edge as f32)
            }));
            scores.push(found.map_or(0.0, |found| found.score as f32));
            classes.push(found.map_or(NO_CLASS, |found| found.class as i64));
            labels.push(found.map(|found| boxes.names.of(found.class)).unwrap_or_default());
        }
    }
    let count = predictions.len();
    let plain = vec![
        tensor("boxes", DataType::Fp32, &[count, most, 4], Data::of_f32s(&corners)),
        tensor("scores", DataType::Fp32, &[count, most], Data::of_f32s(&scores)),
        tensor("classes", DataType::Int64, &[count, most], Data::of_i64s(&classes)),
        tensor("labels", DataType::Bytes, &[count, most], strings(labels)),
    ];
    Ok(plain.into_iter().chain(details(predictions, &shown, most, output)?).collect())
}

/// What else is predicted of boxes; zeros behind the last one of an image.
fn details(
    predictions: &[Prediction],
    shown: &[&Boxes],
    most: usize,
    output: TaskOutput,
) -> Result<Option<Tensor>, Refusal> {
    let count = shown.len();
    let all = || shown.iter().flat_map(|boxes| (0..most).map(|row| boxes.details.get(row)));
    let numbers = |of: fn(&ObjectDetail) -> Vec<f64>, length: usize| {
        let row = |detail: Option<&ObjectDetail>| {
            let mut numbers = detail.map(of).unwrap_or_default();
            numbers.resize(length, 0.0);
            numbers
        };
        Data::of_f32s(&all().flat_map(row).map(|number| number as f32).collect::<Vec<f32>>())
    };
    Ok(match output {
        TaskOutput::Keypoints => {
            let points = all().flatten().find_map(|detail| match detail {
                ObjectDetail::Keypoints(points) => Some(points.len()),
                _ => None,
            });
            let points = points.unwrap_or(0);
            let of = |detail: &ObjectDetail| match detail {
                ObjectDetail::Keypoints(points) => points.iter().flatten().copied().collect(),
                _ => vec![],
            };
            let data = numbers(of, 3 * points);
            Some(tensor("keypoints", DataType::Fp32, &[count, most, points, 3], data))
        }
        TaskOutput::Rotated => {
            let of = |detail: &ObjectDetail| match detail {
                ObjectDetail::Rotated(rectangle) => rectangle.corners().iter().flatten().copied().collect(),
                _ => vec![],
            };
            Some(tensor("corners", DataType::Fp32, &[count, most, 4, 2], numbers(of, 8)))
        }
        TaskOutput::Instances => {
            let [height, width] = predictions.first().map(|prediction| prediction.size).unwrap_or_default();
            if predictions.iter().any(|prediction| prediction.size != [height, width]) {
                return Err(invalid!("the images have several sizes, and so have their masks; send one per request"));
            }
            let bytes = count * most * height * width;
            if bytes > LARGEST_MASKS {
                let mib = bytes >> 20;
                return Err(invalid!("{most} masks of {height}×{width} are {mib} MiB; /predict returns them as runs"));
            }
            let mut pixels = vec![0; bytes];
            for (place, detail) in pixels.chunks_exact_mut((height * width).max(1)).zip(all()) {
                let Some(ObjectDetail::Mask(mask)) = detail else { continue };
                place.iter_mut().zip(mask.pixels()).for_each(|(pixel, is_marked)| *pixel = u8::from(is_marked) * 255);
            }
            Some(tensor("masks", DataType::Uint8, &[count, most, height, width], Data::Raw(pixels.into())))
        }
        _ => None,
    })
}
