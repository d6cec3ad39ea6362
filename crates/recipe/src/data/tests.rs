use super::*;
use crate::{check, set_text, table};
use octant_data::readers::{write_tfrecord, write_webdataset};
use octant_data::{pack, write_png_u8};
use octant_imaging::Image;

/// An image whose pixels depend on a number.
fn put(path: &Path, number: usize) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    write_png_u8(path, &Image::from_fn(8, 8, 3, |row, column, _| (row * 31 + column * 7 + number * 13) as u8)).unwrap();
}

fn classes(root: &Path, names: &[&str], count: usize) {
    for (class, name) in names.iter().enumerate() {
        (0..count).for_each(|number| put(&root.join(name).join(format!("{number}.png")), class * 100 + number));
    }
}

fn recipe(name: &str, dir: &Path, changes: &[&str]) -> Recipe {
    let mut table = table(name).unwrap();
    set_text(&mut table, &format!("data.dir={}", dir.display())).unwrap();
    changes.iter().for_each(|change| set_text(&mut table, change).unwrap());
    check(table).unwrap()
}

fn here() -> LocalFiles {
    LocalFiles { cache: std::env::temp_dir() }
}

/// How many samples of how many are evaluated, for a network that was trained on `trained_on`.
fn evaluated(recipe: &Recipe, known: &[String], trained_on: Option<&Path>) -> Result<(usize, usize)> {
    evaluation_data(recipe, known, trained_on, false, &here()).map(|data| (data.dataset.len(), data.total))
}

fn refused(result: Result<impl Sized>) -> String {
    result.err().map(|error| error.to_string()).unwrap_or_else(|| panic!("it was taken"))
}

#[test]
fn a_folder_that_was_given_to_be_evaluated_was_evaluated_by_a_fifth() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let known: Vec<String> = ["cat", "dog", "newt"].map(String::from).to_vec();
    let classify = |dir: &Path| recipe("classify", dir, &[]);
    classes(&at("plain"), &["cat", "dog", "newt"], 5);
    assert_eq!(evaluated(&classify(&at("plain")), &known, Some(&at("other"))).unwrap(), (15, 15));
    assert_eq!(evaluated(&classify(&at("plain")), &known, None).unwrap(), (15, 15));
    // What training held out of it was not learned from.
    assert_eq!(evaluated(&classify(&at("plain")), &known, Some(&at("plain/../plain"))).unwrap(), (3, 15));
    classes(&at("only/Val"), &["cat", "dog", "newt"], 2);
    assert_eq!(evaluated(&classify(&at("only")), &known, Some(&at("plain"))).unwrap(), (6, 6));
    classes(&at("both/train"), &["cat", "dog", "newt"], 4);
    classes(&at("both/dev"), &["cat", "dog", "newt"], 1);
    assert_eq!(evaluated(&classify(&at("both")), &known, None).unwrap(), (3, 15));
    classes(&at("fewer"), &["cat", "newt"], 3);
    let fewer = evaluation_data(&classify(&at("fewer")), &known, None, false, &here()).unwrap();
    assert_eq!((fewer.dataset.len(), fewer.outputs), (6, 3));
    assert!(fewer.remarks[0].contains("lacks dog"), "{:?}", fewer.remarks);
    assert_eq!(fewer.dataset.get(3).unwrap().target, Target::Class(2), "newt stays the third class");
    classes(&at("more"), &["cat", "dog", "newt", "yak"], 3);
    let problem = refused(evaluated(&classify(&at("more")), &known, None));
    assert!(problem.contains("classes that the run lacks: yak"), "{problem}");
}

