//! Images into boxes with classes.

use crate::{Findings, Inputs, Metric, Normalize, Observer, Outcome, Task, TrainError, normalized};
use octant_data::{Batch, Targets};
use octant_graph::{DType, HostTensor, Shape, Tensor};
use octant_metrics::boxes::{BoxReport, BoxScores, FoundBox, Rectangle, Suppression, TrueBox, suppress};
use octant_metrics::classes::Confusion;
use octant_metrics::vector;
use octant_nn::loss::detection::{
    Aligned, Cells, Head, TaskAligned, TransportLoss, Truth, transport, transport_answers,
};
use octant_nn::{Context, Mode};
use octant_tensor::{AlignedBytes, Bytes};
use octant_zoo::{BoxCode, DetectorHead, Model};
use std::cell::OnceCell;

/// Detection with the loss that the network's head is made for.
pub struct Detect {
    /// The network.
    pub model: Box<dyn Model>,
    /// `[height, width, channels]` of the images, which travel as u8.
    pub image: [usize; 3],
    /// As in [`Classify`](crate::Classify).
    pub normalize: Option<Normalize>,
    /// How many objects an image may have; a power of two, so that data sets share compiled programs.
    pub slots: usize,
    /// How many epochs there are: heads trained together exchange their weights, and raw distances count at the end.
    pub epochs: u64,
}

/// Box, class and distance losses, the loss itself, and how many batches there were.
const SUMS: usize = 5;

/// Epochs at the end in which raw distances count (YOLOX).
const LAST_EPOCHS: u64 = 15;

impl Detect {
    fn head(&self) -> DetectorHead {
        // Other networks have been refused when the recipe was read.
        self.model.detector().unwrap_or(DetectorHead {
            strides: vec![8, 16, 32],
            code: BoxCode::Distances { bins: 16 },
            one_to_one: false,
        })
    }

    fn cells(&self, images: &Tensor, head: &DetectorHead) -> Cells {
        Cells::new(images.trace(), [images.dim(1), images.dim(2)], &head.strides)
    }

    /// The loss and its three parts. `epoch` is a scalar.
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
            let [boxes, classes, distances] = Aligned::GAINS;
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
    fn answers(&self, head: &DetectorHead, cells: &Cells, raw: &[Tensor]) -> Tensor {
        let raw = &raw[raw.len() - 1];
        let (boxes, scores) = match head.code {
            BoxCode::Distances { bins } => {
                let pieces = Head::new(cells, raw, bins);
                (pieces.pixels(cells), pieces.scores.logistic())
            }
            BoxCode::CenterSize => transport_answers(cells, raw),
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
        let images = normalized(images, &self.normalize).convert(cx.precision().dtype());
        let raw = self.model.outputs(&cx.root(), &images, false);
        let (head, truth) = (self.head(), Truth::new(corners, classes, mask));
        let cells = self.cells(&images, &head);
        let [total, boxes, of_classes, distances] = self.loss(&head, &cells, &raw, &truth, &epoch.mean_all());
        let one = total.full_like(1.0);
        let sums = vector(&[boxes, of_classes, distances, total.clone(), one]);
        let predictions = matches!(cx.mode(), Mode::Evaluate).then(|| self.answers(&head, &cells, &raw));
        Outcome { predictions, ..Outcome::new(total, sums) }
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
        self.answers(&head, &self.cells(&images, &head), &raw)
    }

    fn head_paths(&self) -> Vec<String> {
        self.model.head_paths()
    }

    /// YOLOX divides by its positive cells instead.
    fn sums_over_images(&self) -> bool {
        matches!(self.head().code, BoxCode::Distances { .. })
    }

    fn observer(&self) -> Option<Box<dyn Observer>> {
        let classes = self.model.classes();
        let mut rules = Suppression::evaluation();
        if self.head().one_to_one {
            rules.overlap = 1.0;
        }
        Some(Box::new(BoxWatcher { scores: BoxScores::new(classes), classes, rules, report: OnceCell::new() }))
    }
}

/// Collects what was answered and what is true, in pixels of the network's images.
struct BoxWatcher {
    scores: BoxScores,
    classes: usize,
    rules: Suppression,
    /// What was found out, once somebody asked.
    report: OnceCell<BoxReport>,
}

impl BoxWatcher {
    fn report(&self) -> &BoxReport {
        self.report.get_or_init(|| self.scores.report())
    }
}

impl Observer for BoxWatcher {
    fn observe(&mut self, batch: &Batch, predictions: &HostTensor) -> Result<(), TrainError> {
        let Targets::Boxes { corners, classes } = &batch.targets else { return Ok(()) };
        self.report = OnceCell::new();
        let wrong = |error: octant_tensor::TensorError| TrainError::Data(error.to_string());
        let (answers, corners) =
            (predictions.elements::<f32>().map_err(wrong)?, corners.elements::<f32>().map_err(wrong)?);
        let classes = classes.elements::<i32>().map_err(wrong)?;
        let rows = batch.indices.len().max(1);
        let (per_row, listed) = (answers.len() / rows, classes.len() / rows);
        let counted: Vec<usize> = (0..batch.indices.len()).filter(|&row| batch.indices[row] != u64::MAX).collect();
        let found =
            in_threads(&counted, |row| suppress(&answers[row * per_row..][..per_row], self.classes, &self.rules));
        for (&row, found) in counted.iter().zip(found) {
            let objects = (row * listed..(row + 1) * listed).filter(|&place| classes[place] >= 0);
            let truth = objects.map(|place| {
                let corner = |index: usize| f64::from(corners[4 * place + index]);
                let rectangle = Rectangle::of_corners([corner(0), corner(1), corner(2), corner(3)]);
                TrueBox::new(classes[place] as usize, rectangle)
            });
            self.scores.observe(truth.collect(), found);
        }
        Ok(())
    }

    fn metrics(&self) -> Vec<Metric> {
        self.report().metrics()
    }

    fn findings(&self) -> Findings {
        let report = self.report();
        let classes = report.confusion.classes + 1;
        // Theirs has the answer in the row, ours the truth.
        let at = |at: usize| report.confusion.count(at % classes, at / classes) as f64;
        let counts = (0..classes * classes).map(at).collect();
        Findings { confusion: Some(Confusion { classes, counts }), roc: None, boxes: Some(report.clone()) }
    }
}

/// Does the work of every row, on as many threads as there are cores; results come in order.
fn in_threads(rows: &[usize], work: impl Fn(usize) -> Vec<FoundBox> + Sync) -> Vec<Vec<FoundBox>> {
    let threads = std::thread::available_parallelism().map_or(1, |count| count.get());
    let share = rows.len().div_ceil(threads).max(1);
    std::thread::scope(|scope| {
        let work = &work;
        let parts: Vec<_> = rows
            .chunks(share)
            .map(|part| scope.spawn(move || part.iter().map(|&row| work(row)).collect::<Vec<_>>()))
            .collect();
        parts.into_iter().flat_map(|part| part.join().expect("suppression does not panic")).collect()
    })
}
