//! Files that no command writes.

use octant::imaging::Image;
use octant_data::write_png_u8;
use octant_tensor::{HostTensor, write_npy};
use std::path::Path;
use std::time::{Duration, SystemTime};

/// Images, masks, arrays, tables, damaged and partial files.
pub fn write(at: &Path) {
    for (set, seed) in [("images", 3), ("others", 5), ("masks", 0)] {
        std::fs::create_dir_all(at.join(set)).unwrap();
        for number in 0..3 {
            let image = match set {
                "masks" => Image::from_fn(40, 32, 1, |row, column, _| {
                    let inside = (8..20 + number).contains(&row) && (5..17).contains(&column);
                    if inside { if row < 12 { 200 } else { 255 } } else { 0 }
                }),
                _ => Image::from_fn(40, 32, 3, |row, column, channel| {
                    ((row * row * seed + column * (7 + number) + channel * 60) % 251) as u8
                }),
            };
            write_png_u8(at.join(format!("{set}/{number}.png")), &image).unwrap();
        }
    }
    for (name, seed) in [("x.npy", 0.37), ("z.npy", 0.73)] {
        let values: Vec<f32> = (0..3 * 32 * 32).map(|index| (index as f32 * seed).sin() * 3.0).collect();
        write_npy(&at.join(name), &HostTensor::new([1, 3, 32, 32], &values).unwrap()).unwrap();
    }
    let values: Vec<f32> = (0..3 * 32 * 32).map(|index| (index as f32 * 0.41).sin()).collect();
    write_npy(&at.join("w.npy"), &HostTensor::new([1, 32, 32, 3], &values).unwrap()).unwrap();
    std::fs::write(at.join("table.csv"), "step,loss\n1,0.5\n2,0.25\n").unwrap();
    std::fs::write(at.join("other.csv"), "step,loss\n1,0.75\n").unwrap();
    std::fs::write(at.join("names.txt"), "one\ntwo\nthree\nfour\n").unwrap();
    for run in ["first", "last"] {
        copy(&at.join("run"), &at.join("runs").join(run));
    }
    let archive = octant_archive::Archive::open(&at.join("weights.safetensors")).unwrap();
    let half = archive.tensors[..archive.tensors.len() / 2].iter().map(|(name, tensor)| (name.as_str(), tensor));
    let metadata = [("format".to_string(), "pt".to_string())];
    for name in ["part.safetensors", "part2.safetensors"] {
        octant_archive::save_safetensors(&at.join(name), half.clone(), &metadata).unwrap();
    }
    damage(at);
    // The weights that `moved.onnx` was made from.
    std::fs::remove_dir_all(at.join("gone")).unwrap();
    write_plugins(at);
    programs(at);
    let script = |name: &str, text: &str| {
        std::fs::write(at.join("bin").join(name), text).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(at.join("bin").join(name), mode).unwrap();
    };
    std::fs::create_dir_all(at.join("bin")).unwrap();
    script("xdg-open", "#!/bin/sh\necho opened > opened\n");
    script("python3", include_str!("python3.sh"));
    script("peer", include_str!("peer.sh"));
    for folder in ["bench/peers", "scripts"] {
        std::fs::create_dir_all(at.join(folder)).unwrap();
        std::fs::write(at.join(folder).join("pytorch_peer.py"), "").unwrap();
    }
}

/// A plugin without a device, as itself and as the one for TPUs, and in a folder of packages.
fn write_plugins(at: &Path) {
    std::fs::create_dir_all(at.join("wheels")).unwrap();
    for name in ["fake.so", "libtpu.so", "wheels/libtpu.so"] {
        std::fs::copy(octant_testing::fake_plugin::path(), at.join(name)).unwrap();
    }
}

/// A store of compiled programs that were last used now, ten and twenty days ago, and archives of one and of two of them.
fn programs(at: &Path) {
    let mut contents = Vec::new();
    for number in 0..3 {
        let name = format!("{number:032x}-{number:032x}.executable");
        let path = at.join("store").join(&name);
        std::fs::create_dir_all(at.join("store")).unwrap();
        let text = "octant executable 1\nplugin: 1\ndevices: 8 × TPU v3\noptions: 0\nbytes: 4\nsum: 0\n\ncode";
        std::fs::write(&path, text).unwrap();
        let file = std::fs::File::options().append(true).open(&path).unwrap();
        file.set_modified(SystemTime::now() - Duration::from_secs(number * 10 * 86_400)).unwrap();
        contents.push((format!("{:032x}-{:032x}.executable", number + 7, number), text));
    }
    for (name, count) in [("programs", 1), ("others-programs", 2)] {
        let folder = at.join(name).with_extension("store");
        std::fs::create_dir_all(folder.join("executables")).unwrap();
        for (name, text) in &contents[..count] {
            std::fs::write(folder.join("executables").join(name), text).unwrap();
        }
        let mut export = std::process::Command::new(env!("CARGO_BIN_EXE_octant"));
        export.args(["cache", "export"]).arg(at.join(name)).env("OCTANT_CACHE", &folder);
        assert!(export.output().unwrap().status.success());
        std::fs::remove_dir_all(folder).unwrap();
    }
}

/// Two unreadable images, one image twice, and two labels that cannot be used.
fn damage(at: &Path) {
    let images = |set: &str| {
        let mut images = Vec::new();
        below(&at.join(set).join("train"), "png", &mut images);
        images.sort();
        images
    };
    images("broken").iter().take(3).for_each(|path| std::fs::write(path, b"no image").unwrap());
    let twice = images("twice");
    std::fs::copy(&twice[0], twice[0].with_file_name("again.png")).unwrap();
    let mut labels = Vec::new();
    below(&at.join("dirty"), "txt", &mut labels);
    labels.sort();
    labels.iter().filter(|path| path.display().to_string().contains("labels")).take(3).for_each(|path| {
        std::fs::write(path, "0 0.5 0.5 7.0 0.5\n99 0.5 0.5 0.2 0.2\n0 0.5 0.5 0.2 0.2\n").unwrap();
    });
}

fn below(folder: &Path, ending: &str, found: &mut Vec<std::path::PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => below(&path, ending, found),
            false if path.extension().is_some_and(|known| known == ending) => found.push(path),
            false => {}
        }
    }
}

pub fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        match entry.path().is_dir() {
            true => copy(&entry.path(), &to.join(entry.file_name())),
            false => {
                let copied = to.join(entry.file_name());
                std::fs::copy(entry.path(), &copied).unwrap();
                // A store of programs knows by it when they were used.
                let file = std::fs::File::options().append(true).open(&copied).unwrap();
                file.set_modified(entry.metadata().unwrap().modified().unwrap()).unwrap();
            }
        }
    }
}

/// The fixture at another place: a run that the command names is copied, since it may write into it, the rest is linked.
pub fn link(from: &Path, to: &Path, is_named: bool) {
    let is_run = from.join("config.toml").is_file();
    match is_named && is_run {
        true => copy(from, to),
        _ => std::os::unix::fs::symlink(from, to).unwrap(),
    }
}
