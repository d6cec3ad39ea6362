//! IDX, the format of MNIST and its successors: a big-endian header and plain values, often gzipped.

use crate::{AnyImage, DataError, Dataset, Sample, Target};
use flate2::read::MultiGzDecoder;
use octant_imaging::Image;
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

/// The largest array that is read: 4 GiB.
const LIMIT: u64 = 4 << 30;

const FASHION: [&str; 10] =
    ["T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"];

/// An array of bytes with dimensions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdxArray {
    /// The length of every axis.
    pub dims: Vec<usize>,
    /// The values, row-major.
    pub values: Vec<u8>,
}

/// Reads an IDX file of unsigned bytes, plain or gzipped (detected by content, not by name).
pub fn read_idx(path: impl AsRef<Path>) -> Result<IdxArray, DataError> {
    let path = path.as_ref();
    let file = File::open(path).map_err(|error| DataError::io(path, error))?;
    parse_idx(BufReader::new(file)).map_err(|problem| DataError::malformed(path, problem))
}

/// Parses IDX data from any source; the error is the rest of a sentence that starts with the file's name.
pub(crate) fn parse_idx(mut source: impl Read) -> Result<IdxArray, String> {
    let mut magic = [0; 2];
    source.read_exact(&mut magic).map_err(|_| "it is too short to be an IDX file".to_string())?;
    let gzipped = magic == [0x1f, 0x8b];
    let source = magic.chain(source);
    if gzipped { parse_plain(MultiGzDecoder::new(BufReader::new(source))) } else { parse_plain(source) }
}

fn parse_plain(mut source: impl Read) -> Result<IdxArray, String> {
    let mut header = [0; 4];
    source.read_exact(&mut header).map_err(|error| format!("its IDX header cannot be read ({error})"))?;
    let [zero_a, zero_b, kind, rank] = header;
    if (zero_a, zero_b) != (0, 0) || rank == 0 {
        return Err("it is not an IDX file (those begin with two zero bytes, a type and a rank)".to_string());
    }
    if kind != 0x08 {
        return Err(format!("its IDX values have type {kind:#04x}; only unsigned bytes (0x08) are images"));
    }
    let mut dims = Vec::new();
    for _ in 0..rank {
        let mut word = [0; 4];
        source.read_exact(&mut word).map_err(|_| "its IDX header is cut off".to_string())?;
        dims.push(u32::from_be_bytes(word) as usize);
    }
    let size = dims.iter().try_fold(1u64, |product, &dim| product.checked_mul(dim as u64));
    let Some(size) = size.filter(|&size| size <= LIMIT) else {
        return Err(format!("its header announces {dims:?}, more than the limit of 4 GiB"));
    };
    let mut values = Vec::new();
    // The buffer grows with what really arrives: a header alone cannot make us allocate. One byte more than
    // announced is read, to notice files that are longer.
    let outcome = source.take(size + 1).read_to_end(&mut values);
    if (values.len() as u64) < size {
        let cause = outcome.err().map_or("the file is cut off".to_string(), |error| error.to_string());
        return Err(format!("its header announces {size} values, but only {} could be read ({cause})", values.len()));
    }
    outcome.map_err(|error| format!("its end cannot be read ({error})"))?;
    if values.len() as u64 > size {
        return Err(format!("it continues after the {size} values that its header announces"));
    }
    Ok(IdxArray { dims, values })
}

/// Images and labels in two IDX files.
pub struct IdxDataset {
    images: IdxArray,
    labels: IdxArray,
    classes: Vec<String>,
    path: PathBuf,
}

impl IdxDataset {
    /// The training or the test part of a folder with the files of MNIST or Fashion-MNIST.
    pub fn open(folder: impl AsRef<Path>, train: bool) -> Result<IdxDataset, DataError> {
        let folder = folder.as_ref();
        let part = if train { "train" } else { "t10k" };
        let images = find(folder, part, "images", 3)?;
        let labels = find(folder, part, "labels", 1)?;
        let mut dataset = IdxDataset::from_files(images, labels)?;
        if folder.to_string_lossy().to_lowercase().contains("fashion") && dataset.classes.len() == 10 {
            dataset.classes = FASHION.map(str::to_string).to_vec();
        }
        Ok(dataset)
    }

