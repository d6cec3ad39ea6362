//! Several processes whose data and checkpoints lie in an object store: archives are fetched from there and read by the process
//! that they belong to, and what is left of a run that was killed is what the store has.

use super::{PATIENCE, Team, assert_nothing_is_left, difference, ended, succeeded, with};
use octant_data::Glyphs;
use octant_data::readers::write_webdataset;
use octant_testing::moto::Moto;
use octant_testing::oracle;
use std::time::{Duration, Instant};

const RECIPE: &str = "name = 'stored'\ntask = 'classify'\nmodel = 'fashion-cnn-tiny'\nbatch_size = 16\nsampling = 'archives'\n\
    [data]\nkind = 'folder'\ndir = 's3://bucket/set'\n\
    [[phases]]\nname = 'only'\nepochs = 2\noptimizer = 'adam'\nschedule = { kind = 'constant', lr = 1e-3 }\n";

/// A team whose data is eight archives in a store, for as long as the store is kept.
fn team() -> Option<(Team, Moto)> {
    let python = oracle::python("training from an object store and into it")?;
    let mut team = Team::new(Some(python.clone()));
    let bucket = team.run("bucket");
    write_webdataset(&Glyphs::new(64, 1), &bucket.join("set"), "train", 8).unwrap();
    write_webdataset(&Glyphs::new(24, 2), &bucket.join("set"), "val", 12).unwrap();
    let moto = Moto::start(&python, Some(&bucket))?;
    std::fs::remove_dir_all(&bucket).unwrap();
    let recipe = team.run("stored.toml");
    std::fs::write(&recipe, RECIPE).unwrap();
    team.recipe = vec![recipe.into()];
    team.environment = moto.environment().map(|(name, value)| (name, value.to_string())).into();
    Some((team, moto))
}

impl Team {
    /// Waits until the store has a checkpoint of that step of the run or of a later one.
    fn wait_until_stored(&self, run: &str, step: u64) {
        let begun = Instant::now();
        let stored = || {
            let log = std::fs::read_to_string(self.run(run).join("log.txt")).unwrap_or_default();
            let steps = log.lines().filter_map(|line| {
                line.strip_prefix("the checkpoint `last` of step ")?.split_once(" is in s3://")?.0.parse().ok()
            });
            steps.max().unwrap_or(0u64)
        };
        while stored() < step {
            assert!(begun.elapsed() < PATIENCE, "the checkpoint of step {step} is not in the store");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

#[test]
fn a_run_from_a_store_into_a_store_that_was_killed_resumes_without_its_directory() {
    let Some((team, _moto)) = team() else { return };
    let long = with(&["--epochs", "10", "--stuck-after", "10s"]);
    let printed = succeeded(team.start("whole", "devices=1", 2, long));
    assert!(printed[0].contains("8 archives in an order of their own per epoch, in 2 streams"), "{printed:#?}");
    let whole = team.numbers("whole");
    // The same two processes, or one with as many devices.
    for (run, address, killed, ranks, settings) in
        [("a", "s3://bucket/runs/a", 1, 2, "devices=1"), ("b", "s3://bucket/runs/b", 0, 1, "devices=2")]
    {
        let stored = |_: usize, command: &mut std::process::Command| {
            command.args(["--epochs", "10", "--checkpoint-store", address]);
        };
        let mut processes = team.start(run, "devices=1", 2, |rank, command| {
            stored(rank, command);
            command.args(["--stuck-after", "10s"]);
        });
        team.wait_until_stored(run, 4);
        processes[killed].kill().unwrap();
        let codes: Vec<i32> = ended(processes).into_iter().map(|(code, _)| code).collect();
        let expected = [0, 1].map(|rank| if rank == killed { 128 + 9 } else { 76 });
        assert_eq!(codes, expected);
        let step = team.last(run).unwrap().progress.step;
        assert!(step < 40, "the run was over before it was killed");
        // Another machine: neither the run nor the data is there.
        std::fs::remove_dir_all(team.run(run)).unwrap();
        std::fs::remove_dir_all(team.run("cache")).unwrap();
        let printed = match ranks {
            1 => {
                let mut command = team.train(run, settings);
                stored(0, &mut command);
                succeeded(vec![command.spawn().unwrap()])
            }
            ranks => succeeded(team.start(run, settings, ranks, stored)),
        };
        assert!(printed[0].contains(&format!("comes from {address}")), "{printed:#?}");
        assert!(printed[0].contains(&format!("the checkpoint of step 40 is in {address}")), "{printed:#?}");
        let found = difference(&whole, &team.numbers(run));
        // Sums over the batch are added in another order by another number of processes.
        assert!(if ranks == 2 { found == 0.0 } else { found < 1e-4 }, "{run}: {found:e}");
    }
    assert_nothing_is_left(team.home.path());
}
