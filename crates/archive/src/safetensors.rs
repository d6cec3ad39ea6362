//! The safetensors format: the length of a JSON header, the header, and the raw elements, little-endian.
//!
//! Written here rather than taken from the `safetensors` crate because the format is tiny, and because this way tensors
//! share the mapped file, metadata keeps its order, names that occur twice are noticed, and every mistake in a file has
//! a sentence of its own.

mod header;
mod write;

pub use write::save_safetensors;

use crate::Archive;
use crate::error::Fault;
use crate::source::Source;
use header::{Entry, Header};
use octant_tensor::{AlignedBytes, Bytes, DType, HostTensor, Shape, swap_byte_order};

/// The longest header that the format allows.
const LONGEST_HEADER: usize = 100_000_000;
/// The length of the header comes first.
const PREFIX: usize = 8;

pub(crate) fn is_safetensors(start: &[u8]) -> bool {
    start.get(PREFIX) == Some(&b'{')
}

pub(crate) fn read(source: &Source) -> Result<Archive, Fault> {
    let bytes = source.bytes();
    let truncated = || Fault::damaged("it is truncated; copy or download it again");
    let len = u64::from_le_bytes(*bytes.first_chunk::<PREFIX>().ok_or_else(truncated)?);
    if len > LONGEST_HEADER as u64 {
        return Err(Fault::Damaged(format!("its header claims {len} bytes; at most {LONGEST_HEADER} are allowed")));
    }
    let start = PREFIX + len as usize;
    let text = bytes.get(PREFIX..start).ok_or_else(truncated)?;
    let header: Header =
        serde_json::from_slice(text).map_err(|error| Fault::Damaged(format!("its header: {error}")))?;
    check_coverage(&header.tensors, bytes.len() - start)?;
    let mut tensors = Vec::with_capacity(header.tensors.len());
    for (name, entry) in header.tensors {
        let tensor = tensor(source, start, &entry).map_err(|fault| fault.of_tensor(&name))?;
        tensors.push((name, tensor));
    }
    Ok(Archive { metadata: header.metadata, ..Archive::from(tensors) })
}

/// The tensors must fill the rest of the file exactly: no byte twice, none unused. A file that hides other data between
/// its tensors, or shows the same data under many names, is not a safetensors file.
fn check_coverage(tensors: &[(String, Entry)], available: usize) -> Result<(), Fault> {
    let mut in_order: Vec<&(String, Entry)> = tensors.iter().collect();
    in_order.sort_by_key(|(_, entry)| entry.data_offsets);
    let mut end = 0;
    for (name, entry) in in_order {
        let [from, to] = entry.data_offsets;
        let refuse = |problem: String| Err(Fault::Damaged(format!("tensor {name:?} {problem}")));
        if from > to {
            return refuse(format!("ends before it begins (bytes {from} to {to})"));
        }
        if to > available {
            return refuse(format!("reaches byte {to} of {available}: the file is truncated or damaged"));
        }
        if from < end {
            return refuse(format!("overlaps another one (it begins at byte {from}, before {end})"));
        }
        if from > end {
            return refuse(format!("leaves a hole before it (bytes {end} to {from})"));
        }
        end = to;
    }
    if end != available {
        return Err(Fault::Damaged(format!("{} bytes after its last tensor belong to none", available - end)));
    }
    Ok(())
}

fn tensor(source: &Source, start: usize, entry: &Entry) -> Result<HostTensor, Fault> {
    let dtype = dtype_of(&entry.dtype).ok_or_else(|| {
        Fault::Damaged(format!(
            "elements of type {:?} are not supported; convert them, for example to F32",
            entry.dtype
        ))
    })?;
    let shape = Shape::new(dtype, entry.shape.0.clone());
    let [from, to] = entry.data_offsets;
    if shape.checked_bytes() != Some(to - from) {
        return Err(Fault::Damaged(format!("{shape} does not take the {} bytes it was given", to - from)));
    }
    let bytes = source.aligned(start + from..start + to, dtype.size())?;
    Ok(HostTensor::from_bytes(shape, in_file_order(bytes, dtype))?.with_normalized_bools())
}

/// Swaps between this machine's byte order and the file's, which is little-endian; nothing to do on most machines.
fn in_file_order(bytes: Bytes, dtype: DType) -> Bytes {
    if cfg!(target_endian = "big") && dtype.size() > 1 {
        let mut swapped = AlignedBytes::copy_of(&bytes);
        swap_byte_order(&mut swapped, dtype.size());
        return Bytes::new(swapped);
    }
    bytes
}

/// The format's name of every element type: ours in capitals.
fn name_of(dtype: DType) -> String {
    dtype.name().to_uppercase()
}

fn dtype_of(name: &str) -> Option<DType> {
    DType::ALL.into_iter().find(|&dtype| name_of(dtype) == name)
}
