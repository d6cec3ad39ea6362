//! What the device computes is what the host computes: within 1e-5 of the range in f32, within the stated bound in bf16,
//! within one level in bytes.

#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use octant_cpu::CpuBackend;
use octant_graph::{DType, HostTensor, Shape, Tensor, Trace};
use octant_imaging::blur::{GaussianBlur, blur_f32, blur_u8};
use octant_imaging::geometry::{self, Border, PixelWindow};
use octant_imaging::resize::{Method, Resizable, resize_with_pad};
use octant_imaging::{Channel, Filter, Image, Normalization, Semantics, mix};
use octant_process::composites::{self, BF16_BOUND};
use octant_runtime::{Backend, CompileOptions, Mesh, Program, Sharding};
use octant_tensor::Element;

/// Two images of noise over gradients.
fn bytes(height: usize, width: usize) -> [Image<u8>; 2] {
    [7usize, 11].map(|step| {
        Image::from_fn(height, width, 3, |row, column, channel| {
            let noise = (row * 131 + column * 31 + channel * 17) * step % 97;
            (noise + 5 * row + 3 * column + 40 * channel) as u8
        })
    })
}

fn floats(images: &[Image<u8>; 2]) -> [Image<f32>; 2] {
    images.each_ref().map(|image| image.map(|value| value as f32 / 255.0))
}

fn batch<T: Channel + Element>(images: &[Image<T>; 2]) -> HostTensor {
    let [height, width, channels] = images[0].dims();
    let values: Vec<T> = images.iter().flat_map(|image| image.values().iter().copied()).collect();
    HostTensor::new([2, height, width, channels], &values).unwrap()
}

/// Runs a program of tensors on the CPU engine.
fn run(inputs: &[HostTensor], program: impl Fn(&[Tensor]) -> Tensor) -> HostTensor {
    let backend = CpuBackend::with_threads(2).unwrap();
    let trace = Trace::new();
    let values: Vec<Tensor> = inputs
        .iter()
        .enumerate()
        .map(|(number, tensor)| trace.input(&format!("input{number}"), tensor.shape().clone()))
        .collect();
    let output = program(&values);
    let program = Program::new("test", trace.finish(&[output]).unwrap());
    let buffers: Vec<_> =
        inputs.iter().map(|tensor| backend.upload(tensor, &Mesh::single(), &Sharding::REPLICATED).unwrap()).collect();
    let executable = backend.compile(&program, &CompileOptions::default()).unwrap();
    executable.execute(&buffers).unwrap()[0].to_host().unwrap()
}

fn largest_difference<T: Channel>(device: &HostTensor, host: &[Image<T>; 2]) -> f64 {
    let expected: Vec<f64> = host.iter().flat_map(|image| image.values().iter().map(|v| v.to_f32() as f64)).collect();
    let [height, width, channels] = host[0].dims();
    assert_eq!(device.dims(), [2, height, width, channels]);
    device.to_f64s().iter().zip(expected).map(|(device, host)| (device - host).abs()).fold(0.0, f64::max)
}

const SIZES: [((usize, usize), (usize, usize)); 5] =
    [((13, 9), (7, 11)), ((24, 31), (3, 4)), ((1, 9), (5, 1)), ((9, 7), (66, 51)), ((32, 40), (32, 17))];

#[test]
fn resizes_agree_with_the_host() {
    let mut combinations = 0;
    let mut worst_bf16 = 0.0f64;
    for &semantics in Semantics::ALL {
        for &filter in Filter::ALL {
            for antialias in [false, true] {
                let method = Method { filter, semantics, antialias };
                for ((height, width), (to_height, to_width)) in SIZES {
                    let images = bytes(height, width);
                    let scaled = floats(&images);
                    let Ok(first) = scaled[0].resize(to_height, to_width, method) else { continue };
                    let host = [first, scaled[1].resize(to_height, to_width, method).unwrap()];
                    let resized =
                        |inputs: &[Tensor]| composites::resize(&inputs[0], to_height, to_width, method).unwrap();
                    let name = format!("{method:?} {height}x{width} to {to_height}x{to_width}");
                    let device = run(&[batch(&scaled)], resized);
                    assert!(
                        largest_difference(&device, &host) <= 1e-5,
                        "{name}: {}",
                        largest_difference(&device, &host)
                    );
                    let narrow = |inputs: &[Tensor]| resized(&[inputs[0].convert(DType::BF16)]).convert(DType::F32);
                    let difference = largest_difference(&run(&[batch(&scaled)], narrow), &host);
                    worst_bf16 = worst_bf16.max(difference);
                    assert!(difference <= BF16_BOUND, "{name} in bf16: {difference}");
                    let host = images.each_ref().map(|image| image.resize(to_height, to_width, method).unwrap());
                    let difference = largest_difference(&run(&[batch(&images)], resized), &host);
                    // A byte between the passes that is rounded the other way counts more than once where weights are
                    // negative.
                    let levels = if filter == Filter::Lanczos { 2.0 } else { 1.0 };
                    assert!(difference <= levels, "{name} in bytes: {difference}");
                    combinations += 1;
                }
            }
        }
    }
    println!("{combinations} combinations, at most {worst_bf16:.5} off in bf16");
    assert!(combinations > 100);
}

