//! The file underneath: mapped for what is shared, read for what is copied.

use crate::error::Fault;
use memmap2::Mmap;
use octant_tensor::{AlignedBytes, Bytes};
use std::fmt;
use std::fs::File;
use std::io::{BufReader, Cursor, Read, Seek};
use std::ops::{Deref, Range};
use std::path::Path;
use std::sync::Arc;

pub(crate) trait ReadAndSeek: Read + Seek {}
impl<T: Read + Seek> ReadAndSeek for T {}

pub(crate) struct Source {
    bytes: Bytes,
    file: Option<File>,
    mapping: Mapping,
}

/// The mapped file that tensors share, if there is one.
#[derive(Clone, Default)]
pub struct Mapping(Option<Arc<Mmap>>);

impl fmt::Debug for Mapping {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(if self.0.is_some() { "a mapped file" } else { "no file" })
    }
}

impl Mapping {
    /// Returns pages of the file to the system; later reads load them from the file again.
    pub(crate) fn release(&self, bytes: &[u8]) {
        #[cfg(unix)]
        if let Some(map) = &self.0 {
            let start = (bytes.as_ptr() as usize).wrapping_sub(map.as_ptr() as usize);
            if start < map.len() && bytes.len() <= map.len() - start {
                // SAFETY: this is a mapping of a file that is only read, so a dropped page comes back with the same
                // content. Nothing depends on the advice being taken.
                let _ = unsafe { map.unchecked_advise_range(memmap2::UncheckedAdvice::DontNeed, start, bytes.len()) };
            }
        }
    }
}

/// The mapping as an owner of bytes.
struct Mapped(Arc<Mmap>);

impl Deref for Mapped {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl Source {
    pub fn map(path: &Path) -> Result<Source, Fault> {
        let file = File::open(path)?;
        if file.metadata()?.is_dir() {
            return Err(Fault::damaged("it is a folder; name a file in it"));
        }
        if file.metadata()?.len() == 0 {
            return Ok(Source::in_memory(Bytes::new(Vec::new())));
        }
        // SAFETY: the mapping is private and only read. Like every program that maps files, this one relies on no other process
        // shortening or rewriting the file while it is mapped; Octant itself replaces files only by renaming new ones over them.
        let map = unsafe { Mmap::map(&file)? };
        let map = Arc::new(map);
        Ok(Source { bytes: Bytes::new(Mapped(map.clone())), file: Some(file), mapping: Mapping(Some(map)) })
    }

    pub fn in_memory(bytes: Bytes) -> Source {
        Source { bytes, file: None, mapping: Mapping::default() }
    }

    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    pub fn mapping(&self) -> Mapping {
        self.mapping.clone()
    }

    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// A part of the file without copying it.
    pub fn window(&self, range: Range<usize>) -> Result<Bytes, Fault> {
        self.bytes.slice(range).ok_or_else(|| Fault::damaged("it is truncated; copy or download it again"))
    }

    /// An aligned copy of a part of the file.
    pub fn copy(&self, range: Range<usize>) -> Result<AlignedBytes, Fault> {
        let mut copy = AlignedBytes::zeroed(self.window(range.clone())?.len());
        self.read(range.start, &mut copy)?;
        Ok(copy)
    }

    /// Reads through the file, not through the mapping: pages touched in a mapping count as this process's memory next
    /// to the copy, and loading would peak at twice the file.
    pub fn read(&self, start: usize, target: &mut [u8]) -> Result<(), Fault> {
        #[cfg(unix)]
        if let Some(file) = &self.file {
            return Ok(std::os::unix::fs::FileExt::read_exact_at(file, target, start as u64)?);
        }
        target.copy_from_slice(&self.window(start..start + target.len())?);
        Ok(())
    }

    /// The file as a stream, for what is scattered over it: one byte read through a mapping can bring in two megabytes.
    pub fn stream(&self) -> Result<Box<dyn ReadAndSeek + '_>, Fault> {
        match &self.file {
            Some(file) => Ok(Box::new(BufReader::with_capacity(1 << 10, file.try_clone()?))),
            None => Ok(Box::new(Cursor::new(&self.bytes[..]))),
        }
    }

    /// A part of the file for elements of `size` bytes: shared when it happens to be aligned for them, else copied.
    pub fn aligned(&self, range: Range<usize>, size: usize) -> Result<Bytes, Fault> {
        let window = self.window(range.clone())?;
        if window.as_ptr().align_offset(size) == 0 { Ok(window) } else { Ok(Bytes::new(self.copy(range)?)) }
    }
}
