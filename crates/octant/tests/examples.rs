//! The examples do what they say, in less than forty lines each.

#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

#[path = "../examples/fine_tune.rs"]
mod fine_tune;
#[path = "../examples/own_step.rs"]
mod own_step;

use octant::imaging::Image;

#[test]
fn a_model_and_a_step_of_ones_own_learn() {
    own_step::main().unwrap();
}

#[test]
fn a_model_of_the_zoo_is_fine_tuned_on_a_folder() {
    let folder = tempfile::tempdir().unwrap();
    for (class, shade) in [("dark", 30u8), ("light", 220)] {
        std::fs::create_dir_all(folder.path().join("images").join(class)).unwrap();
        for number in 0..10u8 {
            let image =
                Image::from_fn(40, 40, 3, |row, column, _| shade.wrapping_add((row * column % 7) as u8 + number));
            let path = folder.path().join("images").join(class).join(format!("{number}.png"));
            octant::data::write_png_u8(&path, &image).unwrap();
        }
    }
    let settings = [
        format!("data.dir='{}'", folder.path().join("images").display()),
        "model='resnet-tiny'".to_string(),
        "image_size=32".to_string(),
        "batch_size=4".to_string(),
        "phases.0.epochs=2".to_string(),
    ];
    let run = folder.path().join("run");
    fine_tune::fine_tune(&settings, &run).unwrap();
    assert!(run.join("checkpoints/best/model.safetensors").is_file());
}

#[test]
fn the_examples_are_short() {
    for text in [include_str!("../examples/fine_tune.rs"), include_str!("../examples/own_step.rs")] {
        assert!(text.lines().count() < 40, "{}", text.lines().count());
    }
}