/// Gray and RGB with alpha, parts of it transparent, as bytes and as floats.
#[test]
fn resizes_of_images_with_alpha_agree_with_the_host() {
    for channels in [2, 4] {
        let images = [7usize, 11].map(|step| {
            Image::from_fn(13, 9, channels, |row, column, channel| match channel + 1 == channels {
                true => [0u8, 255, 40, 200][(row * step + column) % 4],
                false => ((row * 131 + column * 31 + channel * 17) * step % 256) as u8,
            })
        });
        for filter in [Filter::Nearest, Filter::Bilinear, Filter::Bicubic] {
            let method = Method::new(filter, Semantics::Pil);
            let resized = |inputs: &[Tensor]| composites::resize(&inputs[0], 6, 20, method).unwrap();
            let host = images.each_ref().map(|image| image.resize(6, 20, method).unwrap());
            let device = run(&[batch(&images)], resized);
            // A byte of alpha that is rounded the other way moves colors that are hardly seen by more than a level.
            let seen: Vec<bool> = host
                .iter()
                .flat_map(|image| image.values().chunks_exact(channels))
                .flat_map(|pixel| vec![pixel[channels - 1] > 64; channels])
                .collect();
            let expected = host.iter().flat_map(|image| image.values().iter().map(|&value| f64::from(value)));
            for ((ours, theirs), seen) in device.to_f64s().iter().zip(expected).zip(seen) {
                assert!(!seen || (ours - theirs).abs() <= 6.0, "{method:?} {channels}: {ours} for {theirs}");
            }
            let scaled = floats(&images);
            let host = scaled.each_ref().map(|image| image.resize(6, 20, method).unwrap());
            let device = run(&[batch(&scaled)], resized);
            let difference = largest_difference(&device, &host);
            assert!(difference <= 1e-4, "{method:?} {channels} in floats: {difference}");
        }
    }
}

#[test]
fn frames_are_padded_as_on_the_host() {
    let images = bytes(9, 14);
    let method = Method::new(Filter::Bilinear, Semantics::Torchvision);
    let borders = [
        (Border::Constant(17), Border::Constant(17.0)),
        (Border::Repeat, Border::Repeat),
        (Border::Reflect, Border::Reflect),
    ];
    for (on_host, on_device) in borders {
        for (height, width) in [(20, 20), (5, 30), (9, 14)] {
            let host = images.each_ref().map(|image| resize_with_pad(image, height, width, method, on_host).unwrap().0);
            let padded =
                |inputs: &[Tensor]| composites::resize_with_pad(&inputs[0], height, width, method, on_device).unwrap();
            let difference = largest_difference(&run(&[batch(&images)], padded), &host);
            assert!(difference <= 1.0, "{on_host:?} to {height}×{width}: {difference}");
        }
    }
}

#[test]
fn blurs_agree_with_the_host() {
    for (height, width) in [(13, 9), (1, 9), (24, 31), (3, 2)] {
        let images = bytes(height, width);
        let scaled = floats(&images);
        for semantics in [Semantics::Torchvision, Semantics::OpenCv, Semantics::Pil] {
            for (size, sigma) in [(3, 0.8), (9, 2.0), (15, 4.5)] {
                let blur = GaussianBlur { sigma, size, semantics };
                let blurred = |inputs: &[Tensor]| composites::blur(&inputs[0], blur).unwrap();
                let name = format!("{blur:?} of {height}x{width}");
                let host = images.each_ref().map(|image| blur_u8(image, blur).unwrap());
                let difference = largest_difference(&run(&[batch(&images)], blurred), &host);
                assert!(difference <= 1.0, "{name} in bytes: {difference}");
                let Ok(first) = blur_f32(&scaled[0], blur) else { continue };
                let host = [first, blur_f32(&scaled[1], blur).unwrap()];
                let difference = largest_difference(&run(&[batch(&scaled)], blurred), &host);
                assert!(difference <= 1e-5, "{name}: {difference}");
                let narrow = |inputs: &[Tensor]| blurred(&[inputs[0].convert(DType::BF16)]).convert(DType::F32);
                let difference = largest_difference(&run(&[batch(&scaled)], narrow), &host);
                assert!(difference <= BF16_BOUND, "{name} in bf16: {difference}");
            }
        }
    }
}

