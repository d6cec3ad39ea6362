//! Packed data sets: decoded images in one file that is mapped into memory, so that an epoch costs no decoding.
//!
//! Layout, little-endian: eight bytes of magic, the offset of the index; the records (element type, size, target,
//! pixels); the index (number of records, their positions, the class names).

use crate::{AnyImage, DataError, Dataset, LabeledBox, Sample, Target};
use memmap2::Mmap;
use octant_imaging::Image;
use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

const MAGIC: &[u8; 8] = b"OCTPACK1";

/// Bytes of a record before the kind of its target: element type, channels, height and width.
const TARGET_OFFSET: usize = 10;

/// Writes every sample of a data set, decoded, into one file. A sample that cannot be read is an error.
pub fn pack(dataset: &dyn Dataset, path: &Path) -> Result<(), DataError> {
    // Written under another name first: half a file must never be mistaken for a whole one.
    let unfinished = path.with_extension("unfinished");
    write_packed(dataset, &unfinished)?;
    std::fs::rename(&unfinished, path).map_err(|error| DataError::io(path, error))
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
    std::fs::create_dir_all(folder).map_err(|error| DataError::io(folder, error))?;
    let path = folder.join(format!("{name}-{:016x}.pack", identity.finish()));
    if !path.exists() {
        pack(dataset, &path)?;
    }
    Packed::open(&path)
}

fn write_packed(dataset: &dyn Dataset, path: &Path) -> Result<(), DataError> {
    let problem = |error| DataError::io(path, error);
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
    index.extend((dataset.class_names().len() as u64).to_le_bytes());
    for name in dataset.class_names() {
        index.extend((name.len() as u32).to_le_bytes());
        index.extend(name.as_bytes());
    }
    file.write_all(&index).map_err(problem)?;
    file.seek(SeekFrom::Start(8)).map_err(problem)?;
    file.write_all(&position.to_le_bytes()).and_then(|()| file.flush()).map_err(problem)
}

fn record_of(sample: &Sample) -> Vec<u8> {
    let [height, width, channels] = sample.image.dims();
    let kind = match sample.image {
        AnyImage::U8(_) => 0,
        AnyImage::U16(_) => 1,
        AnyImage::F32(_) => 2,
    };
    let mut record = vec![kind, channels as u8];
    record.extend((height as u32).to_le_bytes());
    record.extend((width as u32).to_le_bytes());
    match &sample.target {
        Target::Class(class) => {
            record.push(0);
            record.extend(class.to_le_bytes());
        }
        Target::Mask(mask) => {
            record.push(1);
            record.extend(mask.values());
        }
        Target::Values(values) => {
            record.push(2);
            record.extend((values.len() as u32).to_le_bytes());
            values.iter().for_each(|value| record.extend(value.to_le_bytes()));
        }
        Target::Boxes(boxes) => {
            record.push(3);
            record.extend((boxes.len() as u32).to_le_bytes());
            for object in boxes {
                record.extend(object.class.to_le_bytes());
                [object.x0, object.y0, object.x1, object.y1].iter().for_each(|v| record.extend(v.to_le_bytes()));
            }
        }
        Target::Image(image) => {
            let [height, width, channels] = image.dims();
            record.extend([4, channels as u8]);
            record.extend((height as u32).to_le_bytes());
            record.extend((width as u32).to_le_bytes());
            record.extend(image.values());
        }
    }
    record.extend(sample.image.bytes());
    record
}

/// A packed data set.
pub struct Packed {
    map: Mmap,
    positions: Vec<u64>,
    classes: Vec<String>,
    path: PathBuf,
}

/// Reads numbers one after the other, never beyond the end.
struct Cursor<'a> {
    bytes: &'a [u8],
}

impl<'a> Cursor<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], String> {
        if count > self.bytes.len() {
            return Err("the packed file is damaged or cut off".to_string());
        }
        let (taken, rest) = self.bytes.split_at(count);
        self.bytes = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], String> {
        Ok(self.take(N)?.try_into().expect("exactly N bytes were taken"))
    }

    fn byte(&mut self) -> Result<u8, String> {
        Ok(self.array::<1>()?[0])
    }

    fn u32(&mut self) -> Result<u32, String> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    fn u64(&mut self) -> Result<u64, String> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    fn f32(&mut self) -> Result<f32, String> {
        Ok(f32::from_le_bytes(self.array()?))
    }
}

impl Packed {
    /// Opens a packed file.
    pub fn open(path: impl AsRef<Path>) -> Result<Packed, DataError> {
        let path = path.as_ref();
        let file = File::open(path).map_err(|error| DataError::io(path, error))?;
        // SAFETY: the mapping is private and read-only; like every reader of data sets we rely on nobody shortening
        // the file while it is read.
        let map = unsafe { Mmap::map(&file) }.map_err(|error| DataError::io(path, error))?;
        let (positions, classes) = read_index(&map).map_err(|problem| DataError::malformed(path, problem))?;
        Ok(Packed { map, positions, classes, path: path.to_path_buf() })
    }
}

