//! Files that PyTorch, safetensors and NumPy wrote (`golden/make.py`), read back.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use octant_archive::pickle::globals::{CONTAINERS, NUMPY};
use octant_archive::{Archive, ArchiveError, ArchiveFormat, numpy_array, read_pickle};
use octant_tensor::{DType, HostTensor};
use std::path::{Path, PathBuf};

fn golden(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("golden").join(file)
}

fn open(file: &str) -> Archive {
    Archive::open(&golden(file)).unwrap_or_else(|error| panic!("{error}"))
}

fn refused(file: &str) -> String {
    let error = Archive::open(&golden(file)).unwrap_err().to_string();
    assert_eq!(error.lines().count(), 1, "{error}");
    error
}

/// The elements that `make.py` gives to a tensor of that name.
fn pattern(name: &str, dtype: DType, count: usize) -> Vec<f64> {
    let number = |position: usize| (position * 7 + name.len()) % 11;
    let element = |position| match dtype {
        DType::Bool => (number(position) % 2 == 0) as u8 as f64,
        _ if dtype.is_float() => (number(position) as f64 - 5.0) / 2.0,
        _ => number(position) as f64,
    };
    (0..count).map(element).collect()
}

fn assert_pattern(name: &str, tensor: &HostTensor, dims: &[usize]) {
    assert_eq!(tensor.dims(), dims, "{name}");
    assert_eq!(tensor.to_f64s(), pattern(name, tensor.dtype(), dims.iter().product()), "{name}");
}

fn names(archive: &Archive) -> Vec<&str> {
    archive.tensors.iter().map(|(name, _)| name.as_str()).collect()
}

fn metadata<'a>(archive: &'a Archive, key: &str) -> Option<&'a str> {
    archive.metadata.iter().find(|(known, _)| known == key).map(|(_, text)| text.as_str())
}

/// The layer that most files hold.
fn assert_layer(archive: &Archive) {
    assert_eq!(names(archive), ["conv.weight", "bn.running_mean", "fc.bias"]);
    assert_pattern("conv.weight", &archive.tensors[0].1, &[4, 3, 3, 3]);
    assert_pattern("bn.running_mean", &archive.tensors[1].1, &[4]);
    assert_pattern("fc.bias", &archive.tensors[2].1, &[10]);
}

/// PyTorch's names of the element types, in the order of the files.
const TYPES: [(&str, DType); 13] = [
    ("float32", DType::F32),
    ("float64", DType::F64),
    ("float16", DType::F16),
    ("bfloat16", DType::BF16),
    ("int8", DType::I8),
    ("uint8", DType::U8),
    ("int16", DType::I16),
    ("int32", DType::I32),
    ("int64", DType::I64),
    ("bool", DType::Bool),
    ("uint16", DType::U16),
    ("uint32", DType::U32),
    ("uint64", DType::U64),
];

#[test]
fn every_element_type_in_every_container() {
    let files = [
        ("types.pt", ArchiveFormat::TorchZip, 10),
        ("types.legacy.pt", ArchiveFormat::TorchLegacy, 10),
        ("protocol5.pt", ArchiveFormat::TorchZip, 10),
        ("new_types.pt", ArchiveFormat::TorchZip, 13),
        ("types.safetensors", ArchiveFormat::Safetensors, 13),
    ];
    for (file, format, count) in files {
        let archive = open(file);
        assert_eq!(archive.format, format);
        for (name, dtype) in &TYPES[..count] {
            let tensor = archive.get(name).unwrap_or_else(|| panic!("{file} lacks {name}"));
            assert_eq!(tensor.dtype(), *dtype);
            assert_pattern(name, tensor, &[3, 5]);
        }
        if format != ArchiveFormat::Safetensors {
            assert_eq!(names(&archive), TYPES[..count].iter().map(|(name, _)| *name).collect::<Vec<_>>());
        }
    }
}

