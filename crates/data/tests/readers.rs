//! Readers against files that the original tools wrote, and against damaged ones.
#![allow(clippy::unwrap_used)]

use octant_data::decode::{Channels, DecodeOptions};
use octant_data::readers::tfrecord::{Example, Feature, RecordReader, TfRecordKeys, write_record};
use octant_data::readers::{
    Cifar, FolderDataset, MaskRules, Split, TableDataset, TfRecordDataset, WebDataset, open_frames, open_masks,
    read_idx, write_webdataset,
};
use octant_data::{AnyImage, Dataset, Glyphs, SampleRng, Target, write_png_u8};
use octant_imaging::Image;
use std::path::{Path, PathBuf};

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("golden").join(name)
}

fn gray() -> DecodeOptions {
    DecodeOptions { channels: Channels::Gray, ..DecodeOptions::default() }
}

/// The image that `make.py` wrote for a batch: planes of slowly rising values.
fn check_cifar(set: &Cifar, labels: &[u32], starts: &[usize]) {
    assert_eq!(set.len(), labels.len());
    for (index, (&label, &start)) in labels.iter().zip(starts).enumerate() {
        let sample = set.get(index).unwrap();
        assert_eq!(sample.target, Target::Class(label));
        let AnyImage::U8(image) = sample.image else { panic!("CIFAR has 8 bits") };
        let image_in_batch = index % 2;
        for (row, column, channel) in [(0, 0, 0), (3, 17, 1), (31, 31, 2)] {
            let position = image_in_batch * 3072 + channel * 1024 + row * 32 + column;
            assert_eq!(image.pixel(row, column)[channel], (position / 7 + start) as u8);
        }
    }
}

#[test]
fn cifar_is_the_same_from_every_kind_of_file() {
    let labels = [1, 5, 2, 6, 3, 7, 4, 8, 5, 9];
    let starts = [1, 1, 2, 2, 3, 3, 4, 4, 5, 5];
    for name in ["cifar-10-python.tar.gz", "cifar-10-binary.tar.gz"] {
        let set = Cifar::open(golden(name), Split::Train).unwrap();
        check_cifar(&set, &labels, &starts);
        assert_eq!(set.class_names()[9], "class9");
    }
    let test = Cifar::open(golden("cifar-10-python.tar.gz"), Split::Val).unwrap();
    assert_eq!((test.len(), test.get(2).unwrap().target), (3, Target::Class(3)));
}

#[test]
fn cifar_100_has_fine_labels() {
    let set = Cifar::open(golden("cifar-100-python.tar.gz"), Split::Train).unwrap();
    assert_eq!((set.len(), set.class_names().len(), set.class_names()[99].as_str()), (4, 100, "fine99"));
    assert_eq!(set.get(0).unwrap().target, Target::Class(99));
}

#[test]
fn tensorflows_records_are_read() {
    for name in ["plain.tfrecord", "zipped.tfrecord"] {
        let set = TfRecordDataset::open(&[golden(name)], TfRecordKeys::default(), DecodeOptions::default()).unwrap();
        assert_eq!((set.len(), set.class_names().len()), (3, 11));
        let sample = set.get(1).unwrap();
        assert_eq!((sample.image.dims(), sample.target), ([29, 37, 3], Target::Class(5)));
        let example = set.example(2).unwrap();
        assert_eq!(example.floats("numbers").unwrap(), [1.0, -1.25]);
        assert_eq!(example.features["negative"], Feature::Ints(vec![-7, 1 << 40]));
        let keys = TfRecordKeys { label: Some("klass".into()), ..TfRecordKeys::default() };
        let set = TfRecordDataset::open(&[golden(name)], keys, DecodeOptions::default()).unwrap();
        let problem = set.get(0).unwrap_err().to_string();
        assert!(problem.contains("\"klass\"") && problem.contains("image/class/label"), "{problem}");
    }
}

#[test]
fn records_survive_a_round_trip_byte_for_byte() {
    let original = std::fs::read(golden("plain.tfrecord")).unwrap();
    let mut reader = RecordReader::new(&original[..]);
    let mut written = Vec::new();
    let mut examples = Vec::new();
    while let Some(record) = reader.next_record().unwrap() {
        write_record(&mut written, &record).unwrap();
        examples.push(Example::parse(&record).unwrap());
    }
    assert_eq!(written, original);
    assert!(examples.iter().all(|example| Example::parse(&example.to_record()).unwrap() == *example));
}

