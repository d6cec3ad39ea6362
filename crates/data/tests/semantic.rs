//! Masks of several classes: every layout, and what is wrong with them.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use octant_data::decode::DecodeOptions;
use octant_data::readers::{self, MaskRules, MaskedDataset, Split, open_masks};
use octant_data::report::{SheetOptions, contact_sheet, survey};
use octant_data::{Dataset, IGNORED, LabelMask, Target, synth, write_png_indexed, write_png_u8};
use octant_imaging::Image;
use std::path::Path;

fn put(path: &Path, image: &Image<u8>, indexed: bool) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    if indexed { write_png_indexed(path, image).unwrap() } else { write_png_u8(path, image).unwrap() }
}

/// An image of 4 × 6, and a mask whose columns have these values.
fn pair(image: &Path, mask: &Path, values: [u8; 6], indexed: bool) {
    put(image, &Image::from_fn(4, 6, 3, |row, column, channel| (row * 40 + column * 9 + channel) as u8), false);
    put(mask, &Image::from_fn(4, 6, 1, |_, column, _| values[column]), indexed);
}

fn opened(root: &Path, split: Split, rules: &MaskRules) -> Result<MaskedDataset, String> {
    open_masks(root, split, rules, DecodeOptions::default()).map_err(|error| error.to_string())
}

fn labels(set: &dyn Dataset, index: usize) -> Vec<u8> {
    let Target::Mask(mask) = set.get(index).unwrap().target else { panic!("a mask is expected") };
    assert!(!mask.is_of_one_class());
    mask.labels.values()[..6].to_vec()
}

#[test]
fn every_layout_gives_class_numbers_and_names() {
    let root = tempfile::tempdir().unwrap();
    let at = |name: &str| root.path().join(name);
    let plain = MaskRules::default();
    // images/ and masks/, and a folder per split inside of them or around them.
    for (layout, indexed, image, mask) in [
        ("flat", false, "images/a.png", "masks/a.png"),
        ("suffix", true, "images/a.png", "masks/a_mask.png"),
        ("inside", true, "images/train/a.png", "masks/train/a.png"),
        ("around", false, "train/images/a.png", "train/masks/a.png"),
        ("annotated", false, "images/training/a.png", "annotations/training/a.png"),
    ] {
        pair(&at(layout).join(image), &at(layout).join(mask), [0, 1, 2, 3, 255, 255], indexed);
        let set = opened(&at(layout), Split::Train, &plain).unwrap();
        assert_eq!((labels(&set, 0), set.class_names().len()), (vec![0, 1, 2, 3, 255, 255], 4), "{layout}");
        // The layout is recognized without being named.
        let any = readers::open(at(layout), Split::Train, DecodeOptions::default()).unwrap();
        assert_eq!(labels(&*any, 0), [0, 1, 2, 3, 255, 255], "{layout}");
    }
    assert!(opened(&at("inside"), Split::Val, &plain).err().unwrap().contains("no folder val/"));
    std::fs::write(at("flat").join("classes.txt"), "sky\nroad\ntree\ncar\nbus\n").unwrap();
    let named = opened(&at("flat"), Split::Train, &plain).unwrap();
    assert_eq!(named.class_names(), ["sky", "road", "tree", "car", "bus"]);

    let voc = at("VOCdevkit/VOC2012");
    for (name, values) in [("2007_1", [0, 15, 20, 255, 0, 0]), ("2007_2", [0, 0, 1, 1, 255, 0])] {
        let mask = voc.join(format!("SegmentationClass/{name}.png"));
        pair(&voc.join(format!("JPEGImages/{name}.png")), &mask, values, true);
    }
    std::fs::create_dir_all(voc.join("ImageSets/Segmentation")).unwrap();
    std::fs::write(voc.join("ImageSets/Segmentation/train.txt"), "2007_1\n").unwrap();
    std::fs::write(voc.join("ImageSets/Segmentation/val.txt"), "2007_2\n").unwrap();
    let [train, val] = [Split::Train, Split::Val].map(|split| opened(root.path(), split, &plain).unwrap());
    assert_eq!((labels(&train, 0), labels(&val, 0)), (vec![0, 15, 20, 255, 0, 0], vec![0, 0, 1, 1, 255, 0]));
    assert_eq!((train.len(), val.class_names().len(), train.class_names()[15].as_str()), (1, 21, "person"));

    let ade = at("ade");
    pair(&ade.join("images/training/a.png"), &ade.join("annotations/training/a.png"), [0, 1, 2, 3, 3, 0], false);
    let info = "Idx\tRatio\tTrain\tVal\tName\n1\t0.1\t1\t1\twall\n2\t0.1\t1\t1\tbuilding, edifice\n3\t0.1\t1\t1\tsky\n";
    std::fs::write(ade.join("objectInfo150.txt"), info).unwrap();
    let set = opened(&ade, Split::Train, &plain).unwrap();
    assert_eq!(labels(&set, 0), [IGNORED, 0, 1, 2, 2, IGNORED]);
    assert_eq!(set.class_names(), ["wall", "building", "sky"]);

    let city = at("city");
    let image = city.join("leftImg8bit/train/ulm/ulm_1_leftImg8bit.png");
    pair(&image, &city.join("gtFine/train/ulm/ulm_1_gtFine_labelIds.png"), [0, 7, 26, 33, 4, 255], false);
    let set = opened(&city, Split::Train, &plain).unwrap();
    assert_eq!(labels(&set, 0), [IGNORED, 0, 13, 18, IGNORED, IGNORED]);
    assert_eq!((set.class_names().len(), set.class_names()[13].as_str()), (19, "car"));
}