fn read_index(bytes: &[u8]) -> Result<(Vec<u64>, Vec<String>), String> {
    let mut header = Cursor { bytes };
    if header.take(8).ok() != Some(MAGIC) {
        return Err("it is not a packed data set".to_string());
    }
    let start = usize::try_from(header.u64()?).map_err(|_| "the packed file is damaged")?;
    let mut index = Cursor { bytes: bytes.get(start..).ok_or("the packed file is damaged or cut off")? };
    let count = index.u64()? as usize;
    let positions = index.take(count.checked_mul(8).ok_or("the packed file is damaged")?)?;
    let positions = positions.as_chunks::<8>().0.iter().map(|&position| u64::from_le_bytes(position)).collect();
    let mut classes = Vec::new();
    for _ in 0..index.u64()? {
        let length = index.u32()? as usize;
        classes.push(String::from_utf8_lossy(index.take(length)?).into_owned());
    }
    Ok((positions, classes))
}

fn read_record(bytes: &[u8]) -> Result<Sample, String> {
    let mut record = Cursor { bytes };
    let (kind, channels) = (record.byte()?, record.byte()? as usize);
    let (height, width) = (record.u32()? as usize, record.u32()? as usize);
    let pixels = height.checked_mul(width).ok_or("a size in the packed file is damaged")?;
    let target = match record.byte()? {
        0 => Target::Class(record.u32()?),
        1 => Target::Mask(image(height, width, 1, record.take(pixels)?.to_vec())?),
        2 => {
            let count = record.u32()? as usize;
            let values = record.take(count.saturating_mul(4))?;
            Target::Values(values.as_chunks::<4>().0.iter().map(|&value| f32::from_le_bytes(value)).collect())
        }
        3 => {
            let mut boxes = Vec::new();
            for _ in 0..record.u32()? {
                let class = record.u32()?;
                let [x0, y0, x1, y1] = [record.f32()?, record.f32()?, record.f32()?, record.f32()?];
                boxes.push(LabeledBox { class, x0, y0, x1, y1 });
            }
            Target::Boxes(boxes)
        }
        4 => {
            let channels = record.byte()? as usize;
            let (height, width) = (record.u32()? as usize, record.u32()? as usize);
            let count = height.checked_mul(width).and_then(|pixels| pixels.checked_mul(channels));
            let values = record.take(count.ok_or("a size in the packed file is damaged")?)?.to_vec();
            Target::Image(image(height, width, channels, values)?)
        }
        other => return Err(format!("a record has the unknown target kind {other}")),
    };
    let count = pixels.checked_mul(channels).ok_or("a size in the packed file is damaged")?;
    let image = match kind {
        0 => AnyImage::U8(image(height, width, channels, record.take(count)?.to_vec())?),
        1 => {
            let bytes = record.take(count.saturating_mul(2))?;
            let values = bytes.as_chunks::<2>().0.iter().map(|&value| u16::from_le_bytes(value)).collect();
            AnyImage::U16(image(height, width, channels, values)?)
        }
        2 => {
            let bytes = record.take(count.saturating_mul(4))?;
            let values = bytes.as_chunks::<4>().0.iter().map(|&value| f32::from_le_bytes(value)).collect();
            AnyImage::F32(image(height, width, channels, values)?)
        }
        other => return Err(format!("a record has the unknown element type {other}")),
    };
    Ok(Sample { image, target })
}

fn image<T: octant_imaging::Channel>(
    height: usize,
    width: usize,
    channels: usize,
    values: Vec<T>,
) -> Result<Image<T>, String> {
    Image::new(height, width, channels, values).map_err(|error| error.to_string())
}

impl Dataset for Packed {
    fn len(&self) -> usize {
        self.positions.len()
    }

    fn get(&self, index: usize) -> Result<Sample, DataError> {
        let position = usize::try_from(self.positions[index]).unwrap_or(usize::MAX);
        let record = self.map.get(position..).ok_or_else(|| "the packed file is damaged".to_string());
        record.and_then(read_record).map_err(|problem| DataError::malformed(&self.path, problem))
    }

    fn class_names(&self) -> &[String] {
        &self.classes
    }

    fn box_count(&self, index: usize) -> Option<usize> {
        let position = usize::try_from(self.positions[index]).ok()?;
        let mut record = Cursor { bytes: self.map.get(position..)? };
        record.take(TARGET_OFFSET).ok()?;
        let is_boxes = record.byte().ok()? == 3;
        is_boxes.then(|| record.u32().ok()).flatten().map(|count| count as usize)
    }

    fn location(&self, index: usize) -> String {
        format!("record {index} of {}", self.path.display())
    }
}
