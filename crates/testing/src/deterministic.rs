//! Weights, images and targets as functions of name and index, equal to those of `golden/make.py`.

use octant_nn::VariableSpec;
use octant_nn::random::path_hash;
use octant_tensor::{DType, HostTensor, Shape};

/// SplitMix64's finaliser.
pub fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// A number of [0, 1) with 24 bits.
fn unit(hash: u64, index: usize) -> f64 {
    let z = (index as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(hash);
    (mix(z) >> 40) as f64 / (1u64 << 24) as f64
}

fn tensor(dims: &[usize], value: impl Fn(usize) -> f64) -> HostTensor {
    let values: Vec<f64> = (0..dims.iter().product()).map(value).collect();
    HostTensor::from_f64s(Shape::new(DType::F32, dims), &values).unwrap()
}

/// The weight of a variable, in Octant's layout.
pub fn weight(spec: &VariableSpec) -> HostTensor {
    let dims = spec.reference_dims();
    let hash = path_hash(&spec.path);
    let last = spec.path.rsplit('.').next().unwrap_or("");
    let spread = (4.0 / dims.iter().skip(1).product::<usize>() as f64).sqrt();
    let reference = tensor(&dims, |index| {
        let u = unit(hash, index);
        match last {
            "running_var" => 0.5 + u,
            "running_mean" => 0.4 * u - 0.2,
            "layer_scale" | "gamma" => 0.5 + 0.5 * u,
            "class_token" | "cls_token" | "pos_embedding" | "pos_embed" => u - 0.5,
            _ if dims.len() >= 2 => (2.0 * u - 1.0) * spread,
            _ if last.ends_with("weight") => 0.8 + 0.4 * u,
            _ => 0.2 * u - 0.1,
        }
    });
    spec.layout.import(&reference, spec.shape.dims()).unwrap()
}

/// Images in NHWC; the function counts in NCHW, as the references do.
pub fn images(batch: usize, side: usize, channels: usize) -> HostTensor {
    // The seed that the stored figures were made with.
    images_of("pictures", batch, side, channels)
}

/// The same from a seed.
pub fn images_of(seed: &str, batch: usize, side: usize, channels: usize) -> HostTensor {
    let hash = path_hash(seed);
    tensor(&[batch, side, side, channels], |index| {
        let (channel, position) = (index % channels, index / channels);
        let (image, position) = (position / (side * side), position % (side * side));
        let u = unit(hash, (image * channels + channel) * side * side + position);
        if channels == 1 { (u * 256.0).floor() } else { 4.0 * u - 2.0 }
    })
}

/// A rectangle per image.
pub fn masks(batch: usize, side: usize) -> HostTensor {
    tensor(&[batch, side, side, 1], |index| {
        let (image, position) = (index / (side * side), index % (side * side));
        let (row, column) = (position / side, position % side);
        let inside = (5 + 3 * image..9 + 5 * image).contains(&row) && (8 + image..14 + 2 * image).contains(&column);
        f64::from(u8::from(inside))
    })
}

/// The same rectangle with the number of a class per image, on class 0; the first row is ignored.
pub fn class_masks(batch: usize, side: usize, classes: usize) -> HostTensor {
    let marked = masks(batch, side).to_f64s();
    tensor(&[batch, side, side, 1], |index| match index / side % side {
        0 => 255.0,
        _ => marked[index] * ((7 * (index / (side * side)) + 3) % classes) as f64,
    })
}

/// A label per image.
pub fn labels(batch: usize, classes: usize) -> HostTensor {
    let values: Vec<i32> = (0..batch).map(|image| ((7 * image + 3) % classes) as i32).collect();
    HostTensor::new([batch], &values).unwrap()
}
