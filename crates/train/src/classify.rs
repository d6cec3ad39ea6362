//! Pictures into classes.

use crate::{Metric, Outcome, Task, TrainError};
use octant_data::{Batch, Targets};
use octant_graph::{DType, HostTensor, Shape, Tensor};
use octant_nn::{Context, loss};
use octant_zoo::Model;

/// Classification with cross-entropy.
pub struct Classify {
    /// The network.
    pub model: Box<dyn Model>,
    /// `[height, width, channels]` of the pictures, which travel as u8.
    pub picture: [usize; 3],
    /// Per-channel mean and standard deviation in units of the 0–255 scale; none leaves pictures as they are.
    pub normalise: Option<(Vec<f32>, Vec<f32>)>,
    /// Label smoothing.
    pub smoothing: f64,
}

/// The places of the running sums.
const LOSS: usize = 0;
const CORRECT: usize = 1;
const COUNT: usize = 2;

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

    fn sums(&self) -> usize {
        3
    }

    fn outcome(&self, cx: &Context, batch: &[Tensor]) -> Outcome {
        let [images, labels, mask] = batch else { unreachable!("a batch has the tensors of `batch_shapes`") };
        let images = self.normalised(&images.convert(DType::F32)).convert(cx.precision().dtype());
        let logits = self.model.forward(&cx.root(), &images).convert(DType::F32);
        let losses = loss::cross_entropy(&logits, labels, self.smoothing);
        let (_, predicted) = logits.arg_max(1);
        let correct = predicted.equal(labels).convert(DType::F32) * mask;
        let sums = [(&losses * mask).sum_all(), correct.sum_all(), mask.sum_all()];
        let sums = sums.map(|sum| sum.reshape(&[1]));
        Outcome { loss: loss::mean(&losses, Some(mask)), sums: Tensor::concatenate(&sums, 0) }
    }

    fn metrics(&self, sums: &[f64]) -> Vec<Metric> {
        let count = sums[COUNT].max(1.0);
        vec![("loss".into(), sums[LOSS] / count), ("accuracy".into(), sums[CORRECT] / count)]
    }
}

impl Classify {
    fn normalised(&self, images: &Tensor) -> Tensor {
        let Some((mean, deviation)) = &self.normalise else { return images.clone() };
        let constant = |values: Vec<f32>| {
            let tensor = HostTensor::new([values.len()], &values).expect("as many values as the shape says");
            images.trace().constant(tensor)
        };
        let scale: Vec<f32> = deviation.iter().map(|deviation| 1.0 / deviation).collect();
        let shift: Vec<f32> = mean.iter().zip(&scale).map(|(mean, scale)| -mean * scale).collect();
        images * constant(scale) + constant(shift)
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
