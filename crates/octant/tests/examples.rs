//! The examples do what they say, in less than forty lines each.

#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

#[path = "../examples/contrastive.rs"]
mod contrastive;
#[path = "../examples/distill.rs"]
mod distill;
#[path = "../examples/fine_tune.rs"]
mod fine_tune;
#[path = "../examples/gan.rs"]
mod gan;
#[path = "../examples/own_step.rs"]
mod own_step;
#[path = "../examples/save_and_load.rs"]
mod save_and_load;
#[path = "../examples/whole_run.rs"]
mod whole_run;

use octant::imaging::Image;
use octant::prelude::*;
use std::sync::Arc;

#[test]
fn a_model_and_a_step_of_ones_own_learn() {
    let losses = own_step::run().unwrap();
    assert!(losses[2] < 1.5, "{losses:?}");
}

#[test]
fn weights_of_ones_own_model_are_saved_and_read_back() {
    let folder = tempfile::tempdir().unwrap();
    let [trained, from_file, trained_on] = save_and_load::run(folder.path()).unwrap();
    assert_eq!(trained, from_file);
    // Chance is 2.30.
    assert!(trained < 2.3 && trained_on < trained, "{trained} {trained_on}");
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
        "phases.0.schedule.lr=0.01".to_string(),
    ];
    let run = folder.path().join("run");
    let outcome = fine_tune::fine_tune(&settings, &run).unwrap();
    assert_eq!(outcome.summary.progress.epoch, 2);
    let best = outcome.best.unwrap();
    let of_training = best.metrics.iter().find(|(name, _)| name == "accuracy").unwrap().1;
    assert!(of_training > 0.9, "dark and light are distinguished: {best:?}");
    for left in ["checkpoints/best/model.safetensors", "plots/loss.png", "plots/predictions.png", "network.json"] {
        assert!(run.join(left).is_file(), "{left}");
    }
}

#[test]
fn a_whole_run_is_trained_resumed_evaluated_and_used_in_sixty_lines() {
    assert!(include_str!("../examples/whole_run.rs").lines().count() <= 60);
    let folder = tempfile::tempdir().unwrap();
    let whole = whole_run::run(&folder.path().join("run")).unwrap();
    assert_eq!((whole.stopped_after, whole.epochs), (1, 3));
    let [validated, evaluated] = whole.accuracy;
    assert!((validated - evaluated).abs() < 1e-6 && evaluated > 0.4, "{validated} {evaluated}");
    let [predicted, right] = whole.classes;
    assert!(predicted < 10 && right < 10);
}

#[test]
fn the_examples_are_short() {
    for text in [include_str!("../examples/fine_tune.rs"), include_str!("../examples/own_step.rs")] {
        assert!(text.lines().count() < 40, "{}", text.lines().count());
    }
}

#[test]
fn two_networks_with_two_optimizers_take_less_than_sixty_lines() {
    gan::main().unwrap();
    let backend = CpuBackend::new().unwrap().shared();
    let plan = StepPlan::new(Arc::new(gan::Gan), 32);
    let mut session = Session::new(&backend, &plan, &CompileOptions::default(), 1).unwrap();
    let loader = Loader::new(Arc::new(Glyphs::new(640, 1)), Arc::new(()), LoaderConfig::default()).unwrap();
    let critic_loss = |epoch| {
        session.reset().unwrap();
        loader.epoch(epoch).for_each(|batch| session.train(&batch.unwrap(), 1e-3).unwrap());
        session.metrics().unwrap()[1].1
    };
    let [first, last] = [0, 1].map(critic_loss);
    println!("critic {first} {last}");
    // A critic that tells nothing apart has a loss of 2.
    assert!(last < first && last < 1.9, "{first} {last}");
    assert!(include_str!("../examples/gan.rs").lines().count() < 60);
}

#[test]
fn a_student_learns_from_a_teacher_that_stays_as_it_is() {
    let [teacher, student] = distill::run().unwrap();
    // Chance is 0.1.
    assert!(teacher > 0.3 && student > 0.2, "{teacher} {student}");
}

#[test]
fn views_of_one_image_come_closer_to_each_other() {
    let losses = contrastive::run().unwrap();
    // Chance is the logarithm of 63, 4.1.
    assert!(losses[2] < losses[0] && losses[2] < 3.5, "{losses:?}");
}

/// What the guide shows is a part of what runs.
#[test]
fn the_code_of_the_guide_is_that_of_the_examples() {
    let guide = include_str!("../../../docs/guides/custom-steps.md");
    let examples = [
        include_str!("../examples/gan.rs"),
        include_str!("../examples/distill.rs"),
        include_str!("../examples/contrastive.rs"),
        include_str!("../examples/save_and_load.rs"),
    ];
    let blocks: Vec<&str> =
        guide.split("```").skip(1).step_by(2).filter_map(|block| block.strip_prefix("rust\n")).collect();
    assert!(blocks.len() >= 4);
    let lines = |text: &str| text.lines().map(|line| line.trim().to_string()).collect::<Vec<_>>().join("\n");
    for block in blocks {
        let wanted = lines(block.trim());
        assert!(examples.iter().any(|example| lines(example).contains(&wanted)), "no example has:\n{block}");
    }
}
