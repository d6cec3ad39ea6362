//! Several processes that train as one, started as a launcher would. The device is the plugin of `crates/pjrt/src/fake`; where
//! Python with jaxlib is there, it runs the programs really, partitioned by XLA, and adds up over processes through gloo.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

mod binary;
#[path = "processes/parts.rs"]
mod parts;
#[path = "processes/stored.rs"]
mod stored;

use octant_testing::{fake_plugin, oracle};
use octant_train::checkpoint::Checkpoint;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// The processes of runs in one folder.
struct Team {
    home: tempfile::TempDir,
    executor: Option<OsString>,
    /// The words behind `octant train`: a recipe and its flags.
    recipe: Vec<OsString>,
    /// Of every process.
    environment: Vec<(&'static str, String)>,
}

/// A recipe of 64 images in four steps.
const RECIPE: [&str; 9] =
    ["glyphs", "--model", "fashion-cnn-tiny", "--set", "data.train=64", "--set", "data.test=24", "--batch-size", "16"];

impl Team {
    fn new(python: Option<OsString>) -> Team {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../pjrt/tests/plugins/executor.py");
        let executor = python.map(|python| {
            let mut words = python;
            words.push("\n");
            words.push(&script);
            words
        });
        let recipe = RECIPE.map(OsString::from).into();
        Team { home: tempfile::tempdir().unwrap(), executor, recipe, environment: Vec::new() }
    }

