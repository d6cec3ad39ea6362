//! Images into boxes with classes, and into what the network predicts beside them: masks, keypoints, rotations.

mod details;
mod found;
mod watcher;

pub use found::{DetectedRows, FoundObject, PlacedOriginal, mask_of_logits};

use crate::{Inputs, Metric, Normalize, Observer, Outcome, Task, TrainError, normalized};
use octant_data::{Batch, Position, SampleRng, Targets};
use octant_graph::{DType, HostTensor, Shape, Tensor};
use octant_metrics::boxes::{Suppression, suppressed};
use octant_metrics::vector;
use octant_nn::loss::detection::{
    Aligned, Boxes, Cells, Distribution, Head, NoisyQueries, Queries, SetLoss, TaskAligned, TransportLoss, Truth,
    keypoints_in_pixels, transport, transport_predictions,
};
use octant_nn::{Context, Mode};
use octant_tensor::{AlignedBytes, Bytes};
use octant_zoo::{
    BoxCode, BoxDistribution, CellDetail, DetectorHead, Model, SetObjects, SetPrediction, SetPredictions,
};
use std::sync::Arc;
use watcher::BoxWatcher;

/// Detection with the loss that the network's head is made for.
pub struct Detect {
    /// The network.
    pub model: Arc<dyn Model>,
    /// `[height, width, channels]` of the images, which travel as u8.
    pub image: [usize; 3],
    /// As in [`Classify`](crate::Classify).
    pub normalize: Option<Normalize>,
    /// How many objects an image may have; a power of two, so that data sets share compiled programs.
    pub slots: usize,
    /// How many epochs there are: heads trained together exchange their weights, and raw distances count at the end.
    pub epochs: u64,
    /// The side that the step scales training images to; as they come if none.
    pub scaled_to: Option<usize>,
    /// What the losses of boxes, classes and distances count. Heads of YOLOX's kind have fixed ones.
    pub gains: [f64; 3],
    /// What the losses of masks, keypoints, their visibility and angles count.
    pub detail_gains: [f64; 4],
    /// The same for other sides and fewer slots, each compiled ahead.
    forms: Vec<Arc<Detect>>,
    /// Sides and slots of all forms, the first ones those of this one; a form for every pair.
    sides: Vec<usize>,
    slot_counts: Vec<usize>,
}

/// Samples, orders and mixtures use other streams of random numbers.
const SIZE_STREAM: u64 = u64::MAX - 2;

/// Epochs at the end in which raw distances count (YOLOX).
const LAST_EPOCHS: u64 = 15;

impl Detect {
    /// What the parts of the loss count by default.
    pub const GAINS: [f64; 3] = Aligned::GAINS;
    /// What those of masks, keypoints, their visibility and angles count by default.
    pub const DETAIL_GAINS: [f64; 4] = Aligned::DETAIL_GAINS;

    /// Images as they come, and one number of slots.
    pub fn new(
        model: impl Into<Arc<dyn Model>>,
        image: [usize; 3],
        normalize: Option<Normalize>,
        slots: usize,
        epochs: u64,
    ) -> Detect {
        let model = model.into();
        let (sides, slot_counts) = (vec![image[0]], vec![slots]);
        let (gains, detail_gains) = (Detect::GAINS, Detect::DETAIL_GAINS);
        let (scaled_to, forms) = (None, vec![]);
        Detect { model, image, normalize, slots, epochs, scaled_to, gains, detail_gains, forms, sides, slot_counts }
    }

    /// Trains at several image sizes, one per batch at random, and with the fewest slots that hold a batch. `sides` are for square
    /// images and may name their own; `slots` come in descending order, the first is the number that there already is.
    pub fn with_forms(mut self, sides: &[usize], slots: &[usize]) -> Detect {
        let native = self.image[0];
        self.sides = [native].into_iter().chain(sides.iter().copied().filter(|&side| side != native)).collect();
        self.slot_counts = slots.to_vec();
        let pairs = self.sides.iter().flat_map(|&side| slots.iter().map(move |&count| (side, count)));
        let form = |(side, slots): (usize, usize)| {
            let form = Detect::new(self.model.clone(), self.image, self.normalize.clone(), slots, self.epochs);
            let scaled_to = (side != native).then_some(side);
            Arc::new(Detect { scaled_to, gains: self.gains, detail_gains: self.detail_gains, ..form })
        };
        self.forms = pairs.skip(1).map(form).collect();
        self
    }

