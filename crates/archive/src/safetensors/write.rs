//! Writing safetensors files.

use super::{LONGEST_HEADER, PREFIX, in_file_order, name_of};
use crate::ArchiveError;
use crate::error::Fault;
use octant_tensor::{HostTensor, write_atomically};
use std::collections::HashSet;
use std::io::Write;
use std::path::Path;

/// Elements start at a multiple of this, so that readers can use the mapped file with any vector instruction.
const ALIGNMENT: usize = 64;

/// Writes named tensors and metadata to a file that appears under its name only when it is complete.
///
/// The header lists the tensors in the order given. Their elements lie with the widest types first, as in files of the
/// format's own library: without holes, that is the only way to keep all of them aligned.
pub fn save_safetensors<'a>(
    path: &Path,
    tensors: impl IntoIterator<Item = (&'a str, &'a HostTensor)>,
    metadata: &[(String, String)],
) -> Result<(), ArchiveError> {
    let tensors: Vec<(&str, &HostTensor)> = tensors.into_iter().collect();
    write(path, &tensors, metadata).map_err(|fault| fault.at("write", path))
}

fn write(path: &Path, tensors: &[(&str, &HostTensor)], metadata: &[(String, String)]) -> Result<(), Fault> {
    let mut by_width: Vec<usize> = (0..tensors.len()).collect();
    by_width.sort_by_key(|&index| std::cmp::Reverse(tensors[index].1.dtype().size()));
    let header = header(tensors, metadata, &by_width)?;
    write_atomically(path, |file| {
        file.write_all(&(header.len() as u64).to_le_bytes())?;
        file.write_all(&header)?;
        for index in by_width {
            let tensor = tensors[index].1;
            file.write_all(&in_file_order(tensor.bytes().clone(), tensor.dtype()))?;
        }
        Ok(())
    })
}

fn header(tensors: &[(&str, &HostTensor)], metadata: &[(String, String)], order: &[usize]) -> Result<Vec<u8>, Fault> {
    let mut offsets = vec![0..0; tensors.len()];
    let mut end = 0;
    for &index in order {
        let start = end;
        end += tensors[index].1.bytes().len();
        offsets[index] = start..end;
    }
    let mut entries = Vec::new();
    if !metadata.is_empty() {
        let pairs: Vec<String> = metadata.iter().map(|(key, text)| format!("{}:{}", json(key), json(text))).collect();
        entries.push(format!("\"__metadata__\":{{{}}}", pairs.join(",")));
    }
    let mut names = HashSet::new();
    for ((name, tensor), range) in tensors.iter().zip(offsets) {
        if *name == "__metadata__" || !names.insert(*name) {
            return Err(Fault::Damaged(format!("a tensor cannot be called {name:?}: the name is taken")));
        }
        let (dtype, dims) = (name_of(tensor.dtype()), tensor.dims());
        let (name, start, end) = (json(name), range.start, range.end);
        entries.push(format!(r#"{name}:{{"dtype":"{dtype}","shape":{dims:?},"data_offsets":[{start},{end}]}}"#));
    }
    let mut header = format!("{{{}}}", entries.join(",")).into_bytes();
    header.resize((PREFIX + header.len()).next_multiple_of(ALIGNMENT) - PREFIX, b' ');
    if header.len() > LONGEST_HEADER {
        return Err(Fault::Damaged(format!("the names and metadata take more than {LONGEST_HEADER} bytes")));
    }
    Ok(header)
}

fn json(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
