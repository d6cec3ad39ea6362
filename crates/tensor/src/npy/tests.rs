use super::*;
use crate::f16;
use proptest::prelude::*;

fn file(version: u8, header: &str, elements: &[u8]) -> Vec<u8> {
    let mut bytes = b"\x93NUMPY".to_vec();
    bytes.extend([version, 0]);
    match version {
        1 => bytes.extend((header.len() as u16).to_le_bytes()),
        _ => bytes.extend((header.len() as u32).to_le_bytes()),
    }
    bytes.extend(header.as_bytes());
    bytes.extend(elements);
    bytes
}

fn read(bytes: &[u8]) -> Result<HostTensor, NpyError> {
    read_npy_from(bytes, bytes.len() as u64, Path::new("x.npy"))
}

fn header(descr: &str, fortran: &str, shape: &str) -> String {
    format!("{{'descr': '{descr}', 'fortran_order': {fortran}, 'shape': {shape}, }}\n")
}

#[test]
fn reads_every_version_and_either_byte_order() {
    for version in 1..=3 {
        let little = read(&file(version, &header("<i4", "False", "(2,)"), &[1, 0, 0, 0, 2, 1, 0, 0])).unwrap();
        let big = read(&file(version, &header(">i4", "False", "(2,)"), &[0, 0, 0, 1, 0, 0, 1, 2])).unwrap();
        assert_eq!(little.elements::<i32>().unwrap(), [1, 258]);
        assert_eq!(little, big);
    }
}

#[test]
fn fortran_order_becomes_row_major() {
    let tensor = read(&file(1, &header("|u1", "True", "(2, 3)"), &[0, 3, 1, 4, 2, 5])).unwrap();
    assert_eq!((tensor.dims(), tensor.elements::<u8>().unwrap()), (&[2, 3][..], &[0, 1, 2, 3, 4, 5][..]));
}

#[test]
fn bools_are_zero_or_one() {
    let tensor = read(&file(1, &header("|b1", "False", "(3L,)"), &[0, 1, 255])).unwrap();
    assert_eq!(tensor.bytes()[..], [0, 1, 1]);
}

#[test]
fn every_truncation_is_one_sentence() {
    let whole = file(1, &header("<f8", "False", "(2, 2)"), &[7; 32]);
    assert!(read(&whole).is_ok());
    for len in 0..whole.len() {
        let error = read(&whole[..len]).unwrap_err().to_string();
        assert!(error.starts_with("x.npy cannot be read as a NumPy file: "), "{error}");
    }
}

#[test]
fn sizes_are_checked_before_memory_is_allocated() {
    let claims =
        ["(1152921504606846976,)", "(4294967296, 4294967296, 4294967296)", "(99999999999999999999999,)", "(-1,)"];
    for shape in claims {
        assert!(read(&file(1, &header("<f4", "False", shape), &[0; 8])).is_err(), "{shape}");
    }
    assert!(read(&file(2, "", &[])).is_err());
    assert!(read(b"\x93NUMPY\x02\x00\xff\xff\xff\xff").unwrap_err().to_string().contains("4294967295"));
}

#[test]
fn foreign_contents_say_what_to_do() {
    let objects = read(&file(1, &header("|O", "False", "(1,)"), &[0; 8])).unwrap_err().to_string();
    assert!(objects.contains("\"|O\"") && objects.contains("convert it in NumPy"), "{objects}");
    let records = "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }";
    let records = read(&file(1, records, &[0; 4])).unwrap_err().to_string();
    assert!(records.contains("structured"), "{records}");
    assert!(read(b"GIF89a, surely").unwrap_err().to_string().contains("does not begin like"));
}

#[test]
fn bf16_is_refused_with_advice_and_leaves_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let tensor = HostTensor::zeros(Shape::new(DType::BF16, [2]));
    let error = write_npy(&folder.path().join("x.npy"), &tensor).unwrap_err();
    assert!(error.to_string().contains("convert the tensor to f32"), "{error}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

/// The exact bytes that `numpy.save` writes for `numpy.array([[1.5, -2.0]], "<f2")`.
#[test]
fn writes_what_numpy_writes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.npy");
    let elements = [1.5, -2.0].map(f16::from_f64);
    write_npy(&path, &HostTensor::new([1, 2], &elements).unwrap()).unwrap();
    let mut text = "{'descr': '<f2', 'fortran_order': False, 'shape': (1, 2), }".to_string();
    text.push_str(&" ".repeat(117 - text.len()));
    text.push('\n');
    assert_eq!(std::fs::read(&path).unwrap(), file(1, &text, &[0x00, 0x3e, 0x00, 0xc0]));
}

#[test]
fn a_missing_file_is_named() {
    let error = read_npy(Path::new("nowhere/x.npy")).unwrap_err().to_string();
    assert!(error.starts_with("cannot read nowhere/x.npy: "), "{error}");
}

#[test]
fn damaged_npz_files_are_errors() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.npz");
    write_npz(&path, [("a", &HostTensor::scalar(1.0f32)), ("b", &HostTensor::scalar(2u8))]).unwrap();
    let whole = std::fs::read(&path).unwrap();
    for len in 0..whole.len() {
        std::fs::write(&path, &whole[..len]).unwrap();
        read_npz(&path).unwrap_err();
    }
    for position in 0..whole.len() {
        for bit in [0, 7] {
            let mut damaged = whole.clone();
            damaged[position] ^= 1 << bit;
            std::fs::write(&path, &damaged).unwrap();
            // Any outcome but a panic: not every byte of a zip file matters.
            let _ = read_npz(&path);
        }
    }
}

fn any_tensor() -> impl Strategy<Value = HostTensor> {
    let dtypes: Vec<DType> = DType::ALL.into_iter().filter(|&dtype| dtype != DType::BF16).collect();
    (prop::sample::select(dtypes), prop::collection::vec(0usize..4, 0..4)).prop_flat_map(|(dtype, dims)| {
        let shape = Shape::new(dtype, dims);
        let top = if dtype == DType::Bool { 1 } else { u8::MAX };
        prop::collection::vec(0..=top, shape.bytes()).prop_map(move |bytes| {
            HostTensor::from_bytes(shape.clone(), Bytes::new(AlignedBytes::copy_of(&bytes))).unwrap()
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn arrays_survive_the_round_trip(tensors in prop::collection::vec(any_tensor(), 0..4)) {
        let folder = tempfile::tempdir().unwrap();
        let named: Vec<(String, HostTensor)> =
            tensors.into_iter().enumerate().map(|(index, tensor)| (format!("arr/{index}"), tensor)).collect();
        let npz = folder.path().join("x.npz");
        write_npz(&npz, named.iter().map(|(name, tensor)| (name.as_str(), tensor))).unwrap();
        prop_assert_eq!(&read_npz(&npz).unwrap(), &named);
        for (_, tensor) in &named {
            let npy = folder.path().join("x.npy");
            write_npy(&npy, tensor).unwrap();
            prop_assert_eq!(&read_npy(&npy).unwrap(), tensor);
        }
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..64), text in "[{}'():,a-zTF0-9 ]{0,60}") {
        let _ = read(&bytes);
        let _ = read(&file(1, &text, &bytes));
    }
}