    /// Images and corners at the side of this form.
    fn scaled(&self, cx: &Context, images: Tensor, corners: &Tensor) -> (Tensor, Tensor) {
        match self.scaled_to {
            Some(side) if matches!(cx.mode(), Mode::Train(_)) => {
                let ratio = side as f64 / images.dim(1) as f64;
                (images.resize_bilinear(side, side, false), corners * ratio)
            }
            _ => (images, corners.clone()),
        }
    }

    fn head(&self) -> DetectorHead {
        // Other networks have been refused when the recipe was read.
        self.model.detector().unwrap_or(DetectorHead {
            strides: vec![8, 16, 32],
            code: BoxCode::Distances { bins: 16 },
            one_to_one: false,
            detail: CellDetail::None,
        })
    }

    /// Which predictions are evaluated. Heads that predict once per object need no suppression.
    fn suppression(&self) -> Suppression {
        let overlap = if self.head().one_to_one { 1.0 } else { Suppression::evaluation().overlap };
        Suppression { overlap, ..Suppression::evaluation() }
    }

    fn cells(&self, images: &Tensor, head: &DetectorHead) -> Cells {
        Cells::new(images.trace(), [images.dim(1), images.dim(2)], &head.strides)
    }

    /// What the network makes of images alone, and how it is read.
    fn computed(&self, cx: &Context, images: &Tensor) -> (Vec<Tensor>, DetectorHead, Cells) {
        let images = normalized(images, &self.normalize).convert(cx.precision().dtype());
        let raw = self.model.outputs(&cx.root(), &images, false);
        let head = self.head();
        let cells = self.cells(&images, &head);
        (raw, head, cells)
    }

    /// What is minimized, and its parts in the order of [`details::loss_names`]. `epoch` is a scalar.
    fn loss(
        &self,
        head: &DetectorHead,
        cells: &Cells,
        raw: &[Tensor],
        truth: &Truth,
        epoch: &Tensor,
    ) -> (Tensor, Vec<Tensor>) {
        let BoxCode::Distances { bins } = head.code else {
            let parts = transport(cells, &raw[0], truth);
            let first_late = self.epochs.saturating_sub(LAST_EPOCHS) as f64;
            let late = epoch.greater_equal(&epoch.scalar_like(first_late)).convert(DType::F32);
            let [boxes, classes] = [parts.boxes * TransportLoss::BOX_GAIN, parts.objectness + parts.classes];
            let distances = parts.distances * late;
            return (&boxes + &classes + &distances, vec![boxes, classes, distances]);
        };
        let images = truth.counts.sum_all();
        let of = |raw: &Tensor, assignment: TaskAligned| {
            let parts = Aligned { assignment, bins, details: head.detail.columns() }.loss(cells, raw, truth);
            let [boxes, classes, distances] = self.gains;
            let plain = [parts.boxes * boxes, parts.classes * classes, parts.distances * distances];
            let gains = details::gains(head.detail, self.detail_gains);
            let more = parts.details.into_iter().zip(gains).map(|(part, gain)| part * gain);
            let parts: Vec<Tensor> = plain.into_iter().chain(more).collect();
            let total = parts.iter().skip(1).fold(parts[0].clone(), |total, part| total + part) * &images;
            (total, parts)
        };
        let (many, parts) = of(&raw[0], TaskAligned::MANY);
        match head.one_to_one {
            false => (many, parts),
            true => {
                let (one, parts) = of(&raw[1], TaskAligned::ONE);
                let share = many_share(epoch, self.epochs);
                (many * &share + one * (1.0 - share), parts)
            }
        }
    }

