//! A detector's training step in several forms: fewer slots change nothing, and sizes follow from the seed and the position.

#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use octant_cpu::CpuBackend;
use octant_data::{Batch, Position, Targets};
use octant_graph::{DType, HostTensor, Shape};
use octant_runtime::{Backend, CompileOptions, Mesh};
use octant_tensor::{AlignedBytes, Bytes};
use octant_train::step::{self, StepPlan};
use octant_train::{Detect, Evaluator, Session, Task, Values};
use std::collections::HashSet;
use std::sync::Arc;

const SIDE: usize = 64;

fn detect() -> Detect {
    let model = octant_zoo::build("yolo11-tiny", None).unwrap();
    Detect::new(model, [SIDE, SIDE, 3], None, 32, 4)
}

/// Two images with that many boxes each, in a loader's 64 slots.
fn batch(number: u64, boxes: usize) -> Batch {
    let (mut corners, mut classes) = (vec![0f32; 2 * 64 * 4], vec![-1i32; 2 * 64]);
    for row in 0..2 {
        for slot in 0..boxes {
            let (x, y) = ((slot * 7 % 40) as f32, (slot * 5 % 36) as f32);
            corners[(row * 64 + slot) * 4..][..4].copy_from_slice(&[x, y, x + 20.0, y + 24.0]);
            classes[row * 64 + slot] = (slot % 10) as i32;
        }
    }
    let pixels: Vec<u8> = (0..2 * SIDE * SIDE * 3).map(|i| ((i as u64 * 2654435761) >> 7) as u8).collect();
    Batch {
        position: Position::new(0, number),
        images: HostTensor::new([2, SIDE, SIDE, 3], &pixels).unwrap(),
        targets: Targets::Boxes {
            corners: HostTensor::new([2, 64, 4], &corners).unwrap(),
            classes: HostTensor::new([2, 64], &classes).unwrap(),
            details: None,
            ground_truth: Vec::new(),
        },
        mask: HostTensor::new([2], &[1f32; 2]).unwrap(),
        valid: 2,
        indices: vec![0, 1],
    }
}

/// The weights after a step on each batch, and how often each other form ran.
fn trained(task: &Arc<Detect>, batches: &[Batch]) -> (Vec<(String, HostTensor)>, Vec<u64>) {
    let backend = CpuBackend::new().unwrap().shared();
    let mut session = Session::new(&backend, &StepPlan::new(task.clone(), 2), &CompileOptions::default(), 3).unwrap();
    batches.iter().for_each(|batch| session.train(batch, 1e-3).unwrap());
    let runs = session.form_usage().skip(1).map(|usage| usage.executions).collect();
    (session.weights().unwrap().tensors, runs)
}

#[test]
fn fewer_slots_change_nothing() {
    let batches: Vec<Batch> = [3, 20, 8, 0].into_iter().enumerate().map(|(i, boxes)| batch(i as u64, boxes)).collect();
    let (plain, none) = trained(&Arc::new(detect()), &batches);
    let (bucketed, runs) = trained(&Arc::new(detect().with_forms(&[SIDE], &[32, 8])), &batches);
    assert_eq!((none, runs), (vec![], vec![3]), "all but the one with 20 boxes");
    for ((name, expected), (_, actual)) in plain.iter().zip(&bucketed) {
        let near = |(a, b): (f64, f64)| (a - b).abs() <= 1e-5 * (1.0 + a.abs());
        assert!(expected.to_f64s().into_iter().zip(actual.to_f64s()).all(near), "{name}");
    }
}

/// The same images twice in a batch.
fn doubled(batch: &Batch) -> Batch {
    let twice = |tensor: &HostTensor| {
        let mut dims = tensor.dims().to_vec();
        dims[0] *= 2;
        let bytes = Bytes::new(AlignedBytes::copy_of(&[&tensor.bytes()[..], &tensor.bytes()[..]].concat()));
        HostTensor::from_bytes(Shape::new(tensor.dtype(), dims), bytes).unwrap()
    };
    let Targets::Boxes { corners, classes, .. } = &batch.targets else { panic!("boxes") };
    Batch {
        position: batch.position,
        images: twice(&batch.images),
        targets: Targets::Boxes {
            corners: twice(corners),
            classes: twice(classes),
            details: None,
            ground_truth: Vec::new(),
        },
        mask: twice(&batch.mask),
        valid: 4,
        indices: vec![0, 1, 0, 1],
    }
}

