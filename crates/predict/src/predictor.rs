//! The predictor: a network on a device.

use crate::decode::{self, Decoder, Form, Preparation, PreparedImage};
use crate::error::{Result, refusal, refuse};
use crate::export::{OutputKind, PROTOTYPES};
use crate::programs::{Key, Programs, RowShape};
use crate::{Cancel, Layer, Network, NetworkFile, OnnxExport, Output, Prediction};
use octant_data::decode::{self as files, Channels, DecodeOptions, read_image};
use octant_graph::DType;
use octant_imaging::Image;
use octant_metrics::boxes::Suppression;
use octant_recipe::TaskOutput;
use octant_runtime::{Backend, MemoryPlan};
use octant_tensor::HostTensor;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Images per run of a program, unless [`Predictor::warm_up`] compiled a larger one.
pub(crate) const BATCH: usize = 8;

/// What is predicted: a file, or an image that is in memory already.
#[derive(Debug, Clone)]
pub enum Input {
    /// A file.
    File(PathBuf),
    /// An image, with the channels that [`Predictor::channels`] names.
    Image(Image<u8>),
}

impl From<&str> for Input {
    fn from(path: &str) -> Input {
        Input::File(path.into())
    }
}

impl From<&Path> for Input {
    fn from(path: &Path) -> Input {
        Input::File(path.into())
    }
}

impl From<PathBuf> for Input {
    fn from(path: PathBuf) -> Input {
        Input::File(path)
    }
}

impl From<Image<u8>> for Input {
    fn from(image: Image<u8>) -> Input {
        Input::Image(image)
    }
}

/// How predictions are made.
#[derive(Debug, Clone, PartialEq)]
pub struct PredictOptions {
    /// Detectors: which boxes are shown. Heads that need no suppression get none, whatever its overlap is.
    pub boxes: Suppression,
    /// Detectors: also keep what an evaluation would count, by these rules.
    pub evaluated_boxes: Option<Suppression>,
    /// Detectors: the side of the square that images are fitted into; the one that the network was trained with if not given.
    pub side: Option<usize>,
    /// Larger images are cut into overlapping tiles of this side. If not given, networks that make images take
    /// [`TILE`](PredictOptions::TILE), and detectors see the whole image.
    pub tile: Option<usize>,
}

impl Default for PredictOptions {
    fn default() -> PredictOptions {
        PredictOptions { boxes: Suppression::prediction(), evaluated_boxes: None, side: None, tile: None }
    }
}

impl PredictOptions {
    /// The side of tiles of networks that make images, if it is not given.
    pub const TILE: usize = 1024;

    /// The networks that see images in tiles.
    pub const TILED: &[TaskOutput] =
        &[TaskOutput::Image, TaskOutput::Boxes, TaskOutput::Instances, TaskOutput::Keypoints, TaskOutput::Rotated];
}

/// The memory that predictions need, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PredictorMemory {
    /// Weights on the device, once.
    pub weights: u64,
    /// Intermediate values of the largest program that was compiled, per run that is under way at the same time.
    pub temporary: u64,
    /// Inputs and outputs of that program, without the weights.
    pub batch: u64,
    /// Programs that were compiled.
    pub programs: usize,
}

/// A network on a device, with its weights, its preprocessing and its decoder. It is owned, and threads may share it: see
/// [`predict`](Predictor::predict).
///
/// ```
/// # use octant_predict::{Network, ModelChoice, Output, Predictor};
/// # use std::sync::Arc;
/// # let device: Arc<dyn octant_runtime::Backend> = Arc::new(octant_cpu::CpuBackend::with_threads(1)?);
/// # let entry = octant_zoo::find("resnet-tiny")?;
/// // A run or a file of weights that names its network opens with `Predictor::open(path, &device)`.
/// let network = Network::of_model(entry, None, &ModelChoice::default())?;
/// let predictor = Predictor::new(network, &device, Default::default())?;
/// predictor.warm_up(&[1, 8])?;
/// let image = octant_imaging::Image::from_fn(40, 50, 3, |row, column, _| (row + column) as u8);
/// for prediction in predictor.predict([image])? {
///     assert_eq!(prediction.size, [40, 50]);
///     let Output::Classes(classes) = &prediction.output else { panic!("it classifies") };
///     println!("{prediction}, {:?}", classes.top(3));
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Predictor {
    network: Network,
    programs: Programs,
    preparation: Preparation,
    options: PredictOptions,
}

