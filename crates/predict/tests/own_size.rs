//! Evaluations at the size of every label: the same figures where that is the network's own size, others where it is not.
#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use octant_cpu::CpuBackend;
use octant_data::{AnyImage, DataError, Dataset, IGNORED, LabelMask, Sample, Target};
use octant_imaging::Image;
use octant_predict::{
    EvalOptions, Evaluation, ModelChoice, Network, OwnSize, PredictOptions, Predictor, SlidingWindows,
};
use octant_runtime::Backend;
use std::sync::Arc;

/// Images of these sizes with stripes of ten classes.
struct Stripes(Vec<[usize; 2]>);

impl Dataset for Stripes {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn get(&self, index: usize) -> Result<Sample, DataError> {
        let [height, width] = self.0[index];
        let stripe = |row: usize, column: usize| (row / 3 + column / 5 + index) % 11;
        let image = Image::from_fn(height, width, 3, |row, column, channel| {
            (stripe(row, column) * 23 + channel * (row + column)) as u8
        });
        let label = |row, column| if stripe(row, column) == 10 { IGNORED } else { stripe(row, column) as u8 };
        let labels = Image::from_fn(height, width, 1, |row, column, _| label(row, column));
        Ok(Sample { image: AnyImage::U8(image), target: Target::Mask(LabelMask::of_classes(labels)) })
    }
}

fn predictor(model: &str) -> Predictor {
    let entry = octant_zoo::find(model).unwrap();
    let network = Network::of_model(entry, None, &ModelChoice { seed: 5, ..Default::default() }).unwrap();
    let device: Arc<dyn Backend> = Arc::new(CpuBackend::with_threads(1).unwrap());
    Predictor::new(network, &device, PredictOptions::default()).unwrap()
}

fn within(windows: Option<SlidingWindows>) -> OwnSize {
    OwnSize { windows, ..OwnSize::default() }
}

fn counts(found: &Evaluation) -> Vec<f64> {
    found.findings.confusion.as_ref().unwrap().counts.clone()
}

#[test]
fn labels_were_only_compared_at_the_networks_size() {
    let predictor = predictor("fcn-tiny");
    let side = predictor.image_size().unwrap()[0];
    let same = Arc::new(Stripes(vec![[side; 2]; 5]));
    let usual = predictor.evaluate(same.clone(), &EvalOptions::default(), &mut |_, _| {}).unwrap();
    let mut done = Vec::new();
    let own =
        predictor.evaluate_at_own_size(&*same, &OwnSize::default(), &mut |image, of| done.push((image, of))).unwrap();
    assert_eq!((counts(&own), own.images, done.last()), (counts(&usual), 5, Some(&(4, 5))));
    let metric = |found: &Evaluation, name: &str| found.metrics.iter().find(|(own, _)| own == name).unwrap().1;
    assert_eq!(metric(&own, "miou"), metric(&usual, "miou"));
    // One window is the whole image.
    let whole = SlidingWindows::new(side, None).unwrap();
    let windows = predictor.evaluate_at_own_size(&*same, &within(Some(whole)), &mut |_, _| {}).unwrap();
    assert_eq!(counts(&windows), counts(&usual));
    // Every pixel of larger and smaller images counts, but for ignored ones.
    let sizes = vec![[70, 41], [side, 2 * side], [9, 100], [side / 2, side / 2]];
    let other = Stripes(sizes.clone());
    let counted = |index: usize| {
        let Target::Mask(mask) = other.get(index).unwrap().target else { panic!("masks") };
        mask.labels.values().iter().filter(|&&label| label != IGNORED).count()
    };
    let all: usize = (0..sizes.len()).map(counted).sum();
    for windows in [None, Some(whole), Some(SlidingWindows::new(side, Some(7)).unwrap())] {
        let found = predictor.evaluate_at_own_size(&other, &within(windows), &mut |_, _| {}).unwrap();
        assert_eq!(counts(&found).iter().sum::<f64>(), all as f64, "{windows:?}");
        assert_eq!(found.findings.overlaps.as_ref().unwrap().len(), 10);
        assert!(found.remark.unwrap().starts_with("compared at the size of every label"));
    }
}

