//! Losses over the classes of pixels. Predictions are logits `[n, h, w, classes]`, labels are class numbers of `[n, h, w, 1]`;
//! a pixel whose label is no class (255) counts nowhere. Each loss is a scalar over all pixels of a batch, as in PyTorch, where
//! an image with few labeled pixels counts less than one with many.

use octant_graph::{DType, HostTensor, Tensor};

/// Keeps divisors above 0 where a batch has no labeled pixel; its loss is 0.
const TINY: f64 = 1e-12;

/// What the losses of a batch have in common.
struct Pixels {
    /// `[n, h, w, classes]`, f32.
    logits: Tensor,
    /// Whether each class is a pixel's label, of the same shape.
    is_label: Tensor,
    /// 1 where a pixel has a label: f32 `[n, h, w]`.
    counted: Tensor,
}

impl Pixels {
    fn new(logits: &Tensor, labels: &Tensor) -> Pixels {
        let logits = logits.convert(DType::F32);
        let [n, h, w, classes] = [0, 1, 2, 3].map(|axis| logits.dim(axis));
        let labels = labels.convert(DType::I32).reshape(&[n, h, w]);
        let counted = labels.less(&labels.scalar_like(classes as f64)).convert(DType::F32);
        Pixels { is_label: labels.one_hot(classes, DType::Bool), counted, logits }
    }

    fn classes(&self) -> usize {
        self.logits.dim(3)
    }

    /// The value at each pixel's label, 0 where it has none.
    fn of_label(&self, values: &Tensor) -> Tensor {
        self.is_label.select(values, &values.scalar_like(0.0)).sum(&[3])
    }

    /// −log p of every pixel's label, 0 where it has none.
    fn losses(&self) -> Tensor {
        (self.logits.logsumexp(3) - self.of_label(&self.logits)) * &self.counted
    }

    /// Probabilities and labels of the counted pixels, 0 elsewhere.
    fn shares(&self) -> (Tensor, Tensor) {
        let counted = self.counted.unsqueeze(3).broadcast_to(self.logits.dims());
        (self.logits.softmax(3) * counted, self.is_label.convert(DType::F32))
    }

    fn mean(&self, losses: &Tensor) -> Tensor {
        losses.sum_all() / self.counted.sum_all().max(&losses.scalar_like(TINY))
    }
}

/// A number per class along the last axis.
fn per_class(like: &Tensor, values: &[f64]) -> Tensor {
    let values: Vec<f32> = values.iter().map(|&value| value as f32).collect();
    let row = HostTensor::new([values.len()], &values).expect("as many values as the shape says");
    like.trace().constant(row).broadcast_to(like.dims())
}

/// Cross-entropy, the mean over all labeled pixels. `class_weights` are what a pixel of each class counts; empty, all count
/// alike. Equal to `torch.nn.functional.cross_entropy` with `ignore_index`, `weight` and `label_smoothing`.
pub fn pixel_cross_entropy(logits: &Tensor, labels: &Tensor, class_weights: &[f64], smoothing: f64) -> Tensor {
    let pixels = Pixels::new(logits, labels);
    let weights = match class_weights {
        [] => pixels.logits.full_like(1.0),
        given => per_class(&pixels.logits, given),
    };
    let of_label = pixels.of_label(&weights);
    let total = of_label.sum_all().max(&logits.convert(DType::F32).scalar_like(TINY));
    let own = (pixels.losses() * &of_label).sum_all() / &total;
    if smoothing == 0.0 {
        return own;
    }
    let everywhere = -(pixels.logits.log_softmax(3) * weights).sum(&[3]) * &pixels.counted;
    own * (1.0 - smoothing) + everywhere.sum_all() / total * (smoothing / pixels.classes() as f64)
}

/// Focal loss over the softmax: −(1 − p)^γ·log p of the label, the mean over all labeled pixels.
pub fn pixel_focal(logits: &Tensor, labels: &Tensor, gamma: f64) -> Tensor {
    let pixels = Pixels::new(logits, labels);
    let losses = pixels.losses();
    let missed = (1.0 - (-&losses).exp()).max(&losses.scalar_like(0.0));
    let difficulty = match gamma == 2.0 {
        true => missed.square(),
        // The gradient of a power at 0 is not finite.
        false => missed.max(&losses.scalar_like(TINY)).pow(&losses.full_like(gamma)),
    };
    pixels.mean(&(losses * difficulty))
}

/// The share of labeled pixels that online hard example mining keeps at least.
const KEPT_SHARE: f64 = 1.0 / 16.0;
/// It keeps every pixel whose label has a smaller probability than this.
const HARD_BELOW: f64 = 0.7;