#[test]
fn webdataset_shards_hold_what_was_written() {
    let folder = tempfile::tempdir().unwrap();
    let glyphs = Glyphs::new(25, 3);
    let shards = write_webdataset(&glyphs, folder.path(), "shard", 10).unwrap();
    assert_eq!(shards.len(), 3);
    let set = WebDataset::open(&shards, gray()).unwrap();
    assert_eq!((set.len(), set.class_names().len()), (25, 10));
    for index in [0, 9, 10, 24] {
        assert_eq!(set.get(index).unwrap(), glyphs.get(index).unwrap());
    }
}

fn write(path: &Path, image: &Image<u8>) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    write_png_u8(path, image).unwrap();
}

#[test]
fn folders_are_classes() {
    let root = tempfile::tempdir().unwrap();
    for (class, count) in [("cat", 2), ("dog", 3)] {
        for number in 0..count {
            write(&root.path().join(format!("train/{class}/deep/{number}.png")), &Image::filled(4, 5, 3, number));
        }
    }
    std::fs::write(root.path().join("train/cat/notes.txt"), "no image").unwrap();
    let set = FolderDataset::open_split(root.path(), Split::Train, DecodeOptions::default()).unwrap();
    assert_eq!((set.len(), set.class_names()), (5, &["cat".to_string(), "dog".to_string()][..]));
    assert_eq!(set.get(4).unwrap().target, Target::Class(1));
    assert!(set.location(4).ends_with("2.png"));
    let problem = FolderDataset::open_split(root.path(), Split::Val, DecodeOptions::default()).map(|_| ());
    assert!(problem.unwrap_err().to_string().contains("no folder val/"));
}

#[test]
fn infrared_sets_are_found_in_all_three_layouts() {
    let layouts = [
        ("trainval.txt", "test.txt", "", ""),
        ("img_idx/train_NUDT-SIRST.txt", "img_idx/test_NUDT-SIRST.txt", "", ".png"),
        ("idx_427/trainval.txt", "idx_427/test.txt", "_pixels0", ""),
    ];
    for (train, test, suffix, ending) in layouts {
        let root = tempfile::tempdir().unwrap();
        for name in ["XDU0", "XDU1", "v1.2"] {
            write(&root.path().join(format!("images/{name}.png")), &Image::filled(6, 7, 1, 90));
            let mask = Image::from_fn(6, 7, 1, |row, column, _| if row == 2 && column > 4 { 255 } else { 3 });
            write(&root.path().join(format!("masks/{name}{suffix}.png")), &mask);
        }
        for (list, names) in [(train, vec!["XDU0", "v1.2"]), (test, vec!["XDU1"])] {
            let path = root.path().join(list);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, names.iter().map(|name| format!("{name}{ending}\n")).collect::<String>()).unwrap();
        }
        let set = open_masks(root.path(), Split::Train, &MaskRules::default(), DecodeOptions::default()).unwrap();
        assert_eq!(
            (set.len(), open_masks(root.path(), Split::Val, &MaskRules::default(), gray()).unwrap().len()),
            (2, 1)
        );
        let sample = set.get(1).unwrap();
        assert_eq!(sample.image.dims(), [6, 7, 3]);
        let Target::Mask(mask) = sample.target else { panic!("a mask is expected") };
        assert_eq!(mask.labels.values().iter().map(|&value| value as u32).sum::<u32>(), 2);
        std::fs::remove_file(root.path().join(format!("masks/XDU1{suffix}.png"))).unwrap();
        let problem =
            open_masks(root.path(), Split::Val, &MaskRules::default(), gray()).map(|_| ()).unwrap_err().to_string();
        assert!(problem.contains("no mask for \"XDU1"), "{problem}");
    }
}

#[test]
fn frames_have_masks_of_their_size() {
    let root = tempfile::tempdir().unwrap();
    for number in 0..3 {
        write(&root.path().join(format!("video/frame_{number:04}.png")), &Image::filled(8, 8, 3, number));
        write(
            &root.path().join(format!("mask/frame_{number:04}.png")),
            &Image::filled(8, 8 + number as usize / 2, 1, 1),
        );
    }
    let set = open_frames(root.path(), &MaskRules::default(), DecodeOptions::default()).unwrap();
    assert_eq!(set.len(), 3);
    assert!(set.get(0).is_ok());
    let problem = set.get(2).unwrap_err().to_string();
    assert!(problem.contains("the mask is 8×9, its image 8×8"), "{problem}");
}

#[test]
fn tables_give_numbers() {
    let root = tempfile::tempdir().unwrap();
    write(&root.path().join("images/a.png"), &Image::filled(4, 4, 1, 7));
    let table = root.path().join("targets.csv");
    std::fs::write(&table, "path,angle,size\nimages/a.png,1.5,-2\n").unwrap();
    let set = TableDataset::open(&table, &[], gray()).unwrap();
    assert_eq!(set.get(0).unwrap().target, Target::Values(vec![1.5, -2.0]));
    assert_eq!(set.class_names(), ["angle", "size"]);
}

