//! What is minimized over masks.

use octant_graph::Tensor;
use octant_nn::loss;

crate::choice! {
    /// A loss over masks, of a single class that is marked or over several classes. The names that both kinds have mean the
    /// same: `dice` of one class is smoothed by 1.
    pub enum MaskLoss {
        /// 1 − IoU.
        SoftIou = "soft-iou",
        /// Several classes: cross-entropy per pixel, with class weights and label smoothing.
        CrossEntropy = "cross-entropy",
        /// 1 − Dice.
        Dice = "dice",
        /// Focal loss with γ 2; of one class with α 0.25.
        Focal = "focal",
        /// Several classes: cross-entropy over the hard pixels, p < 0.7 and at least a sixteenth of all.
        Ohem = "ohem",
        /// Several classes: Lovász-softmax.
        Lovasz = "lovasz",
        /// One class: MSHNet's scale- and location-sensitive loss; plain 1 − IoU during warm-up.
        SlsIou = "sls-iou",
        /// One class: binary cross-entropy.
        Bce = "bce",
    }
}

impl MaskLoss {
    /// Whether it is defined for masks of so many classes.
    pub fn suits(self, classes: usize) -> bool {
        match self {
            MaskLoss::SoftIou | MaskLoss::Dice | MaskLoss::Focal => true,
            MaskLoss::CrossEntropy | MaskLoss::Ohem | MaskLoss::Lovasz => classes > 1,
            MaskLoss::SlsIou | MaskLoss::Bce => classes == 1,
        }
    }
}

/// A weighted sum of losses.
#[derive(Debug, Clone, PartialEq)]
pub struct SegmentLoss {
    /// What is added, each with its factor.
    pub parts: Vec<(MaskLoss, f64)>,
    /// What a pixel of each class counts in the cross-entropy; empty, all count alike.
    pub class_weights: Vec<f64>,
    /// Label smoothing of the cross-entropy.
    pub smoothing: f64,
}

impl From<MaskLoss> for SegmentLoss {
    fn from(loss: MaskLoss) -> SegmentLoss {
        SegmentLoss { parts: vec![(loss, 1.0)], class_weights: Vec::new(), smoothing: 0.0 }
    }
}

impl SegmentLoss {
    /// The usual loss for masks of so many classes.
    pub fn usual(classes: usize) -> SegmentLoss {
        if classes > 1 { MaskLoss::CrossEntropy.into() } else { MaskLoss::SoftIou.into() }
    }

    /// Reads `cross-entropy + 0.5 * dice`. The error is the rest of a sentence that starts with the key.
    pub fn parse(text: &str) -> Result<Vec<(MaskLoss, f64)>, String> {
        let part = |part: &str| {
            let (factor, name) = match part.split_once('*') {
                Some((factor, name)) => {
                    let number = factor.trim().parse().ok().filter(|factor: &f64| factor.is_finite() && *factor > 0.0);
                    (
                        number.ok_or_else(|| {
                            format!("has the factor \"{}\", which is no number above 0", factor.trim())
                        })?,
                        name,
                    )
                }
                None => (1.0, part),
            };
            let loss = MaskLoss::NAMES.iter().position(|known| *known == name.trim()).map(|at| MaskLoss::ALL[at]);
            let problem = || {
                format!(
                    "must be {} or a sum such as \"cross-entropy + dice\", not \"{text}\"",
                    crate::options::one_of(MaskLoss::NAMES)
                )
            };
            Ok((loss.ok_or_else(problem)?, factor))
        };
        text.split('+').map(part).collect()
    }

    /// Of a single class: a value per image, `[n]`, of logits against masks of 0 and 1.
    pub(super) fn of_one_class(&self, logits: &Tensor, targets: &Tensor, warm_up: bool) -> Tensor {
        self.sum(|loss| match loss {
            MaskLoss::SlsIou => loss::sls_iou(logits, targets, warm_up),
            MaskLoss::SoftIou => loss::soft_iou(logits, targets),
            MaskLoss::Dice => loss::dice(logits, targets),
            MaskLoss::Bce => loss::binary_cross_entropy_map(logits, targets),
            MaskLoss::Focal => loss::focal(logits, targets, 0.25, 2.0),
            MaskLoss::CrossEntropy | MaskLoss::Ohem | MaskLoss::Lovasz => unreachable!("these need several classes"),
        })
    }

    /// Of several classes: the value of a batch, of logits against class numbers.
    pub(super) fn of_classes(&self, logits: &Tensor, labels: &Tensor) -> Tensor {
        self.sum(|loss| match loss {
            MaskLoss::CrossEntropy => loss::pixel_cross_entropy(logits, labels, &self.class_weights, self.smoothing),
            MaskLoss::SoftIou => loss::pixel_soft_iou(logits, labels),
            MaskLoss::Dice => loss::pixel_dice(logits, labels),
            MaskLoss::Focal => loss::pixel_focal(logits, labels, 2.0),
            MaskLoss::Ohem => loss::pixel_ohem(logits, labels),
            MaskLoss::Lovasz => loss::pixel_lovasz(logits, labels),
            MaskLoss::SlsIou | MaskLoss::Bce => unreachable!("these are for a single class"),
        })
    }

    fn sum(&self, value: impl Fn(MaskLoss) -> Tensor) -> Tensor {
        let parts = self.parts.iter().map(|&(loss, factor)| match factor == 1.0 {
            true => value(loss),
            false => value(loss) * factor,
        });
        parts.reduce(|sum, part| sum + part).expect("there is a loss")
    }
}
