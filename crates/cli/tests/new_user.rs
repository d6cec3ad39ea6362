//! A new user's first hours: interrupted runs, own folders, wrong values, and commands that the program names.

#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// Runs a command line in a folder; `octant` is this build. The exit code, and everything that was printed.
fn shell(folder: &Path, command: &str) -> (Option<i32>, String) {
    let binary = Path::new(env!("CARGO_BIN_EXE_octant")).parent().unwrap();
    let path = format!("{}:{}", binary.display(), std::env::var("PATH").unwrap());
    let mut shell = Command::new("sh");
    shell.current_dir(folder).env("PATH", path).env("OCTANT_CACHE", folder.join("cache")).args(["-c", command]);
    let output = shell.output().unwrap();
    let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    assert!(!text.contains("panicked"), "{command}: {text}");
    (output.status.code(), text)
}

fn done(folder: &Path, command: &str) -> String {
    let (code, text) = shell(folder, command);
    assert_eq!(code, Some(0), "{command}: {text}");
    text
}

fn refused(folder: &Path, command: &str, sentence: &str) {
    let (code, text) = shell(folder, command);
    assert!(code == Some(1) && text.contains(sentence), "{command} should print {sentence:?}: {code:?} {text}");
}

const TINY: &str = "octant train glyphs --model fashion-cnn-tiny --device cpu --threads 1 --workers 1 --batch-size 16 --set \
                    data.train=128 --set data.test=32";

#[test]
fn the_same_command_resumes_where_it_stopped_without_a_directory_being_named() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    done(at, &format!("{TINY} --epochs 2 --time 0s"));
    let text = done(at, &format!("{TINY} --epochs 2"));
    assert!(text.contains("glyphs resumes from step 1 of runs/glyphs-1"), "{text}");
    assert!(!at.join("runs/glyphs-2").exists());
    // It has come to its end now, so that the same command begins another one; and so do other settings.
    done(at, &format!("{TINY} --epochs 2 --time 0s"));
    assert!(at.join("runs/glyphs-2").exists());
    done(at, &format!("{TINY} --epochs 2 --seed 5 --time 0s"));
    assert!(at.join("runs/glyphs-3").exists());
}

/// On a screen of 80 columns and 24 lines.
#[test]
fn the_program_alone_names_first_commands_that_exist() {
    let folder = tempfile::tempdir().unwrap();
    let text = done(folder.path(), "octant");
    assert!(text.lines().count() < 24 && text.lines().all(|line| line.chars().count() <= 80), "{text}");
    let commands: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("  octant ")).collect();
    assert!(commands[0].starts_with("train ") && commands.len() > 5, "{text}");
    for command in commands {
        let words = command.split("  ").next().unwrap();
        done(folder.path(), &format!("octant {words} --help"));
    }
}

#[test]
fn a_first_run_prints_lines_that_fit_a_terminal() {
    let folder = tempfile::tempdir().unwrap();
    let text = done(folder.path(), &format!("{TINY} --epochs 3 --out run"));
    let epochs: Vec<&str> = text.lines().filter(|line| line.starts_with("epoch ")).collect();
    assert_eq!(epochs.len(), 3, "{text}");
    for line in epochs {
        assert!(line.chars().count() <= 80 && !line.contains('\u{1b}'), "{line}");
        for part in ["loss ", "val_loss ", "val_accuracy ", " images/s"] {
            assert!(line.contains(part), "{part}: {line}");
        }
    }
    // A plot of the metric that chooses the best epoch, and nothing that would need images like these.
    assert!(text.contains("val_accuracy by epoch") && text.contains('┤'), "{text}");
    assert!(text.contains("octant train classify --data DIR") && !text.contains("octant predict"), "{text}");
}

#[test]
fn validation_settings_that_do_not_fit_fail_before_the_first_step() {
    let folder = tempfile::tempdir().unwrap();
    let crop = "--set 'phases.0.transform=[{ op = \"random-crop\", size = [24, 24] }]'";
    let command = format!("{TINY} --epochs 1 --out run {crop}");
    refused(folder.path(), &command, "the validation data has u8[16,28,28,1] after `eval_transform`");
    let log = std::fs::read_to_string(folder.path().join("run/log.txt")).unwrap();
    assert!(!log.contains("epoch 1"), "nothing was learned: {log}");
}

#[test]
fn an_output_that_cannot_be_written_is_a_sentence() {
    let folder = tempfile::tempdir().unwrap();
    for command in ["octant models", "octant recipes", "octant recipes show glyphs", "octant devices --json"] {
        refused(folder.path(), &format!("{command} > /dev/full"), "octant: the output cannot be written");
    }
}

