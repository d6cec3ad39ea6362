//! Files that no command writes.

use octant::imaging::Image;
use octant_data::write_png_u8;
use octant_tensor::{HostTensor, write_npy};
use std::path::Path;

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
    let opener = at.join("bin/xdg-open");
    std::fs::create_dir_all(at.join("bin")).unwrap();
    std::fs::write(&opener, "#!/bin/sh\necho opened > opened\n").unwrap();
    std::fs::set_permissions(&opener, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
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

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        match entry.path().is_dir() {
            true => copy(&entry.path(), &to.join(entry.file_name())),
            false => drop(std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap()),
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