#[test]
fn scalars_and_empty_tensors() {
    for file in ["shapes.pt", "shapes.legacy.pt", "types.safetensors"] {
        let archive = open(file);
        assert_pattern("scalar", archive.get("scalar").unwrap(), &[]);
        assert_pattern("empty", archive.get("empty").unwrap(), &[0, 3]);
    }
    assert_pattern("one", open("shapes.pt").get("one").unwrap(), &[1, 1]);
}

#[test]
fn safetensors_metadata_keeps_its_text() {
    let archive = open("types.safetensors");
    assert_eq!(metadata(&archive, "format"), Some("pt"));
    assert_eq!(metadata(&archive, "note"), Some("é \"quoted\""));
}

#[test]
fn views_become_row_major_tensors() {
    for file in ["views.pt", "views.legacy.pt"] {
        let archive = open(file);
        let tensor = |name: &str| archive.get(name).unwrap();
        assert_pattern("base", tensor("base"), &[4, 6]);
        let base = tensor("base").to_f64s();
        let rows_and_columns = |rows: &[usize], columns: &[usize]| -> Vec<f64> {
            rows.iter()
                .flat_map(|row| columns.iter().map(|column| base[row * 6 + column]).collect::<Vec<_>>())
                .collect()
        };
        let transposed: Vec<f64> = (0..24).map(|at| base[at % 4 * 6 + at / 4]).collect();
        assert_eq!((tensor("transposed").dims(), tensor("transposed").to_f64s()), (&[6, 4][..], transposed));
        assert_eq!(tensor("columns").to_f64s(), rows_and_columns(&[1, 2], &[2, 3, 4]));
        assert_eq!(tensor("every_second").to_f64s(), rows_and_columns(&[0, 2], &[1, 4]));
        assert_eq!(tensor("tail").to_f64s(), rows_and_columns(&[3], &[0, 1, 2, 3, 4, 5]));
        assert_eq!(tensor("tied"), tensor("base"));
        let row = pattern("expanded", DType::F32, 4);
        assert_eq!(tensor("expanded").to_f64s(), [&row[..]; 3].concat());
        assert_pattern("images", tensor("channels_last"), &[2, 3, 4, 5]);
        let images = tensor("channels_last").to_f64s();
        let permuted = tensor("permuted");
        assert_eq!(permuted.dims(), [5, 2, 4, 3]);
        for (at, value) in permuted.to_f64s().into_iter().enumerate() {
            let (x, n, y, c) = (at / 24, at / 12 % 2, at / 3 % 4, at % 3);
            assert_eq!(value, images[((n * 3 + c) * 4 + y) * 5 + x]);
        }
    }
}

#[test]
fn tensors_of_one_storage_share_their_bytes() {
    for file in ["views.pt", "views.legacy.pt"] {
        let archive = open(file);
        let base = archive.get("base").unwrap().bytes().as_ptr();
        assert_eq!(archive.get("tied").unwrap().bytes().as_ptr(), base);
        assert_eq!(archive.get("tail").unwrap().bytes().as_ptr(), base.wrapping_add(3 * 6 * 4));
    }
}

#[test]
fn parameters_and_tensors_with_attributes() {
    for file in ["parameters.pt", "parameters.legacy.pt"] {
        let archive = open(file);
        assert_pattern("parameter", &archive.tensors[0].1, &[2, 2]);
        assert_pattern("tagged", &archive.tensors[1].1, &[3]);
        assert_pattern("tagged_parameter", &archive.tensors[2].1, &[2]);
    }
}

#[test]
fn data_parallel_modules_lose_their_prefix() {
    for file in ["module.pt", "module.legacy.pt"] {
        let archive = open(file);
        assert_eq!(archive.stripped_prefix, "module.");
        assert_eq!(names(&archive)[..3], ["fc.weight", "fc.bias", "bn.weight"]);
        for (name, tensor) in &archive.tensors {
            assert_pattern(name, tensor, tensor.dims());
        }
        assert_eq!(archive.get("bn.num_batches_tracked").unwrap().dtype(), DType::I64);
    }
}

