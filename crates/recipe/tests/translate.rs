//! Recipes from images to images, from their keys to networks that learn, in pieces and in one go.
//!
//! `OCTANT_WHOLE_DEMO=1 cargo test --release -p octant-recipe --test translate -- --nocapture whole` runs the demos to their
//! ends.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod harness;

use harness::{local_files, metric, recipe, trained};
use octant_cpu::CpuBackend;
use octant_data::{Dataset, Target, write_png_u8};
use octant_imaging::Image;
use octant_recipe::{data, plan};
use octant_runtime::Backend;
use octant_train::Values;
use std::path::Path;

/// Two domains of small images, without pairs.
fn domains(folder: &Path) {
    for (name, shade) in [("trainA", 40), ("trainB", 160), ("testA", 50), ("testB", 170)] {
        std::fs::create_dir_all(folder.join(name)).unwrap();
        for number in 0..6u8 {
            let image = Image::from_fn(20, 20, 3, |row, column, channel| {
                shade + number * 7 + (row * column % 11) as u8 + channel as u8 * 9
            });
            write_png_u8(folder.join(name).join(format!("{number}.png")), &image).unwrap();
        }
    }
}

#[test]
fn a_cyclegan_stopped_after_any_step_ends_as_if_it_had_not_been() {
    let [whole, pieces] = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let of = |folder: &Path| {
        domains(&folder.join("data"));
        let changes = [
            format!("data.dir='{}'", folder.join("data").display()),
            "model=resnet_generator-tiny".into(),
            "image_size=16".into(),
            "batch_size=2".into(),
            "phases.0.epochs=2".into(),
            "phases.1.epochs=1".into(),
            "phases.1.schedule.total=1".into(),
            "gan={layers=2, width=4, pool=3}".into(),
        ];
        recipe("cyclegan", &changes.iter().map(String::as_str).collect::<Vec<_>>())
    };
    let epochs = trained(&of(whole.path()), whole.path(), u64::MAX);
    assert_eq!(epochs.len(), 3);
    assert!(epochs.iter().flatten().all(|(_, value)| value.is_finite()), "{epochs:?}");
    trained(&of(pieces.path()), pieces.path(), 4);
    let read = |folder: &Path, name: &str| std::fs::read(folder.join("run").join(name)).unwrap();
    for name in ["checkpoints/last/model.safetensors", "checkpoints/last/state.safetensors", "metrics.csv"] {
        assert!(read(whole.path(), name) == read(pieces.path(), name), "{name} differs");
    }
    let state = octant_archive::Archive::open(&whole.path().join("run/checkpoints/last/state.safetensors")).unwrap();
    assert!(state.get("pool_A.images").is_some() && state.get("netD_B.model.0.weight").is_some());
}

/// Every task makes images, and a restorer makes them better than they were in a few steps.
#[test]
fn restoration_enlarging_and_codes_learn() {
    let small = ["data.kind=paintings", "data.side=32", "data.train=64", "data.test=8", "batch_size=8"];
    let cases: [(&str, &[&str]); 3] = [
        ("demo-restore", &["phases.0.epochs=3", "image_size=32"]),
        (
            "demo-restore",
            &["model=edsr-tiny", "image_size=16", "degrade={shrink=2}", "phases.0.epochs=2", "phases.0.clip_norm=1.0"],
        ),
        ("autoencode", &["model=autoencoder-tiny", "image_size=32", "phases.0.epochs=3"]),
    ];
    for (name, changes) in cases {
        let folder = tempfile::tempdir().unwrap();
        let epochs = trained(&recipe(name, &[&small[..], changes].concat()), folder.path(), u64::MAX);
        let psnr: Vec<f64> = epochs.iter().map(|metrics| metric(metrics, "val_psnr")).collect();
        assert!(psnr.last() > psnr.first() && psnr.iter().all(|value| value.is_finite()), "{name}: {psnr:?}");
    }
}

fn refusal(name: &str, changes: &[&str]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let recipe = recipe(name, changes);
    let backend = CpuBackend::with_threads(1).unwrap().shared();
    let opened = data(&recipe, &[], &local_files(folder.path()));
    let planned = opened.and_then(|data| plan(&recipe, &data, &backend, Values::new()).map(drop));
    planned.err().map(|error| error.to_string()).unwrap_or_default()
}

#[test]
fn what_does_not_fit_is_refused_in_one_sentence() {
    let refuses = |name: &str, changes: &[&str], words: &str| {
        let message = refusal(name, changes);
        assert!(message.contains(words), "{name} {changes:?}: {message}");
    };
    refuses("demo-restore", &["model=resnet-tiny"], "resnet-tiny is no model to restore");
    refuses("demo-restore", &["model=edsr-tiny"], "set `degrade.shrink`");
    refuses("demo-restore", &["model=dncnn"], "images of 1 channel(s)");
    refuses("demo-pix2pix", &["degrade={noise=[1.0, 2.0]}"], "unknown key `degrade`");
    refuses("demo-pix2pix", &["loss=dice"], "vanilla");
    refuses("pix2pix", &["data.dir='/nowhere'"], "there is no /nowhere");
}

/// What a mean over the training images, or a blank sheet, would reach on the demo's held-out pairs.
fn error_of(images: impl Fn(&Image<u8>) -> Image<f32>, dataset: &dyn Dataset) -> f64 {
    let mut total = 0.0;
    for index in 0..dataset.len() {
        let sample = dataset.get(index).unwrap();
        let (octant_data::AnyImage::U8(image), Target::Image(truth)) = (sample.image, sample.target) else { panic!() };
        let guess = images(&image);
        let errors = guess.values().iter().zip(truth.values()).map(|(a, b)| f64::from((a - f32::from(*b)).abs()));
        total += errors.sum::<f64>() / truth.values().len() as f64 / 255.0;
    }
    total / dataset.len() as f64
}

#[test]
fn the_whole_demo_colors_outlines() {
    if std::env::var_os("OCTANT_WHOLE_DEMO").is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let recipe = recipe("demo-pix2pix", &[]);
    let held_out = data(&recipe, &[], &local_files(folder.path())).unwrap();
    let mut mean = vec![0.0f32; 64 * 64 * 3];
    for index in 0..held_out.train.len() {
        let Target::Image(truth) = held_out.train.get(index).unwrap().target else { panic!() };
        mean.iter_mut().zip(truth.values()).for_each(|(mean, value)| *mean += f32::from(*value));
    }
    let count = held_out.train.len() as f32;
    let average = Image::new(64, 64, 3, mean.iter().map(|sum| sum / count).collect()).unwrap();
    let of_mean = error_of(|_| average.clone(), &*held_out.valid);
    let of_input = error_of(|image| image.map(f32::from), &*held_out.valid);
    let epochs = trained(&recipe, folder.path(), u64::MAX);
    let last = epochs.last().unwrap();
    let (mae, ssim) = (metric(last, "val_mae"), metric(last, "val_ssim"));
    println!("MAE {mae:.4} (mean image {of_mean:.4}, input {of_input:.4}), SSIM {ssim:.4}");
    assert!(mae < 0.5 * of_mean && mae < 0.3 * of_input && ssim > 0.7, "MAE {mae}, SSIM {ssim}");
}

#[test]
fn the_whole_demo_takes_noise_off() {
    if std::env::var_os("OCTANT_WHOLE_DEMO").is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let epochs = trained(&recipe("demo-restore", &[]), folder.path(), u64::MAX);
    // Noise of deviation 30 leaves 18.6 dB.
    let psnr = metric(epochs.last().unwrap(), "val_psnr");
    assert!(psnr > 26.0, "{psnr} dB");
}