    /// Corners in pixels, scores and details, `[n, cells, 4 + classes + details]`. Where details are coefficients of masks,
    /// their prototypes follow, all numbers of an image in one row: `[n, 1, numbers]`. [`DetectedRows`] reads them.
    fn predictions(&self, head: &DetectorHead, cells: &Cells, raw: &[Tensor]) -> Tensor {
        let mut parts = self.parts(head, cells, raw);
        if parts.len() == 1 {
            return parts.remove(0);
        }
        let flat = |part: &Tensor| part.reshape(&[part.dim(0), 1, part.shape().elements() / part.dim(0)]);
        Tensor::concatenate(&parts.iter().map(flat).collect::<Vec<_>>(), 2)
    }

    /// The rows, and behind them the prototypes of masks.
    fn parts(&self, head: &DetectorHead, cells: &Cells, raw: &[Tensor]) -> Vec<Tensor> {
        let bins = match head.code {
            BoxCode::Distances { bins } => bins,
            BoxCode::CenterSize => {
                let (boxes, scores) = transport_predictions(cells, &raw[0]);
                return vec![Tensor::concatenate(&[boxes.corners(), scores], 2)];
            }
            BoxCode::Shares { .. } => {
                let (boxes, scores) = set_predictions(cells, &raw[raw.len() - 1]);
                return vec![Tensor::concatenate(&[boxes.corners(), scores], 2)];
            }
        };
        let pieces = Head::new(cells, &raw[usize::from(head.one_to_one)], bins, head.detail.columns());
        let (corners, scores) = (pieces.pixels(cells).corners(), pieces.scores.logistic());
        let joined =
            |details: &[Tensor]| Tensor::concatenate(&[&[corners.clone(), scores.clone()], details].concat(), 2);
        match head.detail {
            CellDetail::None => vec![joined(&[])],
            CellDetail::Keypoints { columns, .. } => {
                vec![joined(&[keypoints_in_pixels(cells, &pieces.details, columns)])]
            }
            CellDetail::Angle => {
                vec![details::rotated_predictions(&pieces.rotated(cells).scaled(&cells.stride), scores)]
            }
            CellDetail::Mask { .. } => vec![joined(&[pieces.details]), raw[raw.len() - 1].clone()],
        }
    }

    /// How a row of predictions for images of that height and width is read.
    fn rows(&self, image: [usize; 2]) -> DetectedRows {
        DetectedRows { classes: self.model.classes(), detail: self.head().detail, image }
    }
}

/// The objects as shares of the image's sides.
fn set_objects(truth: &Truth, [height, width]: [usize; 2]) -> SetObjects {
    SetObjects {
        boxes: truth.shares([height, width]),
        classes: truth.classes.convert(DType::I32),
        exists: truth.exists.clone(),
    }
}

/// What is minimized of sets of boxes, and its parts: boxes, classes and distances, those of distributions among them.
fn set_loss(sets: &SetPredictions, truth: &Truth, image: [usize; 2]) -> [Tensor; 4] {
    let queries = |layer: &SetPrediction| {
        let (zero, one) = (layer.boxes.scalar_like(0.0), layer.boxes.scalar_like(1.0));
        let distribution = layer
            .distribution
            .clone()
            .map(|BoxDistribution { logits, first, bins, scale }| Distribution { logits, first, bins, scale });
        Queries { boxes: layer.boxes.clamp(&zero, &one), logits: layer.logits.clone(), distribution }
    };
    let layers: Vec<Queries> = sets.layers.iter().map(queries).collect();
    let (noisy, groups) = &sets.noisy;
    let noisy = NoisyQueries { layers: noisy.iter().map(queries).collect(), groups: *groups };
    let loss = SetLoss::new(&layers, Some(&noisy).filter(|noisy| noisy.groups > 0), truth, image);
    let [boxes, classes, distances, local, distilled] = SetLoss::GAINS;
    let of_distances = &loss.distances * distances + &loss.local * local + &loss.distilled * distilled;
    [loss.total(), &loss.boxes * boxes, &loss.classes * classes, of_distances]
}