#[test]
fn checkpoints_give_their_weights_and_tell_the_rest() {
    for file in ["checkpoint.pth", "checkpoint.legacy.pt"] {
        let archive = open(file);
        assert_eq!((archive.found_under.as_str(), archive.stripped_prefix.as_str()), ("state_dict", "module."));
        assert_layer(&archive);
        let expected = [
            ("epoch", "7"),
            ("arch", "resnet18"),
            ("best_acc1", "a tensor"),
            ("loss", "0.25"),
            ("milestones", "dict of 2"),
            ("device", "torch.device(…)"),
            ("optimizer", "dict of 2"),
        ];
        for (key, text) in expected {
            assert_eq!(metadata(&archive, key), Some(text), "{key}");
        }
    }
}

#[test]
fn weights_are_found_under_the_usual_keys() {
    let cases = [
        ("compiled", "model", "_orig_mod.module."),
        ("nested", "net.state_dict", ""),
        ("params_ema", "params_ema", ""),
    ];
    for (stem, found_under, stripped) in cases {
        for ending in ["pt", "legacy.pt"] {
            let archive = open(&format!("{stem}.{ending}"));
            assert_eq!((archive.found_under.as_str(), archive.stripped_prefix.as_str()), (found_under, stripped));
            assert_layer(&archive);
        }
    }
}

#[test]
fn averaged_models_keep_their_counter_outside() {
    let archive = open("averaged.pt");
    assert_eq!(names(&archive), ["conv.weight", "bn.running_mean", "fc.bias", "n_averaged"]);
    assert_eq!(archive.get("n_averaged").unwrap().elements::<i64>().unwrap(), [4]);
}

#[test]
fn groups_of_tensors_get_dotted_names_and_a_lone_tensor_is_one() {
    let archive = open("groups.pt");
    assert_eq!(
        names(&archive),
        ["encoder.conv.weight", "encoder.bn.running_mean", "encoder.fc.bias", "decoder.fc.bias"]
    );
    assert_pattern("tensor", open("tensor.legacy.pt").get("tensor").unwrap(), &[2, 3]);
}

#[test]
fn a_payload_is_refused_by_name_and_does_not_run() {
    for file in ["payload.pt", "payload.legacy.pt"] {
        let error = refused(file);
        assert!(error.contains("`posix.system`") && error.contains("runs no code"), "{error}");
    }
    assert!(!Path::new("pwned.txt").exists() && !golden("pwned.txt").exists());
}

#[test]
fn whole_modules_are_searched_for_tensors() {
    let archive = open("whole_module.pt");
    let wanted =
        ["fc.weight", "fc.bias", "bn.weight", "bn.bias", "bn.running_mean", "bn.running_var", "bn.num_batches_tracked"];
    assert_eq!(names(&archive), wanted);
    assert_pattern("fc.weight", &archive.tensors[0].1, &[2, 3]);
}

#[test]
fn a_trainers_file_gives_its_average_and_its_license() {
    let archive = open("trainer.pt");
    assert_eq!((archive.found_under.as_str(), archive.format), ("ema", ArchiveFormat::TorchZip));
    assert_eq!(archive.tensors.len(), 6);
    let (name, weight) = &archive.tensors[0];
    assert_eq!((name.as_str(), weight.dtype()), ("body.0.weight", DType::F16));
    assert_pattern(name, weight, &[4, 3, 3, 3]);
    assert_eq!(metadata(&archive, "license"), Some("AGPL-3.0 (https://example.org/license)"));
    assert_eq!((metadata(&archive, "epoch"), metadata(&archive, "model")), (Some("3"), Some("None")));
}

#[test]
fn a_call_in_a_file_is_still_refused_where_there_is_no_network() {
    let payload = refused("payload.pt");
    assert!(payload.contains("runs no code"), "{payload}");
}

#[test]
fn complex_numbers_say_what_to_do() {
    for file in ["complex.pt", "complex.legacy.pt"] {
        let complex = refused(file);
        assert!(complex.contains("tensor \"z\": elements of type complex64"), "{complex}");
    }
}