#[test]
fn a_board_that_does_not_exist_fails_the_plan() {
    let folder = tempfile::tempdir().unwrap();
    let (code, text) = shell(folder.path(), "octant plan fashion-cnn-tiny --on v9-8 --quick");
    assert_eq!(code, Some(1), "{text}");
}

#[test]
fn a_last_checkpoint_that_is_gone_is_reported_and_nothing_starts_from_zero() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    done(at, &format!("{TINY} --epochs 1 --out run"));
    std::fs::remove_dir_all(at.join("run/checkpoints/last")).unwrap();
    let text = done(at, "octant train run --epochs 2");
    assert!(text.contains("the last checkpoint is gone; resuming from the best one, "), "{text}");
}

#[test]
fn values_out_of_range_and_options_that_are_ignored_are_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    for (flags, sentence) in [
        ("--lr -1", "--lr must be at least 0, not -1"),
        ("--image-size 0", "--image-size must lie within 1 and 65535, not 0"),
        ("--image-size 64", "--image-size changes nothing"),
        ("--ema 2", "--ema must be at least 0 and below 1, not 2"),
        ("--accumulate 0", "--accumulate must be at least 1, not 0"),
        ("--batch-size 0", "--batch-size must be at least 1, not 0"),
        ("--optimizer sgd --set phases.0.momentum=5", "momentum` must be at least 0 and below 1, not 5"),
        ("--set label_smoothing=2", "`label_smoothing` must be at least 0 and below 1, not 2"),
        ("--loss dice", "--loss cannot be chosen"),
        ("--min-lr 0.1", "--min-lr is for linear"),
        ("--burn-lr 0.1", "--burn-lr"),
        ("--precision f17", "--precision must be f32 or bf16, not \"f17\""),
    ] {
        refused(folder.path(), &format!("{TINY} --epochs 1 {flags}"), sentence);
    }
    assert!(!folder.path().join("runs").exists(), "nothing began");
}

/// The commands of the `next` list at the end of a run with `--json`.
fn hints(text: &str) -> Vec<String> {
    let mut objects = text.lines().rev().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let last = objects.find(|object| object["next"].is_array()).unwrap();
    last["next"].as_array().unwrap().iter().map(|hint| hint["command"].as_str().unwrap().to_string()).collect()
}

#[test]
fn every_command_that_a_run_names_works() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let recipe = done(at, "octant recipes show glyphs").replace("epochs = 5", "epochs = 1");
    std::fs::create_dir(at.join("my recipes")).unwrap();
    std::fs::write(at.join("my recipes/ft.toml"), recipe).unwrap();
    done(at, "octant data synth shapes shapes --count 20 --side 32");
    let tiny = TINY.replace("train glyphs", "train 'my recipes/ft.toml'") + " --json";
    let stopped = hints(&done(at, &format!("{tiny} --out 'a run' --time 0s")));
    assert_eq!(stopped, ["octant train 'a run'"]);
    let mut commands = hints(&done(at, &format!("{} --json", stopped[0])));
    assert!(commands.iter().any(|command| command.ends_with("--epochs 2")), "it is still improving: {commands:?}");
    // Without a rate nothing improves, so that the first epoch stays the best one; but nothing overfits either.
    let idle = hints(&done(at, &format!("{tiny} --out idle --epochs 6 --lr 0")));
    assert!(!idle.iter().any(|command| command.contains("--weight-decay")), "{idle:?}");
    commands.extend(idle);
    // What a run that overfits proposes, see `train/summary.rs`.
    commands.push("octant train idle/config.toml --weight-decay 0.1 --patience 3 --fresh".into());
    for command in &commands {
        // A server runs until it is ended.
        let command = command.replace("octant board ", "timeout 3 octant board ");
        let own =
            "--data shapes --model resnet-tiny --weights none --image-size 32 --batch-size 4 --epochs 1 --device cpu";
        let command = command.replace("--data DIR", own).replace("IMAGES", "shapes/images/00000.png");
        let (code, text) = shell(at, &command);
        assert!(code == Some(0) || command.contains(" board ") && code == Some(124), "{command}: {code:?} {text}");
    }
}

