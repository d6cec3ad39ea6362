//! The targets that read data sets and images. What is read from files is written to a scratch folder first, which is
//! in memory where there is `/dev/shm`.

use octant_data::decode::{Channels, DecodeOptions, DecodeLimits, Orientation, decode};
use octant_data::readers::tfrecord::{Example, RecordReader};
use octant_data::readers::{Cifar, Split, TableDataset, WebDataset, open_irstd, read_idx};
use octant_data::{Dataset, Packed};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Small limits: the fuzzer watches memory, and real files are not the point here.
const LIMITS: DecodeLimits = DecodeLimits { side: 4096, pixels: 1 << 20 };

pub(crate) fn scratch(name: &str) -> PathBuf {
    let memory = Path::new("/dev/shm");
    let root = if memory.is_dir() { memory.to_path_buf() } else { std::env::temp_dir() };
    let folder = root.join(format!("octant-fuzz-{}", std::process::id()));
    let path = folder.join(name);
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).expect("the scratch folder can be created");
    }
    path
}

pub(crate) fn file(name: &str, data: &[u8]) -> PathBuf {
    let path = scratch(name);
    fs::write(&path, data).expect("the scratch folder can be written to");
    path
}

fn look_at(dataset: &dyn Dataset) {
    for index in 0..dataset.len().min(4) {
        let _ = (dataset.get(index).map(|sample| sample.image.dims()), dataset.location(index));
    }
    let _ = dataset.class_names().len();
}

/// Any bytes as an IDX file, plain or gzipped.
pub fn idx(data: &[u8]) {
    if let Ok(array) = read_idx(file("array-idx", data)) {
        assert_eq!(array.values.len(), array.dims.iter().product::<usize>());
    }
}

/// Any bytes as records with checksums, and as one example without.
pub fn tfrecord(data: &[u8]) {
    let mut reader = RecordReader::new(data);
    while let Ok(Some(record)) = reader.next_record() {
        let _ = Example::parse(&record);
    }
    if let Ok(example) = Example::parse(data) {
        assert_eq!(Example::parse(&example.to_record()).as_ref(), Ok(&example));
    }
}

/// Any bytes as a file of CIFAR: binary, a pickle, and an archive.
pub fn cifar(data: &[u8]) {
    let archive = file("cifar/whole.tar.gz", data);
    let _ = Cifar::open(archive, Split::Train).map(|set| look_at(&set));
    for name in ["data_batch_1.bin", "data_batch_1", "train.bin", "meta"] {
        let folder = scratch("cifar-files/x").with_file_name(name.replace('.', "-"));
        fs::create_dir_all(&folder).expect("the scratch folder can be created");
        fs::write(folder.join(name), data).expect("the scratch folder can be written to");
        let _ = Cifar::open(&folder, Split::Train).map(|set| look_at(&set));
    }
}

/// Any bytes as a table, and as the list of an infrared data set.
pub fn lists(data: &[u8]) {
    let table = file("table.csv", data);
    let _ = TableDataset::open(&table, &[], DecodeOptions::default()).map(|set| look_at(&set));
    for folder in ["lists/images/x.png", "lists/masks/x.png"] {
        file(folder, b"no image");
    }
    let list = file("lists/trainval.txt", data);
    let root = list.parent().expect("a file lies in a folder");
    let _ = open_irstd(root, Split::Train, DecodeOptions::default()).map(|set| look_at(&set));
}

/// Any bytes as a tar shard and as a packed data set.
pub fn shards(data: &[u8]) {
    let options = DecodeOptions { limits: LIMITS, ..DecodeOptions::default() };
    let _ = WebDataset::open(&[file("shard.tar", data)], options).map(|set| look_at(&set));
    let mut packed = b"OCTPACK1".to_vec();
    packed.write_all(data).expect("memory can be written to");
    let _ = Packed::open(file("whole.pack", &packed)).map(|set| look_at(&set));
}

/// Any bytes behind the beginning of a format, in every form that can be requested.
fn image(magic: &[u8], data: &[u8]) {
    let bytes = [magic, data.get(magic.len()..).unwrap_or_default()].concat();
    for channels in [Channels::Rgb, Channels::Gray, Channels::Stored] {
        let options = DecodeOptions { channels, limits: LIMITS, eight_bits: channels == Channels::Gray };
        if let Ok(image) = decode(&bytes, &options) {
            let [height, width, _] = image.dims();
            assert!(height * width <= LIMITS.pixels);
        }
    }
}

/// JPEG.
pub fn jpeg(data: &[u8]) {
    image(&[0xff, 0xd8, 0xff], data);
}

/// PNG.
pub fn png(data: &[u8]) {
    image(b"\x89PNG\r\n\x1a\n", data);
}

/// BMP.
pub fn bmp(data: &[u8]) {
    image(b"BM", data);
}

/// WebP: the size of the file in between is free.
pub fn webp(data: &[u8]) {
    let mut bytes = [b"RIFF", data.get(4..).unwrap_or_default()].concat();
    bytes.resize(bytes.len().max(12), 0);
    bytes[8..12].copy_from_slice(b"WEBP");
    image(b"", &bytes);
}

/// TIFF in both byte orders, and the orientation in EXIF data, which is a TIFF inside.
pub fn tiff(data: &[u8]) {
    image(&[b'I', b'I', 42, 0], data);
    image(&[b'M', b'M', 0, 42], data);
    let _ = Orientation::from_exif(data);
}