impl Predictor {
    /// Opens the best checkpoint of a run, the directory of a checkpoint, or a file of weights that names its network.
    pub fn open(path: impl AsRef<Path>, device: &Arc<dyn Backend>) -> Result<Predictor> {
        let network = NetworkFile::open(path.as_ref())?.network()?;
        Predictor::new(network, device, PredictOptions::default())
    }

    /// Uploads a network's weights. Programs are compiled when they are first used, or by [`warm_up`](Predictor::warm_up).
    pub fn new(network: Network, device: &Arc<dyn Backend>, options: PredictOptions) -> Result<Predictor> {
        let preparation = Preparation::of(&network, &options)?;
        let programs = Programs::new(device.clone(), &network)?;
        Ok(Predictor { network, programs, preparation, options })
    }

    /// The network.
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// The device.
    pub fn device(&self) -> &Arc<dyn Backend> {
        self.programs.backend()
    }

    /// How images are prepared.
    pub(crate) fn preparation(&self) -> &Preparation {
        &self.preparation
    }

    /// Which boxes are predicted.
    pub(crate) fn options(&self) -> &PredictOptions {
        &self.options
    }

    /// Whether a detector's boxes need suppression.
    pub(crate) fn suppresses(&self) -> bool {
        matches!(self.preparation.decoder, Decoder::Boxes { suppresses: true, .. })
    }

    /// The channels of images: 1 for gray ones, 3 for colored ones.
    pub fn channels(&self) -> usize {
        self.preparation.channels
    }

    /// Height and width of what the network sees; none where that follows each image.
    pub fn image_size(&self) -> Option<[usize; 2]> {
        self.preparation.size()
    }

    /// Reads an image file with the channels that the network wants.
    pub fn read(&self, path: &Path) -> Result<Image<u8>> {
        Ok(read_image(path, &self.decode_options())?.to_u8())
    }

    /// The same for the contents of an image file.
    pub fn read_bytes(&self, file: &[u8]) -> Result<Image<u8>> {
        let decoded = files::decode(file, &self.decode_options());
        Ok(decoded.map_err(|problem| refusal!("the image cannot be read: {problem}"))?.to_u8())
    }

    fn decode_options(&self) -> DecodeOptions {
        let channels = if self.channels() == 1 { Channels::Gray } else { Channels::Rgb };
        DecodeOptions { channels, eight_bits: true, ..DecodeOptions::default() }
    }

    /// Predictions for images, in their order. Any number of threads may call it at once: weights and programs are shared, and a
    /// result does not depend on what else runs.
    pub fn predict(&self, inputs: impl IntoIterator<Item = impl Into<Input>>) -> Result<Vec<Prediction>> {
        self.predict_with(inputs, &Cancel::never())
    }

    /// The same, with a way to end it early.
    pub fn predict_with(
        &self,
        inputs: impl IntoIterator<Item = impl Into<Input>>,
        cancel: &Cancel,
    ) -> Result<Vec<Prediction>> {
        let mut inputs = inputs.into_iter().map(Into::into).peekable();
        let mut predictions = Vec::new();
        while inputs.peek().is_some() {
            let (mut paths, mut images) = (Vec::new(), Vec::new());
            for input in inputs.by_ref().take(BATCH) {
                cancel.check()?;
                let (path, image) = match input {
                    Input::File(path) => {
                        let image = self.read(&path)?;
                        (Some(path), image)
                    }
                    Input::Image(image) => (None, image),
                };
                paths.push(path);
                images.push(image);
            }
            let made = self.predict_images(&images, cancel)?;
            predictions.extend(made.into_iter().zip(paths).map(|(made, path)| Prediction { path, ..made }));
        }
        Ok(predictions)
    }

    /// Predictions for images that are in memory.
    pub fn predict_images(&self, images: &[Image<u8>], cancel: &Cancel) -> Result<Vec<Prediction>> {
        if let Form::Tiled { multiple, enlarges } = self.preparation.form {
            let limit = self.options.tile.unwrap_or(PredictOptions::TILE);
            let whole = |image: &Image<u8>| {
                self.check_channels(image)?;
                let made = decode::tiled(image, [limit, multiple, enlarges], |tile| {
                    cancel.check()?;
                    decode::image(&self.run(Layer::Prediction, tile.dims(), &[tile])?, 0)
                })?;
                Ok(Prediction::of([image.height(), image.width()], Output::Image(made)))
            };
            return images.iter().map(whole).collect();
        }
        if let (Some(tile), Decoder::Boxes { .. }) = (self.options.tile, &self.preparation.decoder) {
            return images.iter().map(|image| self.predict_in_tiles(image, tile, cancel)).collect();
        }
        self.predict_whole(images, cancel)
    }

