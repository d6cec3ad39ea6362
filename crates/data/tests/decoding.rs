//! Decoders against Pillow's pixels, and against two thousand damaged files of every format.
#![allow(clippy::unwrap_used)]

use octant_data::decode::{Channels, DecodeLimits, DecodeOptions, decode, read_image};
use octant_data::{AnyImage, SampleRng};
use octant_tensor::{HostTensor, read_npz};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

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

/// Compares all pictures of `golden/jpeg.py`. Each is there twice, as a file and as its pixels.
fn compare_jpegs(path: &Path) {
    let entries: BTreeMap<String, HostTensor> = read_npz(path).unwrap().into_iter().collect();
    let pictures = entries.iter().filter(|(name, _)| !name.ends_with(".jpg"));
    let wrong = |name: &str, pixels: &HostTensor| {
        let image = decode(entries[&format!("{name}.jpg")].bytes(), &as_stored()).unwrap();
        image.dims() != pixels.dims() || image.bytes() != &pixels.bytes()[..]
    };
    let wrong: Vec<&String> =
        pictures.clone().filter(|(name, pixels)| wrong(name, pixels)).map(|(name, _)| name).collect();
    assert!(pictures.count() > 100);
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