/// 55.9 with 8 images in a batch was 93.3 with 16, with the same weights.
#[test]
fn the_loss_of_detection_followed_the_batch_size() {
    let reported = |batch: &Batch| {
        let backend = CpuBackend::new().unwrap().shared();
        let plan = StepPlan::new(Arc::new(detect()), batch.indices.len());
        let mut session = Session::new(&backend, &plan, &CompileOptions::default(), 3).unwrap();
        session.keep_losses();
        session.train(batch, 0.0).unwrap();
        let metrics = session.metrics().unwrap();
        let metric = |name: &str| metrics.iter().find(|(known, _)| known == name).unwrap().1;
        let parts = metric("box_loss") + metric("class_loss") + metric("distance_loss");
        assert!((parts - metric("loss")).abs() < 1e-3 * parts, "{metrics:?} do not add up");
        assert!((session.losses(true).unwrap()[0].1 - metric("loss")).abs() < 1e-3 * parts);
        metric("loss")
    };
    // Boxes as large as a network without training predicts them: below a total score of 1, the losses are not divided by it.
    let mut two = batch(0, 1);
    let mut corners = vec![0f32; 2 * 64 * 4];
    [0, 64].into_iter().for_each(|slot| corners[slot * 4..][..4].copy_from_slice(&[2.0, 2.0, 62.0, 62.0]));
    let Targets::Boxes { corners: of_batch, .. } = &mut two.targets else { panic!("boxes") };
    *of_batch = HostTensor::new([2, 64, 4], &corners).unwrap();
    let (once, twice) = (reported(&two), reported(&doubled(&two)));
    assert!(once > 0.1 && (once - twice).abs() < 1e-3 * once, "{once} for two images, {twice} for four");
}

#[test]
fn sizes_follow_from_the_seed_and_the_position() {
    let task = Arc::new(detect().with_forms(&[32, 64, 96], &[32]));
    let chosen = |seed: u64| -> Vec<usize> { (0..40).map(|number| task.form_of(&batch(number, 2), seed)).collect() };
    assert_eq!(chosen(1), chosen(1));
    assert_ne!(chosen(1), chosen(2));
    assert_eq!(chosen(1).into_iter().collect::<HashSet<_>>(), HashSet::from([0, 1, 2]));
    let batches: Vec<Batch> = (0..6).map(|number| batch(number, 2)).collect();
    let (weights, runs) = trained(&task, &batches);
    assert_eq!((weights, runs.clone()), trained(&task, &batches));
    assert_eq!(runs.len(), 2);
    assert!(runs.iter().sum::<u64>() > 0, "{runs:?}");
}

#[test]
fn every_form_takes_images_as_they_come() {
    let task = detect().with_forms(&[32, 64, 96], &[32, 8]);
    let images = Shape::new(DType::U8, [2, SIDE, SIDE, 3]);
    let of_form = |form: &dyn Task| form.inputs(2).shapes().next().unwrap().1.clone();
    assert!(task.forms().into_iter().all(|form| of_form(&*form) == images));
    assert_eq!(task.forms().len(), 5);
}

#[test]
fn memory_is_planned_for_the_largest_form() {
    let flat = |sides: &[usize], slots: &[usize]| {
        let plan = StepPlan::new(Arc::new(detect().with_forms(sides, slots)), 2);
        let backend = CpuBackend::new().unwrap().shared();
        let peak = |program| backend.compile(&program, &CompileOptions::default()).unwrap().memory().peak();
        let forms: Vec<u64> = plan.forms().iter().map(|form| peak(step::training(form).unwrap().program)).collect();
        (forms, peak(step::largest_training(&plan).unwrap().program))
    };
    // The first form has 64 pixels and 32 slots; images of 96 pixels need more.
    let (forms, largest) = flat(&[32, 64, 96], &[32, 8]);
    assert_eq!(forms.len(), 6);
    assert_eq!(Some(&largest), forms.iter().max());
    assert!(largest > forms[0], "{forms:?}");
    let (forms, largest) = flat(&[64], &[32, 8]);
    assert_eq!(largest, forms[0]);
}

/// A device with memory of its own returns boxes after suppression, and they are evaluated as the raw ones are.
#[test]
fn boxes_suppressed_by_the_program_are_evaluated_like_those_of_the_host() {
    let task = Arc::new(detect());
    let backend = CpuBackend::new().unwrap().shared();
    let batch = batch(0, 6);
    let evaluated = |mesh: Mesh| {
        let plan = StepPlan { mesh, ..StepPlan::new(task.clone(), 2) };
        let specs = step::evaluation(&plan).unwrap().variables;
        let values = Values::of(&specs, specs.iter().map(|spec| spec.initial(5)).collect());
        let evaluator = Evaluator::new(&backend, &plan, &CompileOptions::default(), &values).unwrap();
        let (metrics, findings) = evaluator.run([Ok(batch.clone())].into_iter()).unwrap();
        (metrics, findings.confusion.unwrap().counts)
    };
    let near = evaluated(Mesh::single());
    assert!(near.0.iter().any(|(name, _)| name == "mAP50"), "{:?}", near.0);
    assert_eq!(near, evaluated(Mesh::single().remote()));
}
