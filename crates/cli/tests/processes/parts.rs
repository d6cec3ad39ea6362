//! Checkpoints of a state that no process has all of: PyTorch reads them, any number of devices loads them, and a kill at any
//! moment leaves a whole one.

use super::{Team, binary, difference, ended, signal, succeeded, text};
use octant_testing::oracle;
use octant_train::checkpoint::Checkpoint;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// Parameters and optimizer divided among the processes, however small they are.
fn divided(_: usize, command: &mut Command) {
    command.args(["--fsdp", "2", "--set", "fsdp_from=0"]);
}

#[test]
fn a_divided_state_is_saved_in_parts_that_pytorch_joins_as_we_do() {
    let Some(python) = oracle::python("training with a divided state") else { return };
    let team = Team::new(Some(python));
    succeeded(vec![team.train("alone", "devices=2").spawn().unwrap()]);
    succeeded(team.start("parts", "devices=1", 2, divided));
    let last = team.run("parts/checkpoints/last");
    let files = |folder: &Path| {
        let names =
            std::fs::read_dir(folder).unwrap().flatten().map(|file| file.file_name().to_string_lossy().into_owned());
        names.filter(|name| name.starts_with("shard-0")).count()
    };
    assert!(files(&last) >= 2 && files(&last.join("state")) >= 2 && !last.join("model.safetensors").exists());
    let mut parts = team.numbers("parts");
    parts.sort_by(|a, b| a.0.cmp(&b.0));
    let mut alone = team.numbers("alone");
    alone.sort_by(|a, b| a.0.cmp(&b.0));
    assert!(difference(&alone, &parts) < 1e-4);
    // Another number of processes and another division go on from there.
    succeeded(vec![{
        let mut command = team.train("parts", "devices=1");
        command.args(["--epochs", "3"]);
        command.spawn().unwrap()
    }]);
    succeeded(team.start("parts", "devices=1", 4, |rank, command| {
        divided(rank, command);
        command.args(["--epochs", "4"]);
    }));
    let mut longer = team.train("alone", "devices=2");
    succeeded(vec![longer.args(["--epochs", "4"]).spawn().unwrap()]);
    let (mut parts, mut alone) = (team.numbers("parts"), team.numbers("alone"));
    parts.sort_by(|a, b| a.0.cmp(&b.0));
    alone.sort_by(|a, b| a.0.cmp(&b.0));
    assert!(difference(&alone, &parts) < 1e-3, "{:e}", difference(&alone, &parts));
    // The weights are one archive for every other command, and one file on request.
    let index = last.join("model.safetensors.index.json");
    let whole = team.run("whole.safetensors");
    binary::done(team.home.path(), &["weights", "convert", &index.to_string_lossy(), &whole.to_string_lossy()]);
    let whole = octant_archive::Archive::open(&whole).unwrap();
    let ours = team.last("parts").unwrap().model;
    assert!(ours.tensors.iter().all(|(name, tensor)| whole.get(name) == Some(tensor)));
    let Some(torch) = oracle::torch("distributed checkpoints") else { return };
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/processes/joined.py");
    let joined = team.run("joined.safetensors");
    let output = Command::new(torch).arg(script).arg(&last).arg(&joined).output().unwrap();
    assert!(output.status.success(), "{}", text(&output));
    let theirs = octant_archive::Archive::open(&joined).unwrap();
    assert_eq!(theirs.tensors.len(), ours.tensors.len());
    assert!(ours.tensors.iter().all(|(name, tensor)| theirs.get(name) == Some(tensor)));
}

/// Everything in the last checkpoint, by name.
fn sorted(team: &Team, run: &str) -> Vec<(String, Vec<f64>)> {
    let mut numbers = team.numbers(run);
    numbers.sort_by(|a, b| a.0.cmp(&b.0));
    numbers
}

