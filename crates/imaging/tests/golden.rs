//! Every operation against what the libraries themselves give (`golden/make.py` wrote it down).
#![allow(clippy::unwrap_used)]

use octant_imaging::affine::{Motion, transform};
use octant_imaging::blur::{GaussianBlur, blur_f32, blur_u8};
use octant_imaging::resize::{Method, Resizable};
use octant_imaging::{Channel, Image, Semantics, color};
use octant_tensor::{HostTensor, read_npz};
use std::collections::BTreeMap;
use std::path::Path;

fn load(file: &str) -> Vec<(String, HostTensor)> {
    read_npz(&Path::new(env!("CARGO_MANIFEST_DIR")).join("golden").join(file)).unwrap()
}

fn image<T: Channel + octant_tensor::Element>(tensor: &HostTensor) -> Image<T> {
    let [height, width, channels] = tensor.dims().try_into().unwrap();
    Image::new(height, width, channels, tensor.elements::<T>().unwrap().to_vec()).unwrap()
}

fn inputs() -> BTreeMap<String, Image<u8>> {
    load("inputs.npz").iter().map(|(name, tensor)| (name.clone(), image(tensor))).collect()
}

/// What images of one kind of case differ by, over all cases.
#[derive(Default, Debug)]
struct Difference {
    values: usize,
    differing: usize,
    largest: f64,
    worst: String,
}

#[derive(Default)]
struct Report(BTreeMap<String, Difference>);

impl Report {
    fn compare<T: Channel>(&mut self, group: String, case: &str, ours: &Image<T>, theirs: &Image<T>) {
        assert_eq!(ours.dims(), theirs.dims(), "{case}");
        let entry = self.0.entry(group).or_default();
        for (ours, theirs) in ours.values().iter().zip(theirs.values()) {
            let difference = (ours.to_f32() as f64 - theirs.to_f32() as f64).abs();
            entry.values += 1;
            entry.differing += (difference != 0.0) as usize;
            if difference > entry.largest {
                entry.largest = difference;
                entry.worst = case.to_string();
            }
        }
    }

    /// Bytes within one level and nearly all equal; floats within 1e-5.
    fn check(&self) {
        let mut failed = false;
        for (group, difference) in &self.0 {
            let share = difference.differing as f64 / difference.values as f64;
            let bytes = group.starts_with("u8");
            let good = if bytes { difference.largest <= 1.0 && share <= 0.001 } else { difference.largest <= 1e-5 };
            failed |= !good;
            let mark = if good { "ok " } else { "BAD" };
            println!(
                "{mark} {group:32} {:7} values, {:8.4} % differ, largest {:.2e} {}",
                difference.values,
                100.0 * share,
                difference.largest,
                difference.worst
            );
        }
        assert!(!self.0.is_empty() && !failed, "see the table");
    }
}

fn size(text: &str) -> (usize, usize) {
    let (height, width) = text.split_once('x').unwrap();
    (height.parse().unwrap(), width.parse().unwrap())
}

#[test]
fn resize_gives_what_the_libraries_give() {
    let inputs = inputs();
    let mut report = Report::default();
    for (key, tensor) in load("resize.npz") {
        let parts: Vec<&str> = key.split('|').collect();
        let [dtype, semantics, filter, antialias, dims, name] = parts[..].try_into().unwrap();
        let method = Method {
            filter: filter.parse().unwrap(),
            semantics: semantics.parse().unwrap(),
            antialias: antialias == "1",
        };
        let (height, width) = size(dims);
        let group = format!("{dtype} {semantics} {filter} {antialias}");
        let input = &inputs[name];
        if dtype == "u8" {
            report.compare(group, &key, &input.resize(height, width, method).unwrap(), &image::<u8>(&tensor));
        } else {
            let scaled = input.map(|value| value as f32 / 255.0);
            report.compare(group, &key, &scaled.resize(height, width, method).unwrap(), &image::<f32>(&tensor));
        }
    }
    report.check();
}

/// Up to 53 levels off before: Pillow multiplies colors by their alpha, and divides again.
#[test]
fn images_with_alpha_are_resized_as_pillow_does() {
    let all = load("alpha.npz");
    let inputs: BTreeMap<&str, Image<u8>> =
        all.iter().filter_map(|(key, tensor)| Some((key.strip_prefix("input|")?, image(tensor)))).collect();
    let mut compared = 0;
    for (key, tensor) in all.iter().filter(|(key, _)| !key.starts_with("input|")) {
        let [filter, dims, name] = key.split('|').collect::<Vec<_>>().try_into().unwrap();
        let (height, width) = size(dims);
        let ours = inputs[name].resize(height, width, Method::new(filter.parse().unwrap(), Semantics::Pil)).unwrap();
        assert_eq!(ours, image::<u8>(tensor), "{key}");
        compared += 1;
    }
    assert_eq!((inputs.len(), compared), (8, 200));
}

