//! What every fuzzing target does with its bytes: read them, and use whatever could be read. Any outcome is fine except
//! a panic, an endless loop, or memory out of proportion.

use octant_archive::pickle::globals::{CONTAINERS, NUMPY, TORCH};
use octant_archive::pickle::{self, PickleLimits, PickleValue};
use octant_archive::{Archive, numpy_array};
use octant_tensor::{AlignedBytes, Bytes, read_npy_from};
use std::path::Path;

const NO_FILE: &str = "fuzz";

fn aligned(data: &[u8]) -> Bytes {
    Bytes::new(AlignedBytes::copy_of(data))
}

/// Any bytes as a pickle; every value of the result is looked at.
pub fn pickle(data: &[u8]) {
    let globals = [CONTAINERS, NUMPY, TORCH].concat();
    let limits = PickleLimits { steps: 1 << 20, values: 1 << 18 };
    if let Ok((pickle, len)) = pickle::parse(&aligned(data), &globals, limits) {
        assert!(len <= data.len());
        pickle.values().for_each(look_at);
        look_at(pickle.root());
    }
}

fn look_at(value: PickleValue) {
    assert!(value.to_string().len() < 2_000);
    let _ = (value.as_bool(), value.as_int(), value.as_f64(), value.as_str(), value.get("state_dict"));
    let _ = (value.as_object().map(|object| object.args), value.as_persistent(), value.item(1));
    let _ = numpy_array(value, Path::new(NO_FILE));
}

/// Any bytes as a file of tensors, in the format they seem to have.
pub fn archive(data: &[u8]) {
    if let Ok(archive) = Archive::from_bytes(aligned(data), Path::new(NO_FILE)) {
        for (_, tensor) in &archive.tensors {
            assert_eq!(tensor.bytes().len(), tensor.shape().bytes());
            let _ = (tensor.bytes().first(), tensor.bytes().last(), tensor.shape().strides());
        }
    }
}

/// Any bytes as the pickle of a zip file with one storage, past the zip directory that a fuzzer hardly finds.
pub fn torch(data: &[u8]) {
    archive(data);
    archive(&zip_around(data));
}

/// Any bytes as a safetensors header, with the length that belongs to it, and as a whole file.
pub fn safetensors(data: &[u8]) {
    archive(data);
    let mut file = (data.len() as u64).to_le_bytes().to_vec();
    file.extend(data);
    file.extend([1; 64]);
    archive(&file);
}

/// Any bytes as a NumPy file.
pub fn npy(data: &[u8]) {
    let _ = read_npy_from(data, data.len() as u64, Path::new(NO_FILE));
}

/// A zip archive with `data` as `x/data.pkl` and a storage "0" of 64 bytes, both stored.
pub fn zip_around(data: &[u8]) -> Vec<u8> {
    let (mut file, mut directory) = (Vec::new(), Vec::new());
    let entries: [(&str, &[u8]); 2] = [("x/data.pkl", data), ("x/data/0", &[7; 64])];
    for (name, content) in entries {
        let offset = file.len() as u32;
        let (name_len, len) = ((name.len() as u16).to_le_bytes(), (content.len() as u32).to_le_bytes());
        // Version, flags, method, time, date, checksum (which is not compared); sizes and lengths.
        let facts = [&[20, 0, 0, 0, 0, 0, 0, 0, 0x21, 0, 0, 0, 0, 0][..], &len, &len, &name_len, &[0, 0]].concat();
        file.extend([b"PK\x03\x04", &facts[..], name.as_bytes(), content].concat());
        let position = [&[0; 10][..], &offset.to_le_bytes()].concat();
        directory.extend([b"PK\x01\x02\x14\x00", &facts[..], &position, name.as_bytes()].concat());
    }
    let (start, len) = ((file.len() as u32).to_le_bytes(), (directory.len() as u32).to_le_bytes());
    let end = [b"PK\x05\x06\x00\x00\x00\x00\x02\x00\x02\x00", &len[..], &start, &[0, 0]].concat();
    [file, directory, end].concat()
}