#[test]
fn crops_and_mirrors_move_the_same_pixels() {
    let images = bytes(17, 12);
    let input = batch(&images);
    let window = PixelWindow { top: 3, left: 2, height: 20, width: 7 };
    let host = images.each_ref().map(|image| geometry::crop(image, window));
    let device = run(std::slice::from_ref(&input), |inputs| composites::crop(&inputs[0], window));
    assert_eq!(largest_difference(&device, &host), 0.0);

    let windows = [(0usize, 5usize), (9, 1)].map(|(top, left)| PixelWindow { top, left, height: 8, width: 6 });
    let positions = HostTensor::new([2, 2], &[0i32, 5, 9, 1]).unwrap();
    let device = run(&[input.clone(), positions], |inputs| composites::crop_each(&inputs[0], &inputs[1], 8, 6));
    let host = [geometry::crop(&images[0], windows[0]), geometry::crop(&images[1], windows[1])];
    assert_eq!(largest_difference(&device, &host), 0.0);

    let mut host = images.clone();
    geometry::flip_horizontally(&mut host[1]);
    let which = HostTensor::new([2], &[0i32, 1]).unwrap();
    let device = run(&[input.clone(), which], |inputs| {
        composites::mirror_where(&inputs[0], &inputs[1].not_equal(&inputs[1].zeros_like()))
    });
    assert_eq!(largest_difference(&device, &host), 0.0);
    let mut host = images.clone();
    host.iter_mut().for_each(geometry::flip_vertically);
    let device = run(&[input], |inputs| composites::flip_vertically(&inputs[0]));
    assert_eq!(largest_difference(&device, &host), 0.0);
}

#[test]
fn normalizing_erasing_and_mixing_agree_with_the_host() {
    let images = bytes(17, 12);
    let input = batch(&images);
    let figures = Normalization::imagenet();
    let host = images.each_ref().map(|image| figures.apply(image));
    let device = run(std::slice::from_ref(&input), |inputs| composites::normalize(&inputs[0], &figures));
    assert!(largest_difference(&device, &host) <= 1e-5);

    let windows =
        [PixelWindow { top: 2, left: 3, height: 9, width: 4 }, PixelWindow { top: 12, left: 0, height: 30, width: 12 }];
    let numbers: Vec<i32> =
        windows.iter().flat_map(|w| [w.top, w.left, w.height, w.width]).map(|number| number as i32).collect();
    let numbers = HostTensor::new([2, 4], &numbers).unwrap();
    let mut host = images.clone();
    host.iter_mut().zip(windows).for_each(|(image, window)| geometry::erase(image, window, |_, _, c| 10 * c as u8));
    let fill = HostTensor::new([3], &[0u8, 10, 20]).unwrap();
    let device =
        run(&[input.clone(), numbers.clone(), fill], |inputs| composites::erase(&inputs[0], &inputs[1], &inputs[2]));
    assert_eq!(largest_difference(&device, &host), 0.0);

    let mut host = images.clone();
    let cut = [windows[0], PixelWindow { height: 5, ..windows[1] }];
    for position in 0..2 {
        let partner = images[1 - position].values();
        mix::paste_window(host[position].values_mut(), partner, 12, 3, cut[position]);
    }
    let partners = batch(&[images[1].clone(), images[0].clone()]);
    let device = run(&[input.clone(), partners.clone(), numbers], |inputs| {
        composites::cutmix(&inputs[0], &inputs[1], &inputs[2])
    });
    assert_eq!(largest_difference(&device, &host), 0.0);

    let mut host = images.clone();
    for (position, share) in [0.3f32, 0.85].into_iter().enumerate() {
        mix::mixup_bytes(host[position].values_mut(), images[1 - position].values(), share);
    }
    let shares = HostTensor::new([2], &[0.3f32, 0.85]).unwrap();
    let device = run(&[input, partners, shares], |inputs| composites::mixup(&inputs[0], &inputs[1], &inputs[2]));
    assert!(largest_difference(&device, &host) <= 1.0);
    let shape = Shape::new(DType::U8, [2, 17, 12, 3]);
    assert_eq!(device.shape(), &shape);
}
