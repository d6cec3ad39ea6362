//! Decoders against Pillow's pixels, and against two thousand damaged files of every format.
#![allow(clippy::unwrap_used)]

use octant_data::decode::{Channels, DecodeLimits, DecodeOptions, decode, decode_window, read_image};
use octant_data::readers::FolderDataset;
use octant_data::{AnyImage, Dataset, Pipeline, SampleRng, Transform, TransformStep};
use octant_imaging::geometry::{PixelWindow, crop};
use octant_imaging::resize::Method;
use octant_imaging::{Filter, Semantics};
use octant_tensor::{HostTensor, read_npz};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

/// Notes the largest single request, which is how a giant size in a header would show.
struct Watching;

thread_local! {
    // Decoders work on one thread, so tests that run at the same time do not see each other's requests.
    static LARGEST: Cell<usize> = const { Cell::new(0) };
}

fn note(size: usize) {
    let _ = LARGEST.try_with(|largest| largest.set(largest.get().max(size)));
}

// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Watching {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(layout.size());
        // SAFETY: passed through.
        unsafe { System.alloc(layout) }
    }
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        note(layout.size());
        // SAFETY: passed through.
        unsafe { System.alloc_zeroed(layout) }
    }
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        note(size);
        // SAFETY: passed through.
        unsafe { System.realloc(pointer, layout, size) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: passed through.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Watching = Watching;

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("golden")
}

fn as_stored() -> DecodeOptions {
    DecodeOptions { channels: Channels::Stored, ..DecodeOptions::default() }
}

#[test]
fn every_format_gives_pillows_pixels() {
    let expected: Vec<(String, HostTensor)> = read_npz(&golden().join("decoded.npz")).unwrap();
    assert!(expected.len() >= 25);
    for (name, tensor) in expected {
        let options = match tensor.dims()[2] {
            3 => DecodeOptions::default(),
            _ => as_stored(),
        };
        let image = read_image(golden().join("images").join(&name), &options).unwrap();
        assert_eq!((image.dtype(), &image.dims()[..]), (tensor.dtype(), tensor.dims()), "{name}");
        let pairs = image.bytes().iter().zip(tensor.bytes().iter());
        let differences = pairs.map(|(a, b)| a.abs_diff(*b)).filter(|&difference| difference > 0);
        // WebP with loss may round its inverse transform differently.
        let allowed = if name.starts_with("lossy") { 6 } else { 0 };
        assert!(differences.max().unwrap_or(0) <= allowed, "{name}");
    }
}

/// Compares all images of `golden/jpeg.py`. Each is there twice, as a file and as its pixels.
fn compare_jpegs(path: &Path) {
    let entries: BTreeMap<String, HostTensor> = read_npz(path).unwrap().into_iter().collect();
    let images = entries.iter().filter(|(name, _)| !name.ends_with(".jpg"));
    let wrong = |name: &str, pixels: &HostTensor| {
        let image = decode(entries[&format!("{name}.jpg")].bytes(), &as_stored()).unwrap();
        image.dims() != pixels.dims() || image.bytes() != &pixels.bytes()[..]
    };
    let wrong: Vec<&String> =
        images.clone().filter(|(name, pixels)| wrong(name, pixels)).map(|(name, _)| name).collect();
    assert!(images.count() > 100);
    assert_eq!(wrong, Vec::<&String>::new(), "pixels differ from libjpeg-turbo's");
}

#[test]
fn jpegs_differed_from_libjpeg_turbo_by_up_to_three_levels() {
    compare_jpegs(&golden().join("jpeg.npz"));
}

#[test]
fn jpegs_are_the_same_as_by_the_installed_pillow() {
    let Some(python) = octant_testing::oracle::torch("JPEGs of other sizes and contents") else { return };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("jpeg.npz");
    for seed in ["1", "2"] {
        let script = Command::new(&python).arg(golden().join("jpeg.py")).arg(&file).arg(seed).status().unwrap();
        assert!(script.success());
        compare_jpegs(&file);
    }
}

#[test]
fn a_window_has_the_pixels_of_the_whole_image() {
    let jpegs: Vec<(String, HostTensor)> = read_npz(&golden().join("jpeg.npz")).unwrap();
    let jpegs =
        jpegs.into_iter().filter(|(name, _)| name.ends_with(".jpg")).map(|(name, file)| (name, file.bytes().to_vec()));
    // Files of all formats too, upright or not.
    let files = std::fs::read_dir(golden().join("images")).unwrap().map(|entry| entry.unwrap().path());
    let files = files.map(|path| (path.display().to_string(), std::fs::read(path).unwrap()));
    let turned = std::fs::read(golden().join("images/turned6.jpg")).unwrap();
    let entry = [1, 0x12, 0, 3, 0, 0, 0, 1, 0, 6];
    let code = turned.windows(entry.len()).position(|part| part == entry).unwrap() + entry.len() - 1;
    let turns = (1..=8).map(|number| {
        let mut bytes = turned.clone();
        bytes[code] = number;
        (format!("turned to {number}"), bytes)
    });
    let mut rng = SampleRng::new(3, 0, 0);
    for (name, bytes) in jpegs.chain(files).chain(turns) {
        for options in [DecodeOptions::default(), as_stored()] {
            let whole = decode(&bytes, &options).unwrap();
            let [height, width, _] = whole.dims();
            for _ in 0..12 {
                let (rows, columns) = (1 + rng.below(height), 1 + rng.below(width));
                let window = PixelWindow {
                    top: rng.below(height - rows + 1),
                    left: rng.below(width - columns + 1),
                    height: rows,
                    width: columns,
                };
                let mut calls = 0;
                let part = decode_window(&bytes, &options, &mut |full_height, full_width| {
                    calls += 1;
                    assert_eq!((full_height, full_width), (height, width), "{name}");
                    window
                });
                let expected = match &whole {
                    AnyImage::U8(image) => AnyImage::U8(crop(image, window)),
                    AnyImage::U16(image) => AnyImage::U16(crop(image, window)),
                    AnyImage::F32(image) => AnyImage::F32(crop(image, window)),
                };
                assert!(part.unwrap() == expected && calls == 1, "{name}: {window:?} of {height}×{width}");
            }
        }
    }
}

