//! Packed data sets: decoded images in one file that is mapped into memory, so that an epoch costs no decoding.
//!
//! Layout, little-endian: eight bytes of magic, the offset of the index; the records (element type, size, target,
//! pixels); the index (number of records, their positions, the class names, the path of every sample's file). Images are
//! kept as their files have them and become what the reader wants, exactly as if they were decoded from the files.

mod record;

use crate::decode::{DecodeOptions, converted};
use crate::{DataError, Dataset, Sample};
use memmap2::Mmap;
use record::{Cursor, box_count, read_record, record_of};
use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const MAGIC: &[u8; 8] = b"OCTPACK2";
/// Files of the first form have no paths.
const MAGIC_WITHOUT_PATHS: &[u8; 8] = b"OCTPACK1";

/// Writes every sample of a data set, decoded, into one file. A sample that cannot be read is an error.
pub fn pack(dataset: &dyn Dataset, path: &Path) -> Result<(), DataError> {
    // Written under another name first: half a file must never be mistaken for a whole one.
    let unfinished = path.with_extension("unfinished");
    write_packed(dataset, &unfinished).inspect_err(|_| drop(std::fs::remove_file(&unfinished)))?;
    std::fs::rename(&unfinished, path).map_err(|error| DataError::write(path, error))
}

/// The data set packed into a file of `folder`, which is written the first time and found again as long as the samples
/// are the same files of the same sizes and ages, with the same labels.
pub fn pack_once(dataset: &dyn Dataset, folder: &Path, name: &str) -> Result<Packed, DataError> {
    let mut identity = DefaultHasher::new();
    dataset.class_names().hash(&mut identity);
    for index in 0..dataset.len() {
        let position = dataset.location(index);
        let facts = std::fs::metadata(&position).ok();
        facts.map(|facts| (facts.len(), facts.modified().ok())).hash(&mut identity);
        position.hash(&mut identity);
        dataset.label_hash(index).hash(&mut identity);
    }
    std::fs::create_dir_all(folder).map_err(|error| DataError::write(folder, error))?;
    let path = folder.join(format!("{name}-{:016x}.pack", identity.finish()));
    if !path.exists() {
        pack(dataset, &path)?;
    }
    Packed::open(&path)
}

fn write_packed(dataset: &dyn Dataset, path: &Path) -> Result<(), DataError> {
    let problem = |error| DataError::write(path, error);
    let mut file = BufWriter::new(File::create(path).map_err(problem)?);
    file.write_all(MAGIC).and_then(|()| file.write_all(&[0; 8])).map_err(problem)?;
    let mut positions = Vec::with_capacity(dataset.len());
    let mut position = 16u64;
    for index in 0..dataset.len() {
        let record = record_of(&dataset.get(index)?);
        file.write_all(&record).map_err(problem)?;
        positions.push(position);
        position += record.len() as u64;
    }
    let mut index = (positions.len() as u64).to_le_bytes().to_vec();
    positions.iter().for_each(|position| index.extend(position.to_le_bytes()));
    put_texts(&mut index, dataset.class_names());
    put_texts(&mut index, &paths(dataset));
    file.write_all(&index).map_err(problem)?;
    file.seek(SeekFrom::Start(8)).map_err(problem)?;
    file.write_all(&position.to_le_bytes()).and_then(|()| file.flush()).map_err(problem)
}

fn put_texts(index: &mut Vec<u8>, texts: &[String]) {
    index.extend((texts.len() as u64).to_le_bytes());
    for text in texts {
        index.extend((text.len() as u32).to_le_bytes());
        index.extend(text.as_bytes());
    }
}

/// The paths of all samples without the folders that they share: what is packed is the same wherever the files lay.
pub(crate) fn paths(dataset: &dyn Dataset) -> Vec<String> {
    let paths: Vec<String> = (0..dataset.len()).map(|index| dataset.path(index)).collect();
    let folder = |path: &str| path.rfind('/').map_or(0, |slash| slash + 1);
    let shared = paths.iter().skip(1).fold(paths.first().map_or(0, |path| folder(path)), |shared, path| {
        let equal = path.bytes().zip(paths[0].bytes()).take_while(|(own, first)| own == first).count();
        folder(&paths[0][..floor(&paths[0], equal.min(shared))])
    });
    paths.iter().map(|path| path[shared..].to_string()).collect()
}

/// The last character boundary up to there.
fn floor(text: &str, end: usize) -> usize {
    (0..=end).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0)
}

/// A packed data set.
pub struct Packed {
    map: Mmap,
    positions: Vec<u64>,
    classes: Vec<String>,
    paths: Vec<String>,
    path: PathBuf,
    /// What images become.
    options: Option<DecodeOptions>,
}

