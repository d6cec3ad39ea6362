//! Synthetic sets are sound, packed sets hold the same samples, and reports find what is wrong.
#![allow(clippy::unwrap_used)]

use octant_data::decode::{Channels, DecodeOptions};
use octant_data::readers::{FolderDataset, MaskRules, Split, TableDataset, open_masks};
use octant_data::report::{SheetOptions, contact_sheet, survey, to_terminal};
use octant_data::synth::{write_infrared, write_regression, write_shapes};
use octant_data::{Cached, Dataset, Glyphs, Packed, SampleRng, Target, pack};
use std::path::Path;
use std::sync::Arc;

fn gray() -> DecodeOptions {
    DecodeOptions { channels: Channels::Gray, ..DecodeOptions::default() }
}

#[test]
fn infrared_scenes_have_small_targets_that_stand_out() {
    let folder = tempfile::tempdir().unwrap();
    write_infrared(folder.path(), 20, 128, 5).unwrap();
    let set = open_masks(folder.path(), Split::Train, &MaskRules::default(), gray()).unwrap();
    assert_eq!(
        (set.len(), open_masks(folder.path(), Split::Val, &MaskRules::default(), gray()).unwrap().len()),
        (16, 4)
    );
    for index in 0..set.len() {
        let sample = set.get(index).unwrap();
        let Target::Mask(mask) = &sample.target else { panic!("a mask is expected") };
        let pairs = || sample.image.bytes().iter().zip(mask.labels.values());
        let marked = pairs().filter(|(_, mask)| **mask == 1).count();
        assert!((3..=150).contains(&marked), "scene {index}: {marked} pixels");
        let mean = |wanted: u8| {
            let values: Vec<f64> = pairs().filter(|(_, m)| **m == wanted).map(|(v, _)| *v as f64).collect();
            values.iter().sum::<f64>() / values.len() as f64
        };
        assert!(mean(1) > mean(0) + 8.0, "scene {index}: {} against {}", mean(1), mean(0));
    }
    let survey = survey(&set, 2);
    assert!(survey.is_sound() && survey.duplicates.is_empty() && survey.empty_masks.is_empty());
    assert!(survey.statistics.to_string().contains("masks mark"));
}

#[test]
fn shapes_and_regression_are_real_sets() {
    let folder = tempfile::tempdir().unwrap();
    write_shapes(folder.path(), 20, 64, 1).unwrap();
    let train = FolderDataset::open_split(folder.path(), Split::Train, DecodeOptions::default()).unwrap();
    let test = FolderDataset::open_split(folder.path(), Split::Val, DecodeOptions::default()).unwrap();
    assert_eq!((train.len(), test.len(), train.class_names()), (16, 4, test.class_names()));
    let labels = std::fs::read_to_string(folder.path().join("labels/00003.txt")).unwrap();
    for line in labels.lines() {
        let numbers: Vec<f32> = line.split(' ').map(|number| number.parse().unwrap()).collect();
        assert!(numbers.len() == 5 && numbers[1..].iter().all(|number| (0.0..=1.0).contains(number)), "{line}");
    }
    write_regression(folder.path(), 10, 48, 1).unwrap();
    let table = TableDataset::open(folder.path().join("train.csv"), &[], gray()).unwrap();
    let Target::Values(values) = table.get(3).unwrap().target else { panic!("numbers are expected") };
    assert!((0.0..=12.0).contains(&values[0]) && (0.0..1.0).contains(&values[1]));
}

fn equal(first: &dyn Dataset, second: &dyn Dataset) {
    assert_eq!((first.len(), first.class_names()), (second.len(), second.class_names()));
    for index in 0..first.len() {
        assert_eq!(first.get(index).unwrap(), second.get(index).unwrap());
    }
}

