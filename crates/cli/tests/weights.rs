//! `octant weights` and `octant predict --model` from the command line.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use octant_tensor::{HostTensor, read_npy, write_npy};
use octant_zoo::{describe, find, weights};
use std::path::Path;
use std::process::{Command, Output};

fn octant(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_octant"));
    command.current_dir(folder).args(arguments).env("OCTANT_CACHE", folder.join("cache")).output().unwrap()
}

fn stdout(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Random weights of a model under that name.
fn save(name: &str, path: &Path) {
    let entry = find(name).unwrap();
    let (specs, _) = describe(&*(entry.build)(entry.classes), entry.preprocessing.input).unwrap();
    let values: Vec<HostTensor> = specs.iter().map(|spec| spec.initial(1)).collect();
    weights::save(path, entry, entry.classes, &specs, &values, 0).unwrap();
}

#[test]
fn published_weights_come_from_a_folder_without_a_network() {
    let folder = tempfile::tempdir().unwrap();
    let mirror = folder.path().join("mirror");
    std::fs::create_dir(&mirror).unwrap();
    save("vit_tiny_patch16_224", &mirror.join("vit_tiny_patch16_224.augreg_in21k_ft_in1k.safetensors"));
    let get = ["weights", "get", "vit_tiny_patch16_224", "--mirror", "mirror"];
    let output = octant(folder.path(), &get);
    assert!(stdout(&output).contains("mirror/vit_tiny"), "{}", stdout(&output));
    assert!(stderr(&output).contains("all 152 tensors fit"), "{}", stderr(&output));

    // To PyTorch's format and back, with what the file says about itself.
    stdout(&octant(folder.path(), &[&get[..], &["--to", "vit.pth"]].concat()));
    let convert = ["weights", "convert", "vit.pth", "vit.safetensors", "--model", "vit_tiny_patch16_224"];
    stdout(&octant(folder.path(), &convert));
    let shown = stdout(&octant(folder.path(), &["weights", "show", "vit.safetensors"]));
    assert!(shown.contains("octant.model: vit_tiny_patch16_224") && shown.contains("152 tensors"), "{shown}");

    // A file with another content is refused by the checksum in its name.
    std::fs::write(mirror.join("resnet18-f37072fd.pth"), "something else").unwrap();
    let error = stderr(&octant(folder.path(), &["weights", "get", "resnet18", "--mirror", "mirror"]));
    assert!(error.contains("SHA-256") && error.contains("f37072fd"), "{error}");
    let error = stderr(&octant(folder.path(), &["weights", "get", "resnet34", "--mirror", "mirror"]));
    assert!(error.contains("has no file resnet34-b627a593.pth"), "{error}");
    let error = stderr(&octant(folder.path(), &["weights", "get", "resnet5O"]));
    assert!(error.contains("did you mean resnet50"), "{error}");
}

#[test]
fn tensors_go_through_a_model_in_either_layout() {
    let folder = tempfile::tempdir().unwrap();
    save("resnet-tiny", &folder.path().join("tiny.safetensors"));
    let (side, channels) = (32, 3);
    let value = |row: usize, column: usize, channel: usize| ((row * 7 + column * 3 + channel) as f32 * 0.1).sin();
    let mut nchw = Vec::new();
    let mut nhwc = Vec::new();
    for outer in 0..channels {
        (0..side * side).for_each(|position| nchw.push(value(position / side, position % side, outer)));
    }
    for position in 0..side * side {
        (0..channels).for_each(|channel| nhwc.push(value(position / side, position % side, channel)));
    }
    write_npy(&folder.path().join("nchw.npy"), &HostTensor::new([1, channels, side, side], &nchw).unwrap()).unwrap();
    write_npy(&folder.path().join("nhwc.npy"), &HostTensor::new([1, side, side, channels], &nhwc).unwrap()).unwrap();
    let base = ["predict", "--model", "resnet-tiny", "--weights", "tiny.safetensors", "--device", "cpu", "--output"];
    let predict = |more: &[&str]| octant(folder.path(), &[&base[..], more].concat());
    let read = |name: &str| read_npy(&folder.path().join(name)).unwrap();

    stdout(&predict(&["a.npy", "--input", "nchw.npy"]));
    stdout(&predict(&["b.npy", "--input", "nhwc.npy", "--layout", "nhwc"]));
    assert_eq!(read("a.npy").dims(), [1, 10]);
    assert_eq!(read("a.npy"), read("b.npy"));
    stdout(&predict(&["c.npy", "--input", "nchw.npy", "--features"]));
    assert_eq!(read("c.npy").dims(), [1, 20]);

    let error = stderr(&predict(&["d.npy", "--input", "nhwc.npy"]));
    assert!(error.contains("did you mean --layout nhwc?"), "{error}");
    let report = stderr(&predict(&["e.npy", "--input", "nchw.npy", "--classes", "7", "--partial"]));
    assert!(report.contains("head of another size: fc.weight"), "{report}");
    assert_eq!(read("e.npy").dims(), [1, 7]);
    let other = predict(&["f.npy", "--input", "nchw.npy", "--classes", "7"]);
    assert!(!other.status.success() && stderr(&other).contains("--partial"), "{}", stderr(&other));
}

#[test]
fn images_go_through_a_model_and_its_top_classes_are_printed() {
    let folder = tempfile::tempdir().unwrap();
    save("resnet-tiny", &folder.path().join("tiny.safetensors"));
    let image = octant::imaging::Image::from_fn(40, 50, 3, |row, column, channel| (row * column + channel) as u8);
    octant_data::write_png_u8(folder.path().join("image.png"), &image).unwrap();
    let predict = ["predict", "--model", "resnet-tiny", "--weights", "tiny.safetensors", "--device", "cpu"];
    let text = stdout(&octant(folder.path(), &[&predict[..], &["image.png", "--top", "3"]].concat()));
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!((lines[0], lines.len()), ("path,class,name,probability", 4), "{text}");
    let probability = |line: &str| line.rsplit(',').next().unwrap().parse::<f64>().unwrap();
    assert!(probability(lines[1]) >= probability(lines[2]) && probability(lines[2]) >= probability(lines[3]), "{text}");
}
