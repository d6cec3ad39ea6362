//! Pictures into classes.

use crate::{Metric, Normalise, Outcome, Task, TrainError, normalised};
use octant_data::{Batch, Targets};
use octant_graph::{DType, HostTensor, Shape, Tensor};
use octant_metrics::{classes, vector};
use octant_nn::{Context, Mode, loss};
use octant_zoo::Model;

/// Classification with cross-entropy.
pub struct Classify {
    /// The network.
    pub model: Box<dyn Model>,
    /// `[height, width, channels]` of the pictures, which travel as u8.
    pub picture: [usize; 3],
    /// Per-channel mean and standard deviation in units of the 0–255 scale; none leaves pictures as they are.
    pub normalise: Option<Normalise>,
    /// Label smoothing.
    pub smoothing: f64,
}

/// The places of the running sums; in evaluation the confusion matrix follows.
const LOSS: usize = 0;
const CORRECT: usize = 1;
const AMONG_FIVE: usize = 2;
const COUNT: usize = 3;
const SUMS: usize = 4;
/// Beyond this the matrix is larger than anyone can read, and slow to make.
const LARGEST_CONFUSION: usize = 200;

impl Task for Classify {
    fn name(&self) -> &'static str {
        "classify"
    }

    fn batch_shapes(&self, batch_size: usize) -> Vec<(String, Shape)> {
        let [height, width, channels] = self.picture;
        vec![
            ("images".into(), Shape::new(DType::U8, [batch_size, height, width, channels])),
            ("labels".into(), Shape::new(DType::I32, [batch_size])),
            ("mask".into(), Shape::new(DType::F32, [batch_size])),
        ]
    }

    fn batch_tensors(&self, batch: &Batch) -> Result<Vec<HostTensor>, TrainError> {
        match &batch.targets {
            Targets::Classes(labels) => {
                self.check_labels(labels)?;
                Ok(vec![batch.images.clone(), labels.clone(), batch.mask.clone()])
            }
            _ => Err(TrainError::Data("the data set has no classes; choose a recipe for masks or values".into())),
        }
    }

    fn sums(&self, training: bool) -> usize {
        SUMS + if training { 0 } else { self.confusion_size() }
    }

    fn outcome(&self, cx: &Context, batch: &[Tensor]) -> Outcome {
        let [images, labels, mask] = batch else { unreachable!("a batch has the tensors of `batch_shapes`") };
        let logits = self.logits(cx, images);
        let losses = loss::cross_entropy(&logits, labels, self.smoothing);
        let (_, predicted) = logits.arg_max(1);
        let correct = predicted.equal(labels).convert(DType::F32) * mask;
        let among_five = match self.model.classes() > 5 {
            true => classes::among_greatest(&logits, labels, mask, 5),
            false => mask.sum_all(),
        };
        let mut sums = vector(&[(&losses * mask).sum_all(), correct.sum_all(), among_five, mask.sum_all()]);
        if matches!(cx.mode(), Mode::Evaluate) && self.confusion_size() > 0 {
            let confusion = classes::confusion(labels, &predicted, mask, self.model.classes());
            sums = Tensor::concatenate(&[sums, confusion], 0);
        }
        Outcome::new(loss::mean(&losses, Some(mask)), sums)
    }

    fn metrics(&self, sums: &[f64], training: bool) -> Vec<Metric> {
        let count = sums[COUNT].max(1.0);
        let mut metrics = vec![("loss".into(), sums[LOSS] / count), ("accuracy".into(), sums[CORRECT] / count)];
        if self.model.classes() > 5 {
            metrics.push(("top5".into(), sums[AMONG_FIVE] / count));
        }
        if !training && let Some(confusion) = self.confusion(sums) {
            metrics.extend(confusion.metrics());
        }
        metrics
    }

    fn predict(&self, cx: &Context, images: &Tensor) -> Tensor {
        self.logits(cx, images).softmax(1)
    }

    fn head_paths(&self) -> Vec<String> {
        self.model.head_paths()
    }

    fn confusion(&self, counts: &[f64]) -> Option<classes::Confusion> {
        let counts = counts.get(SUMS..).filter(|counts| !counts.is_empty())?.to_vec();
        Some(classes::Confusion { counts, classes: self.model.classes() })
    }
}

impl Classify {
    fn logits(&self, cx: &Context, images: &Tensor) -> Tensor {
        let images = normalised(images, &self.normalise).convert(cx.precision().dtype());
        self.model.forward(&cx.root(), &images).convert(DType::F32)
    }

    fn confusion_size(&self) -> usize {
        let classes = self.model.classes();
        if classes <= LARGEST_CONFUSION { classes * classes } else { 0 }
    }

    /// A label outside of the head would silently learn nothing.
    fn check_labels(&self, labels: &HostTensor) -> Result<(), TrainError> {
        let classes = self.model.classes();
        let labels = labels.elements::<i32>().map_err(|error| TrainError::Data(error.to_string()))?;
        match labels.iter().find(|&&label| label < 0 || label as usize >= classes) {
            None => Ok(()),
            Some(label) => Err(TrainError::Data(format!(
                "a picture has the label {label}, but the model has {classes} classes; give --classes or mend the labels"
            ))),
        }
    }
}