/// Up to 8,292 of 65,535 levels off: Pillow rounds and cuts off after each pass, and finds nearest neighbors of 16-bit images by
/// products of the step instead of sums.
#[test]
fn images_of_16_bits_overshot_where_pillow_cuts_off() {
    let all = load("deep.npz");
    let inputs: BTreeMap<&str, Image<u16>> =
        all.iter().filter_map(|(key, tensor)| Some((key.strip_prefix("input|")?, image(tensor)))).collect();
    let mut compared = 0;
    for (key, tensor) in all.iter().filter(|(key, _)| !key.starts_with("input|")) {
        let [filter, dims, name] = key.split('|').collect::<Vec<_>>().try_into().unwrap();
        let (height, width) = size(dims);
        let ours = inputs[name].resize(height, width, Method::new(filter.parse().unwrap(), Semantics::Pil)).unwrap();
        assert_eq!(ours, image::<u16>(tensor), "{key}");
        compared += 1;
    }
    assert_eq!((inputs.len(), compared), (4, 3 * 9 * 5 + 119));
}

#[test]
fn blur_gives_what_the_libraries_give() {
    let inputs = inputs();
    let mut report = Report::default();
    for (key, tensor) in load("blur.npz") {
        let parts: Vec<&str> = key.split('|').collect();
        let [dtype, semantics, size, sigma, name] = parts[..].try_into().unwrap();
        let blur = GaussianBlur {
            sigma: sigma.parse().unwrap(),
            size: size.parse().unwrap(),
            semantics: semantics.parse().unwrap(),
        };
        let group = format!("{dtype} {semantics} {size} {sigma}");
        let input = &inputs[name];
        if dtype == "u8" {
            report.compare(group, &key, &blur_u8(input, blur).unwrap(), &image::<u8>(&tensor));
        } else {
            let scaled = input.map(|value| value as f32 / 255.0);
            report.compare(group, &key, &blur_f32(&scaled, blur).unwrap(), &image::<f32>(&tensor));
        }
    }
    report.check();
}

fn recolor(image: &mut Image<u8>, operation: &str, amount: f64, semantics: Semantics) {
    match operation {
        "brightness" => color::adjust_brightness(image, amount, semantics).unwrap(),
        "contrast" => color::adjust_contrast(image, amount, semantics).unwrap(),
        "saturation" => color::adjust_saturation(image, amount, semantics).unwrap(),
        "hue" => color::adjust_hue(image, amount, semantics).unwrap(),
        "sharpness" => color::adjust_sharpness(image, amount, semantics).unwrap(),
        "posterize" => color::posterize(image, amount as u32),
        "solarize" => color::solarize(image, amount as u32),
        "equalize" => color::equalize(image),
        "autocontrast" => color::autocontrast(image, semantics),
        "invert" => color::invert(image),
        "grey" => *image = color::gray(image, semantics),
        other => panic!("{other} is not a colour operation"),
    }
}

#[test]
fn colour_gives_what_the_libraries_give() {
    let inputs = inputs();
    let mut report = Report::default();
    for (key, tensor) in load("colour.npz") {
        let parts: Vec<&str> = key.split('|').collect();
        let [operation, semantics, amount, name] = parts[..].try_into().unwrap();
        let mut ours = inputs[name].clone();
        recolor(&mut ours, operation, amount.parse().unwrap(), semantics.parse().unwrap());
        report.compare(format!("u8 {operation} {semantics}"), &key, &ours, &image::<u8>(&tensor));
    }
    report.check();
}

#[test]
fn affine_gives_what_pillow_gives() {
    let inputs = inputs();
    let mut report = Report::default();
    for (key, tensor) in load("geometry.npz") {
        let parts: Vec<&str> = key.split('|').collect();
        let [_, filter, numbers, name] = parts[..].try_into().unwrap();
        let numbers: Vec<f64> = numbers.split(',').map(|number| number.parse().unwrap()).collect();
        let [angle, x, y, scale, shear_x, shear_y] = numbers[..].try_into().unwrap();
        let motion = Motion { angle, translate: (x, y), scale, shear: (shear_x, shear_y) };
        let input = &inputs[name];
        let map = motion.inverse(input.height(), input.width());
        let ours = transform(input, &map, filter.parse().unwrap(), 9);
        report.compare(format!("u8 affine {filter}"), &key, &ours, &image::<u8>(&tensor));
    }
    report.check();
}

/// One gray level off where the sum lies halfway between two bytes: 4 % of the pixels of ordinary images.
#[test]
fn opencvs_bicubic_differed_by_one_level() {
    let stored: BTreeMap<String, HostTensor> = load("cubic.npz").into_iter().collect();
    let method = Method::new(octant_imaging::Filter::Bicubic, Semantics::OpenCv);
    for (name, tensor) in stored.iter().filter(|(name, _)| name.starts_with("in|")) {
        let theirs: Image<u8> = image(&stored[&name.replace("in|", "out|")]);
        let ours = image::<u8>(tensor).resize(theirs.height(), theirs.width(), method).unwrap();
        assert_eq!(ours.values(), theirs.values(), "{name}");
    }
}
