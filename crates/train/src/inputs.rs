//! The tensors that a batch brings to the device.

use crate::TrainError;
use octant_data::{Batch, IGNORED, Targets};
use octant_graph::{DType, HostTensor, Shape, Tensor};
use octant_zoo::Preprocessing;

type Source = Box<dyn Fn(&Batch) -> Result<HostTensor, TrainError>>;

/// The input that says which rows count.
const MASK: &str = "mask";

struct Input {
    name: &'static str,
    shape: Shape,
    source: Source,
}

/// Names, shapes and sources of a batch's tensors. The first one is the images.
///
/// ```
/// use octant_train::Inputs;
/// let inputs = Inputs::images(8, [28, 28, 1]).labels(10).mask();
/// let names: Vec<&str> = inputs.shapes().map(|(name, _)| name).collect();
/// assert_eq!(names, ["images", "labels", "mask"]);
/// ```
pub struct Inputs {
    batch_size: usize,
    image: [usize; 3],
    list: Vec<Input>,
}

impl Inputs {
    /// Images of `[height, width, channels]`, which travel as u8.
    pub fn images(batch_size: usize, image: [usize; 3]) -> Inputs {
        let [height, width, channels] = image;
        let shape = Shape::new(DType::U8, [batch_size, height, width, channels]);
        Inputs { batch_size, image, list: Vec::new() }.with("images", shape, |batch| Ok(batch.images.clone()))
    }

    /// Any other tensor of the batch. Its first axis is the batch.
    pub fn with(
        mut self,
        name: &'static str,
        shape: Shape,
        source: impl Fn(&Batch) -> Result<HostTensor, TrainError> + 'static,
    ) -> Inputs {
        self.list.push(Input { name, shape, source: Box::new(source) });
        self
    }

    fn row(&self, dtype: DType) -> Shape {
        Shape::new(dtype, [self.batch_size])
    }

    /// 1 for every row that counts, 0 for those that fill up the batch.
    pub fn mask(self) -> Inputs {
        let shape = self.row(DType::F32);
        self.with(MASK, shape, |batch| Ok(batch.mask.clone()))
    }

    /// The number of every image's class, below `classes`: a label outside of the head would silently learn nothing.
    pub fn labels(self, classes: usize) -> Inputs {
        let shape = self.row(DType::I32);
        self.with("labels", shape, move |batch| match &batch.targets {
            Targets::Classes(labels) | Targets::Mixed { classes: labels, .. } => {
                check_labels(labels, classes)?;
                Ok(labels.clone())
            }
            _ => Err(wrong("the data set has no classes; choose a recipe for masks or values")),
        })
    }

    /// Images that come mixed in pairs: the other label of each, and the share of its own. Validation batches are never
    /// mixed: there, every image is its own partner.
    pub fn mixed(self) -> Inputs {
        let shapes = [self.row(DType::I32), self.row(DType::F32)];
        let [partners, shares] = shapes;
        let inputs = self.with("partners", partners, |batch| match &batch.targets {
            Targets::Classes(labels) => Ok(labels.clone()),
            Targets::Mixed { partners, .. } => Ok(partners.clone()),
            _ => Err(wrong("only images of classes can be mixed")),
        });
        inputs.with("shares", shares, |batch| match &batch.targets {
            Targets::Mixed { shares, .. } => Ok(shares.clone()),
            _ => Ok(batch.mask.clone()),
        })
    }

    /// A mask per image, of its size: of a single class, or of so many, below which all labels must be.
    pub fn masks(self, classes: Option<usize>) -> Inputs {
        let [height, width, _] = self.image;
        let shape = Shape::new(DType::U8, [self.batch_size, height, width, 1]);
        self.with("masks", shape, move |batch| match &batch.targets {
            Targets::Masks(masks) => {
                check_masks(masks, classes)?;
                Ok(masks.clone())
            }
            _ => Err(wrong("the data set has no masks; choose a recipe for classes or values")),
        })
    }

    /// That many numbers per image.
    pub fn values(self, count: usize) -> Inputs {
        let shape = Shape::new(DType::F32, [self.batch_size, count]);
        self.with("values", shape, move |batch| match &batch.targets {
            Targets::Values(values) if values.dims().get(1) == Some(&count) => Ok(values.clone()),
            Targets::Values(values) => {
                let found = values.dims().get(1).copied().unwrap_or(0);
                let text = format!(
                    "every image has {found} numbers, but the model makes {count}; give `classes` or name the columns"
                );
                Err(TrainError::Data(text))
            }
            _ => Err(wrong("the data set has no numbers; choose a recipe for classes or masks")),
        })
    }

    /// Whether every image has each of that many labels, as 1 and 0.
    pub fn label_sets(self, count: usize) -> Inputs {
        let shape = Shape::new(DType::F32, [self.batch_size, count]);
        self.with("labels", shape, move |batch| match &batch.targets {
            Targets::Labels(labels) if labels.dims().get(1) == Some(&count) => Ok(labels.clone()),
            Targets::Labels(labels) => {
                let found = labels.dims().get(1).copied().unwrap_or(0);
                Err(TrainError::Data(format!(
                    "the data has {found} labels, but the model has {count}; remove `classes`"
                )))
            }
            _ => Err(wrong("the data set has no sets of labels; choose a recipe for classes or values")),
        })
    }

