//! Writing what `torch.load` reads: a zip archive with one pickle and one entry per tensor.
//!
//! The pickle is the same few instructions for every tensor, so they are written as they are; a general pickle writer
//! would be longer and do more than `torch.load(weights_only=True)` accepts.

use super::storages::class_of;
use crate::ArchiveError;
use crate::error::Fault;
use crate::pickle::opcode as op;
use octant_tensor::{HostTensor, Shape, write_atomically};
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
    let mut pickle = vec![op::PROTO, 2];
    empty_ordered_dict(&mut pickle);
    pickle.push(op::MARK);
    let mut names = HashSet::new();
    for (index, (name, tensor)) in tensors.iter().enumerate() {
        if !names.insert(*name) {
            return Err(Fault::Damaged(format!("a tensor cannot be called {name:?}: the name is taken")));
        }
        let class = class_of(tensor.dtype()).ok_or_else(|| {
            let dtype = tensor.dtype().name();
            Fault::Damaged(format!("PyTorch has no storage for the {dtype} elements of {name:?}; write safetensors"))
        })?;
        text(&mut pickle, name);
        rebuilt_tensor(&mut pickle, index, class, tensor.shape());
    }
    pickle.extend([op::SETITEMS, op::STOP]);
    Ok(pickle)
}

/// `_rebuild_tensor_v2(storage, offset, shape, strides, requires_grad, backward_hooks)`.
fn rebuilt_tensor(pickle: &mut Vec<u8>, index: usize, class: &str, shape: &Shape) {
    global(pickle, "torch._utils", "_rebuild_tensor_v2");
    pickle.push(op::MARK);
    storage(pickle, index, class, shape.elements());
    integer(pickle, 0);
    tuple(pickle, shape.dims());
    tuple(pickle, &shape.strides());
    pickle.push(op::NEWFALSE);
    empty_ordered_dict(pickle);
    pickle.extend([op::TUPLE, op::REDUCE]);
}

/// The persistent id of a storage: `('storage', class, key, location, elements)`.
fn storage(pickle: &mut Vec<u8>, index: usize, class: &str, elements: usize) {
    pickle.push(op::MARK);
    text(pickle, "storage");
    global(pickle, "torch", class);
    text(pickle, &index.to_string());
    text(pickle, "cpu");
    integer(pickle, elements);
    pickle.extend([op::TUPLE, op::BINPERSID]);
}

fn empty_ordered_dict(pickle: &mut Vec<u8>) {
    global(pickle, "collections", "OrderedDict");
    pickle.extend([op::EMPTY_TUPLE, op::REDUCE]);
}

fn global(pickle: &mut Vec<u8>, module: &str, name: &str) {
    pickle.push(op::GLOBAL);
    pickle.extend_from_slice(format!("{module}\n{name}\n").as_bytes());
}

fn text(pickle: &mut Vec<u8>, text: &str) {
    pickle.push(op::BINUNICODE);
    pickle.extend_from_slice(&(text.len() as u32).to_le_bytes());
    pickle.extend_from_slice(text.as_bytes());
}

fn integer(pickle: &mut Vec<u8>, value: usize) {
    let bytes = (value as i64).to_le_bytes();
    pickle.extend([op::LONG1, bytes.len() as u8]);
    pickle.extend_from_slice(&bytes);
}

fn tuple(pickle: &mut Vec<u8>, values: &[usize]) {
    pickle.push(op::MARK);
    values.iter().for_each(|&value| integer(pickle, value));
    pickle.push(op::TUPLE);
}
