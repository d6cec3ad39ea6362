//! CIFAR-10 and CIFAR-100: the binary version and the Python archives, unpacked or as the tar.gz they come in.

use super::{Split, listing, tar};
use crate::{AnyImage, DataError, Dataset, Sample, Target};
use flate2::read::GzDecoder;
use octant_archive::numpy_array;
use octant_archive::pickle::{self, Pickle, globals};
use octant_imaging::Image;
use octant_tensor::Bytes;
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

const SIDE: usize = 32;
const PIXELS: usize = SIDE * SIDE;
const IMAGE: usize = 3 * PIXELS;
/// No member of the archives is larger than the 154 MB of CIFAR-100's training part.
const LARGEST_MEMBER: u64 = 256 << 20;

/// CIFAR-10 or CIFAR-100.
pub struct Cifar {
    parts: Vec<Part>,
    labels: Vec<u32>,
    classes: Vec<String>,
    path: PathBuf,
}

/// Images in one file, at equal distances: planes of red, green and blue.
struct Part {
    bytes: Bytes,
    count: usize,
    stride: usize,
    first: usize,
}

impl Cifar {
    /// Opens a folder with the files of one version, or the archive of one.
    pub fn open(path: impl AsRef<Path>, split: Split) -> Result<Cifar, DataError> {
        let path = path.as_ref();
        let files = if path.is_dir() { files_in_folder(path)? } else { files_in_archive(path)? };
        let mut cifar = Cifar { parts: Vec::new(), labels: Vec::new(), classes: Vec::new(), path: path.to_path_buf() };
        for (name, bytes) in files {
            cifar
                .add(&name, bytes, split)
                .map_err(|problem| DataError::malformed(path, format!("in {name}: {problem}")))?;
        }
        if cifar.labels.is_empty() {
            let problem = "it holds no CIFAR files (data_batch_1…5, test_batch, train or test, with or without .bin)";
            return Err(DataError::malformed(path, problem));
        }
        let largest = cifar.labels.iter().max().map_or(0, |&label| label as usize);
        for class in cifar.classes.len()..=largest {
            cifar.classes.push(class.to_string());
        }
        Ok(cifar)
    }

    fn add(&mut self, name: &str, bytes: Bytes, split: Split) -> Result<(), String> {
        let is_train = name.starts_with("data_batch") || name.starts_with("train");
        match name {
            "batches.meta.txt" | "fine_label_names.txt" => {
                let text = String::from_utf8_lossy(&bytes).into_owned();
                self.classes =
                    text.lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_string).collect();
                Ok(())
            }
            "batches.meta" | "meta" => {
                self.classes = class_names(&parse(&bytes)?);
                Ok(())
            }
            _ if is_train != (split == Split::Train) => Ok(()),
            _ if name.ends_with(".bin") => self.add_binary(bytes, !name.contains("batch")),
            _ => self.add_pickle(&parse(&bytes)?),
        }
    }

    /// CIFAR-100 has a coarse label before the fine one.
    fn add_binary(&mut self, bytes: Bytes, has_coarse: bool) -> Result<(), String> {
        let first = if has_coarse { 2 } else { 1 };
        let stride = first + IMAGE;
        if bytes.is_empty() || !bytes.len().is_multiple_of(stride) {
            return Err(format!("{} bytes are not a whole number of records of {stride} bytes", bytes.len()));
        }
        self.labels.extend(bytes.chunks_exact(stride).map(|record| record[first - 1] as u32));
        self.parts.push(Part { count: bytes.len() / stride, bytes, stride, first });
        Ok(())
    }

    fn add_pickle(&mut self, pickle: &Pickle) -> Result<(), String> {
        let root = pickle.root();
        let data = root.get("data").ok_or("there is no entry \"data\"")?;
        let labels = root.get("fine_labels").or_else(|| root.get("labels")).ok_or("there are no labels")?;
        let images = numpy_array(data, &self.path).map_err(|error| error.to_string())?;
        let labels = labels.items().ok_or("the labels are not a list")?.map(|label| label.as_usize());
        let labels: Option<Vec<u32>> =
            labels.map(|label| label.filter(|&label| label < 256).map(|l| l as u32)).collect();
        let labels = labels.ok_or("a label is not a small number")?;
        if images.dims() != [labels.len(), IMAGE] || images.dtype() != octant_tensor::DType::U8 {
            return Err(format!("{} do not fit {} labels", images.shape(), labels.len()));
        }
        self.parts.push(Part { bytes: images.bytes().clone(), count: labels.len(), stride: IMAGE, first: 0 });
        self.labels.extend(labels);
        Ok(())
    }
}

