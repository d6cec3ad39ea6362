//! Writing what `torch.load` reads: a zip archive with one pickle and one entry per tensor.
//!
//! The pickle is the same few instructions for every tensor, so they are written as they are; a general pickle writer
//! would be longer and do more than `torch.load(weights_only=True)` accepts.

use super::storages::class_of;
use crate::ArchiveError;
use crate::error::Fault;
use octant_tensor::{HostTensor, write_atomically};
use std::collections::HashSet;
use std::io::Write;
use std::path::Path;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

/// PyTorch aligns storages so that a mapped file can be used as it is.
const ALIGNMENT: u16 = 64;
/// Entries of this size need the zip format's wide fields.
const WIDE: usize = u32::MAX as usize;

/// Writes named tensors as a state dict that `torch.load` reads. The file appears under its name only when it is complete.
pub fn save_torch<'a>(
    path: &Path,
    tensors: impl IntoIterator<Item = (&'a str, &'a HostTensor)>,
) -> Result<(), ArchiveError> {
    let tensors: Vec<(&str, &HostTensor)> = tensors.into_iter().collect();
    write(path, &tensors).map_err(|fault| fault.at("write", path))
}

fn write(path: &Path, tensors: &[(&str, &HostTensor)]) -> Result<(), Fault> {
    let pickle = pickle(tensors)?;
    write_atomically(path, |file| {
        let mut zip = ZipWriter::new(file);
        let byte_order: &[u8] = if cfg!(target_endian = "big") { b"big" } else { b"little" };
        for (name, content) in [("data.pkl", &pickle[..]), ("byteorder", byte_order), ("version", b"3\n")] {
            entry(&mut zip, name, content)?;
        }
        for (index, (_, tensor)) in tensors.iter().enumerate() {
            entry(&mut zip, &format!("data/{index}"), tensor.bytes())?;
        }
        zip.finish().map_err(of_zip)?;
        Ok(())
    })
}

fn entry<W: Write + std::io::Seek>(zip: &mut ZipWriter<W>, name: &str, content: &[u8]) -> Result<(), Fault> {
    let options = SimpleFileOptions::default().compression_method(CompressionMethod::Stored);
    let options = options.with_alignment(ALIGNMENT).large_file(content.len() >= WIDE);
    zip.start_file(format!("archive/{name}"), options).map_err(of_zip)?;
    Ok(zip.write_all(content)?)
}

fn of_zip(error: zip::result::ZipError) -> Fault {
    Fault::Damaged(format!("its zip directory cannot be written: {error}"))
}

/// An `OrderedDict` of tensors in pickle's protocol 2.
fn pickle(tensors: &[(&str, &HostTensor)]) -> Result<Vec<u8>, Fault> {
    const EMPTY_ORDERED_DICT: &[u8] = b"ccollections\nOrderedDict\n)R";
    let mut pickle = b"\x80\x02".to_vec();
    pickle.extend_from_slice(EMPTY_ORDERED_DICT);
    pickle.push(b'(');
    let mut names = HashSet::new();
    for (index, (name, tensor)) in tensors.iter().enumerate() {
        if !names.insert(*name) {
            return Err(Fault::Damaged(format!("a tensor cannot be called {name:?}: the name is taken")));
        }
        let class = class_of(tensor.dtype()).ok_or_else(|| {
            let dtype = tensor.dtype().name();
            Fault::Damaged(format!("PyTorch has no storage for the {dtype} elements of {name:?}; write safetensors"))
        })?;
        let dims: Vec<i64> = tensor.dims().iter().map(|&dim| dim as i64).collect();
        let strides: Vec<i64> = tensor.shape().strides().iter().map(|&stride| stride as i64).collect();
        text(&mut pickle, name);
        pickle.extend_from_slice(b"ctorch._utils\n_rebuild_tensor_v2\n((");
        text(&mut pickle, "storage");
        pickle.extend_from_slice(format!("ctorch\n{class}\n").as_bytes());
        text(&mut pickle, &index.to_string());
        text(&mut pickle, "cpu");
        integer(&mut pickle, tensor.shape().elements() as i64);
        pickle.extend_from_slice(b"tQ");
        integer(&mut pickle, 0);
        tuple(&mut pickle, &dims);
        tuple(&mut pickle, &strides);
        // It needs no gradient, and it has no hooks.
        pickle.push(b'\x89');
        pickle.extend_from_slice(EMPTY_ORDERED_DICT);
        pickle.extend_from_slice(b"tR");
    }
    pickle.extend_from_slice(b"u.");
    Ok(pickle)
}

fn text(pickle: &mut Vec<u8>, text: &str) {
    pickle.push(b'X');
    pickle.extend_from_slice(&(text.len() as u32).to_le_bytes());
    pickle.extend_from_slice(text.as_bytes());
}

fn integer(pickle: &mut Vec<u8>, value: i64) {
    // LONG1 with eight bytes says any of them.
    pickle.extend_from_slice(b"\x8a\x08");
    pickle.extend_from_slice(&value.to_le_bytes());
}

fn tuple(pickle: &mut Vec<u8>, values: &[i64]) {
    pickle.push(b'(');
    values.iter().for_each(|&value| integer(pickle, value));
    pickle.push(b't');
}
