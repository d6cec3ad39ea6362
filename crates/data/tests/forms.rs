//! The same samples in every form that a data set may have: files, cached, packed, WebDataset shards, TFRecord files.

#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use octant_data::decode::{Channels, DecodeOptions};
use octant_data::detection;
use octant_data::readers::{self, ImagePairs, Split, write_tfrecord, write_webdataset};
use octant_data::{
    AnyImage, Cached, Dataset, LabeledBox, PackedCopy, Sample, SampleRng, Target, pack, pack_once, write_png,
    write_png_indexed,
};
use octant_imaging::Image;
use std::path::Path;
use std::sync::Arc;

/// What training reads, and what `octant data pack` reads.
fn trained() -> DecodeOptions {
    DecodeOptions { eight_bits: true, ..DecodeOptions::default() }
}

fn stored() -> DecodeOptions {
    DecodeOptions { channels: Channels::Stored, ..DecodeOptions::default() }
}

fn noise(height: usize, width: usize, channels: usize, seed: u64) -> Image<u8> {
    let mut rng = SampleRng::new(seed, 0, 0);
    Image::from_fn(height, width, channels, |_, _, _| rng.bits() as u8)
}

/// Images of every mode that files have: gray, with alpha, color, with alpha, 16 bits of each.
fn modes() -> Vec<AnyImage> {
    let eight = (1..=4).map(|channels| AnyImage::U8(noise(6, 8, channels, channels as u64)));
    let sixteen = (1..=4).map(|channels| {
        AnyImage::U16(
            noise(6, 8, channels, 9 + channels as u64).map(|value| u16::from(value) * 257 - 3 * (value > 9) as u16),
        )
    });
    eight.chain(sixteen).collect()
}

/// Writes the images of all modes into a folder, under names with spaces, dots and letters of other scripts.
fn put_modes(folder: &Path) {
    std::fs::create_dir_all(folder).unwrap();
    for (number, image) in modes().iter().enumerate() {
        write_png(folder.join(format!("{number} ä.b.png")), image).unwrap();
    }
}

