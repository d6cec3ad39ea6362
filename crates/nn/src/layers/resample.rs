//! Layers without variables that change the size of NHWC images.

use octant_graph::Tensor;

/// Mirrors the image at its edges, without repeating the edge itself: `margin` rows and columns more on every side, as
/// PyTorch's `ReflectionPad2d`. The margin must be smaller than the image.
pub fn reflection_pad(x: &Tensor, margin: usize) -> Tensor {
    [1, 2].into_iter().fold(x.clone(), |x, axis| {
        let length = x.dim(axis as isize);
        if margin >= length {
            let message = format!("reflection_pad: a margin of {margin} needs images larger than {}", x.shape());
            return x.trace().fail(message, x.shape().clone());
        }
        let before = x.slice_axis(axis, 1, margin + 1).reverse(&[axis]);
        let after = x.slice_axis(axis, length - 1 - margin, length - 1).reverse(&[axis]);
        Tensor::concatenate(&[before, x.clone(), after], axis)
    })
}

/// Channels become pixels: `[n, h, w, c · factor²]` becomes `[n, h · factor, w · factor, c]`, as PyTorch's `PixelShuffle`.
pub fn pixel_shuffle(x: &Tensor, factor: usize) -> Tensor {
    let [batch, height, width, channels] = [0, 1, 2, 3].map(|axis| x.dim(axis));
    let features = channels / (factor * factor).max(1);
    let split = x.reshape(&[batch, height, width, features, factor, factor]);
    split.transpose(&[0, 1, 4, 2, 5, 3]).reshape(&[batch, height * factor, width * factor, features])
}

#[cfg(test)]
mod tests {
    use super::*;
    use octant_graph::evaluate::evaluate;
    use octant_graph::{DType, HostTensor, Shape, Trace};

    fn run(dims: [usize; 4], layer: impl Fn(&Tensor) -> Tensor) -> Vec<f64> {
        let trace = Trace::new();
        let x = trace.input("x", Shape::new(DType::F32, dims));
        let graph = trace.finish(&[layer(&x)]).unwrap();
        let values: Vec<f32> = (0..dims.iter().product::<usize>()).map(|value| value as f32).collect();
        evaluate(&graph, &[HostTensor::new(dims, &values).unwrap()]).unwrap()[0].to_f64s()
    }

    #[test]
    fn reflected_rows_do_not_repeat_the_edge() {
        let padded = run([1, 3, 3, 1], |x| reflection_pad(x, 2));
        assert_eq!(padded[..7], [8.0, 7.0, 6.0, 7.0, 8.0, 7.0, 6.0]);
        assert_eq!(padded[14..21], [2.0, 1.0, 0.0, 1.0, 2.0, 1.0, 0.0]);
        let trace = Trace::new();
        let x = trace.input("x", Shape::new(DType::F32, [1, 3, 3, 1]));
        let error = trace.clone().finish(&[reflection_pad(&x, 3)]).unwrap_err().to_string();
        assert!(error.contains("a margin of 3"), "{error}");
    }

    #[test]
    fn shuffled_channels_become_pixels_in_pytorchs_order() {
        // Two features of 2 × 2: the channels of a feature lie side by side.
        let shuffled = run([1, 1, 1, 8], |x| pixel_shuffle(x, 2));
        assert_eq!(shuffled, [0.0, 4.0, 1.0, 5.0, 2.0, 6.0, 3.0, 7.0]);
    }
}
