//! TFRecord files as a data set.

use super::{Example, RecordReader};
use crate::decode::{DecodeOptions, decode};
use crate::{DataError, Dataset, Sample, Target};
use flate2::read::MultiGzDecoder;
use octant_tensor::Bytes;
use std::fs::File;
use std::io::{BufReader, Cursor, Read};
use std::path::{Path, PathBuf};

/// A gzipped file cannot be read from the middle; it is unpacked into memory, up to this size.
const LARGEST_UNPACKED: u64 = 4 << 30;

/// The names of the features to use.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TfRecordKeys {
    /// The encoded image.
    pub image: String,
    /// The class (an integer); ignored when `values` is given.
    pub class: String,
    /// Numbers to regress.
    pub values: Option<String>,
}

impl Default for TfRecordKeys {
    fn default() -> TfRecordKeys {
        TfRecordKeys { image: "image/encoded".into(), class: "image/class/label".into(), values: None }
    }
}

/// Examples in one or more files; where each record begins is noted when they are opened.
pub struct TfRecordDataset {
    files: Vec<(PathBuf, Bytes)>,
    records: Vec<(u32, u64)>,
    keys: TfRecordKeys,
    options: DecodeOptions,
    classes: Vec<String>,
}

impl TfRecordDataset {
    /// Opens the files, plain or gzipped, and checks every record's sums once.
    pub fn open(paths: &[PathBuf], keys: TfRecordKeys, options: DecodeOptions) -> Result<TfRecordDataset, DataError> {
        let mut dataset =
            TfRecordDataset { files: Vec::new(), records: Vec::new(), keys, options, classes: Vec::new() };
        let mut classes = 0;
        for path in paths {
            let bytes = contents(path)?;
            let mut reader = RecordReader::new(Cursor::new(&bytes[..]));
            let file = dataset.files.len() as u32;
            loop {
                let position = reader.position();
                let record = reader.next_record().map_err(|problem| DataError::malformed(path, problem))?;
                let Some(record) = record else { break };
                let example = Example::parse(&record).map_err(|problem| DataError::malformed(path, problem))?;
                classes = classes.max(example.int(&dataset.keys.class).unwrap_or(-1) + 1);
                dataset.records.push((file, position));
            }
            dataset.files.push((path.clone(), bytes));
        }
        if dataset.records.is_empty() {
            return Err(DataError::request("the TFRecord files hold no records"));
        }
        dataset.classes = (0..classes.clamp(0, 1 << 20)).map(|class| class.to_string()).collect();
        Ok(dataset)
    }

    /// The example of that number.
    pub fn example(&self, index: usize) -> Result<Example, DataError> {
        let (file, position) = self.records[index];
        let (path, bytes) = &self.files[file as usize];
        let problem = |problem: String| DataError::malformed(path, problem);
        let record = RecordReader::new(&bytes[position as usize..]).next_record().map_err(problem)?;
        Example::parse(&record.unwrap_or_default()).map_err(problem)
    }
}

fn contents(path: &Path) -> Result<Bytes, DataError> {
    let problem = |error| DataError::io(path, error);
    let mut file = File::open(path).map_err(problem)?;
    let mut magic = [0; 2];
    let is_gzipped = file.read(&mut magic).map_err(problem)? == 2 && magic == [0x1f, 0x8b];
    let file = File::open(path).map_err(problem)?;
    if is_gzipped {
        let mut bytes = Vec::new();
        let mut unpacked = MultiGzDecoder::new(BufReader::new(file)).take(LARGEST_UNPACKED);
        unpacked.read_to_end(&mut bytes).map_err(problem)?;
        return Ok(Bytes::new(bytes));
    }
    if file.metadata().map_err(problem)?.len() == 0 {
        return Ok(Bytes::new(Vec::new()));
    }
    // SAFETY: the mapping is private and read-only; like every reader of data sets we rely on no process shortening the
    // files while they are read.
    Ok(Bytes::new(unsafe { memmap2::Mmap::map(&file) }.map_err(problem)?))
}

impl Dataset for TfRecordDataset {
    fn len(&self) -> usize {
        self.records.len()
    }

    fn get(&self, index: usize) -> Result<Sample, DataError> {
        let example = self.example(index)?;
        let path = &self.files[self.records[index].0 as usize].0;
        let missing = |name: &str| {
            let names: Vec<&str> = example.features.keys().map(String::as_str).collect();
            DataError::malformed(path, format!("a record has no usable {name:?}; it has {}", names.join(", ")))
        };
        let encoded = example.bytes(&self.keys.image).ok_or_else(|| missing(&self.keys.image))?;
        let image = decode(encoded, &self.options).map_err(|problem| DataError::malformed(path, problem))?;
        let target = match &self.keys.values {
            Some(name) => Target::Values(example.floats(name).ok_or_else(|| missing(name))?),
            None => {
                let class = example.int(&self.keys.class).and_then(|class| u32::try_from(class).ok());
                Target::Class(class.ok_or_else(|| missing(&self.keys.class))?)
            }
        };
        Ok(Sample { image, target })
    }

    fn class_names(&self) -> &[String] {
        &self.classes
    }

    fn location(&self, index: usize) -> String {
        let (file, position) = self.records[index];
        format!("byte {position} of {}", self.files[file as usize].0.display())
    }
}
