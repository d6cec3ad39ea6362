//! One predictor, many threads: the same bytes, and memory for a stated number of runs.

#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use octant_cpu::CpuBackend;
use octant_imaging::Image;
use octant_predict::{Cancel, ModelChoice, Network, Output, PredictError, PredictOptions, Prediction, Predictor};
use octant_runtime::Backend;
use octant_tensor::HostTensor;
use std::sync::Arc;
use std::time::Duration;

fn predictor(name: &str, device: &Arc<dyn Backend>, seed: u64) -> Predictor {
    let choice = ModelChoice { classes: Some(3), seed, ..ModelChoice::default() };
    let mut network = Network::of_model(octant_zoo::find(name).unwrap(), None, &choice).unwrap();
    // Heads that start at zero would predict the same of everything.
    for value in network.values.values_mut() {
        let numbers = value.to_f64s();
        if numbers.iter().all(|number| *number == 0.0) {
            let ramp: Vec<f64> =
                (0..numbers.len()).map(|at| ((at * 7 + seed as usize) % 11) as f64 * 0.02 - 0.1).collect();
            *value = HostTensor::from_f64s(value.shape().clone(), &ramp).unwrap();
        }
    }
    Predictor::new(network, device, PredictOptions::default()).unwrap()
}

fn images(count: usize) -> Vec<Image<u8>> {
    let image = |number: usize| {
        Image::from_fn(40 + number, 56, 3, move |row, column, channel| {
            (row * 3 + column * (5 + number) + channel * 40) as u8
        })
    };
    (0..count).map(image).collect()
}

/// Everything in a prediction that is a number, bit by bit.
fn bits(predictions: &[Prediction]) -> Vec<u64> {
    let numbers = |prediction: &Prediction| match &prediction.output {
        Output::Classes(classes) => classes.scores.iter().map(|score| score.to_bits()).collect(),
        Output::Boxes(boxes) => boxes.shown.iter().map(|found| found.score.to_bits()).collect(),
        Output::Mask(mask) => mask.classes.values().iter().map(|&value| value.into()).collect(),
        other => panic!("{other:?}"),
    };
    predictions.iter().flat_map(|prediction| -> Vec<u64> { numbers(prediction) }).collect()
}

#[test]
fn eight_threads_predict_what_one_predicts_bit_by_bit() {
    for name in ["resnet-tiny", "vit-test", "convnext-test"] {
        let engine = Arc::new(CpuBackend::with_threads(3).unwrap());
        let device: Arc<dyn Backend> = engine.clone();
        let (predictor, images) = (predictor(name, &device, 7), images(5));
        let expected = bits(&predictor.predict(images.clone()).unwrap());
        assert!(expected.iter().any(|bits| *bits != expected[0]), "{name} sees no difference");
        std::thread::scope(|scope| {
            for thread in 0..8 {
                let (predictor, images, expected) = (&predictor, &images, &expected);
                scope.spawn(move || {
                    for _ in 0..4 {
                        assert!(bits(&predictor.predict(images.clone()).unwrap()) == *expected, "thread {thread}");
                    }
                });
            }
        });
        // As many arenas as programs that may run at once, none larger than the program.
        let (arenas, memory) = (engine.arenas(), predictor.memory());
        assert!(arenas.len() <= device.concurrency() && device.concurrency() == 3, "{arenas:?}");
        assert!(arenas.iter().all(|&bytes| bytes as u64 <= memory.temporary), "{arenas:?} {memory:?}");
        assert_eq!(memory.programs, 1, "a program is compiled once");
    }
}

#[test]
fn predictors_with_other_weights_share_a_device_without_mixing_them() {
    let device: Arc<dyn Backend> = Arc::new(CpuBackend::with_threads(2).unwrap());
    let predictors = [1, 2].map(|seed| predictor("vit-test", &device, seed));
    let images = images(2);
    let expected = predictors.each_ref().map(|predictor| bits(&predictor.predict(images.clone()).unwrap()));
    assert_ne!(expected[0], expected[1]);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (predictors, images, expected) = (&predictors, &images, &expected);
            scope.spawn(move || {
                for round in 0..6 {
                    let which = (thread + round) % 2;
                    assert!(bits(&predictors[which].predict(images.clone()).unwrap()) == expected[which]);
                }
            });
        }
    });
}

#[test]
fn a_warm_predictor_compiles_nothing_and_pads_to_the_next_batch() {
    let device: Arc<dyn Backend> = Arc::new(CpuBackend::with_threads(1).unwrap());
    let predictor = predictor("resnet-tiny", &device, 7);
    predictor.warm_up(&[4]).unwrap();
    let images = images(3);
    let one = bits(&predictor.predict(images[..1].to_vec()).unwrap());
    let three = bits(&predictor.predict(images).unwrap());
    assert_eq!((predictor.memory().programs, one.as_slice()), (1, &three[..one.len()]));
}

#[test]
fn predictions_end_when_they_are_cancelled_or_late() {
    let device: Arc<dyn Backend> = Arc::new(CpuBackend::with_threads(1).unwrap());
    let predictor = predictor("resnet-tiny", &device, 7);
    let cancel = Cancel::never();
    predictor.predict_with(images(1), &cancel).unwrap();
    cancel.clone().cancel();
    for cancel in [cancel, Cancel::after(Duration::ZERO)] {
        let error = predictor.predict_with(images(1), &cancel).unwrap_err();
        assert!(matches!(error, PredictError::Cancelled), "{error}");
    }
}

/// Prints images per second of one thread and of eight, in turns; a figure, not a test, since other work disturbs it.
#[test]
#[ignore = "measures time: cargo test -p octant-predict --test threads -- --ignored --nocapture"]
fn throughput_of_eight_threads_against_one() {
    let device: Arc<dyn Backend> = Arc::new(CpuBackend::new().unwrap());
    let network = Network::of_model(octant_zoo::find("resnet18").unwrap(), None, &ModelChoice::default()).unwrap();
    let predictor = Predictor::new(network, &device, PredictOptions::default()).unwrap();
    let images = images(1);
    let run = |threads: usize, each: usize| {
        let begun = std::time::Instant::now();
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| (0..each).for_each(|_| drop(predictor.predict(images.clone()).unwrap())));
            }
        });
        (threads * each) as f64 / begun.elapsed().as_secs_f64()
    };
    run(1, 4);
    let mut ratios: Vec<f64> = (0..7).map(|_| [run(1, 24), run(8, 3)]).map(|[one, eight]| eight / one).collect();
    ratios.sort_by(f64::total_cmp);
    println!("eight threads / one thread, seven rounds: {ratios:.3?}");
}

#[test]
fn programs_for_images_of_many_sizes_were_kept_for_ever() {
    let device: Arc<dyn Backend> = Arc::new(CpuBackend::with_threads(1).unwrap());
    let network = Network::of_model(octant_zoo::find("edsr-tiny").unwrap(), None, &ModelChoice::default()).unwrap();
    let predictor = Predictor::new(network, &device, PredictOptions::default()).unwrap();
    let image = |side: usize| Image::from_fn(8 + side, 9, 3, |row, column, _| (row * 5 + column) as u8);
    let first = predictor.predict([image(0)]).unwrap();
    for side in 0..80 {
        predictor.predict([image(side)]).unwrap();
    }
    assert!(predictor.memory().programs <= 40, "{:?}", predictor.memory());
    // One that made room is compiled again, and predicts the same.
    let (Output::Image(before), Output::Image(after)) =
        (&first[0].output, &predictor.predict([image(0)]).unwrap()[0].output)
    else {
        panic!("it makes images")
    };
    assert_eq!(before.values(), after.values());
}
