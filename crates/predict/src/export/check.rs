//! Exported files beside our own predictions.

use super::compare::{
    Compared, compare_classes, compare_labels, compare_marks, compare_mask, compare_numbers, compare_objects,
    compare_pixels, difference, difference_of_sets,
};
use super::metadata::PROTOTYPES;
use super::objects::{CheckedObject, objects_of};
use super::peer::{Peer, PeerChoice, PeerRuntime};
use super::{ExportedFacts, OutputKind};
use crate::decode::Decoder;
use crate::error::{Result, refuse};
use crate::{Layer, ModelChoice, Network, NetworkFile, Output, PredictOptions, Predictor};
use octant_archive::Archive;
use octant_events::number_json;
use octant_imaging::Image;
use octant_imaging::geometry::{Border, center_window, crop, pad_to};
use octant_metrics::boxes::Suppression;
use octant_nn::Precision;
use octant_runtime::Backend;
use octant_tensor::{AlignedBytes, Bytes, DType, HostTensor, Shape};
use octant_train::step::StepOptions;
use octant_train::{DetectedRows, PlacedOriginal};
use octant_zoo::identity::Card;
use octant_zoo::{BoxCode, ModelEntry};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Images per batch of the check.
const BATCH: usize = 8;

/// What a check found.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ExportCheck {
    /// The runtime with its version.
    pub runtime: String,
    /// Images that were compared.
    pub images: usize,
    /// The largest difference of an output, relative to the largest magnitude of our output for that image.
    pub difference: f64,
    /// Images with another prediction: class, box, or pixels of a mask.
    pub changed: usize,
    /// Those of them for which our own scores are within 1e-4 of a threshold or of the runner-up, so that rounding decides.
    pub within_margin: usize,
    /// Images with other predictions beyond the margin.
    pub beyond_margin: Vec<PathBuf>,
    /// Pixels of masks that differ.
    pub changed_pixels: usize,
}

/// The largest relative difference of an f32 file that rounding explains.
const TOLERANCE: f64 = 1e-4;

impl ExportCheck {
    /// Whether anything differs more than rounding explains, as a sentence. In half precision predictions do change; how many is
    /// what the check is for.
    pub fn problem(&self, precision: &str) -> Option<String> {
        match (precision, self.beyond_margin.len()) {
            ("f32", 0) if self.difference > TOLERANCE => {
                Some(format!("outputs differ by more than {TOLERANCE:e}, more than rounding explains"))
            }
            ("f32", changed @ 1..) => {
                Some(format!("{changed} of {} predictions changed beyond what rounding explains", self.images))
            }
            _ => None,
        }
    }

    /// As an object.
    pub fn json(&self, precision: &str) -> Value {
        json!({
            "event": "done", "runtime": self.runtime, "precision": precision, "images": self.images,
            "largest_relative_difference": number_json(self.difference), "changed": self.changed,
            "changed_within_margin": self.within_margin, "changed_pixels": self.changed_pixels,
            "changed_beyond_margin": self.beyond_margin,
        })
    }
}

/// The network that a file was exported from: the one at `path`, or the one that the file names.
pub fn exported_network(facts: &ExportedFacts, path: Option<&Path>) -> Result<Network> {
    let entry = octant_zoo::find(facts.require("octant.model")?)?;
    let mut network = match (path, facts.weights()) {
        (Some(path), _) if path.join("config.toml").is_file() => NetworkFile::open(path)?.network()?,
        (Some(path), _) => of_file(path, entry)?,
        (None, Some(weights)) if weights.is_file() => of_file(&weights, entry)?,
        (None, Some(weights)) => {
            refuse!(
                "the weights that the file was made from are not at {}; name them with --against",
                weights.display()
            )
        }
        (None, None) => refuse!("the file was made from random weights: there is nothing to compare it with"),
    };
    if network.checksum() != facts.checksum()? {
        let shown = path.map_or_else(|| facts.weights().unwrap_or_default(), Path::to_path_buf);
        refuse!("{} has other weights than the file was made from; export it again", shown.display());
    }
    // A file computes in f32, or in f16 as a difference from it.
    network.recipe.step = StepOptions { precision: Precision::F32, ..network.recipe.step };
    Ok(network)
}

/// The network of a file of weights: by the settings that it carries, or as the model's published weights.
fn of_file(path: &Path, entry: &'static ModelEntry) -> Result<Network> {
    let names_network = Card::of(&Archive::open(path)?).entry().is_some_and(|named| named.name == entry.name);
    match names_network {
        true => NetworkFile::open(path)?.network(),
        false => Network::of_model(entry, Some(path), &ModelChoice::default()),
    }
}