#[test]
fn what_has_no_labels_of_its_own_size_is_refused() {
    let stripes = Stripes(vec![[32, 32]]);
    let refused = |model: &str, windows| {
        let found = predictor(model).evaluate_at_own_size(&stripes, &within(windows), &mut |_, _| {});
        found.err().map(|error| error.to_string()).unwrap_or_default()
    };
    for model in ["unet-tiny", "resnet-tiny"] {
        assert!(refused(model, None).contains("masks of several classes"), "{}", refused(model, None));
    }
    let odd = SlidingWindows::new(40, None).unwrap();
    let problem = refused("unet_resnet-tiny", Some(odd));
    assert!(problem.contains("--window 40: the sides of images are multiples of 32"), "{problem}");
}

/// The same images and labels with left and right exchanged.
struct Mirrored(Stripes);

impl Dataset for Mirrored {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn get(&self, index: usize) -> Result<Sample, DataError> {
        let Sample { image: AnyImage::U8(mut image), target: Target::Mask(mut mask) } = self.0.get(index)? else {
            panic!("images with masks")
        };
        octant_imaging::geometry::flip_horizontally(&mut image);
        octant_imaging::geometry::flip_horizontally(&mut mask.labels);
        Ok(Sample { image: AnyImage::U8(image), target: Target::Mask(mask) })
    }
}

#[test]
fn several_views_of_an_image_are_averaged() {
    let predictor = predictor("fcn-tiny");
    let side = predictor.image_size().unwrap()[0];
    let sizes = vec![[side; 2], [70, 41], [33, 2 * side]];
    let stripes = Stripes(sizes.clone());
    let labeled = |dataset: &dyn Dataset| -> usize {
        let of = |index| match dataset.get(index).unwrap().target {
            Target::Mask(mask) => mask.labels.values().iter().filter(|&&label| label != IGNORED).count(),
            _ => panic!("masks"),
        };
        (0..dataset.len()).map(of).sum()
    };
    for windows in [None, Some(SlidingWindows::new(side, None).unwrap())] {
        let view = |scales: &[f64], flips| {
            let options = OwnSize { windows, scales: scales.to_vec(), flips };
            predictor.evaluate_at_own_size(&stripes, &options, &mut |_, _| {}).unwrap()
        };
        let plain = view(&[1.0], false);
        let all = view(&[0.5, 1.0, 1.5], true);
        assert_eq!(counts(&all).iter().sum::<f64>(), labeled(&stripes) as f64);
        assert_ne!(counts(&all), counts(&plain), "the network is not blind to scales");
        assert_ne!(counts(&view(&[0.5], false)), counts(&plain));
        assert!(all.remark.unwrap().contains("at scales 0.5, 1, 1.5, each mirrored as well"));
        // With flips, an image and its mirror image are seen alike, whatever the network is.
        let options = OwnSize { windows, scales: vec![1.0, 1.5], flips: true };
        let mirrored = Mirrored(Stripes(sizes.clone()));
        let [there, back] = [&stripes as &dyn Dataset, &mirrored]
            .map(|dataset| counts(&predictor.evaluate_at_own_size(dataset, &options, &mut |_, _| {}).unwrap()));
        let differing: f64 = there.iter().zip(&back).map(|(a, b)| (a - b).abs()).sum();
        // Windows do not begin at the same distance from both sides, and resizing rounds.
        let most = if windows.is_some() { 0.2 } else { 0.02 };
        assert!(differing < most * labeled(&stripes) as f64, "{differing}");
    }
    for (scales, problem) in [(vec![], "there is none"), (vec![9.0], "not within"), (vec![1.0, 1.0], "named twice")] {
        let options = OwnSize { scales, ..OwnSize::default() };
        let found = predictor.evaluate_at_own_size(&stripes, &options, &mut |_, _| {});
        let error = found.err().map(|error| error.to_string()).unwrap_or_default();
        assert!(error.contains(problem), "{error}");
    }
}