/// A layout, with the reader that `octant data` uses and the one that training uses.
type Layout = (&'static str, Arc<dyn Dataset>, Arc<dyn Dataset>);

/// A folder of each layout.
fn layouts(root: &Path) -> Vec<Layout> {
    let open = |name: &str, options| readers::open(root.join(name), Split::Train, options).unwrap();
    for class in ["cat", "dog"] {
        put_modes(&root.join("classes").join(class));
    }
    put_modes(&root.join("masked/images"));
    std::fs::create_dir_all(root.join("masked/masks")).unwrap();
    let mut rows = "image,age,height\n".to_string();
    put_modes(&root.join("table/images"));
    put_modes(&root.join("boxes/images/train"));
    std::fs::create_dir_all(root.join("boxes/labels/train")).unwrap();
    for number in 0..modes().len() {
        let mask = Image::from_fn(6, 8, 1, |row, column, _| 255 * u8::from((row + column + number) % 3 == 0));
        write_png(root.join(format!("masked/masks/{number} ä.b.png")), &AnyImage::U8(mask)).unwrap();
        rows += &format!("images/{number} ä.b.png,{}.25,{}\n", number, 1.0 / (number + 3) as f32);
        let label = format!("{} 0.4 0.5 0.31 0.27\n1 0.7 0.7 0.1 0.6\n", number % 2);
        std::fs::write(root.join(format!("boxes/labels/train/{number} ä.b.txt")), label).unwrap();
    }
    // Indices of a palette, one of them ignored, and names.
    put_modes(&root.join("semantic/images"));
    std::fs::create_dir_all(root.join("semantic/masks")).unwrap();
    for number in 0..modes().len() {
        let class = |at: usize| [0, 1, 2, 255][at % 4];
        let mask = Image::from_fn(6, 8, 1, |row, column, _| class(row * 8 + column + number));
        write_png_indexed(root.join(format!("semantic/masks/{number} ä.b.png")), &mask).unwrap();
    }
    std::fs::write(root.join("semantic/classes.txt"), "sky\nroad\ntree\n").unwrap();
    std::fs::write(root.join("table/labels.csv"), rows).unwrap();
    std::fs::write(root.join("boxes/data.yaml"), "train: images/train\nval: images/train\nnames: [a, b]\n").unwrap();
    put_modes(&root.join("pairs"));
    let pairs = || -> Arc<dyn Dataset> { Arc::new(ImagePairs::open(root.join("pairs"), Split::Train, false).unwrap()) };
    let both = |name: &'static str| (name, open(name, stored()), open(name, trained()));
    let mut all = vec![both("classes"), both("masked"), both("semantic"), both("table"), both("boxes")];
    all.push(("pairs", pairs(), pairs()));
    all
}

fn is_equal(one: &Sample, other: &Sample, tolerance: f32) -> bool {
    let near = |a: &LabeledBox, b: &LabeledBox| {
        let corners = |object: &LabeledBox| [object.x0, object.y0, object.x1, object.y1];
        a.class == b.class && corners(a).iter().zip(corners(b)).all(|(a, b)| (a - b).abs() <= tolerance)
    };
    one.image == other.image
        && match (&one.target, &other.target) {
            (Target::Boxes(a), Target::Boxes(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| near(a, b)),
            (a, b) => a == b,
        }
}

#[test]
fn packed_data_did_not_train_like_its_folder() {
    let folder = tempfile::tempdir().unwrap();
    for (layout, stored, plain) in layouts(&folder.path().join("plain")) {
        let out = folder.path().join(layout);
        std::fs::create_dir_all(out.join("packed")).unwrap();
        pack(&*stored, &out.join("packed/all.pack")).unwrap();
        write_webdataset(&*stored, &out.join("webdataset"), "all", 5).unwrap();
        write_tfrecord(&*stored, &out.join("tfrecord"), "all", 5).unwrap();
        let open = |form: &str| readers::open(out.join(form), Split::Train, trained()).unwrap();
        let cached = pack_once(&*plain, &out.join("cache"), "set").unwrap();
        let forms: [(&str, Arc<dyn Dataset>, f32); 5] = [
            ("packed", open("packed"), 0.0),
            ("webdataset", open("webdataset"), 0.0),
            // Corners are shares of the sides in single precision.
            ("tfrecord", open("tfrecord"), 1e-4),
            ("in memory", Arc::new(Cached::new(plain.clone(), 1 << 20)), 0.0),
            ("packed cache", Arc::new(PackedCopy::new(cached, plain.clone())), 0.0),
        ];
        for (form, set, tolerance) in forms {
            assert_eq!(set.len(), plain.len(), "{layout} as {form}");
            if !matches!(plain.get(0).unwrap().target, Target::Mask(_) | Target::Values(_)) || form != "webdataset" {
                // Masks and values have no numbers that names could be matched to in shards.
                let names = [&set, &plain].map(|set| set.class_names().len());
                assert!(names[0] == names[1] || form == "tfrecord", "{layout} as {form}: {names:?}");
            }
            for index in 0..set.len() {
                let (own, wanted) = (set.get(index).unwrap(), plain.get(index).unwrap());
                assert!(is_equal(&own, &wanted, tolerance), "{layout} as {form}, sample {index}: {own:?} {wanted:?}");
                let (own, wanted) = (set.path(index), plain.path(index));
                assert!(wanted.ends_with(&own), "{layout} as {form} is split by other names: {own} {wanted}");
            }
        }
    }
}

#[test]
fn packed_boxes_lost_what_coco_counts_when_they_were_cached() {
    let folder = tempfile::tempdir().unwrap();
    let json = r#"{"images":[{"id":7,"file_name":"a.png","width":20,"height":20}],"categories":[{"id":3,"name":"x"}],
        "annotations":[{"id":1,"image_id":7,"category_id":3,"bbox":[2,2,9,9],"area":12.5,"iscrowd":0}]}"#;
    std::fs::write(folder.path().join("set.json"), json).unwrap();
    write_png(folder.path().join("a.png"), &AnyImage::U8(noise(20, 20, 3, 1))).unwrap();
    let set: Arc<dyn Dataset> = Arc::new(detection::open(&folder.path().join("set.json"), Split::Train).unwrap());
    let packed = pack_once(&*set, folder.path(), "set").unwrap();
    let cached = PackedCopy::new(packed, set.clone());
    assert_eq!(cached.ground_truth(0).unwrap().objects[0].area, 12.5);
    assert_eq!(cached.location(0), set.location(0));
}

#[test]
fn shards_of_three_parts_and_several_packs_are_distinguished_by_the_words_of_their_names() {
    let folder = tempfile::tempdir().unwrap();
    put_modes(&folder.path().join("set/a"));
    put_modes(&folder.path().join("set/b"));
    let set = readers::open(folder.path().join("set"), Split::Train, trained()).unwrap();
    let out = folder.path().join("packs");
    std::fs::create_dir(&out).unwrap();
    // "latest" is no test, and "interval" no validation.
    for name in ["train-latest.pack", "train-interval.pack", "val.pack", "test.pack"] {
        pack(&*set, &out.join(name)).unwrap();
    }
    let len = |split| readers::open(&out, split, trained()).unwrap().len();
    assert_eq!([Split::Train, Split::Val, Split::Test].map(len), [2 * set.len(), set.len(), set.len()]);
    let first = |split| readers::open(&out, split, trained()).unwrap().location(0);
    assert!(first(Split::Val).ends_with("val.pack") && first(Split::Test).ends_with("test.pack"));
}