    /// Predictions for images that the network sees as wholes.
    pub(crate) fn predict_whole(&self, images: &[Image<u8>], cancel: &Cancel) -> Result<Vec<Prediction>> {
        let prepared = images.iter().map(|image| self.prepare(image)).collect::<Result<Vec<_>>>()?;
        let mut predictions = Vec::with_capacity(images.len());
        // Images of one size share a program; nearly always that is all of them.
        for same in prepared.chunk_by(|a, b| a.image.dims() == b.image.dims()) {
            let mut rest = same;
            while let Some(first) = rest.first() {
                cancel.check()?;
                let dims = first.image.dims();
                let (now, later) = rest.split_at(rest.len().min(self.largest_batch(dims)));
                let pixels: Vec<&Image<u8>> = now.iter().map(|prepared| &prepared.image).collect();
                let result = self.run(Layer::Prediction, dims, &pixels)?;
                for (index, prepared) in now.iter().enumerate() {
                    predictions.push(self.decode_row(&result, index, prepared)?);
                }
                rest = later;
            }
        }
        Ok(predictions)
    }

    fn check_channels(&self, image: &Image<u8>) -> Result<()> {
        if image.channels() != self.channels() {
            refuse!("the network takes images of {} channel(s), not of {}", self.channels(), image.channels());
        }
        Ok(())
    }

    /// An image as the network sees it: what [`predict`](Predictor::predict) does first. A caller that forms batches of its own
    /// gives the pixels to [`run_rows`](Predictor::run_rows) and the result to [`decode_row`](Predictor::decode_row). Networks
    /// without an [`image_size`](Predictor::image_size) predict whole images.
    pub fn prepare(&self, image: &Image<u8>) -> Result<PreparedImage> {
        self.check_channels(image)?;
        self.preparation.prepare(image)
    }

    /// The prediction in one row of a result.
    pub fn decode_row(&self, result: &HostTensor, row: usize, prepared: &PreparedImage) -> Result<Prediction> {
        let output = self.preparation.decoder.output(result, row, prepared, &self.options)?;
        Ok(Prediction::of(prepared.size, output))
    }

    /// The most images that one run takes.
    fn largest_batch(&self, image: [usize; 3]) -> usize {
        let rows = RowShape { layer: Layer::Prediction, dtype: DType::U8, image };
        self.programs.batches(&rows).into_iter().max().unwrap_or(0).max(BATCH)
    }

    /// Runs images of one size through the smallest program that takes them.
    pub(crate) fn run(&self, layer: Layer, image: [usize; 3], images: &[&Image<u8>]) -> Result<HostTensor> {
        let rows: Vec<&[u8]> = images.iter().map(|image| image.values()).collect();
        self.run_rows(&RowShape { layer, dtype: DType::U8, image }, &rows)
    }

    /// Rows of pixels as [`prepare`](Predictor::prepare) makes them; none for networks that take images of any size.
    pub fn image_rows(&self) -> Option<RowShape> {
        let [height, width] = self.image_size()?;
        Some(RowShape { layer: Layer::Prediction, dtype: DType::U8, image: [height, width, self.channels()] })
    }

    /// Rows of normalized f32 pixels, as exported files take them, and the name of what they return: the network's output, or of
    /// detectors corners and scores per cell. None for networks that take images of any size.
    pub fn tensor_rows(&self) -> Result<Option<(RowShape, &'static str)>> {
        let Some([height, width]) = self.image_size() else { return Ok(None) };
        let entry = self.network.entry()?;
        let kind = OutputKind::of(entry.task, &self.network.recipe.task, &(&OnnxExport::default()).into());
        let layer = match kind {
            OutputKind::Rows => Layer::Prediction,
            OutputKind::Logits | OutputKind::Values | OutputKind::Image => Layer::Output,
            OutputKind::Boxes | OutputKind::Classes | OutputKind::Probabilities | OutputKind::Mask => {
                refuse!("a network alone does not return {}", kind.name())
            }
        };
        let image = [height, width, entry.preprocessing.input[2]];
        Ok(Some((RowShape { layer, dtype: DType::F32, image }, kind.name())))
    }

