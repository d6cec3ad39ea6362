//! Images on their way into the network.

use octant_graph::{DType, HostTensor, Tensor};
use octant_zoo::Preprocessing;

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
