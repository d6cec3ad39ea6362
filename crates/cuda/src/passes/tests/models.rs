//! Training steps of whole networks: what they call, and that every call would be launched.

use super::calls::{SMALL, TARGET, hints};
use crate::passes::prepare;
use octant_graph::Graph;
use octant_runtime::Program;
use octant_train::step::{self, StepPlan};
use octant_train::{Classify, Detect, ImageFormat, ImageLoss, MaskLoss, Restore, Segment, Task};
use std::collections::BTreeMap;
use std::sync::Arc;

fn training_step(model: &str, side: usize, batch: usize) -> Program {
    let entry = octant_zoo::find(model).unwrap();
    let model = (entry.build)(entry.classes);
    let image = [side, side, entry.preprocessing.input[2]];
    let task: Arc<dyn Task> = match entry.task {
        octant_zoo::ModelTask::Classify => Arc::new(Classify::new(model, image)),
        octant_zoo::ModelTask::Segment => {
            Arc::new(Segment { model, image, normalize: None, loss: MaskLoss::SlsIou.into(), warm_up: false })
        }
        octant_zoo::ModelTask::Detect
        | octant_zoo::ModelTask::Instances
        | octant_zoo::ModelTask::Pose
        | octant_zoo::ModelTask::Rotated => Arc::new(Detect::new(model, image, None, 8, 1)),
        octant_zoo::ModelTask::Translate => {
            let format = ImageFormat { image, target: image, normalize: None };
            Arc::new(Restore { model, format, loss: ImageLoss::L1 })
        }
    };
    step::training(&StepPlan::new(task.clone(), batch)).unwrap().program
}

/// How often each kernel is called.
fn counts(graph: &Graph) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for hint in hints(graph) {
        *counts.entry(hint.name.trim_start_matches("octant.").to_string()).or_default() += 1;
    }
    counts
}

#[test]
fn mshnet_calls_kernels_for_its_narrow_layers() {
    let program = training_step("mshnet", 256, 32);
    let counts = counts(&prepare(&program.graph, &TARGET));
    let of = |name: &str| counts.get(name).copied().unwrap_or(0);
    assert_eq!(
        ["convolution", "convolution_gradient", "few_channels", "few_channels_gradient", "update"].map(of),
        [34, 32, 34, 17, 3]
    );
}

#[test]
fn other_networks_have_work_for_our_kernels_too() {
    let made = |model: &str, side: usize, batch: usize| {
        let program = training_step(model, side, batch);
        counts(&prepare(&program.graph, &TARGET))
    };
    let unet = made("unet", 256, 16);
    assert_eq!([unet["convolution"], unet["convolution_gradient"]], [12, 17], "{unet:?}");
    let mobile = made("mobilenet_v3_large", 224, 64);
    assert_eq!([mobile["depthwise"], mobile["depthwise_gradient"], mobile["update"]], [30, 15, 2], "{mobile:?}");
    let convnext = made("convnext_tiny", 224, 64);
    assert_eq!([convnext["depthwise"], convnext["depthwise_gradient"]], [36, 18], "{convnext:?}");
}

/// A small GPU gets calls in other sizes, which must fit as well.
#[test]
fn the_calls_of_a_small_gpu_would_be_launched_too() {
    let program = training_step("mshnet", 64, 4);
    let counts = counts(&prepare(&program.graph, &SMALL));
    assert!(counts["convolution"] > 20 && counts["convolution_gradient"] > 20, "{counts:?}");
}