#[test]
fn packed_and_cached_sets_hold_the_same_samples() {
    let folder = tempfile::tempdir().unwrap();
    let glyphs = Arc::new(Glyphs::new(50, 8));
    let path = folder.path().join("glyphs.pack");
    pack(&*glyphs, &path).unwrap();
    equal(&*glyphs, &Packed::open(&path).unwrap());
    // Room for ten images only: the others are read again.
    let cached = Cached::new(glyphs.clone(), 10 * 28 * 28);
    equal(&*glyphs, &cached);
    equal(&*glyphs, &cached);
    write_infrared(folder.path(), 5, 64, 2).unwrap();
    let masked = open_masks(folder.path(), Split::Train, &MaskRules::default(), gray()).unwrap();
    pack(&masked, &path).unwrap();
    equal(&masked, &Packed::open(&path).unwrap());
}

#[test]
fn damaged_packs_are_survived() {
    let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    let path = folder.path().join("small.pack");
    pack(&Glyphs::new(3, 8), &path).unwrap();
    let original = std::fs::read(&path).unwrap();
    let mut rng = SampleRng::new(0, 0, 0);
    for _ in 0..2000 {
        let mut bytes = original.clone();
        match rng.below(2) {
            0 => bytes.truncate(1 + rng.below(bytes.len() - 1)),
            _ => {
                let start = [rng.below(40), bytes.len() - 1 - rng.below(150)][rng.below(2)];
                bytes[start] = rng.bits() as u8;
            }
        }
        std::fs::write(&path, &bytes).unwrap();
        if let Ok(set) = Packed::open(&path) {
            (0..set.len().min(5)).for_each(|index| drop(set.get(index)));
        }
    }
}

#[test]
fn a_survey_names_what_is_wrong() {
    let folder = tempfile::tempdir().unwrap();
    write_shapes(folder.path(), 12, 48, 3).unwrap();
    let root = folder.path().join("train");
    let image = |class: &str| {
        let mut files: Vec<_> = std::fs::read_dir(root.join(class)).unwrap().map(|e| e.unwrap().path()).collect();
        files.sort();
        files.into_iter().next()
    };
    let source = ["disc", "ring", "square", "triangle"].iter().find_map(|class| image(class)).unwrap();
    let other = if source.starts_with(root.join("disc")) { "ring" } else { "disc" };
    std::fs::copy(&source, root.join(other).join("copy.png")).unwrap();
    std::fs::write(root.join("square/broken.png"), &std::fs::read(&source).unwrap()[..90]).unwrap();
    let set = FolderDataset::open(&root, DecodeOptions::default()).unwrap();
    let (one, four) = (survey(&set, 1), survey(&set, 4));
    assert!(!one.is_sound());
    assert_eq!(one.corrupt.len(), 1);
    assert!(one.corrupt[0].0.ends_with("broken.png") && one.corrupt[0].1.contains("damaged"), "{:?}", one.corrupt);
    assert_eq!((one.duplicates.len(), one.duplicates[0].contradict), (1, true));
    assert!(one.duplicates[0].positions.iter().any(|path| Path::new(path).ends_with("copy.png")));
    assert_eq!((one.corrupt, one.duplicates), (four.corrupt, four.duplicates));
    let plot = one.statistics.class_plot(set.class_names(), 2);
    assert!(plot.contains("disc") && plot.contains("2 more classes"), "{plot}");
}

#[test]
fn contact_sheets_show_labels() {
    let options = SheetOptions { rows: 2, columns: 3, cell: 40, overlay: true };
    let sheet = contact_sheet(&Glyphs::new(100, 1), options).unwrap();
    assert_eq!(sheet.dims(), [2 * 57, 3 * 42, 3]);
    // Below an image there is a dark strip with light letters in it.
    let strip: Vec<u8> = (41..56).flat_map(|row| sheet.row(row)[..120].to_vec()).collect();
    assert!(strip.contains(&24) && strip.iter().any(|&value| value > 200));
    assert!(to_terminal(&sheet, 30).lines().count() >= 10);
}
