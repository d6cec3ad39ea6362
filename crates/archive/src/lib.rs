//! Files of named tensors: safetensors and PyTorch's zip files (read and written), PyTorch's legacy files (read).
//!
//! Weights come from untrusted sources, so every reader treats its file as hostile: nothing in a file is ever executed, every
//! size is compared with the bytes that are present before memory is allocated, and every error is one
//! sentence. Files are memory-mapped and tensors share the mapped bytes wherever they lie in row-major order, so
//! opening a file costs little more memory than the tensors that are read.
//!
//! - [`Archive::open`] recognizes the format by content and returns names, tensors and metadata.
//! - [`save_safetensors`] and [`save_torch`] write.
//! - [`Matching`] compares an archive with the tensors that a model needs.
//! - [`pickle`] is the safe pickle reader underneath, also for NumPy pickles such as CIFAR's batches (with
//!   [`read_pickle`] and [`numpy_array`]).
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use octant_archive::{Archive, Fit, Matching, save_safetensors};
//! use octant_tensor::{DType, HostTensor, Shape};
//!
//! # let folder = tempfile::tempdir()?;
//! let path = folder.path().join("weights.safetensors");
//! let bias = HostTensor::new([2], &[0.5f32, -0.5])?;
//! save_safetensors(&path, [("fc.bias", &bias)], &[("model".into(), "tiny".into())])?;
//!
//! let archive = Archive::open(&path)?;
//! assert_eq!(archive.get("fc.bias"), Some(&bias));
//! let wanted = [("fc.bias".to_string(), Shape::new(DType::F32, [2]))];
//! Matching::between(&archive, &wanted, &["fc"]).require(Fit::Exact)?;
//! # Ok(())
//! # }
//! ```
//!
//! Start reading at [`Archive`].

mod error;
mod matching;
mod numpy;
pub mod pickle;
mod safetensors;
mod sharded;
mod source;
mod torch;

pub use error::ArchiveError;
pub use matching::{Fit, Matching, OtherShape};
pub use numpy::numpy_array;
pub use safetensors::save_safetensors;
pub use sharded::{Part, index_name, index_text, save_shard, shard_name};
pub use source::Mapping;
pub use torch::save_torch;

use error::Fault;
use octant_tensor::{Bytes, HostTensor};
use pickle::{Globals, Pickle, PickleLimits};
use source::Source;
use std::path::Path;

/// The kinds of files that hold an archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArchiveFormat {
    /// A JSON header and raw elements.
    Safetensors,
    /// What `torch.save` writes since PyTorch 1.6.
    TorchZip,
    /// What `torch.save` wrote before, and still does on request.
    TorchLegacy,
}

/// Named tensors in the order of their file, and the file's metadata.
#[derive(Debug, Clone)]
pub struct Archive {
    /// The kind of file this came from.
    pub format: ArchiveFormat,
    /// The tensors; names are unique.
    pub tensors: Vec<(String, HostTensor)>,
    /// Everything that is not a tensor, as short text: the metadata of a safetensors file, the epoch of a checkpoint.
    pub metadata: Vec<(String, String)>,
    /// The dictionary inside a checkpoint that the tensors were taken from, such as `state_dict`; empty when the file
    /// is the dictionary itself.
    pub found_under: String,
    /// The common prefix that was removed from all names: `module.` of DataParallel, `_orig_mod.` of compiled models.
    pub stripped_prefix: String,
    /// The file that the tensors share.
    pub mapping: Mapping,
}

impl Archive {
    /// Opens a file of tensors, the format is detected from the content. Where there is no such file but an index of several
    /// beside it, `NAME.index.json`, or that index is named, the archive is all of them.
    pub fn open(path: &Path) -> Result<Archive, ArchiveError> {
        if let Some(index) = sharded::index_of(path) {
            return sharded::read(&index).map_err(|fault| fault.at("read", &index));
        }
        Source::map(path).and_then(Archive::read).map_err(|fault| fault.at("read", path))
    }

    /// Opens a file of tensors that lies in memory; `path` is for error messages only.
    pub fn from_bytes(bytes: Bytes, path: &Path) -> Result<Archive, ArchiveError> {
        Archive::read(Source::in_memory(bytes)).map_err(|fault| fault.at("read", path))
    }

    fn read(source: Source) -> Result<Archive, Fault> {
        let archive = match &source.bytes()[..] {
            [] => Err(Fault::damaged("it is empty; copy or download it again")),
            [b'P', b'K', 3, 4, ..] => torch::read_zip(&source),
            start if torch::is_legacy(start) => torch::read_legacy(&source),
            start if safetensors::is_safetensors(start) => safetensors::read(&source),
            start => Err(Fault::Damaged(format!("{}; it can be a safetensors or a PyTorch file", looks_like(start)))),
        }?;
        Archive { mapping: source.mapping(), ..archive }.with_unique_names()
    }

    fn with_unique_names(self) -> Result<Archive, Fault> {
        let mut names: Vec<&str> = self.tensors.iter().map(|(name, _)| name.as_str()).collect();
        names.sort_unstable();
        match names.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => Err(Fault::Damaged(format!("the tensor {:?} is in it twice", pair[0]))),
            None => Ok(self),
        }
    }

    /// Returns the pages of a tensor to the system, for callers that have copied it: a page of a mapped file
    /// counts as memory of this process once it was read. Reading it again reads the file again.
    pub fn release(&self, tensor: &HostTensor) {
        self.mapping.release(tensor.bytes());
    }

    /// The tensor of that name.
    pub fn get(&self, name: &str) -> Option<&HostTensor> {
        self.tensors.iter().find(|(known, _)| known == name).map(|(_, tensor)| tensor)
    }
}

/// Tensors in memory, as a safetensors file without metadata would hold them.
impl From<Vec<(String, HostTensor)>> for Archive {
    fn from(tensors: Vec<(String, HostTensor)>) -> Archive {
        Archive {
            format: ArchiveFormat::Safetensors,
            tensors,
            metadata: Vec::new(),
            found_under: String::new(),
            stripped_prefix: String::new(),
            mapping: Mapping::default(),
        }
    }
}

/// Describes a file without tensors: users often save the error page instead of the weights.
fn looks_like(start: &[u8]) -> &'static str {
    match start {
        [b'<', ..] => "it is a web page and not a file of weights",
        [b'v', b'e', b'r', b's', b'i', b'o', b'n', b' ', ..] => {
            "it is a Git LFS pointer, so the file itself was not fetched"
        }
        [0x1f, 0x8b, ..] => "it is compressed with gzip; unpack it first",
        [0x89, b'H', b'D', b'F', ..] => "it is an HDF5 file",
        _ if start.get(257..262) == Some(b"ustar") => "it is a tar archive; unpack it first",
        [0x80, ..] => "it is a Python pickle but not one that torch.save wrote",
        _ => "its format is unknown",
    }
}

/// Reads a whole pickle file, accepting only the given names, for example [`pickle::globals::NUMPY`].
pub fn read_pickle(path: &Path, globals: &[Globals]) -> Result<Pickle, ArchiveError> {
    let read = || -> Result<Pickle, Fault> {
        let source = Source::map(path)?;
        Ok(pickle::parse(source.bytes(), globals, PickleLimits::default())?.0)
    };
    read().map_err(|fault| fault.at("read", path))
}