#[test]
fn a_folder_of_images_is_trained_on_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let usual = "--device cpu --threads 1 --epochs 1 --batch-size 4 --image-size 32";
    done(at, "octant data synth shapes shapes --count 40 --side 40");
    std::fs::rename(at.join("shapes/train"), at.join("mine")).unwrap();
    let text = done(at, &format!("octant train classify --data mine --model resnet-tiny {usual}"));
    let images = std::fs::read_dir(at.join("mine")).unwrap().flatten();
    let images: usize = images.map(|class| std::fs::read_dir(class.path()).unwrap().count()).sum();
    assert!(text.contains("training and") && !text.contains(&format!("on {images} training")), "{text}");
    done(at, "octant eval runs/classify-1");

    done(at, "octant data synth irstd scenes --count 12 --side 64");
    ["trainval.txt", "test.txt"].iter().for_each(|list| std::fs::remove_file(at.join("scenes").join(list)).unwrap());
    done(at, &format!("octant train segment --data scenes --model unet-tiny {usual}"));

    let rows: String = (0..12).map(|n| format!("../scenes/images/scene{n:05}.png,{}\n", n * 3)).collect();
    std::fs::create_dir(at.join("counted")).unwrap();
    std::fs::write(at.join("counted/labels.csv"), format!("image,count\n{rows}")).unwrap();
    done(at, &format!("octant train regress --data counted --model resnet-tiny {usual}"));
}

#[test]
fn the_loss_of_every_step_is_logged() {
    let folder = tempfile::tempdir().unwrap();
    let text = done(folder.path(), &format!("{TINY} --epochs 1 --out run --json"));
    let events: Vec<Value> = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let steps: Vec<&Value> = events.iter().filter(|event| event["event"] == "step").collect();
    assert_eq!(
        steps.iter().map(|step| step["step"].as_u64().unwrap()).collect::<Vec<_>>(),
        (1..=8).collect::<Vec<_>>()
    );
    assert!(steps.iter().all(|step| step["loss"].as_f64().is_some_and(f64::is_finite)), "{text}");
    let written = octant_events::read_run(&folder.path().join("run")).unwrap();
    let tags = written.iter().filter_map(|event| match &event.content {
        octant_events::EventContent::Values(values) => {
            values.iter().any(|(tag, _)| tag == "step/loss").then_some(event.step)
        }
        _ => None,
    });
    assert_eq!(tags.collect::<Vec<_>>(), (1..=8).collect::<Vec<_>>());
    let log = std::fs::read_to_string(folder.path().join("run/log.txt")).unwrap();
    assert!(log.contains("epoch 1  phase 0  step 8"), "{log}");
}

#[test]
fn a_run_shows_itself_and_its_network_in_a_browser_while_it_trains() {
    let folder = tempfile::tempdir().unwrap();
    let printed = done(folder.path(), &format!("{TINY} --epochs 1 --board --out run"));
    assert!(printed.contains("board: http://127.0.0.1:"), "{printed}");
    let network: Value =
        serde_json::from_slice(&std::fs::read(folder.path().join("run/network.json")).unwrap()).unwrap();
    let blocks = network["blocks"].as_array().unwrap();
    let parameters: u64 = blocks
        .iter()
        .filter(|block| !block["path"].as_str().unwrap().contains('.'))
        .map(|block| block["parameters"].as_u64().unwrap())
        .sum();
    let model = octant_zoo::build("fashion-cnn-tiny", Some(10)).unwrap();
    let (specs, _) = octant_zoo::describe(&*model, [28, 28, 1]).unwrap();
    let expected: usize = specs.iter().map(|spec| spec.shape.elements()).sum();
    assert_eq!(parameters as usize, expected, "{network}");
    assert!(blocks.iter().all(|block| block["output"].as_str().unwrap().starts_with("f32[")), "{network}");
}

#[test]
fn a_run_that_is_not_there_is_refused_with_one_of_nearly_that_name() {
    let folder = tempfile::tempdir().unwrap();
    done(folder.path(), &format!("{TINY} --epochs 1 --out runs/glyphs-1"));
    refused(folder.path(), "octant eval runs/glyps-1", "there is no runs/glyps-1; did you mean runs/glyphs-1?");
    refused(folder.path(), "octant train runs/glyps-1", "there is no runs/glyps-1; did you mean runs/glyphs-1?");
    let own = "octant recipes classify | sed 's/^batch_size.*/batch_size = \"many\"/' > own.toml";
    done(folder.path(), own);
    let (_, printed) = shell(folder.path(), "octant train own.toml");
    assert!(printed.contains("give a number, \"auto\", or a share of the free memory"), "{printed}");
}

/// Recipes that fine-tune start from published weights; where there are none, the ways to go on are printed.
#[test]
fn fine_tuning_began_from_random_weights_without_a_word() {
    let folder = tempfile::tempdir().unwrap();
    done(folder.path(), "octant data synth shapes shapes --count 10 --side 32");
    let train = "octant train vit-finetune --data shapes --model vit_timm-test --device cpu --epochs 1";
    for way in [
        "starts from weights that are not here",
        "--weights FILE",
        "octant weights get vit_timm-test",
        "--weights none",
    ] {
        refused(folder.path(), train, way);
    }
    done(folder.path(), &format!("{train} --weights none"));
}