/// Corners in pixels and scores of a set.
fn set_predictions(cells: &Cells, raw: &Tensor) -> (Boxes, Tensor) {
    let column = |index: usize| raw.slice_axis(2, index, index + 1).reshape(&raw.dims()[..2]);
    let [height, width] = cells.image.map(|side| side as f64);
    let [x, y, wide, high] =
        [column(0) * width, column(1) * height, column(2) * (0.5 * width), column(3) * (0.5 * height)];
    let boxes = Boxes { x0: &x - &wide, y0: &y - &high, x1: x + wide, y1: y + high };
    (boxes, raw.slice_axis(2, 4, raw.dim(2)).logistic())
}

/// How much the head that is trained with many cells per object counts: most at first, little at the end.
fn many_share(epoch: &Tensor, epochs: u64) -> Tensor {
    let last = epochs.saturating_sub(1).max(1) as f64;
    let left = 1.0 - epoch / last;
    left.max(&left.scalar_like(0.0)) * 0.7 + 0.1
}

/// Rows of boxes cut to the number of slots: what fills a row up comes last.
fn cut(tensor: &HostTensor, slots: usize) -> Result<HostTensor, TrainError> {
    let dims = tensor.dims();
    let (rows, listed) = (dims[0], dims[1]);
    let width: usize = dims[2..].iter().product::<usize>() * tensor.dtype().size();
    let row = |row: usize| &tensor.bytes()[row * listed * width..][..slots.min(listed) * width];
    let mut bytes = Vec::with_capacity(rows * slots * width);
    for index in 0..rows {
        bytes.extend_from_slice(row(index));
        // Fewer slots than wanted: class −1 and boxes of any kind have the same bytes here.
        bytes.resize((index + 1) * slots * width, 0xff);
    }
    let shape = tensor.shape().with_dims([&[rows, slots], &dims[2..]].concat());
    HostTensor::from_bytes(shape, Bytes::new(AlignedBytes::copy_of(&bytes)))
        .map_err(|error| TrainError::Data(error.to_string()))
}

impl Task for Detect {
    fn inputs(&self, batch_size: usize) -> Inputs {
        const NONE: &str = "the data set has no boxes; choose a recipe for classes, masks or values";
        let count = self.slots;
        let corners = Shape::new(DType::F32, [batch_size, count, 4]);
        let inputs = Inputs::images(batch_size, self.image).with("boxes", corners, move |batch| match &batch.targets {
            Targets::Boxes { corners, .. } => cut(corners, count),
            _ => Err(TrainError::Data(NONE.into())),
        });
        let classes = Shape::new(DType::I32, [batch_size, count]);
        let inputs = inputs.with("classes", classes, move |batch| match &batch.targets {
            Targets::Boxes { classes, .. } => cut(classes, count),
            _ => Err(TrainError::Data(NONE.into())),
        });
        let row = Shape::new(DType::F32, [batch_size]);
        let inputs = inputs.mask().with("epoch", row, |batch| {
            let rows = batch.indices.len();
            let epochs = vec![batch.position.epoch as f32; rows];
            HostTensor::new([rows], &epochs).map_err(|error| TrainError::Data(error.to_string()))
        });
        details::inputs(inputs, self.head().detail, batch_size, count, self.image)
    }