/// A random crop takes only a part of each file; a copy of the samples in memory takes the whole.
#[test]
fn a_random_crop_has_the_same_pixels_from_a_part_of_the_file() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("all")).unwrap();
    for entry in std::fs::read_dir(golden().join("images")).unwrap() {
        let path = entry.unwrap().path();
        std::fs::copy(&path, folder.path().join("all").join(path.file_name().unwrap())).unwrap();
    }
    let eight_bits = DecodeOptions { eight_bits: true, ..DecodeOptions::default() };
    let set: Arc<dyn Dataset> = Arc::new(FolderDataset::open(folder.path(), eight_bits).unwrap());
    let pipeline = Pipeline::new([
        TransformStep::RandomResizedCrop {
            size: (9, 11),
            scale: (0.1, 1.0),
            ratio: (0.7, 1.4),
            method: Method::new(Filter::Bilinear, Semantics::Pil),
        },
        TransformStep::FlipHorizontally { p: 0.5 },
    ]);
    for index in 0..set.len() {
        for epoch in 0..5 {
            let rng = || SampleRng::new(7, epoch, index as u64);
            let whole = pipeline.apply(set.get(index).unwrap(), &mut rng()).unwrap();
            assert!(pipeline.prepare(&*set, index, &mut rng()).unwrap() == whole, "{}", set.location(index));
        }
    }
}

#[test]
fn channels_and_bits_come_as_requested() {
    let open = |name: &str, options: DecodeOptions| read_image(golden().join("images").join(name), &options);
    let gray = DecodeOptions { channels: Channels::Gray, ..DecodeOptions::default() };
    assert_eq!(open("rgba.png", gray).unwrap().dims(), [29, 37, 1]);
    assert_eq!(open("grey.jpg", DecodeOptions::default()).unwrap().dims(), [29, 37, 3]);
    let eight = DecodeOptions { eight_bits: true, ..as_stored() };
    assert!(matches!(open("grey16.png", eight).unwrap(), AnyImage::U8(_)));
    assert!(
        matches!(open("grey16.tif", DecodeOptions::default()).unwrap(), AnyImage::U16(image) if image.channels() == 3)
    );
}

/// A damaged copy: cut off, bits flipped, a range overwritten, or sizes made giant.
fn damage(original: &[u8], rng: &mut SampleRng) -> Vec<u8> {
    let mut bytes = original.to_vec();
    match rng.below(4) {
        0 => bytes.truncate(rng.below(bytes.len())),
        1 => (0..1 + rng.below(8)).for_each(|_| {
            let position = rng.below(bytes.len());
            bytes[position] ^= 1 << rng.below(8);
        }),
        2 => {
            let start = rng.below(bytes.len());
            let end = (start + 1 + rng.below(16)).min(bytes.len());
            bytes[start..end].iter_mut().for_each(|byte| *byte = rng.bits() as u8);
        }
        _ => {
            // Headers lie in front; 0xff and 0x7f are what giant sizes are made of.
            let start = rng.below(bytes.len().min(64));
            let end = (start + 1 + rng.below(4)).min(bytes.len());
            bytes[start..end].fill([0xff, 0x7f][rng.below(2)]);
        }
    }
    bytes
}

fn survive(extension: &str) {
    let limits = DecodeLimits { side: 20_000, pixels: 1 << 20 };
    let options = DecodeOptions { limits, ..as_stored() };
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(golden().join("images")).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|found| found == extension));
    files.sort();
    let originals: Vec<Vec<u8>> = files.iter().map(|path| std::fs::read(path).unwrap()).collect();
    let mut rng = SampleRng::new(9, 0, extension.len() as u64);
    let mut refused = 0;
    for round in 0..2000 {
        let bytes = damage(&originals[round % originals.len()], &mut rng);
        let outcome = std::panic::catch_unwind(|| decode(&bytes, &options));
        match outcome {
            Ok(Ok(image)) => assert!(image.dims()[0] * image.dims()[1] <= limits.pixels),
            Ok(Err(problem)) => {
                assert!(!problem.is_empty() && problem.len() < 400, "{problem}");
                refused += 1;
            }
            Err(_) => {
                let path = std::env::temp_dir().join(format!("panic-{round}.{extension}"));
                std::fs::write(&path, &bytes).unwrap();
                panic!("{} makes the decoder panic", path.display());
            }
        }
    }
    let largest = LARGEST.get();
    println!("{extension}: {refused} of 2000 refused, largest allocation {largest} bytes");
    assert!(refused > 400, "{extension}: only {refused} were refused");
    assert!(largest <= limits.pixels * 16 + 4096, "{extension}: {largest} bytes were allocated at once");
}

#[test]
fn damaged_jpegs_are_survived() {
    survive("jpg");
}

#[test]
fn damaged_pngs_are_survived() {
    survive("png");
}

#[test]
fn damaged_bmps_are_survived() {
    survive("bmp");
}

#[test]
fn damaged_webps_are_survived() {
    survive("webp");
}

#[test]
fn damaged_tiffs_are_survived() {
    survive("tif");
}

#[test]
fn damaged_gifs_are_survived() {
    survive("gif");
}
