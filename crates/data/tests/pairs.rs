//! Images whose targets are images: the layouts they come in, and the errors when something is wrong with them.

#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use octant_data::decode::announced_size;
use octant_data::readers::{ImagePairs, Split};
use octant_data::{
    AnyImage, Dataset, Pipeline, Sample, SampleRng, Target, Transform, TransformStep, Unpaired, write_png_u8,
};
use octant_imaging::Image;
use std::path::Path;
use std::sync::Arc;

fn image(height: usize, width: usize, shade: u8) -> Image<u8> {
    Image::from_fn(height, width, 3, |row, column, channel| shade.wrapping_add((row + 2 * column + channel) as u8))
}

fn put(folder: &Path, name: &str, image: &Image<u8>) {
    let path = folder.join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    write_png_u8(&path, image).unwrap();
}

fn parts(sample: Sample) -> (Image<u8>, Image<u8>) {
    let (AnyImage::U8(image), Target::Image(target)) = (sample.image, sample.target) else { panic!("two images") };
    (image, target)
}

fn sentence(result: Result<ImagePairs, octant_data::DataError>) -> String {
    result.err().map(|error| error.to_string()).unwrap_or_default()
}

#[test]
fn images_side_by_side_are_cut_in_the_middle() {
    let folder = tempfile::tempdir().unwrap();
    let both = image(6, 16, 0);
    put(folder.path(), "train/1.png", &both);
    put(folder.path(), "test/2.png", &both);
    let pairs = ImagePairs::open(folder.path(), Split::Train, false).unwrap();
    let (left, right) = parts(pairs.get(0).unwrap());
    assert_eq!((left.dims(), right.dims()), ([6, 8, 3], [6, 8, 3]));
    assert_eq!((left.pixel(1, 3), right.pixel(1, 3)), (both.pixel(1, 3), both.pixel(1, 11)));
    let swapped = parts(ImagePairs::open(folder.path(), Split::Test, true).unwrap().get(0).unwrap());
    assert!(swapped == (right, left));
    put(folder.path(), "train/odd.png", &image(6, 15, 0));
    let problem = sentence(ImagePairs::open(folder.path(), Split::Train, false));
    assert!(problem.contains("even width") && problem.contains("odd.png"), "{problem}");
}

#[test]
fn folders_of_two_domains_are_matched_by_name_and_every_pair_is_checked() {
    for form in [["trainA", "trainB"], ["train/A", "train/B"], ["A/train", "B/train"], ["A", "B"]] {
        let folder = tempfile::tempdir().unwrap();
        for (domain, shade) in form.iter().zip([10, 90]) {
            put(folder.path(), &format!("{domain}/x.png"), &image(5, 7, shade));
            put(folder.path(), &format!("{domain}/deep/y.png"), &image(4, 4, shade));
        }
        let pairs = ImagePairs::open(folder.path(), Split::Train, false).unwrap();
        assert_eq!(pairs.len(), 2, "{form:?}");
        let (a, b) = parts(pairs.get(1).unwrap());
        assert!((a, b) == (image(5, 7, 10), image(5, 7, 90)), "{form:?}");
        put(folder.path(), &format!("{}/z.png", form[0]), &image(4, 4, 0));
        let problem = sentence(ImagePairs::open(folder.path(), Split::Train, false));
        assert!(problem.contains("no partner of z"), "{problem}");
        put(folder.path(), &format!("{}/z.png", form[1]), &image(4, 5, 0));
        let problem = sentence(ImagePairs::open(folder.path(), Split::Train, false));
        assert!(problem.contains("4×4 pixels") && problem.contains("4×5"), "{problem}");
    }
}

#[test]
fn an_empty_domain_is_refused_before_training() {
    let folder = tempfile::tempdir().unwrap();
    put(folder.path(), "trainA/x.png", &image(5, 7, 0));
    std::fs::create_dir_all(folder.path().join("trainB")).unwrap();
    for problem in [
        sentence(ImagePairs::open_unpaired(folder.path(), Split::Train, false)),
        sentence(ImagePairs::open(folder.path(), Split::Train, false)),
    ] {
        assert!(problem.contains("trainB") && problem.contains("no images"), "{problem}");
    }
    let nothing = tempfile::tempdir().unwrap();
    let problem = sentence(ImagePairs::open_unpaired(nothing.path(), Split::Train, false));
    assert!(problem.contains("trainA/ and trainB/"), "{problem}");
}