/// A copy of a run that is continued by so many processes with so many devices each, which divide the state among all of them.
fn loaded(team: &Team, run: &str, steps: &str, [ranks, devices]: [usize; 2]) -> String {
    let (copy, settings) = (format!("on-{}", ranks * devices), format!("devices={devices}"));
    assert!(Command::new("cp").arg("-r").arg(team.run(run)).arg(team.run(&copy)).status().unwrap().success());
    let fsdp = (ranks * devices).to_string();
    // The epoch is over where the checkpoint stands: what is loaded is validated and saved again, and no step is done.
    let change = |command: &mut Command| {
        command.args(["--epochs", "1", "--steps-per-epoch", steps, "--allow-changed"]);
        if ranks * devices > 1 {
            command.args(["--fsdp", &fsdp, "--set", "fsdp_from=0"]);
        }
    };
    let processes = match ranks {
        1 => {
            let mut command = team.train(&copy, &settings);
            change(&mut command);
            vec![command.spawn().unwrap()]
        }
        ranks => team.start(&copy, &settings, ranks, |_, command| change(command)),
    };
    succeeded(processes);
    copy
}

#[test]
fn what_eight_devices_saved_is_loaded_bit_for_bit_by_one_two_and_sixteen() {
    let Some(python) = oracle::python("loading on other numbers of devices") else { return };
    let mut team = Team::new(Some(python));
    // Sixteen devices divide its 64 channels; the tiny one has fewer.
    let tiny = team.recipe.iter().position(|word| word == "fashion-cnn-tiny").unwrap();
    team.recipe[tiny] = "fashion-cnn".into();
    let processes = team.start("eight", "devices=4", 2, |_, command| {
        command.args(["--epochs", "1", "--steps-per-epoch", "100000", "--fsdp", "8", "--set", "fsdp_from=0"]);
    });
    team.wait_for_step("eight", 2);
    signal(&processes[0], "-USR1");
    assert!(ended(processes).iter().all(|(code, _)| *code == 75));
    let saved = sorted(&team, "eight");
    let (step, parts) = (team.last("eight").unwrap().progress.step, team.run("eight/checkpoints/last"));
    let count = std::fs::read_dir(parts).unwrap().flatten().filter(|file| {
        let name = file.file_name();
        name.to_string_lossy().starts_with("shard-0")
    });
    assert_eq!(count.count(), 8, "a file for each device");
    for division in [[1, 1], [2, 1], [2, 8]] {
        let copy = loaded(&team, "eight", &step.to_string(), division);
        let progress = team.last(&copy).unwrap().progress;
        assert_eq!((progress.step, progress.epoch), (step, 1), "it was saved again, at the end of the epoch");
        let found = sorted(&team, &copy);
        assert_eq!(found.len(), saved.len());
        let differs = found.iter().zip(&saved).find(|(found, saved)| {
            let bits = |numbers: &[f64]| numbers.iter().map(|number| number.to_bits()).collect::<Vec<_>>();
            found.0 != saved.0 || bits(&found.1) != bits(&saved.1)
        });
        assert!(differs.is_none(), "{division:?}: {:?}", differs.map(|(found, _)| &found.0));
    }
}

/// `OCTANT_KILLS=200` tries it so often, which takes some minutes (`bench/kills.sh`).
#[test]
fn processes_killed_while_they_save_leave_a_whole_checkpoint() {
    let team = Team::new(None);
    let kills: u64 = std::env::var("OCTANT_KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(4);
    for kill in 0..kills {
        let mut processes = team.start("run", "devices=1", 4, |_, command| {
            command.args(["--fsdp", "4", "--set", "fsdp_from=0"]);
            command.args(["--epochs", "100000", "--checkpoint-every", "1", "--stuck-after", "10s"]);
        });
        let before = team.last("run").map_or(0, |last| last.progress.step);
        team.wait_for_step("run", before + 2);
        std::thread::sleep(Duration::from_millis(37 * kill % 251));
        // All at once, or one, which the others lose.
        let all = kill % 4 != 3;
        processes[(kill / 4 % 4) as usize].kill().unwrap();
        if all {
            processes.iter_mut().for_each(|process| process.kill().unwrap());
        }
        ended(processes);
        let last = Checkpoint::newest(&team.run("run").join("checkpoints"), "last").unwrap().unwrap().0;
        assert!(last.progress.step > before && !last.model.tensors.is_empty());
        if (kill + 1) % 20 == 0 {
            eprintln!("{} kills, step {}", kill + 1, last.progress.step);
        }
    }
}
