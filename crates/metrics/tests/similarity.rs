//! How alike images are, against pytorch-msssim and torchmetrics.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use octant_graph::evaluate::evaluate;
use octant_graph::{DType, HostTensor, Shape, Trace};
use octant_metrics::images::{similarity, similarity_metrics};

/// The bytes of the script that made the figures.
fn image([height, width, channels]: [usize; 3], kind: usize) -> HostTensor {
    let mut levels = Vec::new();
    for row in 0..height {
        for column in 0..width {
            for channel in 0..channels {
                let smooth = (row * 3 + column * 2 + channel * 50) / 2 % 256;
                let texture = (row * row + 3 * column * (channel + 1)) % 61;
                let darker = if kind == 1 { 30 } else { 0 };
                let changed = (smooth + texture).saturating_sub(darker).min(255);
                levels.push(if kind == 0 { smooth } else { changed } as f32);
            }
        }
    }
    HostTensor::new([1, height, width, channels], &levels).unwrap()
}

#[test]
fn psnr_ssim_and_ms_ssim_equal_those_of_the_packages() {
    let cases: Vec<serde_json::Value> = serde_json::from_str(include_str!("../golden/similarity.json")).unwrap();
    for case in &cases {
        let number = |name: &str| case[name].as_u64().unwrap() as usize;
        let dims = ["height", "width", "channels"].map(number);
        let images = [image(dims, 0), image(dims, number("kind"))];
        let trace = Trace::new();
        let [x, y] = ["x", "y"].map(|name| trace.input(name, images[0].shape().clone()));
        let one = trace.full(&Shape::new(DType::F32, [1]), 1.0);
        let graph = trace.finish(&[similarity(&x, &y, &one, 255.0)]).unwrap();
        let sums = evaluate(&graph, &images).unwrap()[0].to_f64s();
        let metrics = similarity_metrics(&sums, dims[0].min(dims[1]));
        for name in ["psnr", "ssim", "ms_ssim"] {
            let ours = metrics.iter().find(|(known, _)| known == name).map(|(_, value)| *value);
            let tolerance = if name == "psnr" { 1e-4 } else { 1e-5 };
            match (ours, case[name].as_f64()) {
                (Some(ours), Some(theirs)) => assert!((ours - theirs).abs() < tolerance, "{name} {ours}: {case}"),
                (ours, theirs) => assert_eq!(ours.is_some(), theirs.is_some(), "{name}: {case}"),
            }
        }
    }
    assert_eq!(cases.len(), 4);
}