/// Two thousand damaged copies of each file: refused in a sentence or read, never a panic.
#[test]
fn damaged_files_are_survived() {
    // Twelve thousand small files: in memory where that is possible.
    let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    let mut idx = vec![0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 28, 0, 0, 0, 28];
    idx.extend([5; 2 * 784]);
    let shard = write_webdataset(&Glyphs::new(3, 3), folder.path(), "shard", 10).unwrap().remove(0);
    let originals = [
        ("idx", idx),
        ("tfrecord", std::fs::read(golden("plain.tfrecord")).unwrap()),
        ("tfrecord.gz", std::fs::read(golden("zipped.tfrecord")).unwrap()),
        ("cifar", std::fs::read(golden("cifar-100-python.tar.gz")).unwrap()),
        ("tar", std::fs::read(shard).unwrap()),
        ("csv", b"path,x,y\na.png,1,2\n\"b,c.png\",3e5,-4\n".to_vec()),
    ];
    for (kind, original) in originals {
        let mut rng = SampleRng::new(1, 2, kind.len() as u64);
        let path = folder.path().join(format!("damaged.{kind}"));
        let mut refused = 0;
        for _ in 0..2000 {
            let mut bytes = original.clone();
            match rng.below(3) {
                0 => bytes.truncate(rng.below(bytes.len())),
                1 => (0..1 + rng.below(6)).for_each(|_| {
                    let position = rng.below(bytes.len());
                    bytes[position] ^= 1 << rng.below(8);
                }),
                _ => {
                    let start = rng.below(bytes.len().min(600));
                    let end = (start + 1 + rng.below(8)).min(bytes.len());
                    bytes[start..end].fill([0xff, 0x7f, 0][rng.below(3)]);
                }
            }
            std::fs::write(&path, &bytes).unwrap();
            let everything = |set: &dyn Dataset| (0..set.len()).try_for_each(|index| set.get(index).map(|_| ()));
            let paths = [path.clone()];
            let outcome = match kind {
                "idx" => read_idx(&path).map(|_| ()),
                "cifar" => Cifar::open(&path, Split::Train).and_then(|set| everything(&set)),
                "tar" => WebDataset::open(&paths, gray()).and_then(|set| everything(&set)),
                "csv" => TableDataset::open(&path, &[], gray()).map(|_| ()),
                _ => TfRecordDataset::open(&paths, TfRecordKeys::default(), gray()).and_then(|set| everything(&set)),
            };
            if let Err(error) = outcome {
                let text = error.to_string();
                assert!(text.contains("damaged") || text.contains("hold no"), "{text}");
                refused += 1;
            }
        }
        println!("{kind}: {refused} of 2000 refused");
        assert!(refused > 300, "{kind}: only {refused} were refused");
    }
}

#[test]
fn layouts_are_recognized() {
    use octant_data::readers::open;
    use octant_data::synth::{write_infrared, write_regression, write_shapes};
    let root = tempfile::tempdir().unwrap();
    write_infrared(&root.path().join("infrared"), 5, 48, 1).unwrap();
    write_regression(&root.path().join("regression"), 5, 48, 1).unwrap();
    write_shapes(&root.path().join("shapes"), 10, 48, 1).unwrap();
    write_webdataset(&Glyphs::new(4, 1), &root.path().join("shards"), "shard", 2).unwrap();
    octant_data::pack(&Glyphs::new(6, 1), &root.path().join("glyphs.pack")).unwrap();
    let folder = |name: &str| root.path().join(name);
    let len = |path: PathBuf, split| open(path, split, DecodeOptions::default()).unwrap().len();
    assert_eq!((len(folder("infrared"), Split::Train), len(folder("infrared"), Split::Val)), (4, 1));
    assert_eq!((len(folder("regression"), Split::Train), len(folder("regression"), Split::Val)), (4, 1));
    assert_eq!((len(folder("shapes"), Split::Train), len(folder("shapes"), Split::Val)), (8, 2));
    assert_eq!((len(folder("shards"), Split::Train), len(folder("glyphs.pack"), Split::Train)), (4, 6));
    assert_eq!(
        (len(golden("cifar-100-python.tar.gz"), Split::Val), len(golden("plain.tfrecord"), Split::Train)),
        (2, 3)
    );
    let problem = open(folder("nothing"), Split::Train, DecodeOptions::default()).map(|_| ()).unwrap_err();
    assert!(problem.to_string().contains("nothing"), "{problem}");
}
