//! Images into boxes with classes.

mod watcher;

use crate::{Inputs, Metric, Normalize, Observer, Outcome, Task, TrainError, normalized};
use octant_data::{Batch, Position, SampleRng, Targets};
use octant_graph::{DType, HostTensor, Shape, Tensor};
use octant_metrics::boxes::{Suppression, suppressed};
use octant_metrics::vector;
use octant_nn::loss::detection::{
    Aligned, Cells, Head, TaskAligned, TransportLoss, Truth, transport, transport_predictions,
};
use octant_nn::{Context, Mode};
use octant_tensor::{AlignedBytes, Bytes};
use octant_zoo::{BoxCode, DetectorHead, Model};
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
    /// The same for other sides and fewer slots, each compiled ahead.
    forms: Vec<Arc<Detect>>,
    /// Sides and slots of all forms, the first ones those of this one; a form for every pair.
    sides: Vec<usize>,
    slot_counts: Vec<usize>,
}

/// Box, class and distance losses, the loss per image, and how many batches there were.
const SUMS: usize = 5;

/// Samples, orders and mixtures use other streams of random numbers.
const SIZE_STREAM: u64 = u64::MAX - 2;

/// Epochs at the end in which raw distances count (YOLOX).
const LAST_EPOCHS: u64 = 15;

impl Detect {
    /// What the parts of the loss count by default.
    pub const GAINS: [f64; 3] = Aligned::GAINS;

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
        let gains = Detect::GAINS;
        Detect { model, image, normalize, slots, epochs, scaled_to: None, gains, forms: vec![], sides, slot_counts }
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
            Arc::new(Detect { scaled_to: (side != native).then_some(side), gains: self.gains, ..form })
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

    /// What is minimized and its three parts. `epoch` is a scalar.
    fn loss(&self, head: &DetectorHead, cells: &Cells, raw: &[Tensor], truth: &Truth, epoch: &Tensor) -> [Tensor; 4] {
        let BoxCode::Distances { bins } = head.code else {
            let parts = transport(cells, &raw[0], truth);
            let first_late = self.epochs.saturating_sub(LAST_EPOCHS) as f64;
            let late = epoch.greater_equal(&epoch.scalar_like(first_late)).convert(DType::F32);
            let [boxes, classes] = [parts.boxes * TransportLoss::BOX_GAIN, parts.objectness + parts.classes];
            let distances = parts.distances * late;
            return [&boxes + &classes + &distances, boxes, classes, distances];
        };
        let images = truth.counts.sum_all();
        let of = |raw: &Tensor, assignment: TaskAligned| {
            let parts = Aligned { assignment, bins }.loss(cells, raw, truth);
            let [boxes, classes, distances] = self.gains;
            let parts = [parts.boxes * boxes, parts.classes * classes, parts.distances * distances];
            let total = (&parts[0] + &parts[1] + &parts[2]) * &images;
            (total, parts)
        };
        let (many, parts) = of(&raw[0], TaskAligned::MANY);
        let (total, [boxes, classes, distances]) = match head.one_to_one {
            false => (many, parts),
            true => {
                let (one, parts) = of(&raw[1], TaskAligned::ONE);
                let share = many_share(epoch, self.epochs);
                (many * &share + one * (1.0 - share), parts)
            }
        };
        [total, boxes, classes, distances]
    }

    /// Corners in pixels and scores, `[n, cells, 4 + classes]`.
    fn predictions(&self, head: &DetectorHead, cells: &Cells, raw: &[Tensor]) -> Tensor {
        let raw = &raw[raw.len() - 1];
        let (boxes, scores) = match head.code {
            BoxCode::Distances { bins } => {
                let pieces = Head::new(cells, raw, bins);
                (pieces.pixels(cells), pieces.scores.logistic())
            }
            BoxCode::CenterSize => transport_predictions(cells, raw),
        };
        Tensor::concatenate(&[boxes.corners(), scores], 2)
    }
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
        inputs.mask().with("epoch", row, |batch| {
            let rows = batch.indices.len();
            let epochs = vec![batch.position.epoch as f32; rows];
            HostTensor::new([rows], &epochs).map_err(|error| TrainError::Data(error.to_string()))
        })
    }

    fn outcome(&self, cx: &Context, batch: &[Tensor]) -> Outcome {
        let [images, corners, classes, mask, epoch] = batch else {
            unreachable!("a batch has the tensors of `inputs`")
        };
        let (images, corners) = self.scaled(cx, normalized(images, &self.normalize), corners);
        let images = images.convert(cx.precision().dtype());
        let raw = self.model.outputs(&cx.root(), &images, false);
        let (head, truth) = (self.head(), Truth::new(&corners, classes, mask));
        let cells = self.cells(&images, &head);
        let [minimized, boxes, of_classes, distances] = self.loss(&head, &cells, &raw, &truth, &epoch.mean_all());
        let loss = match self.sums_over_images() {
            // Ultralytics minimizes the sum over images; reported per image, the loss does not follow the batch size.
            true => {
                let images = truth.counts.sum_all();
                &minimized / images.max(&images.scalar_like(1.0))
            }
            false => minimized.clone(),
        };
        let sums = vector(&[boxes, of_classes, distances, loss.clone(), loss.full_like(1.0)]);
        let predictions = matches!(cx.mode(), Mode::Evaluate).then(|| self.predictions(&head, &cells, &raw));
        Outcome { loss, predictions, ..Outcome::new(minimized, sums) }
    }

    fn metrics(&self, sums: &[f64], _: bool) -> Vec<Metric> {
        let batches = sums[SUMS - 1].max(1.0);
        let names = ["box_loss", "class_loss", "distance_loss", "loss"];
        names.iter().zip(sums).map(|(name, sum)| (name.to_string(), sum / batches)).collect()
    }

    fn predict(&self, cx: &Context, images: &Tensor) -> Tensor {
        let images = normalized(images, &self.normalize).convert(cx.precision().dtype());
        let raw = self.model.outputs(&cx.root(), &images, false);
        let head = self.head();
        self.predictions(&head, &self.cells(&images, &head), &raw)
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
        if self.forms.is_empty() {
            return 0;
        }
        let Position { epoch, batch: number, .. } = batch.position;
        let side = SampleRng::new(seed, epoch, SIZE_STREAM).fork(number).below(self.sides.len());
        let listed = classes.dims()[1];
        let rows = classes.elements::<i32>().unwrap_or_default().chunks_exact(listed.max(1));
        let fullest = rows.map(|row| row.iter().filter(|&&class| class >= 0).count()).max().unwrap_or(0);
        let slots = self.slot_counts.iter().rposition(|&count| count >= fullest).unwrap_or(0);
        side * self.slot_counts.len() + slots
    }

    fn reduced(&self, predictions: &Tensor) -> Tensor {
        suppressed(predictions, &self.suppression())
    }

    fn observer(&self) -> Option<Box<dyn Observer>> {
        Some(Box::new(BoxWatcher::new(self.model.classes(), self.suppression())))
    }
}
