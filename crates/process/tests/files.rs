//! Operations over files, on the host and on a device, without the command line.

#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use octant_data::{AnyImage, write_png_u8};
use octant_imaging::Image;
use octant_process::{
    Border, CropBy, Engine, Filter, MaskCrop, Operation, Precision, Results, Semantics, Size, Threshold, Variant, Work,
    WorkEvent, files, method,
};
use std::path::Path;
use std::sync::Arc;

/// A folder with `video/` and `mask/`: three frames whose masks mark 8×10 pixels, each at another position.
fn clip(folder: &Path) {
    for name in ["video", "mask"] {
        std::fs::create_dir_all(folder.join(name)).unwrap();
    }
    for frame in 0..3usize {
        let image =
            Image::from_fn(40, 48, 3, |row, column, channel| (row * 5 + column * 3 + channel * 40 + frame) as u8);
        let is_marked = |row: usize, column: usize| {
            (10 + frame..18 + frame).contains(&row) && (4 * frame + 6..4 * frame + 16).contains(&column)
        };
        let mask = Image::from_fn(40, 48, 1, |row, column, _| if is_marked(row, column) { 255 } else { 0 });
        write_png_u8(folder.join(format!("video/{frame}.png")), &image).unwrap();
        write_png_u8(folder.join(format!("mask/{frame}.png")), &mask).unwrap();
    }
}

fn cropped(folder: &Path, out: &Path, engine: &Engine, steady: bool) -> Vec<[usize; 3]> {
    let mut written = Vec::new();
    let mut see = |event: WorkEvent| match event {
        WorkEvent::Written { dims, .. } => written.push(dims),
        WorkEvent::Failed(sentence) => panic!("{sentence}"),
    };
    let mut work = Work::read(folder, out, None, &mut see).unwrap();
    let crop = MaskCrop { padding: 0, min_size: 1, aspect: None };
    let by = CropBy::Masks { threshold: Threshold::AtLeast(128.0), crop, steady };
    let crops = work.crops(&by).unwrap();
    let done = work.process(engine, &crops, Precision::Stored, 1).unwrap();
    assert_eq!((done.images, done.failed), (3, 0));
    written
}

#[test]
fn masks_choose_the_crops_and_are_cropped_along() {
    let folder = tempfile::tempdir().unwrap();
    let (clip_folder, at) = (folder.path().join("clip"), folder.path());
    clip(&clip_folder);
    let backend = Arc::new(octant_cpu::CpuBackend::with_threads(1).unwrap());
    let device = Engine::on(backend, 2, 1).unwrap();
    assert_eq!(cropped(&clip_folder, &at.join("host"), &Engine::Host, false), [[8, 10, 3]; 3]);
    assert_eq!(cropped(&clip_folder, &at.join("device"), &device, false), [[8, 10, 3]; 3]);
    // Two rows lower and eight columns further to the right in the last frame.
    assert_eq!(cropped(&clip_folder, &at.join("steady"), &Engine::Host, true), [[10, 18, 3]; 3]);
    let read = |path: &str| files::read(&at.join(path)).unwrap();
    for frame in 0..3 {
        let pixels = [read(&format!("host/video/{frame}.png")), read(&format!("device/video/{frame}.png"))];
        assert_eq!(pixels[0].bytes(), pixels[1].bytes(), "frame {frame}");
        let mask = read(&format!("host/mask/{frame}.png"));
        assert!(mask.dims()[..2] == [8, 10] && mask.bytes().iter().all(|&value| value == 255), "frame {frame}");
    }
}

#[test]
fn an_unreadable_image_is_reported_and_the_others_are_processed() {
    let folder = tempfile::tempdir().unwrap();
    let images = folder.path().join("in");
    std::fs::create_dir(&images).unwrap();
    std::fs::write(images.join("broken.png"), b"no image").unwrap();
    write_png_u8(images.join("whole.png"), &Image::filled(12, 20, 3, 90)).unwrap();
    let (mut failed, mut written) = (Vec::new(), 0);
    let mut see = |event: WorkEvent| match event {
        WorkEvent::Failed(sentence) => failed.push(sentence),
        WorkEvent::Written { .. } => written += 1,
    };
    let work = Work::read(&images, &folder.path().join("out"), None, &mut see).unwrap();
    let method = method(Filter::Bilinear, Semantics::Pil, None);
    let resize = Operation::Resize { height: 6, width: 6, method, pad: Some(Border::Constant(7.0)) };
    let done = work.process(&Engine::Host, &[resize], Precision::Stored, 1).unwrap();
    assert_eq!((done.images, done.failed, written), (2, 1, 1));
    assert!(failed.len() == 1 && failed[0].contains("broken.png"), "{failed:?}");
    // The frame is wider than high: bars above and below.
    let result = files::read(&folder.path().join("out/whole.png")).unwrap();
    let AnyImage::U8(result) = result else { panic!("eight bits stay eight bits") };
    assert_eq!((result.dims(), result.row(0)[0], result.row(3)[0]), ([6, 6, 3], 7, 90));
}

#[test]
fn labels_of_masks_are_never_mixed_and_none_lie_beyond_the_image() {
    let method = method(Filter::Bicubic, Semantics::OpenCv, None);
    let padded = Operation::Resize { height: 9, width: 9, method, pad: Some(Border::Constant(114.0)) };
    let Some(Operation::Resize { method, pad, .. }) = padded.for_mask() else { panic!("masks are resized along") };
    assert_eq!((method.filter, method.semantics), (Filter::Nearest, Semantics::OpenCv));
    assert!(matches!(pad, Some(Border::Constant(fill)) if fill == 0.0));
}

#[test]
fn results_of_variants_are_compared_in_levels() {
    let image = Image::from_fn(30, 30, 3, |row, column, _| ((row * 37 + column * 11) % 251) as u8);
    let images = [AnyImage::U8(image)];
    let result = |name: &str| {
        let variant: Variant = name.parse().unwrap();
        let Size { width, height } = "17x13".parse().unwrap();
        let method = method(Filter::Bilinear, variant.semantics, None);
        let resize = Operation::Resize { height, width, method, pad: None };
        Results::of_variant(&variant, &Engine::Host, &images, resize).unwrap()
    };
    let [bytes, floats, other] = ["torchvision", "torchvision:f32", "opencv"].map(result);
    assert!(bytes.difference(&floats).unwrap().max <= 1.0);
    assert!(bytes.difference(&other).unwrap().max > 1.0, "OpenCV does not widen its filter");
    assert!("torchvision:f17".parse::<Variant>().unwrap_err().contains("bf16"));
}
