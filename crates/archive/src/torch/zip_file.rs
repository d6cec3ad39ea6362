//! The zip container: `NAME/data.pkl`, `NAME/data/KEY` for every storage, and small text files.
//!
//! Entries are looked up by name and never unpacked to disk, so names such as `../../x` lead nowhere. PyTorch stores
//! entries uncompressed, which is what lets tensors share the mapped file; a compressed entry is refused. Checksums are
//! not compared: PyTorch does not either, can be configured not to write them, and comparing them would read all of the file.

use super::state_dict;
use super::storages::Storages;
use crate::error::Fault;
use crate::pickle::{self, PickleError, PickleLimits};
use crate::source::Source;
use crate::{Archive, ArchiveFormat};
use std::collections::HashMap;
use std::ops::Range;
use zip::{CompressionMethod, ZipArchive};

pub(crate) fn read(source: &Source) -> Result<Archive, Fault> {
    let entries = entries(source)?;
    let root = root_folder(&entries)?;
    let part = |name: &str| entries.get(&format!("{root}{name}")).map(Entry::range).transpose();
    let pickle_range = part("data.pkl")?.ok_or_else(not_torch)?;
    let instructions = source.window(pickle_range)?;
    let (pickle, whole_module) = match pickle::parse(&instructions, &super::accepted(), PickleLimits::default()) {
        Ok((pickle, _)) => (pickle, false),
        // Perhaps a whole network was pickled; if there is none in it, the first complaint counts.
        Err(error @ PickleError::Forbidden { .. }) => {
            let kept = pickle::parse_with_foreign(&instructions, &super::accepted(), PickleLimits::default());
            match kept {
                Ok((pickle, _)) if super::modules::found(pickle.root()).is_some() => (pickle, true),
                _ => return Err(error.into()),
            }
        }
        Err(error) => return Err(error.into()),
    };
    let big_endian = match part("byteorder")? {
        Some(range) => source.window(range)?[..] == *b"big",
        None => false,
    };
    let folder = format!("{root}data/");
    let mut positions = HashMap::new();
    for (name, entry) in &entries {
        if let Some(key) = name.strip_prefix(&folder) {
            positions.insert(key.to_string(), entry.range()?);
        }
    }
    let mut storages = Storages::new(source, positions, big_endian);
    match whole_module {
        true => super::modules::read(pickle.root(), &mut storages),
        false => state_dict::read(ArchiveFormat::TorchZip, pickle.root(), &mut storages),
    }
}

fn not_torch() -> Fault {
    Fault::damaged("it is a zip archive but not one that torch.save wrote (there is no data.pkl in it)")
}

/// Where an entry lies in the file.
struct Entry {
    range: Range<usize>,
    compressed: bool,
}

impl Entry {
    fn range(&self) -> Result<Range<usize>, Fault> {
        if self.compressed {
            return Err(Fault::damaged(
                "its parts are compressed, which PyTorch never does; save it again with torch.save",
            ));
        }
        Ok(self.range.clone())
    }
}

fn entries(source: &Source) -> Result<HashMap<String, Entry>, Fault> {
    let damaged = |error: zip::result::ZipError| {
        Fault::Damaged(format!("its zip directory is damaged or truncated ({error}); copy or download it again"))
    };
    let mut archive = ZipArchive::new(source.stream()?).map_err(damaged)?;
    let mut entries = HashMap::new();
    for index in 0..archive.len() {
        let entry = archive.by_index_raw(index).map_err(damaged)?;
        let name = entry.name().map_err(damaged)?.into_owned();
        let start = entry.data_start().and_then(|start| usize::try_from(start).ok());
        let len = usize::try_from(entry.compressed_size()).ok();
        let range = start.zip(len).and_then(|(start, len)| Some(start..start.checked_add(len)?));
        let range = range.filter(|range| range.end <= source.len());
        let range =
            range.ok_or_else(|| Fault::Damaged(format!("its entry {name:?} reaches beyond the end of the file")))?;
        let compressed = entry.compression() != CompressionMethod::Stored || entry.encrypted();
        entries.insert(name, Entry { range, compressed });
    }
    Ok(entries)
}

/// The folder that everything lies in: it is named after the file that was saved, whatever the file is called now.
fn root_folder(entries: &HashMap<String, Entry>) -> Result<String, Fault> {
    let mut roots = entries.keys().filter_map(|name| name.strip_suffix("data.pkl"));
    let mut roots_of_torch = roots.by_ref().filter(|root| root.is_empty() || root.ends_with('/'));
    let root = roots_of_torch.next().ok_or_else(not_torch)?;
    if roots_of_torch.next().is_some() {
        return Err(Fault::damaged("it has more than one data.pkl"));
    }
    if entries.contains_key(&format!("{root}constants.pkl")) {
        return Err(Fault::damaged(
            "it is a TorchScript program; load it in Python and save its weights with torch.save(model.state_dict(), …)",
        ));
    }
    Ok(root.to_string())
}
