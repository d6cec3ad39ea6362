//! Files made by hand, for what no honest program writes.
#![allow(dead_code, reason = "every test binary uses another part")]

use std::io::{Cursor, Write};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

/// A zip archive with stored entries.
pub fn zip(entries: &[(&str, &[u8])]) -> Vec<u8> {
    zip_with(entries, CompressionMethod::Stored)
}

/// A zip archive with entries under that method.
pub fn zip_with(entries: &[(&str, &[u8])], method: CompressionMethod) -> Vec<u8> {
    let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, content) in entries {
        let options = SimpleFileOptions::default().compression_method(method).with_alignment(64);
        writer.start_file(*name, options).unwrap();
        writer.write_all(content).unwrap();
    }
    writer.finish().unwrap().into_inner()
}

/// What `torch.save` would write around a pickle and one storage of floats called "0".
pub fn torch_zip(pickle: &[u8], storage: &[u8]) -> Vec<u8> {
    zip(&[("x/data.pkl", pickle), ("x/data/0", storage), ("x/version", b"3\n")])
}

/// What `torch.save` wrote before 1.6 around a pickle and storages of floats.
pub fn torch_legacy(pickle: &[u8], storages: &[(&str, &[u8])]) -> Vec<u8> {
    let magic = b"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.\x80\x02M\xe9\x03.\x80\x02}.";
    let keys: Vec<u8> = storages.iter().flat_map(|(key, _)| text(key)).collect();
    let mut file = [&magic[..], pickle, b"\x80\x02](", &keys, b"e."].concat();
    for (_, storage) in storages {
        file.extend((storage.len() as u64 / 4).to_le_bytes());
        file.extend_from_slice(storage);
    }
    file
}

/// The instructions that push a text.
pub fn text(text: &str) -> Vec<u8> {
    [b"X", &(text.len() as u32).to_le_bytes()[..], text.as_bytes()].concat()
}

/// The instructions that push an integer.
pub fn integer(value: i64) -> Vec<u8> {
    [b"\x8a\x08", &value.to_le_bytes()[..]].concat()
}

fn tuple(values: &[i64]) -> Vec<u8> {
    let items: Vec<u8> = values.iter().flat_map(|&value| integer(value)).collect();
    [b"(", &items[..], b"t"].concat()
}

/// The instructions that push a tensor of floats over storage "0".
pub fn tensor(offset: i64, dims: &[i64], strides: &[i64]) -> Vec<u8> {
    tensor_of("FloatStorage", "0", offset, dims, strides)
}

/// The instructions that push a tensor over any storage.
pub fn tensor_of(class: &str, key: &str, offset: i64, dims: &[i64], strides: &[i64]) -> Vec<u8> {
    let class = [b"ctorch\n", class.as_bytes(), b"\n"].concat();
    let storage = [b"(", &text("storage")[..], &class, &text(key), &text("cpu"), b"K\x10tQ"].concat();
    let position = [integer(offset), tuple(dims), tuple(strides)].concat();
    [b"ctorch._utils\n_rebuild_tensor_v2\n(", &storage[..], &position, b"\x89NtR"].concat()
}

/// The pickle of a dictionary with those entries, values given as instructions.
pub fn dictionary(entries: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let items: Vec<u8> = entries.iter().flat_map(|(name, value)| [text(name), value.clone()].concat()).collect();
    [b"\x80\x02}(", &items[..], b"u."].concat()
}

/// A safetensors file with that header, taken as it is.
pub fn safetensors(header: &str, elements: &[u8]) -> Vec<u8> {
    [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), elements].concat()
}