#[test]
fn pickles_of_every_protocol_hold_the_same_values() {
    for protocol in 0..=5 {
        let file = golden(&format!("values.{protocol}.pkl"));
        let pickle = read_pickle(&file, CONTAINERS).unwrap_or_else(|error| panic!("protocol {protocol}: {error}"));
        let root = pickle.root();
        let get = |key: &str| root.get(key).unwrap_or_else(|| panic!("protocol {protocol}: {key}"));
        let ints = |key: &str| get(key).items().unwrap().map(|item| item.as_int().unwrap()).collect::<Vec<_>>();
        assert!(get("none").is_none());
        assert_eq!(
            get("truth").items().unwrap().map(|item| item.as_bool()).collect::<Vec<_>>(),
            [Some(true), Some(false)]
        );
        let wanted = [0, 1, -1, 255, 256, 65535, 65536, -(1 << 31), 1 << 31, 1 << 62, -(1 << 62)];
        assert_eq!(ints("integers"), wanted, "protocol {protocol}");
        assert!(get("huge").as_long_int().unwrap().starts_with(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]));
        let floats: Vec<f64> = get("floats").items().unwrap().map(|item| item.as_f64().unwrap()).collect();
        assert_eq!(floats, [0.5, -1e300, f64::INFINITY]);
        assert_eq!(get("text").as_str(), Some("naïve €😀\n\\"), "protocol {protocol}");
        assert_eq!(get("bytes").as_bytes().unwrap()[..], (0..=255).collect::<Vec<u8>>()[..]);
        for (len, tuple) in get("tuples").items().unwrap().enumerate() {
            assert_eq!(
                tuple.items().unwrap().map(|item| item.as_usize().unwrap()).collect::<Vec<_>>(),
                (1..=len).collect::<Vec<_>>()
            );
        }
        let ordered: Vec<_> = get("ordered").entries().unwrap().map(|(key, _)| key.as_str().unwrap()).collect();
        assert_eq!(ordered, ["b", "a"]);
        assert_eq!(get("shared").item(1).unwrap().item(1).unwrap().as_int(), Some(2));
        assert_eq!(get("itself").get("itself").unwrap().get("none").unwrap().to_string(), "None");
    }
}

#[test]
fn cifar_batches_of_python_2_and_3() {
    for file in ["cifar.python2.pkl", "cifar.2.pkl", "cifar.4.pkl", "cifar.5.pkl"] {
        let path = golden(file);
        let pickle = read_pickle(&path, &[CONTAINERS, NUMPY].concat()).unwrap_or_else(|error| panic!("{error}"));
        let batch = pickle.root();
        assert_eq!(batch.get("batch_label").unwrap().as_str(), Some("testing batch 1 of 1"));
        let labels: Vec<_> = batch.get("labels").unwrap().items().unwrap().map(|label| label.as_usize()).collect();
        assert_eq!(labels, [Some(3), Some(8)]);
        let data = numpy_array(batch.get("data").unwrap(), &path).unwrap();
        assert_eq!((data.dims(), data.elements::<u8>().unwrap()), (&[2, 48][..], &(0..96).collect::<Vec<u8>>()[..]));
    }
}

#[test]
fn numpy_arrays_in_other_orders() {
    let path = golden("arrays.pkl");
    let pickle = read_pickle(&path, &[CONTAINERS, NUMPY].concat()).unwrap();
    let array = |key: &str| numpy_array(pickle.root().get(key).unwrap(), &path);
    let fortran = array("fortran").unwrap();
    assert_eq!((fortran.dims(), fortran.elements::<i32>().unwrap()), (&[2, 3][..], &[0, 1, 2, 3, 4, 5][..]));
    assert_eq!(array("scalar").unwrap().to_f64s(), [1.5]);
    assert!(array("objects").unwrap_err().to_string().contains("Python objects"));
}

#[test]
fn names_off_the_callers_list_are_refused() {
    let error = read_pickle(&golden("cifar.4.pkl"), CONTAINERS).unwrap_err();
    assert!(matches!(error, ArchiveError::Pickle { .. }));
    assert!(error.to_string().contains("`numpy."), "{error}");
}