#[test]
fn hostile_masks_are_named() {
    let root = tempfile::tempdir().unwrap();
    let at = |name: &str| root.path().join(name);
    let good = |set: &str, name: &str, values| {
        let mask = at(set).join(format!("masks/{name}.png"));
        pair(&at(set).join(format!("images/{name}.png")), &mask, values, false);
    };
    let problem = |set: &str, rules: &MaskRules| match opened(&at(set), Split::Train, rules) {
        Err(problem) => problem,
        Ok(set) => (0..set.len()).filter_map(|index| set.get(index).err()).map(|error| error.to_string()).collect(),
    };
    let classes = |count| MaskRules { classes: Some(count), ..MaskRules::default() };
    ["size", "missing", "colors", "class", "lossy"].iter().for_each(|set| good(set, "a", [0, 1, 2, 0, 1, 2]));
    good("size", "b", [0, 1, 2, 0, 1, 2]);
    put(&at("size/masks/b.png"), &Image::filled(3, 6, 1, 1), false);
    put(&at("missing/images/b.png"), &Image::filled(4, 6, 3, 1), false);
    good("colors", "b", [0; 6]);
    put(
        &at("colors/masks/b.png"),
        &Image::from_fn(4, 6, 3, |row, column, channel| ((row + column * channel) * 40) as u8),
        false,
    );
    good("class", "b", [0, 1, 2, 3, 1, 1]);
    for (set, rules, sentence) in [
        ("size", MaskRules::default(), "b.png: the mask is 3×6, its image 4×6"),
        ("missing", MaskRules::default(), "there is no mask for"),
        ("colors", MaskRules::default(), "colors without a palette"),
        ("class", classes(3), "b.png: the value 3 at row 0, column 3 is no class; known values are 0–2 and 255"),
        ("class", classes(1), "masks of a single class have two values"),
        ("class", classes(300), "at most 255 classes"),
    ] {
        let found = problem(set, &rules);
        assert!(found.contains(sentence), "{set}: {found:?}");
    }
    // A mask that no image belongs to is listed.
    put(&at("class/images/train/x.png"), &Image::filled(4, 6, 3, 1), false);
    put(&at("class/masks/train/x.png"), &Image::from_fn(4, 6, 1, |_, column, _| column as u8), false);
    put(&at("class/masks/train/y.png"), &Image::filled(4, 6, 1, 1), false);
    let set = opened(&at("class"), Split::Train, &MaskRules::default()).unwrap();
    assert!(set.left_out()[0].contains("y.png: no image belongs to it"), "{:?}", set.left_out());
}

#[test]
fn synthetic_scenes_have_every_class_and_are_counted_by_pixels() {
    let folder = tempfile::tempdir().unwrap();
    synth::write_semantic(folder.path(), 20, 48, 3).unwrap();
    let set = opened(folder.path(), Split::Train, &MaskRules::default()).unwrap();
    assert_eq!((set.len(), set.class_names()), (16, &synth::SEMANTIC_CLASSES.map(String::from)[..]));
    let survey = survey(&set, 2);
    assert!(survey.is_sound() && survey.empty_classes.is_empty());
    assert_eq!(survey.statistics.classes.values().sum::<usize>(), 16 * 48 * 48);
    let sheet = |overlay| contact_sheet(&set, SheetOptions { rows: 2, columns: 2, cell: 48, overlay }).unwrap();
    assert_ne!(sheet(true), sheet(false));
    let mask = LabelMask::of_classes(Image::new(1, 4, 1, vec![0, 2, IGNORED, 2]).unwrap());
    assert_eq!(mask.counts().into_iter().collect::<Vec<_>>(), [(0, 1), (2, 2)]);
    assert_eq!(mask.objects().values(), [0, 1, 0, 1]);
}