    /// What lies one after the other in a row of the results of [`tensor_rows`](Predictor::tensor_rows), whose dimensions are
    /// `dims`, with the names that exported files have for it: rows and prototypes of detectors with masks, and else one output.
    pub fn tensor_parts(&self, name: &'static str, dims: &[usize]) -> Vec<(&'static str, Vec<usize>)> {
        let Decoder::Boxes { rows, .. } = &self.preparation.decoder else { return vec![(name, dims.to_vec())] };
        let (maps, width) = (rows.prototypes(), rows.row().width());
        let basis: usize = maps.iter().product();
        if basis == 0 {
            return vec![(name, dims.to_vec())];
        }
        let numbers = dims.iter().product::<usize>() - basis;
        vec![(name, vec![numbers / width, width]), (PROTOTYPES, maps.to_vec())]
    }

    /// Runs rows of one shape through the smallest program that takes them; one is compiled for exactly so many where there is
    /// none. The result has a row per slot of the program: those behind the given ones have no meaning.
    pub fn run_rows(&self, shape: &RowShape, rows: &[&[u8]]) -> Result<HostTensor> {
        let bytes = shape.bytes();
        if let Some(row) = rows.iter().find(|row| row.len() != bytes) {
            refuse!("a row has {bytes} bytes, not {}", row.len());
        }
        let fitting = self.programs.batches(shape).into_iter().filter(|&batch| batch >= rows.len()).min();
        let key = shape.key(fitting.unwrap_or(rows.len()));
        self.run_key(&key, |block| {
            let slots = block.chunks_exact_mut(bytes.max(1));
            slots.enumerate().for_each(|(slot, block)| match rows.get(slot) {
                Some(row) => block.copy_from_slice(row),
                None => block.fill(0),
            });
        })
    }

    /// A batch of tensors as the network sees them, after normalization, through the network: its result or its features.
    pub fn raw(&self, images: &HostTensor, layer: Layer) -> Result<HostTensor> {
        if layer == Layer::Prediction {
            refuse!("a prediction is made of images, not of normalized tensors; choose a layer");
        }
        let key = Key { layer, input: images.shape().clone() };
        self.run_key(&key, |bytes| bytes.copy_from_slice(images.bytes()))
    }

    /// Runs the program of a key over what `fill` writes.
    pub(crate) fn run_key(&self, key: &Key, fill: impl FnOnce(&mut [u8])) -> Result<HostTensor> {
        self.programs.run(key, &self.network, fill)
    }

    /// Compiles the programs for so many images at a time, so that no later call has to wait for a compiler. Calls with fewer
    /// images use the next larger one. Networks that take images of any size compile for the size of each.
    pub fn warm_up(&self, batches: &[usize]) -> Result<()> {
        let Some(shape) = self.image_rows() else { return Ok(()) };
        self.warm_up_rows(&shape, batches)
    }

    /// The same for rows of any shape.
    pub fn warm_up_rows(&self, shape: &RowShape, batches: &[usize]) -> Result<()> {
        let prepare = |&batch: &usize| self.programs.prepare(&shape.key(batch), &self.network);
        batches.iter().filter(|batch| **batch > 0).try_for_each(prepare)
    }

    /// The memory that predictions need with the programs that were compiled so far. Runs at the same time need `temporary` and
    /// `batch` each; the CPU engine runs no more at a time than [`octant_runtime::Backend::concurrency`] says.
    pub fn memory(&self) -> PredictorMemory {
        let (plans, weights) = (self.programs.memory(), self.programs.weight_bytes());
        let most = |bytes: fn(&MemoryPlan) -> u64| plans.iter().map(bytes).max().unwrap_or(0);
        PredictorMemory {
            weights,
            temporary: most(|plan| plan.temporary),
            batch: most(|plan| plan.inputs + plan.outputs).saturating_sub(weights),
            programs: plans.len(),
        }
    }
}

impl Prediction {
    pub(crate) fn of(size: [usize; 2], output: Output) -> Prediction {
        Prediction { path: None, frame: None, size, output }
    }
}