/// Cross-entropy over hard pixels: those whose label has a probability below 0.7, and at least the hardest sixteenth.
pub fn pixel_ohem(logits: &Tensor, labels: &Tensor) -> Tensor {
    let pixels = Pixels::new(logits, labels);
    let losses = pixels.losses();
    let all = losses.shape().elements();
    // Hard pixels first; those without a label have the loss 0 and come last.
    let fixed = losses.stop_gradient().reshape(&[all]);
    let sorted = Tensor::sort(std::slice::from_ref(&fixed), 0, true).swap_remove(0);
    let kept = (pixels.counted.sum_all() * KEPT_SHARE + 1.0).floor().convert(DType::I32);
    let at = sorted.trace().iota(sorted.shape().with_dtype(DType::I32), 0);
    let is_last = at.equal(&kept.broadcast_to(&[all]));
    let threshold = is_last.select(&sorted, &sorted.scalar_like(0.0)).sum_all();
    let threshold = threshold.min(&threshold.scalar_like(-HARD_BELOW.ln()));
    let is_hard =
        losses.stop_gradient().greater(&threshold.broadcast_to(losses.dims())).convert(DType::F32) * &pixels.counted;
    (losses * &is_hard).sum_all() / is_hard.sum_all().max(&threshold.scalar_like(TINY))
}

/// Sums over all counted pixels per class: of both, of the prediction, of the label.
fn overlaps(pixels: &Pixels) -> [Tensor; 3] {
    let (probabilities, labels) = pixels.shares();
    [&probabilities * &labels, probabilities, labels].map(|values| values.sum(&[0, 1, 2]))
}

/// The mean over all classes of what those that are in the batch have; the others have 0.
fn mean_of_present(losses: &Tensor, label_sums: &Tensor) -> Tensor {
    let is_present = label_sums.greater(&label_sums.scalar_like(0.0));
    is_present.select(losses, &losses.scalar_like(0.0)).mean_all()
}

/// 1 − Dice coefficient per class over the whole batch, the mean over classes; classes without a pixel have the loss 0.
/// Equal to `DiceLoss(mode="multiclass")` of segmentation_models_pytorch.
pub fn pixel_dice(logits: &Tensor, labels: &Tensor) -> Tensor {
    let [both, predicted, labeled] = overlaps(&Pixels::new(logits, labels));
    let total = (predicted + &labeled).max(&both.scalar_like(1e-7));
    mean_of_present(&(1.0 - both * 2.0 / total), &labeled)
}

/// 1 − intersection over union per class, as [`pixel_dice`]. Equal to `JaccardLoss(mode="multiclass")` of
/// segmentation_models_pytorch.
pub fn pixel_soft_iou(logits: &Tensor, labels: &Tensor) -> Tensor {
    let [both, predicted, labeled] = overlaps(&Pixels::new(logits, labels));
    let union = (predicted + &labeled - &both).max(&both.scalar_like(1e-7));
    mean_of_present(&(1.0 - both / union), &labeled)
}

/// The Lovász-softmax loss (Berman et al., CVPR 2018) over the classes that are in the batch, whose pixels are taken together.
/// It sorts all pixels once per class.
pub fn pixel_lovasz(logits: &Tensor, labels: &Tensor) -> Tensor {
    let pixels = Pixels::new(logits, labels);
    let classes = pixels.classes();
    let all = pixels.counted.shape().elements();
    let rows = |values: &Tensor| values.reshape(&[all, classes]).transpose(&[1, 0]);
    let labels = rows(&pixels.is_label.convert(DType::F32));
    let counted = pixels.counted.reshape(&[1, all]).broadcast_to(&[classes, all]);
    let errors = (&labels - rows(&pixels.logits.softmax(3))).abs() * &counted;
    // Pixels without a label go to the end, where they change no sum before them.
    let keys = &errors + (&counted - 1.0);
    let mut sorted = Tensor::sort(&[keys, errors, labels.clone()], 1, true);
    let (labels_sorted, errors_sorted) = (sorted.swap_remove(2), sorted.swap_remove(1));
    let total = labels.sum_keep(&[1]).broadcast_to(&[classes, all]);
    let both = &total - labels_sorted.cumsum(1);
    let union = &total + (1.0 - &labels_sorted).cumsum(1);
    let index = (1.0 - both / union.max(&union.scalar_like(TINY))).stop_gradient();
    let steps = &index - index.shifted(1, 1);
    let losses = (errors_sorted * steps).sum(&[1]);
    let is_present = labels.sum(&[1]).greater(&losses.scalar_like(0.0)).convert(DType::F32);
    (losses * &is_present).sum_all() / is_present.sum_all().max(&is_present.scalar_like(TINY).reshape(&[]))
}