/// Executes a file in another runtime on images, and compares its outputs with our predictions.
pub fn check_export(
    file: &Path,
    facts: &ExportedFacts,
    network: Network,
    images: &[PathBuf],
    backend: &Arc<dyn Backend>,
    peer: &PeerChoice,
    progress: &mut dyn FnMut(usize),
) -> Result<ExportCheck> {
    if peer.runtime.format() != facts.format() {
        let (wanted, runtime) = (PeerRuntime::of(facts.format()).name(), peer.runtime.name());
        refuse!("{runtime} does not execute {}; use the runtime {wanted}", file.display());
    }
    let mut peer = Peer::start(peer, file, &facts.outputs)?;
    let mut network = network;
    let [height, width, _] = facts.input()?;
    let boxes = facts.boxes()?;
    let side = (height == width).then_some(height).filter(|_| facts.image_size().is_some());
    if let Some(side) = side {
        network.resize_images(side)?;
    }
    let options =
        PredictOptions { side, boxes: boxes.unwrap_or(PredictOptions::default().boxes), ..Default::default() };
    let predictor = Predictor::new(network, backend, options.clone())?;
    if predictor.image_size().is_some_and(|size| size != [height, width]) {
        let [now_height, now_width] = predictor.image_size().unwrap_or_default();
        refuse!("the file takes images of {height}×{width}, the network now {now_height}×{now_width}; export it again");
    }
    let check = Check { facts, predictor: &predictor, options: &options, size: [height, width] };
    let mut found = ExportCheck { runtime: peer.name.clone(), ..ExportCheck::default() };
    let batch = facts.batch().unwrap_or(BATCH);
    for paths in images.chunks(if facts.takes_images() { 1 } else { batch }) {
        let read = paths.iter().map(|path| predictor.read(path)).collect::<Result<Vec<_>>>()?;
        let compared = match facts.takes_images() {
            true => vec![check.whole(&mut peer, &read[0])?],
            false => check.batch(&mut peer, &read, facts.batch().unwrap_or(read.len()))?,
        };
        for (path, compared) in paths.iter().zip(compared) {
            found.add(path, &compared);
        }
        progress(found.images);
    }
    Ok(found)
}

impl ExportCheck {
    fn add(&mut self, path: &Path, compared: &Compared) {
        self.images += 1;
        self.difference = self.difference.max(compared.difference);
        self.changed_pixels += compared.pixels;
        if compared.changed {
            self.changed += 1;
            match compared.is_close {
                true => self.within_margin += 1,
                false => self.beyond_margin.push(path.into()),
            }
        }
    }
}

struct Check<'a> {
    facts: &'a ExportedFacts,
    predictor: &'a Predictor,
    options: &'a PredictOptions,
    size: [usize; 2],
}