fn parse(bytes: &Bytes) -> Result<Pickle, String> {
    pickle::parse(bytes, globals::NUMPY, pickle::PickleLimits::default())
        .map(|(pickle, _)| pickle)
        .map_err(|error| error.to_string())
}

fn class_names(meta: &Pickle) -> Vec<String> {
    let root = meta.root();
    let names = root.get("fine_label_names").or_else(|| root.get("label_names"));
    let text = |value: pickle::PickleValue| {
        let bytes = || value.as_bytes().map(|bytes| String::from_utf8_lossy(bytes).into_owned());
        value.as_str().map(str::to_string).or_else(bytes)
    };
    names.and_then(|names| names.items()).map(|items| items.filter_map(text).collect()).unwrap_or_default()
}

/// The files that matter, whatever folder they lie in.
fn is_wanted(name: &str) -> bool {
    let name = name.strip_suffix(".bin").unwrap_or(name);
    let batches = ["data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4", "data_batch_5", "test_batch"];
    let others = ["train", "test", "batches.meta", "meta", "batches.meta.txt", "fine_label_names.txt"];
    batches.contains(&name) || others.contains(&name)
}

fn base_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

fn files_in_folder(folder: &Path) -> Result<Vec<(String, Bytes)>, DataError> {
    // The archives unpack into a folder of their own.
    let inner = ["cifar-10-batches-bin", "cifar-100-binary", "cifar-10-batches-py", "cifar-100-python"];
    let folder = inner.iter().map(|name| folder.join(name)).find(|path| path.is_dir()).unwrap_or(folder.to_path_buf());
    let mut files = Vec::new();
    for path in listing::entries(&folder)? {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_file() && is_wanted(&name) {
            let file = File::open(&path).map_err(|error| DataError::io(&path, error))?;
            // SAFETY: the mapping is private and read-only; like every reader of data sets we rely on nobody
            // shortening the files while they are read.
            let map = unsafe { memmap2::Mmap::map(&file) }.map_err(|error| DataError::io(&path, error))?;
            files.push((name, Bytes::new(map)));
        }
    }
    Ok(files)
}

fn files_in_archive(path: &Path) -> Result<Vec<(String, Bytes)>, DataError> {
    let file = File::open(path).map_err(|error| DataError::io(path, error))?;
    read_archive(GzDecoder::new(BufReader::new(file))).map_err(|problem| DataError::malformed(path, problem))
}

fn read_archive(source: impl Read) -> Result<Vec<(String, Bytes)>, String> {
    let mut files = Vec::new();
    tar::visit_members(source, |member, reader| {
        let name = base_name(&member.name);
        if is_wanted(name) {
            let mut bytes = Vec::new();
            let read = reader.take(LARGEST_MEMBER).read_to_end(&mut bytes);
            read.map_err(|error| format!("{name} cannot be unpacked ({error})"))?;
            if bytes.len() as u64 != member.size {
                return Err(format!("{name} is cut off or larger than any file of CIFAR"));
            }
            files.push((name.to_string(), Bytes::new(bytes)));
        }
        Ok(())
    })?;
    files.sort_by(|(a, _), (b, _)| a.cmp(b));
    Ok(files)
}

impl Dataset for Cifar {
    fn len(&self) -> usize {
        self.labels.len()
    }

    fn get(&self, index: usize) -> Result<Sample, DataError> {
        let mut position = index;
        let part = self.parts.iter().find(|part| {
            let found = position < part.count;
            position -= if found { 0 } else { part.count };
            found
        });
        let part = part.ok_or_else(|| DataError::malformed(&self.path, format!("there is no image {index}")))?;
        let planes = &part.bytes[position * part.stride + part.first..][..IMAGE];
        let mut image = Image::filled(SIDE, SIDE, 3, 0);
        for (pixel, values) in image.values_mut().as_chunks_mut::<3>().0.iter_mut().enumerate() {
            *values = [planes[pixel], planes[PIXELS + pixel], planes[2 * PIXELS + pixel]];
        }
        Ok(Sample { image: AnyImage::U8(image), target: Target::Class(self.labels[index]) })
    }

    fn class_names(&self) -> &[String] {
        &self.classes
    }

    fn location(&self, index: usize) -> String {
        format!("image {index} of {}", self.path.display())
    }
}