    /// Images in one file, labels in the other.
    pub fn from_files(images: impl AsRef<Path>, labels: impl AsRef<Path>) -> Result<IdxDataset, DataError> {
        let (images_path, labels_path) = (images.as_ref(), labels.as_ref());
        let images = read_idx(images_path)?;
        let labels = read_idx(labels_path)?;
        if !matches!(images.dims.len(), 3 | 4) || images.dims[1..].contains(&0) {
            let problem = format!("it holds an array of {:?}, not images (count × height × width)", images.dims);
            return Err(DataError::malformed(images_path, problem));
        }
        if labels.dims != [images.dims[0]] {
            let problem = format!("it holds labels of {:?} for {} images", labels.dims, images.dims[0]);
            return Err(DataError::malformed(labels_path, problem));
        }
        let classes = labels.values.iter().max().map_or(0, |&last| last as usize + 1);
        let classes = (0..classes.max(10)).map(|class| class.to_string()).collect();
        Ok(IdxDataset { images, labels, classes, path: images_path.to_path_buf() })
    }
}

/// The file of one part under any of the names it is distributed with.
fn find(folder: &Path, part: &str, what: &str, rank: u32) -> Result<PathBuf, DataError> {
    let names = [format!("{part}-{what}-idx{rank}-ubyte"), format!("{part}-{what}.idx{rank}-ubyte")];
    let found = names.iter().flat_map(|name| [folder.join(name), folder.join(format!("{name}.gz"))]);
    let found = found.into_iter().find(|path| path.is_file());
    found.ok_or_else(|| DataError::malformed(folder, format!("there is no {} (or .gz) in this folder", names[0])))
}

impl Dataset for IdxDataset {
    fn len(&self) -> usize {
        self.images.dims[0]
    }

    fn get(&self, index: usize) -> Result<Sample, DataError> {
        let [height, width] = [self.images.dims[1], self.images.dims[2]];
        let channels = self.images.dims.get(3).copied().unwrap_or(1);
        let size = height * width * channels;
        let values = self.images.values[index * size..][..size].to_vec();
        let image = Image::new(height, width, channels, values)
            .map_err(|error| DataError::malformed(&self.path, error.to_string()))?;
        Ok(Sample { image: AnyImage::U8(image), target: Target::Class(self.labels.values[index] as u32) })
    }

    fn class_names(&self) -> &[String] {
        &self.classes
    }

    fn location(&self, index: usize) -> String {
        format!("image {index} of {}", self.path.display())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn file(dims: &[u32], values: usize) -> Vec<u8> {
        let mut bytes = vec![0, 0, 8, dims.len() as u8];
        dims.iter().for_each(|dim| bytes.extend(dim.to_be_bytes()));
        bytes.extend((0..values).map(|value| value as u8));
        bytes
    }

    #[test]
    fn plain_and_gzipped_files_hold_the_same() {
        let plain = file(&[2, 3, 4], 24);
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(&plain).unwrap();
        let array = parse_idx(&plain[..]).unwrap();
        assert_eq!(array.dims, [2, 3, 4]);
        assert_eq!(array, parse_idx(&gzip.finish().unwrap()[..]).unwrap());
    }

    #[test]
    fn broken_files_say_what_is_wrong() {
        let problem = |bytes: &[u8]| parse_idx(bytes).unwrap_err();
        assert!(problem(&file(&[2, 3, 4], 23)).contains("only 23 could be read"));
        assert!(problem(&file(&[2, 3, 4], 25)).contains("continues after"));
        assert!(problem(&file(&[u32::MAX; 4], 25)).contains("more than the limit"));
        assert!(problem(b"PNG").contains("not an IDX file") || problem(b"PNG").contains("header"));
        assert!(problem(&[0, 0, 0x0d, 1, 0, 0, 0, 0]).contains("unsigned bytes"));
        assert!(problem(&[0, 0, 8, 3, 0, 0]).contains("cut off"));
        assert!(problem(&[]).contains("too short"));
    }

    #[test]
    fn a_folder_is_a_data_set() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("train-images-idx3-ubyte"), file(&[2, 3, 4], 24)).unwrap();
        std::fs::write(folder.path().join("train-labels-idx1-ubyte"), file(&[2], 2)).unwrap();
        let dataset = IdxDataset::open(folder.path(), true).unwrap();
        assert_eq!((dataset.len(), dataset.class_names().len()), (2, 10));
        let sample = dataset.get(1).unwrap();
        assert_eq!(sample.image.dims(), [3, 4, 1]);
        assert_eq!((sample.image.bytes()[0], sample.target), (12, Target::Class(1)));
        let missing = IdxDataset::open(folder.path(), false).map(|_| ()).unwrap_err().to_string();
        assert!(missing.contains("t10k-images-idx3-ubyte"), "{missing}");
    }
}