#[test]
fn a_test_part_that_is_not_there_was_replaced_by_another_without_a_word() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    for part in ["train", "val"] {
        classes(&at("classes").join(part), &["cat", "dog"], 3);
        put(&at("boxes/images").join(part).join("0.png"), part.len());
        std::fs::create_dir_all(at("boxes/labels").join(part)).unwrap();
        std::fs::write(at("boxes/labels").join(part).join("0.txt"), "0 0.5 0.5 0.5 0.5\n").unwrap();
    }
    let yaml = at("boxes/data.yaml");
    std::fs::write(&yaml, "train: images/train\nval: images/val\nnames: [cat]\n").unwrap();
    // Tables, packed files, shards and lists of masks.
    let masked = at("masked");
    for number in 0..6 {
        put(&masked.join(format!("images/{number}.png")), number);
        put(&masked.join(format!("masks/{number}.png")), 0);
    }
    let rows: String = (0..6).map(|number| format!("masked/images/{number}.png,{number}\n")).collect();
    std::fs::write(at("train.csv"), format!("image,count\n{rows}")).unwrap();
    std::fs::write(masked.join("trainval.txt"), "0\n1\n2\n").unwrap();
    std::fs::write(masked.join("val.txt"), "3\n4\n").unwrap();
    let plain = readers::open(at("classes/train"), Split::Train, eight_bits()).unwrap();
    std::fs::create_dir(at("packed")).unwrap();
    pack(&*plain, &at("packed/train.pack")).unwrap();
    pack(&*plain, &at("packed/val.pack")).unwrap();
    write_webdataset(&*plain, &at("tar"), "train", 4).unwrap();
    for (name, dir, sentence) in [
        ("classify", at("classes"), "it has no folder test/"),
        ("detect", yaml, "it has no `test:`"),
        ("segment", masked, "test.txt"),
        ("regress", folder.path().to_path_buf(), "it has no test part"),
        ("classify", at("packed"), "it has no test part"),
        ("classify", at("tar"), "it has no test part"),
    ] {
        let tested = recipe(name, &dir, &["data.validate_on=test"]);
        let evaluation = refused(evaluated(&tested, &[], Some(&at("other"))));
        let training = refused(data(&tested, &[], &here()));
        assert!(evaluation.contains(sentence) && training.contains(sentence), "{evaluation} / {training}");
    }
}

#[test]
fn every_form_of_data_is_evaluated_whole() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    classes(&at("plain"), &["cat", "dog"], 5);
    let plain = readers::open(at("plain"), Split::Train, eight_bits()).unwrap();
    std::fs::create_dir(at("packed")).unwrap();
    pack(&*plain, &at("packed/all.pack")).unwrap();
    write_webdataset(&*plain, &at("tar"), "all", 4).unwrap();
    write_tfrecord(&*plain, &at("records"), "all", 4).unwrap();
    for form in ["packed", "tar", "records"] {
        let recipe = recipe("classify", &at(form), &[]);
        assert_eq!(evaluated(&recipe, &[], None).unwrap(), (10, 10), "{form}");
        // The same files are held out as of the folder.
        let [own, wanted] = [form, "plain"].map(|form| {
            let data = data(&self::recipe("classify", &at(form), &[]), &[], &here()).unwrap();
            let mut paths: Vec<String> = (0..data.valid.len()).map(|index| data.valid.path(index)).collect();
            paths.iter_mut().for_each(|path| *path = path.rsplit('/').take(2).collect::<Vec<_>>().join(" in "));
            paths
        });
        assert_eq!(own, wanted, "{form}");
    }
    classes(&at("masked"), &["images"], 6);
    for number in 0..6 {
        let mask = Image::from_fn(8, 8, 1, |row, _, _| 255 * u8::from(row > 3));
        std::fs::create_dir_all(at("masked/masks")).unwrap();
        write_png_u8(at("masked/masks").join(format!("{number}.png")), &mask).unwrap();
    }
    assert_eq!(evaluated(&recipe("segment", &at("masked"), &[]), &[], None).unwrap(), (6, 6));
    let rows: String = (0..6).map(|number| format!("images/{number}.png,{number}\n")).collect();
    std::fs::write(at("masked/labels.csv"), format!("image,count\n{rows}")).unwrap();
    assert_eq!(evaluated(&recipe("regress", &at("masked"), &[]), &[], None).unwrap(), (6, 6));
    std::fs::create_dir_all(at("boxes/labels/val")).unwrap();
    classes(&at("boxes/images"), &["val"], 6);
    for number in 0..6 {
        std::fs::write(at("boxes/labels/val").join(format!("{number}.txt")), "0 0.5 0.5 0.5 0.5\n").unwrap();
    }
    std::fs::write(at("boxes/data.yaml"), "val: images/val\nnames: [thing]\n").unwrap();
    assert_eq!(evaluated(&recipe("detect", &at("boxes"), &[]), &[], None).unwrap(), (6, 6));
    classes(&at("pairs"), &["A", "B"], 5);
    assert_eq!(evaluated(&recipe("pix2pix", &at("pairs"), &[]), &[], None).unwrap(), (5, 5));
}