impl Check<'_> {
    /// Images through a file that takes normalized batches of so many.
    fn batch(&self, peer: &mut Peer, images: &[Image<u8>], rows: usize) -> Result<Vec<Compared>> {
        let prepared = images.iter().map(|image| self.prepared(image)).collect::<Result<Vec<_>>>()?;
        let normalized = self.normalized(&prepared, rows)?;
        let found = peer.run(&normalized)?;
        let pixels: Vec<&Image<u8>> = prepared.iter().collect();
        let (kind, dims) = (self.facts.output()?, prepared[0].dims());
        let layer = match kind {
            OutputKind::Rows | OutputKind::Boxes => Layer::Prediction,
            OutputKind::Logits | OutputKind::Values | OutputKind::Image => Layer::Output,
            other => refuse!("a file that takes normalized images does not return {}", other.name()),
        };
        let ours = Numbers::of(&self.predictor.run(layer, dims, &pixels)?);
        let found = found.iter().map(|(name, tensor)| (name.as_str(), Numbers::of(tensor))).collect();
        (0..images.len()).map(|row| self.row(&found, &ours, row)).collect()
    }

    fn row(&self, found: &HashMap<&str, Numbers>, ours: &Numbers, row: usize) -> Result<Compared> {
        let (kind, channels, ours) = (self.facts.output()?, ours.channels, ours.row(row));
        let theirs = |name: &str| match found.get(name) {
            Some(numbers) => Ok(numbers.row(row)),
            None => refuse!("the file has no output {name}; export it again"),
        };
        Ok(match kind {
            OutputKind::Logits if self.facts.is_mask() => {
                compare_mask(ours, &self.in_our_order(theirs("logits")?, channels), 0.0)
            }
            OutputKind::Logits if self.facts.has_labels() => {
                let (theirs, thresholds) = (theirs("logits")?, self.predictor.network().thresholds());
                let share = |logit: &f64| 1.0 / (1.0 + (-logit).exp());
                let [own, other] = [ours, theirs].map(|logits| logits.iter().map(share).collect::<Vec<_>>());
                compare_labels(&own, &other, &thresholds).of(ours, theirs)
            }
            OutputKind::Logits => {
                let theirs = theirs("logits")?;
                compare_classes(&softmax(ours), &softmax(theirs)).of(ours, theirs)
            }
            OutputKind::Values => compare_numbers(ours, theirs("values")?),
            OutputKind::Image => compare_numbers(ours, &self.in_our_order(theirs("image")?, channels)),
            OutputKind::Rows => {
                let (rows, ours) = (self.rows()?, singles(ours));
                let (own, basis) = rows.split(&ours);
                let [_, _, count] = rows.prototypes();
                let prototypes = match basis {
                    [] => vec![],
                    _ => self.in_our_order(theirs(PROTOTYPES)?, count),
                };
                let other = theirs("rows")?;
                // Queries with equal scores come in any order.
                let head = self.predictor.network().model()?.detector();
                let of_rows = match head.is_some_and(|head| matches!(head.code, BoxCode::Shares { .. })) {
                    true => difference_of_sets(&doubles(own), other, rows.row().width()),
                    false => difference(&doubles(own), other),
                };
                let difference = of_rows.max(difference(&doubles(basis), &prototypes));
                let found = |values: &[f32]| self.seen(&rows, values);
                let (ours, theirs) = (found(&ours), found(&[singles(other), singles(&prototypes)].concat()));
                Compared { difference, ..compare_objects(&ours, &theirs, own, rows.row(), &self.suppression()) }
            }
            OutputKind::Boxes => {
                let (rows, ours) = (self.rows()?, singles(ours));
                let theirs = objects_of(&rows, None, |name| theirs(name).map(<[f64]>::to_vec))?;
                let (own, _) = rows.split(&ours);
                compare_objects(&self.seen(&rows, &ours), &theirs, own, rows.row(), &self.suppression())
            }
            other => refuse!("a file that takes normalized images does not return {}", other.name()),
        })
    }

    /// One image of any size through a file with its preprocessing inside.
    fn whole(&self, peer: &mut Peer, image: &Image<u8>) -> Result<Compared> {
        let shape = Shape::new(DType::U8, image.dims());
        let bytes = Bytes::new(AlignedBytes::copy_of(image.values()));
        let found = peer.run(&HostTensor::from_bytes(shape, bytes)?)?;
        let theirs = |name: &str| match found.get(name) {
            Some(tensor) => Ok(tensor.to_f64s()),
            None => refuse!("the file has no output {name}; export it again"),
        };
        let mut predictions = self.predictor.predict([image.clone()])?;
        Ok(match predictions.remove(0).output {
            Output::Classes(classes) => compare_classes(&classes.scores, &theirs("probabilities")?),
            Output::Labels(labels) => compare_labels(&labels.scores, &theirs("probabilities")?, &labels.thresholds),
            Output::Values(values) => compare_numbers(&values.values, &theirs("values")?),
            Output::Mask(mask) if !mask.is_of_one_class() => {
                let ours: Vec<f64> = mask.classes.values().iter().map(|&class| f64::from(class)).collect();
                compare_pixels(&ours, &theirs("mask")?)
            }
            Output::Mask(mask) => {
                let prepared = self.predictor.preparation().prepare(image)?;
                let seen = self.predictor.run(Layer::Prediction, prepared.image.dims(), &[&prepared.image])?;
                let levels =
                    |image: &Image<u8>| image.values().iter().map(|&level| f64::from(level)).collect::<Vec<_>>();
                let scores = prepared.scores(&seen, 0)?;
                compare_marks(&levels(&mask.levels()), &theirs("mask")?, &levels(&scores))
            }
            Output::Boxes(boxes) => {
                let rows = self.rows()?;
                let found = objects_of(&rows, Some([image.height(), image.width()]), theirs)?;
                let prepared = self.prepared(image)?;
                let values = self.predictor.run(Layer::Prediction, prepared.dims(), &[&prepared])?;
                let shown = boxes.shown.iter().enumerate();
                let ours: Vec<_> = shown.map(|(n, found)| CheckedObject::shown(found, boxes.details.get(n))).collect();
                let (own, _) = rows.split(values.elements::<f32>()?);
                compare_objects(&ours, &found, own, rows.row(), &self.suppression())
            }
            Output::Image(_) => {
                refuse!("images that are made are not exported with preprocessing")
            }
        })
    }

    /// How the rows of the detector are read.
    fn rows(&self) -> Result<DetectedRows> {
        match &self.predictor.preparation().decoder {
            Decoder::Boxes { rows, .. } => Ok(*rows),
            _ => refuse!("the file returns boxes, and {} is no detector", self.predictor.network().recipe.model),
        }
    }

    /// The objects in numbers of what the network saw.
    fn seen(&self, rows: &DetectedRows, values: &[f32]) -> Vec<CheckedObject> {
        let found = rows.found(values, &self.suppression(), &PlacedOriginal::itself(rows.image));
        found.iter().map(CheckedObject::uncut).collect()
    }

    fn suppression(&self) -> Suppression {
        let repeats = self.predictor.suppresses();
        let overlap = if repeats { self.options.boxes.overlap } else { 1.0 };
        Suppression { overlap, ..self.options.boxes.clone() }
    }

    /// An image as the network sees it. Networks that take any size see the middle of it.
    fn prepared(&self, image: &Image<u8>) -> Result<Image<u8>> {
        let prepared = self.predictor.preparation().prepare(image)?.image;
        let [height, width] = self.size;
        if [prepared.height(), prepared.width()] == self.size {
            return Ok(prepared);
        }
        let padded = pad_to(&prepared, height, width, Border::Repeat);
        Ok(crop(&padded, center_window(&padded, height, width)))
    }

    /// A batch of so many rows as a file takes it; rows behind the images are zeros.
    fn normalized(&self, images: &[Image<u8>], rows: usize) -> Result<HostTensor> {
        let ([height, width], channels) = (self.size, images[0].channels());
        let scale = self.facts.normalization(channels)?;
        let pixels = height * width;
        let mut values = vec![0f32; rows * pixels * channels];
        for (image, row) in images.iter().zip(values.chunks_exact_mut(pixels * channels)) {
            for (position, pixel) in image.values().chunks_exact(channels).enumerate() {
                for (channel, &value) in pixel.iter().enumerate() {
                    let [factor, offset] = scale[channel];
                    let at = match self.facts.is_channels_first() {
                        true => channel * pixels + position,
                        false => position * channels + channel,
                    };
                    row[at] = f32::from(value) * factor + offset;
                }
            }
        }
        let dims = match self.facts.is_channels_first() {
            true => [rows, channels, height, width],
            false => [rows, height, width, channels],
        };
        Ok(HostTensor::new(dims, &values)?)
    }

    /// Numbers of an image with channels last, as ours have them.
    fn in_our_order(&self, numbers: &[f64], channels: usize) -> Vec<f64> {
        let pixels = numbers.len() / channels.max(1);
        match self.facts.is_channels_first() && channels > 1 {
            true => (0..numbers.len()).map(|index| numbers[index % channels * pixels + index / channels]).collect(),
            false => numbers.to_vec(),
        }
    }
}

/// The numbers of a batch.
struct Numbers {
    all: Vec<f64>,
    rows: usize,
    /// The length of the last axis.
    channels: usize,
}

impl Numbers {
    fn of(batch: &HostTensor) -> Numbers {
        let dims = batch.dims();
        let (rows, channels) = (dims.first().copied().unwrap_or(1).max(1), dims.last().copied().unwrap_or(1));
        Numbers { all: batch.to_f64s(), rows, channels }
    }

    fn row(&self, row: usize) -> &[f64] {
        let share = self.all.len() / self.rows;
        &self.all[row * share..][..share]
    }
}

fn singles(numbers: &[f64]) -> Vec<f32> {
    numbers.iter().map(|&number| number as f32).collect()
}

fn doubles(numbers: &[f32]) -> Vec<f64> {
    numbers.iter().map(|&number| f64::from(number)).collect()
}

fn softmax(logits: &[f64]) -> Vec<f64> {
    let largest = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let exponentials: Vec<f64> = logits.iter().map(|logit| (logit - largest).exp()).collect();
    let sum: f64 = exponentials.iter().sum();
    exponentials.iter().map(|value| value / sum).collect()
}