#[test]
fn gray_and_transparent_images_among_colored_ones_are_read_as_color() {
    let folder = tempfile::tempdir().unwrap();
    for (number, channels) in [3, 1, 4].into_iter().enumerate() {
        for (domain, other) in [("trainA", 3), ("trainB", channels)] {
            let channels = if number == 2 { channels } else { other };
            let level =
                |row: usize, column: usize, channel: usize| if channel == 3 { 90 } else { (row * column) as u8 };
            put(folder.path(), &format!("{domain}/{number}.png"), &Image::from_fn(5, 7, channels, level));
        }
    }
    for pairs in [ImagePairs::open, ImagePairs::open_unpaired].map(|open| open(folder.path(), Split::Train, false)) {
        let pairs = pairs.unwrap();
        for index in 0..pairs.len() {
            let (a, b) = parts(pairs.get(index).unwrap());
            assert_eq!((a.dims(), b.dims()), ([5, 7, 3], [5, 7, 3]), "{index}");
            assert_eq!((a.pixel(3, 4), b.pixel(3, 4)), (&[12; 3][..], &[12; 3][..]), "{index}");
        }
    }
}

#[test]
fn domains_without_pairs_meet_at_random_and_are_transformed_apart() {
    let folder = tempfile::tempdir().unwrap();
    (0..2).for_each(|n| put(folder.path(), &format!("trainA/{n}.png"), &image(9, 9, n)));
    (0..5).for_each(|n| put(folder.path(), &format!("trainB/{n}.png"), &image(12, 12, 100 + 20 * n)));
    let dataset: Arc<dyn Dataset> = Arc::new(ImagePairs::open_unpaired(folder.path(), Split::Train, false).unwrap());
    assert_eq!(dataset.len(), 5, "as many as the larger domain has");
    let pipeline =
        Pipeline::new([TransformStep::RandomCrop { size: (8, 8), padding: 0, fill: 0, max_class_share: None }]);
    let unpaired = Unpaired { dataset: dataset.clone(), pipeline };
    let sample = |epoch| parts(unpaired.apply(dataset.get(0).unwrap(), &mut SampleRng::new(1, epoch, 0)).unwrap());
    assert!(sample(0) == sample(0), "the same epoch sees the same");
    let partners: std::collections::HashSet<u8> = (0..40).map(|epoch| sample(epoch).1.pixel(0, 0)[0] / 20).collect();
    assert!(partners.len() >= 4, "{partners:?}");
    assert_eq!(sample(3).0.dims(), sample(3).1.dims());
}

#[test]
fn degradations_leave_the_target_as_it_was() {
    let clean = image(20, 22, 60);
    let degraded = |step: TransformStep| {
        let sample = Sample { image: AnyImage::U8(clean.clone()), target: Target::Image(clean.clone()) };
        parts(Pipeline::new([step]).apply(sample, &mut SampleRng::new(1, 0, 0)).unwrap())
    };
    let (noisy, target) = degraded(TransformStep::Noise { sigma: (20.0, 20.0) });
    assert!(target == clean && noisy != clean);
    let square = |(a, b): (&u8, &u8)| (f64::from(*a) - f64::from(*b)).powi(2);
    let deviation = (noisy.values().iter().zip(clean.values()).map(square).sum::<f64>() / 1320.0).sqrt();
    assert!((deviation - 20.0).abs() < 2.0, "{deviation}");
    let (small, target) = degraded(TransformStep::Shrink { factor: 4 });
    assert_eq!((small.dims(), target.dims()), ([5, 5, 3], [20, 20, 3]));
    let (holed, target) = degraded(TransformStep::Holes { count: 2, share: 0.3 });
    assert!(target == clean && holed.values().iter().filter(|value| **value == 128).count() > 20);
}

#[test]
fn sizes_are_read_from_headers() {
    let folder = tempfile::tempdir().unwrap();
    put(folder.path(), "x.png", &image(13, 29, 0));
    assert_eq!(announced_size(folder.path().join("x.png")).unwrap(), (13, 29));
}