#[test]
fn folders_that_hold_no_classes_were_trained_to_an_accuracy_of_one() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let of = |name: &str| refused(data(&recipe("classify", &at(name), &[]), &[], &here()));
    classes(&at("one"), &["cat"], 10);
    assert!(of("one").contains("one class, cat"), "{}", of("one"));
    classes(&at("table"), &["images"], 10);
    std::fs::write(at("table/labels.csv"), "image,label\nimages/0.png,1\n").unwrap();
    assert!(of("table").contains("labels.csv holds the labels") && of("table").contains("octant train regress"));
    classes(&at("masks"), &["images", "masks"], 10);
    assert!(of("masks").contains("octant train segment"), "{}", of("masks"));
    for run in ["a", "b"] {
        put(&at("runs").join(run).join("plots/1.png"), 1);
        std::fs::create_dir_all(at("runs").join(run).join("checkpoints")).unwrap();
        std::fs::write(at("runs").join(run).join("config.toml"), "").unwrap();
    }
    assert!(of("runs").contains("holds runs"), "{}", of("runs"));
}

#[test]
fn validation_folders_of_other_names_were_passed_over_in_silence() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["val", "valid", "validation", "Val", "dev", "test", "TEST"] {
        let root = folder.path().join(name);
        classes(&root.join("train"), &["cat", "dog"], 5);
        classes(&root.join(name), &["cat", "dog"], 1);
        let data = data(&recipe("classify", &root, &[]), &[], &here()).unwrap();
        assert_eq!((data.train.len(), data.valid.len(), data.held_out_files()), (10, 2, None), "{name}");
    }
    let root = folder.path().join("other");
    classes(&root.join("train"), &["cat", "dog"], 5);
    classes(&root.join("holdout"), &["cat", "dog"], 1);
    let data = data(&recipe("classify", &root, &[]), &[], &here()).unwrap();
    assert!(data.remarks.iter().any(|remark| remark.contains("not used: holdout/")), "{:?}", data.remarks);
    assert!(data.remarks.iter().any(|remark| remark.contains("2 of 10 images are held out")), "{:?}", data.remarks);
    let files = data.held_out_files().unwrap();
    assert_eq!(files.lines().count(), 2);
    assert!(files.lines().all(|file| Path::new(file).is_file()), "{files}");
}

#[test]
fn outlines_are_masks_where_masks_are_learned() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    std::fs::create_dir_all(at("labels/train")).unwrap();
    for number in 0..6 {
        put(&at("images/train").join(format!("{number}.png")), number);
        let lines = "1 0.1 0.1 0.9 0.1 0.5 0.8\n0 0.5 0.5 0.2 0.2\n";
        std::fs::write(at("labels/train").join(format!("{number}.txt")), lines).unwrap();
    }
    std::fs::write(at("data.yaml"), "train: images/train\nval: images/train\nnames: [house, door]\n").unwrap();
    let data = data(&recipe("segment", folder.path(), &[]), &[], &here()).unwrap();
    assert_eq!((data.outputs, data.train.len(), data.valid.len()), (3, 5, 1));
    assert_eq!(data.classes, ["background", "house", "door"]);
    let hint = format!("`octant data verify {} --labels masks` lists them", folder.path().display());
    assert!(data.remarks.iter().any(|remark| remark.starts_with("6 labels") && remark.contains(&hint)));
    let problem = refused(super::data(&recipe("segment", folder.path(), &["classes=2"]), &[], &here()));
    assert!(problem.contains("the outlines and their background have 3 classes"), "{problem}");
}

#[test]
fn keys_of_data_that_change_nothing_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    classes(folder.path(), &["cat", "dog"], 5);
    for change in ["data.swap=true", "data.single_class=true", "data.columns=[\"a\"]", "data.label_key=x"] {
        let problem = refused(data(&recipe("classify", folder.path(), &[change]), &[], &here()));
        let key = change.split('=').next().unwrap();
        assert_eq!(problem, format!("`{key}` has no effect on data of kind \"folder\"; remove it"));
    }
    let data = data(&recipe("classify", folder.path(), &["data.train=5"]), &[], &here()).unwrap();
    assert!(data.remarks.contains(&"`data.train` is for generated data and has no effect on files".to_string()));
}

#[test]
fn an_image_size_that_no_machine_holds_was_passed_to_the_allocator() {
    let folder = tempfile::tempdir().unwrap();
    let recipe = recipe("classify", folder.path(), &["image_size=50000", "batch_size=1000000"]);
    let entry = octant_zoo::find(&recipe.model).unwrap();
    for (choice, training) in [(&recipe.phases[0].transform, true), (&recipe.eval_transform, false)] {
        let problem = refused(crate::transform(&recipe, choice, training, entry));
        assert!(problem.starts_with("a batch of 1000000 images of 5"), "{problem}");
        assert!(problem.contains(" GiB of memory, and ") && problem.ends_with("or batch size"), "{problem}");
    }
}