    fn run(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    /// `octant train` on so many devices of the fake, which behaves as the settings say.
    fn train(&self, run: &str, settings: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_octant"));
        command.arg("train").args(&self.recipe).args(["--workers", "1", "--device"]).arg(fake_plugin::path());
        command.args(["--epochs", "2", "--cores", "all"]);
        command.args(["--checkpoint-every", "2", "--out"]).arg(self.run(run));
        command.env("OCTANT_CACHE", self.home.path().join("cache")).env("OCTANT_FAKE_PLUGIN", settings);
        command.envs(self.executor.as_ref().map(|words| ("OCTANT_FAKE_EXECUTOR", words)));
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command.current_dir(self.home.path()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// One process of several.
    fn rank(&self, run: &str, settings: &str, rank: usize, ranks: usize, coordinator: &str) -> Command {
        let mut command = self.train(run, settings);
        command.args(["--node-id", &rank.to_string(), "--num-nodes", &ranks.to_string(), "--coordinator", coordinator]);
        command
    }

    /// Starts all processes, each changed as wanted.
    fn start(&self, run: &str, settings: &str, ranks: usize, change: impl Fn(usize, &mut Command)) -> Vec<Child> {
        let coordinator = free_address();
        let start = |rank: usize| {
            let mut command = self.rank(run, settings, rank, ranks, &coordinator);
            change(rank, &mut command);
            command.spawn().unwrap()
        };
        (0..ranks).map(start).collect()
    }

    /// Waits until the run has a checkpoint of that step or a later one.
    fn wait_for_step(&self, run: &str, step: u64) {
        let begun = Instant::now();
        while self.last(run).is_none_or(|last| last.progress.step < step) {
            assert!(begun.elapsed() < PATIENCE, "there is no checkpoint of step {step}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn last(&self, run: &str) -> Option<Checkpoint> {
        Checkpoint::newest(&self.run(run).join("checkpoints"), "last").ok().flatten().map(|(checkpoint, _)| checkpoint)
    }

    /// All numbers of the last checkpoint, by name.
    fn numbers(&self, run: &str) -> Vec<(String, Vec<f64>)> {
        let last = self.last(run).unwrap();
        let all = last.model.tensors.iter().chain(&last.state.tensors);
        all.map(|(name, tensor)| (name.clone(), tensor.to_f64s())).collect()
    }
}

/// More arguments for every process.
fn with(words: &'static [&'static str]) -> impl Fn(usize, &mut Command) + Copy {
    move |_, command| {
        command.args(words);
    }
}

const PATIENCE: Duration = Duration::from_secs(240);

fn free_address() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().to_string()
}

fn text(output: &Output) -> String {
    [&output.stdout[..], &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned()).concat()
}

/// Exit codes (128 and its number for a signal) and what was printed.
fn ended(processes: Vec<Child>) -> Vec<(i32, String)> {
    use std::os::unix::process::ExitStatusExt;
    let of = |process: Child| {
        let output = process.wait_with_output().unwrap();
        let code = output.status.code().or(output.status.signal().map(|signal| 128 + signal)).unwrap();
        (code, text(&output))
    };
    processes.into_iter().map(of).collect()
}

fn succeeded(processes: Vec<Child>) -> Vec<String> {
    let ended = ended(processes);
    assert!(ended.iter().all(|(code, _)| *code == 0), "{ended:#?}");
    ended.into_iter().map(|(_, text)| text).collect()
}

/// Processes whose command line or environment names a folder: executors, and what was not ended.
fn left_behind(folder: &Path) -> Vec<String> {
    let wanted = folder.to_string_lossy().into_owned();
    let processes = std::fs::read_dir("/proc").unwrap().flatten().filter(|entry| {
        let environment = std::fs::read(entry.path().join("environ")).unwrap_or_default();
        let is_ours = String::from_utf8_lossy(&environment).contains(&wanted);
        let state = std::fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        is_ours && !state.contains(") Z ")
    });
    processes
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|name| name.parse::<u32>().is_ok())
        .collect()
}

fn assert_nothing_is_left(folder: &Path) {
    let begun = Instant::now();
    while !left_behind(folder).is_empty() {
        assert!(begun.elapsed() < Duration::from_secs(10), "still there: {:?}", left_behind(folder));
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn signal(process: &Child, name: &str) {
    assert!(Command::new("kill").args([name, &process.id().to_string()]).status().unwrap().success());
}

/// The largest difference of two states, relative to the largest number of each tensor.
fn difference(left: &[(String, Vec<f64>)], right: &[(String, Vec<f64>)]) -> f64 {
    assert_eq!(left.len(), right.len());
    type Column = (String, Vec<f64>);
    let of = |((name, left), (other, right)): (&Column, &Column)| {
        assert_eq!((name, left.len()), (other, right.len()));
        let scale = left.iter().fold(1e-6f64, |scale, number| scale.max(number.abs()));
        left.iter().zip(right).fold(0f64, |most, (left, right)| most.max((left - right).abs())) / scale
    };
    left.iter().zip(right).map(of).fold(0.0, f64::max)
}

#[test]
fn two_and_four_processes_train_as_one_process_does() {
    let Some(python) = oracle::python("training of several processes") else { return };
    let team = Team::new(Some(python));
    succeeded(vec![team.train("alone", "devices=4").spawn().unwrap()]);
    let alone = team.numbers("alone");
    for (run, ranks, settings) in [("two", 2, "devices=2"), ("four", 4, "devices=1")] {
        let printed = succeeded(team.start(run, settings, ranks, |_, _| ()));
        // Only sums over the batch are added in another order.
        let found = difference(&alone, &team.numbers(run));
        assert!(found < 1e-4, "{run}: {found:e}");
        let table = |run: &str| octant_events::read_table(&team.run(run).join("metrics.csv")).unwrap();
        let ((columns, rows), (others, found)) = (table("alone"), table(run));
        assert_eq!((&columns, rows.len()), (&others, found.len()));
        // Every validation sample counts once, whatever the number of processes.
        for (row, other) in rows.iter().zip(&found) {
            row.iter().zip(other).for_each(|(left, right)| assert!((left - right).abs() < 1e-4, "{row:?} {other:?}"));
        }
        assert!(printed[0].contains("epoch") && !printed[1].contains("epoch"), "{printed:#?}");
        let log =
            |rank: usize| std::fs::read_to_string(team.run(run).join(format!("logs/rank-{rank:05}.txt"))).unwrap();
        assert!((0..ranks).all(|rank| log(rank).contains("epoch 2: ")), "{}", log(1));
        let merged = binary::done(team.home.path(), &["logs", run]);
        assert!(merged.contains("[0] ") && merged.contains(&format!("[{}] ", ranks - 1)), "{merged}");
    }
    // Without the sum over processes, each would have trained on its own rows.
    let mut half = team.train("half", "devices=2");
    half.args(["--set", "data.train=32", "--batch-size", "8"]);
    succeeded(vec![half.spawn().unwrap()]);
    assert!(difference(&alone, &team.numbers("half")) > 1e-2);
    assert_nothing_is_left(team.home.path());
}

#[test]
fn a_run_of_several_processes_continues_bit_for_bit_after_notices_and_losses() {
    let Some(python) = oracle::python("resuming of several processes") else { return };
    let team = Team::new(Some(python));
    let long = with(&["--epochs", "6"]);
    succeeded(team.start("whole", "devices=1", 2, long));
    let whole = team.numbers("whole");
    // A scheduler's notice to one process ends all of them after the same step, with a checkpoint.
    let processes = team.start("notice", "devices=1", 2, long);
    team.wait_for_step("notice", 2);
    signal(&processes[1], "-USR1");
    let codes: Vec<i32> = ended(processes).into_iter().map(|(code, _)| code).collect();
    assert_eq!(codes, [75, 75]);
    succeeded(team.start("notice", "devices=1", 2, long));
    assert_eq!(difference(&whole, &team.numbers("notice")), 0.0);
    // A process that is killed is started again, and so are those that lost it.
    let supervised = with(&["--epochs", "6", "--restarts", "2", "--stuck-after", "10s"]);
    let processes = team.start("killed", "devices=1", 2, supervised);
    team.wait_for_step("killed", 2);
    let children = std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", processes[1].id())).unwrap();
    let child = children.split_whitespace().next().unwrap();
    assert!(Command::new("kill").args(["-KILL", child]).status().unwrap().success());
    let printed = succeeded(processes);
    assert!(printed[1].contains("starting again, 1 of 2"), "{printed:#?}");
    assert!(printed[0].contains("rank 1") && printed[0].contains("starting again"), "{printed:#?}");
    assert_eq!(difference(&whole, &team.numbers("killed")), 0.0);
    assert_nothing_is_left(team.home.path());
}

#[test]
fn a_killed_process_is_named_by_the_others() {
    let team = Team::new(None);
    // Without an executor steps cost nothing; so many epochs outlast the test.
    let long = with(&["--epochs", "5000", "--stuck-after", "10s"]);
    let mut processes = team.start("run", "devices=1", 3, long);
    team.wait_for_step("run", 8);
    let begun = Instant::now();
    processes[2].kill().unwrap();
    let killed = processes.pop().unwrap();
    let others = ended(processes);
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
    for (code, printed) in &others {
        assert_eq!(*code, 76, "{printed}");
        assert!(printed.contains("rank 2") && printed.contains("is lost: no heartbeat"), "{printed}");
    }
    ended(vec![killed]);
    assert_nothing_is_left(team.home.path());
    let log = binary::done(team.home.path(), &["logs", "run", "--rank", "1", "--last", "1"]);
    assert!(log.contains("rank 2") && log.contains("code 76"), "{log}");
}

#[test]
fn a_process_that_is_alive_but_stuck_is_named() {
    let Some(python) = oracle::python("a stuck process") else { return };
    let team = Team::new(Some(python));
    let begun = Instant::now();
    let processes = team.start("run", "devices=1", 2, |rank, command| {
        command.args(["--epochs", "200", "--stuck-after", "6s"]);
        if rank == 1 {
            command.env("OCTANT_FAKE_PLUGIN", "devices=1 blocks=400");
        }
    });
    let ended = ended(processes);
    for (code, printed) in &ended {
        assert_eq!(*code, 77, "{printed}");
        assert!(printed.contains("rank 1") && printed.contains("is stuck: alive, but no step for"), "{printed}");
    }
    assert!(begun.elapsed() < PATIENCE);
    assert_nothing_is_left(team.home.path());
}

#[test]
fn processes_that_were_not_started_alike_are_refused_before_anything_is_compiled() {
    let team = Team::new(None);
    let other = |rank: usize, command: &mut Command| {
        if rank == 1 {
            command.args(["--lr", "0.125"]);
        }
    };
    for (code, printed) in ended(team.start("run", "devices=1", 3, other)) {
        assert_eq!(code, 78, "{printed}");
        assert!(printed.contains("--lr is 0.125 on rank 1") && !printed.contains("compiling"), "{printed}");
    }
    let data = |rank: usize, command: &mut Command| {
        if rank == 2 {
            command.args(["--set", "data.train=80"]);
        }
    };
    for (code, printed) in ended(team.start("run", "devices=1", 3, data)) {
        assert_eq!(code, 78, "{printed}");
        assert!(printed.contains("data.train") && printed.contains(" is 80 on rank 2"), "{printed}");
    }
    assert!(!team.run("run").join("config.toml").exists(), "nothing begins before all agree");
}

#[test]
fn processes_that_do_not_come_are_named() {
    let team = Team::new(None);
    let coordinator = free_address();
    let come = |rank: usize| {
        let mut command = team.rank("run", "devices=1", rank, 3, &coordinator);
        command.args(["--join-timeout", "3s"]).spawn().unwrap()
    };
    for (code, printed) in ended(vec![come(0), come(2)]) {
        assert_eq!(code, 76, "{printed}");
        assert!(printed.contains("rank 1 did not come within 3 s"), "{printed}");
    }
}

#[test]
fn a_launcher_that_started_several_processes_is_not_ignored() {
    let team = Team::new(None);
    let launched = |arguments: &[&str]| {
        let mut command = team.train("run", "devices=1");
        let variables = [("RANK", "0"), ("WORLD_SIZE", "2"), ("MASTER_ADDR", "127.0.0.1"), ("MASTER_PORT", "1")];
        command.envs(variables).args(arguments);
        ended(vec![command.spawn().unwrap()]).remove(0)
    };
    let (code, printed) = launched(&[]);
    assert!(code == 1 && printed.contains("rank 0 of 2 that torchrun started: give --nodes auto"), "{printed}");
    assert_eq!(launched(&["--nodes", "none"]).0, 0);
    let (code, printed) = launched(&["--nodes", "none", "--node-id", "1"]);
    assert!(code == 1 && printed.contains("have no effect; remove them"), "{printed}");
    let (code, printed) = launched(&["--nodes", "none", "--stuck-after", "5s"]);
    assert!(code == 1 && printed.contains("--stuck-after has no effect"), "{printed}");
    let mut cpu = team.rank("cpu", "", 0, 2, "127.0.0.1:1");
    cpu.args(["--device", "cpu", "--nodes", "auto"]).args(["--num-nodes", "1"]);
    let (code, printed) = ended(vec![cpu.spawn().unwrap()]).remove(0);
    assert!(code == 0 && printed.contains("there is one process only"), "{printed}");
}