impl Packed {
    /// Opens a packed file; images come as they were packed.
    pub fn open(path: impl AsRef<Path>) -> Result<Packed, DataError> {
        let path = path.as_ref();
        let file = File::open(path).map_err(|error| DataError::io(path, error))?;
        // SAFETY: the mapping is private and read-only; like every reader of data sets we rely on no process shortening
        // the file while it is read.
        let map = unsafe { Mmap::map(&file) }.map_err(|error| DataError::io(path, error))?;
        let Index { positions, classes, paths } =
            read_index(&map).map_err(|problem| DataError::malformed(path, problem))?;
        Ok(Packed { map, positions, classes, paths, path: path.to_path_buf(), options: None })
    }

    /// The same with the channels and the depth that a reader of files would give.
    pub fn with_options(self, options: DecodeOptions) -> Packed {
        Packed { options: Some(options), ..self }
    }

    fn record(&self, index: usize) -> Option<&[u8]> {
        self.map.get(usize::try_from(self.positions[index]).ok()?..)
    }
}

struct Index {
    positions: Vec<u64>,
    classes: Vec<String>,
    paths: Vec<String>,
}

fn read_index(bytes: &[u8]) -> Result<Index, String> {
    let mut header = Cursor { bytes };
    let has_paths = match header.take(8) {
        Ok(magic) if magic == MAGIC => true,
        Ok(magic) if magic == MAGIC_WITHOUT_PATHS => false,
        _ => return Err("it is not a packed data set".to_string()),
    };
    let start = usize::try_from(header.u64()?).map_err(|_| "the packed file is damaged")?;
    let mut index = Cursor { bytes: bytes.get(start..).ok_or("the packed file is damaged or cut off")? };
    let count = index.u64()? as usize;
    let positions = index.take(count.checked_mul(8).ok_or("the packed file is damaged")?)?;
    let positions = positions.as_chunks::<8>().0.iter().map(|&position| u64::from_le_bytes(position)).collect();
    let classes = texts(&mut index)?;
    let paths = if has_paths { texts(&mut index)? } else { Vec::new() };
    if has_paths && paths.len() != count {
        return Err("the packed file is damaged: it has not one path per sample".to_string());
    }
    Ok(Index { positions, classes, paths })
}

fn texts(index: &mut Cursor) -> Result<Vec<String>, String> {
    let mut texts = Vec::new();
    for _ in 0..index.u64()? {
        let length = index.u32()? as usize;
        texts.push(String::from_utf8_lossy(index.take(length)?).into_owned());
    }
    Ok(texts)
}

impl Dataset for Packed {
    fn len(&self) -> usize {
        self.positions.len()
    }

    fn get(&self, index: usize) -> Result<Sample, DataError> {
        let record = self.record(index).ok_or_else(|| "the packed file is damaged".to_string());
        let sample = record.and_then(read_record).map_err(|problem| DataError::malformed(&self.path, problem))?;
        let image = match &self.options {
            Some(options) => converted(sample.image, options),
            None => sample.image,
        };
        Ok(Sample { image, target: sample.target })
    }

    fn class_names(&self) -> &[String] {
        &self.classes
    }

    fn box_count(&self, index: usize) -> Option<usize> {
        box_count(self.record(index)?)
    }

    fn path(&self, index: usize) -> String {
        self.paths.get(index).cloned().unwrap_or_else(|| format!("{index:08}"))
    }

    fn archive(&self, index: usize) -> Option<&Path> {
        (index < self.len()).then_some(&self.path)
    }

    fn location(&self, index: usize) -> String {
        match self.paths.get(index) {
            Some(path) => format!("{path} in {}", self.path.display()),
            None => format!("record {index} of {}", self.path.display()),
        }
    }
}

/// A data set whose samples are read from a packed copy; everything else about them is still known from the original.
pub struct PackedCopy {
    packed: Packed,
    of: Arc<dyn Dataset>,
}

impl PackedCopy {
    /// The data set with the samples of its packed copy.
    pub fn new(packed: Packed, of: Arc<dyn Dataset>) -> PackedCopy {
        PackedCopy { packed, of }
    }
}

impl Dataset for PackedCopy {
    fn len(&self) -> usize {
        self.of.len()
    }

    fn get(&self, index: usize) -> Result<Sample, DataError> {
        self.packed.get(index)
    }

    fn source(&self, index: usize) -> Option<(&dyn Dataset, usize)> {
        Some((self.of.as_ref(), index))
    }

    fn archive(&self, index: usize) -> Option<&Path> {
        self.packed.archive(index)
    }

    fn class_names(&self) -> &[String] {
        self.of.class_names()
    }

    fn left_out(&self) -> Vec<String> {
        self.of.left_out()
    }
}