    /// How many tensors there are.
    pub fn count(&self) -> usize {
        self.list.len()
    }

    /// Their names and shapes, in order.
    pub fn shapes(&self) -> impl Iterator<Item = (&'static str, &Shape)> {
        self.list.iter().map(|input| (input.name, &input.shape))
    }

    /// The tensors of a batch, in that order. One that is filled up with rows that do not count needs an input called `mask`, by
    /// which they are distinguished from the others.
    pub fn tensors(&self, batch: &Batch) -> Result<Vec<HostTensor>, TrainError> {
        let has_mask = self.list.iter().any(|input| input.name == MASK);
        if !has_mask && batch.mask.to_f64s().contains(&0.0) {
            return Err(wrong(
                "the batch is filled up with rows that do not count, and the task would count them; add `.mask()` to its inputs \
                 and weight its sums by it, or drop the last batch",
            ));
        }
        self.list.iter().map(|input| (input.source)(batch)).collect()
    }
}

fn wrong(sentence: &str) -> TrainError {
    TrainError::Data(sentence.into())
}

fn check_labels(labels: &HostTensor, classes: usize) -> Result<(), TrainError> {
    let labels = labels.elements::<i32>().map_err(|error| TrainError::Data(error.to_string()))?;
    match labels.iter().find(|&&label| label < 0 || label as usize >= classes) {
        None => Ok(()),
        Some(label) => Err(TrainError::Data(format!(
            "an image has the label {label}, but the model has {classes} classes; give `classes` or mend the labels"
        ))),
    }
}

/// A label beyond the head would be counted as one that is ignored.
fn check_masks(masks: &HostTensor, classes: Option<usize>) -> Result<(), TrainError> {
    let known = classes.unwrap_or(2);
    let is_known = |label: u8| usize::from(label) < known || classes.is_some() && label == IGNORED;
    match masks.bytes().iter().find(|&&label| !is_known(label)) {
        None => Ok(()),
        Some(label) => Err(TrainError::Data(match classes {
            Some(classes) => format!("a mask has the label {label}, but the model has {classes} classes"),
            None => format!("a mask has the label {label}, but the model marks a single class"),
        })),
    }
}

/// Per-channel mean and standard deviation in units of the 0–255 scale.
pub type Normalize = (Vec<f32>, Vec<f32>);

/// Images as the network wants them: floats, with the mean taken off and divided by the deviation. Gray images become
/// colored ones where the network expects three channels.
pub fn normalized(images: &Tensor, normalize: &Option<Normalize>) -> Tensor {
    let images = images.convert(DType::F32);
    let Some((mean, deviation)) = normalize else { return images };
    let constant = |values: Vec<f32>| {
        let tensor = HostTensor::new([values.len()], &values).expect("as many values as the shape says");
        images.trace().constant(tensor)
    };
    let scale: Vec<f32> = deviation.iter().map(|deviation| 1.0 / deviation).collect();
    let shift: Vec<f32> = mean.iter().zip(&scale).map(|(mean, scale)| -mean * scale).collect();
    &images * constant(scale) + constant(shift)
}

/// What a model's published weights expect, or nothing where they take bytes as they are.
pub fn of_model(preprocessing: &Preprocessing) -> Option<Normalize> {
    let channels = preprocessing.input[2].min(3);
    let bytes =
        |values: &[f64; 3]| values[..channels].iter().map(|v| (v * 255.0 / preprocessing.range) as f32).collect();
    let (mean, deviation): (Vec<f32>, Vec<f32>) = (bytes(&preprocessing.mean), bytes(&preprocessing.deviation));
    let as_they_are = mean.iter().all(|&mean| mean == 0.0) && deviation.iter().all(|&deviation| deviation == 1.0);
    (!as_they_are).then_some((mean, deviation))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]
mod tests {
    use super::*;
    use octant_data::{Glyphs, LastBatch, Loader, LoaderConfig};
    use std::sync::Arc;

    /// A task of one's own was evaluated on 992 of 1,000 images, or on some of them twice.
    #[test]
    fn rows_that_fill_up_a_batch_counted_where_a_task_has_no_mask() {
        let config = LoaderConfig { last: LastBatch::Pad, batch_size: 8, ..LoaderConfig::default() };
        let loader = Loader::new(Arc::new(Glyphs::new(12, 1)), Arc::new(()), config).unwrap();
        let batches: Vec<Batch> = loader.epoch(0).map(Result::unwrap).collect();
        let without = || Inputs::images(8, [28, 28, 1]).labels(10);
        assert!(without().tensors(&batches[0]).is_ok());
        let error = without().tensors(&batches[1]).unwrap_err().to_string();
        assert!(error.contains("add `.mask()` to its inputs"), "{error}");
        let masked = without().mask().tensors(&batches[1]).unwrap();
        assert_eq!(masked[2].to_f64s(), [1.0, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0]);
    }
}