    fn outcome(&self, cx: &Context, batch: &[Tensor]) -> Outcome {
        let [images, corners, classes, mask, epoch, details @ ..] = batch else {
            unreachable!("a batch has the tensors of `inputs`")
        };
        let native = images.dim(1);
        let (images, corners) = self.scaled(cx, normalized(images, &self.normalize), corners);
        let images = images.convert(cx.precision().dtype());
        let (head, truth) = (self.head(), Truth::new(&corners, classes, mask));
        let cells = self.cells(&images, &head);
        let (raw, (minimized, parts)) = match head.code {
            BoxCode::Shares { .. } => {
                let image = [images.dim(1), images.dim(2)];
                let objects = set_objects(&truth, image);
                let sets = self.model.sets(&cx.root(), &images, Some(&objects));
                let [minimized, parts @ ..] = set_loss(&sets, &truth, image);
                let last =
                    sets.layers.last().map(|last| Tensor::concatenate(&[last.boxes.clone(), last.logits.clone()], 2));
                (Vec::from_iter(last), (minimized, parts.to_vec()))
            }
            BoxCode::Distances { .. } | BoxCode::CenterSize => {
                let raw = self.model.outputs(&cx.root(), &images, false);
                let ratio = images.dim(1) as f64 / native as f64;
                let truth = match details.first() {
                    Some(details) => truth.clone().with(details::truth(details, head.detail, &raw, ratio)),
                    None => truth.clone(),
                };
                let loss = self.loss(&head, &cells, &raw, &truth, &epoch.mean_all());
                (raw, loss)
            }
        };
        let loss = match self.sums_over_images() {
            // Ultralytics minimizes the sum over images; reported per image, the loss does not follow the batch size.
            true => {
                let images = truth.counts.sum_all();
                &minimized / images.max(&images.scalar_like(1.0))
            }
            false => minimized.clone(),
        };
        let sums = vector(&[parts, vec![loss.clone(), loss.full_like(1.0)]].concat());
        let predictions = matches!(cx.mode(), Mode::Evaluate).then(|| self.predictions(&head, &cells, &raw));
        Outcome { loss, predictions, ..Outcome::new(minimized, sums) }
    }

    fn metrics(&self, sums: &[f64], _: bool) -> Vec<Metric> {
        // The parts, the loss per image, and how many batches there were.
        let batches = sums.last().copied().unwrap_or_default().max(1.0);
        let names = details::loss_names(self.head().detail).iter().chain(&["loss"]);
        names.zip(sums).map(|(name, sum)| (name.to_string(), sum / batches)).collect()
    }

    fn predict(&self, cx: &Context, images: &Tensor) -> Tensor {
        let (raw, head, cells) = self.computed(cx, images);
        self.predictions(&head, &cells, &raw)
    }

    fn predicted_parts(&self, cx: &Context, images: &Tensor) -> Vec<Tensor> {
        let (raw, head, cells) = self.computed(cx, images);
        self.parts(&head, &cells, &raw)
    }

    fn head_paths(&self) -> Vec<String> {
        self.model.head_paths()
    }

    /// YOLOX divides by its positive cells instead.
    fn sums_over_images(&self) -> bool {
        matches!(self.head().code, BoxCode::Distances { .. })
    }

    fn forms(&self) -> Vec<Arc<dyn Task>> {
        self.forms.iter().map(|form| form.clone() as Arc<dyn Task>).collect()
    }

    fn form_of(&self, batch: &Batch, seed: u64) -> usize {
        let Targets::Boxes { classes, .. } = &batch.targets else { return 0 };
        let listed = classes.dims()[1];
        // Classes of another type are refused when they are copied to the device.
        let Ok(classes) = classes.elements::<i32>() else { return self.form_of_part(batch, seed) };
        let rows = classes.chunks_exact(listed.max(1));
        let fullest = rows.map(|row| row.iter().filter(|&&class| class >= 0).count()).max().unwrap_or(0);
        let slots = self.slot_counts.iter().rposition(|&count| count >= fullest).unwrap_or(0);
        self.form_of_part(batch, seed) + slots
    }

    /// The size of images, with slots for the most objects.
    fn form_of_part(&self, batch: &Batch, seed: u64) -> usize {
        if self.forms.is_empty() {
            return 0;
        }
        let Position { epoch, batch: number, .. } = batch.position;
        SampleRng::new(seed, epoch, SIZE_STREAM).fork(number).below(self.sides.len()) * self.slot_counts.len()
    }

    /// What is predicted beside boxes is suppressed on the host.
    fn reduced(&self, predictions: &Tensor) -> Tensor {
        match self.head().detail {
            CellDetail::None => suppressed(predictions, &self.suppression()),
            CellDetail::Mask { .. } | CellDetail::Keypoints { .. } | CellDetail::Angle => predictions.clone(),
        }
    }

    fn observer(&self) -> Option<Box<dyn Observer>> {
        let rows = self.rows([self.image[0], self.image[1]]);
        Some(Box::new(BoxWatcher::new(rows, self.suppression())))
    }
}
