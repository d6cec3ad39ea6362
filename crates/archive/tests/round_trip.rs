//! What is written is read back, by the same names, in the same order, with the same bits.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use octant_archive::{Archive, ArchiveFormat, save_safetensors, save_torch};
use octant_tensor::{AlignedBytes, Bytes, DType, HostTensor, Shape};
use proptest::prelude::*;
use std::path::Path;

fn any_tensor() -> impl Strategy<Value = HostTensor> {
    (prop::sample::select(&DType::ALL[..]), prop::collection::vec(0usize..4, 0..4)).prop_flat_map(|(dtype, dims)| {
        let shape = Shape::new(dtype, dims);
        let top = if dtype == DType::Bool { 1 } else { u8::MAX };
        prop::collection::vec(0..=top, shape.bytes()).prop_map(move |bytes| {
            HostTensor::from_bytes(shape.clone(), Bytes::new(AlignedBytes::copy_of(&bytes))).unwrap()
        })
    })
}

fn save(path: &Path, tensors: &[(String, HostTensor)], metadata: &[(String, String)]) {
    save_safetensors(path, tensors.iter().map(|(name, tensor)| (name.as_str(), tensor)), metadata).unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn safetensors_survive_the_round_trip(
        tensors in prop::collection::btree_map(".{0,12}", any_tensor(), 0..6),
        metadata in prop::collection::btree_map(".{0,12}", ".{0,12}", 0..4),
    ) {
        prop_assume!(!tensors.contains_key("__metadata__"));
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.safetensors");
        let (tensors, metadata): (Vec<_>, Vec<_>) = (tensors.into_iter().rev().collect(), metadata.into_iter().collect());
        save(&path, &tensors, &metadata);
        let archive = Archive::open(&path).unwrap();
        prop_assert_eq!(archive.format, ArchiveFormat::Safetensors);
        prop_assert_eq!(archive.tensors, tensors);
        prop_assert_eq!(archive.metadata, metadata);
    }

    #[test]
    fn pytorch_files_survive_the_round_trip(tensors in prop::collection::btree_map("[a-z0-9._]{1,12}", any_tensor(), 1..6)) {
        let has_no_storage = |tensor: &HostTensor| [DType::U16, DType::U32, DType::U64].contains(&tensor.dtype());
        prop_assume!(!tensors.values().any(has_no_storage));
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.pth");
        // Names that all begin alike lose that beginning, by design.
        let tensors: Vec<_> = tensors.into_iter().rev().map(|(name, tensor)| (format!("layer.{name}"), tensor)).collect();
        save_torch(&path, tensors.iter().map(|(name, tensor)| (name.as_str(), tensor))).unwrap();
        let archive = Archive::open(&path).unwrap();
        prop_assert_eq!(archive.format, ArchiveFormat::TorchZip);
        prop_assert_eq!(archive.tensors, tensors);
    }
}

/// `torch.load` itself, where the tests' set-up has installed it.
#[test]
fn pytorch_reads_what_is_written() {
    let Some(python) = octant_testing::oracle::torch("PyTorch reading saved files") else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.pth");
    let values = HostTensor::new([2, 3], &[0.5f32, -1.0, 2.0, 3.5, 4.0, 1e-9]).unwrap();
    let count = HostTensor::scalar(7i64);
    let halves = HostTensor::from_f64s(Shape::new(DType::BF16, [4]), &[1.0, -2.0, 0.5, 0.0]).unwrap();
    save_torch(&path, [("a.weight", &values), ("a.count", &count), ("halves", &halves)]).unwrap();
    let program = "import sys, torch; x = torch.load(sys.argv[1], weights_only=True, mmap=True); \
        print(list(x), x['a.weight'].tolist(), x['a.count'].item(), x['halves'].dtype, x['halves'].tolist())";
    let output = std::process::Command::new(python).args(["-c", program]).arg(&path).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let expected = "['a.weight', 'a.count', 'halves'] [[0.5, -1.0, 2.0], [3.5, 4.0, 9.999999717180685e-10]] 7 \
        torch.bfloat16 [1.0, -2.0, 0.5, 0.0]";
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), expected);
}

#[test]
fn written_tensors_are_aligned_in_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.safetensors");
    let odd = HostTensor::zeros(Shape::new(DType::U8, [3]));
    let wide = HostTensor::zeros(Shape::new(DType::F64, [2]));
    save(&path, &[("odd".into(), odd), ("wide".into(), wide)], &[]);
    let archive = Archive::open(&path).unwrap();
    let start = |name| archive.get(name).unwrap().bytes().as_ptr() as usize;
    // Shared with the mapped file, which starts at a page: the wide elements come first, the odd ones right after.
    assert_eq!((start("wide") % 64, start("odd") - start("wide")), (0, 16));
}

#[test]
fn names_that_are_taken_are_refused_and_nothing_is_left() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.safetensors");
    let scalar = HostTensor::scalar(1.0f32);
    for names in [["a", "a"], ["a", "__metadata__"]] {
        let error = save_safetensors(&path, names.map(|name| (name, &scalar)), &[]).unwrap_err().to_string();
        assert!(error.contains("the name is taken"), "{error}");
    }
    let missing_folder = folder.path().join("nowhere").join("x.safetensors");
    let error = save_safetensors(&missing_folder, [("a", &scalar)], &[]).unwrap_err().to_string();
    assert!(error.starts_with("cannot write "), "{error}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

/// Saving over the very file whose mapped tensors are being saved must not pull the ground from under them.
#[test]
fn a_file_can_be_saved_over_itself() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.safetensors");
    let tensors = vec![("a".to_string(), HostTensor::new([3], &[1.0f32, 2.0, 3.0]).unwrap())];
    save(&path, &tensors, &[]);
    let archive = Archive::open(&path).unwrap();
    save(&path, &archive.tensors, &[("again".into(), "yes".into())]);
    assert_eq!(archive.tensors, tensors);
    let again = Archive::open(&path).unwrap();
    assert_eq!((again.tensors, again.metadata.len()), (tensors, 1));
}
