//! The container from before PyTorch 1.6: five pickles one after the other (a magic number, a version, facts about the
//! machine, the object, the list of storage keys), then every storage as a count and its elements, little-endian.

use super::state_dict;
use super::storages::{Storages, Stored};
use crate::error::Fault;
use crate::pickle::{self, Pickle, PickleLimits};
use crate::source::Source;
use crate::{Archive, ArchiveFormat};
use std::collections::HashMap;

/// The pickle of PyTorch's magic number 0x1950a86a20f9469cfc6c, after the mark of its protocol.
const MAGIC: &[u8] = b"\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.";
const VERSION: i64 = 1001;

/// True for files that begin with the magic number.
pub(crate) fn is_legacy(start: &[u8]) -> bool {
    match start {
        [0x80, _, rest @ ..] => rest.starts_with(MAGIC),
        _ => false,
    }
}

pub(crate) fn read(source: &Source) -> Result<Archive, Fault> {
    let mut position = 2 + MAGIC.len();
    let mut next_pickle = || -> Result<Pickle, Fault> {
        let rest = source.window(position..source.len())?;
        let (pickle, len) = pickle::parse(&rest, &super::accepted(), PickleLimits::default())?;
        position += len;
        Ok(pickle)
    };
    let version = next_pickle()?.root().as_int();
    if version != Some(VERSION) {
        return Err(Fault::damaged("its version of PyTorch's legacy format is unknown"));
    }
    let _machine = next_pickle()?;
    let object = next_pickle()?;
    let keys = next_pickle()?;
    let mut storages = locate_storages(source, position, &object, &keys)?;
    state_dict::read(ArchiveFormat::TorchLegacy, object.root(), &mut storages)
}

/// A count says how many elements follow; how long an element is stands only in the object that refers to the storage.
fn locate_storages<'a>(
    source: &'a Source,
    mut position: usize,
    object: &Pickle,
    keys: &Pickle,
) -> Result<Storages<'a>, Fault> {
    let mut element_sizes = HashMap::new();
    for stored in object.values().filter_map(|value| value.as_persistent()) {
        let stored = Stored::from_id(stored)?;
        element_sizes.insert(stored.key, stored.element.size());
    }
    let truncated = || Fault::damaged("it is truncated; copy or download it again");
    let keys = keys.root().items().ok_or_else(|| Fault::damaged("its list of storages is missing"))?;
    let mut positions = HashMap::new();
    for key in keys {
        let key = key.as_str().ok_or_else(|| Fault::damaged("the key of a storage is not text"))?;
        let size =
            *element_sizes.get(key).ok_or_else(|| Fault::Damaged(format!("nothing refers to its storage {key:?}")))?;
        let mut count = [0; 8];
        let start = position + count.len();
        if start > source.len() {
            return Err(truncated());
        }
        source.read(position, &mut count)?;
        let len = usize::try_from(u64::from_le_bytes(count)).ok().and_then(|count| count.checked_mul(size));
        let end =
            len.and_then(|len| start.checked_add(len)).filter(|&end| end <= source.len()).ok_or_else(truncated)?;
        positions.insert(key.to_string(), start..end);
        position = end;
    }
    Ok(Storages::new(source, positions, false))
}
