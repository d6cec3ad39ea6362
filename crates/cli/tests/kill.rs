//! Ends a small run at random moments, politely and not, resumes it, and compares everything with a run that was left
//! alone.
//!
//! `OCTANT_KILLS=200 cargo test --release -p octant-cli --test kill -- --nocapture` is the long version.

#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

mod runs;

use runs::{finish, traces, train_adapters, train_cyclegan, train_detector, train_instances, train_pix2pix};
use runs::{train_labels, train_pose, train_rotated, train_semantic, train_set, train_with};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Pseudo-random stop times, the same in every run.
struct Dice(u64);

impl Dice {
    fn share(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) as f64 / (1u64 << 31) as f64
    }
}

/// What happened to the runs.
#[derive(Debug, Default)]
struct Tally {
    killed: u32,
    interrupted: u32,
    while_writing: u32,
}

impl Tally {
    /// One process: it ends by itself, is killed, or is interrupted. True when the run is complete.
    fn interrupt(&mut self, child: &mut Child, run: &Path, dice: &mut Dice, may_kill: bool) -> bool {
        if let Some(status) = child.try_wait().unwrap() {
            assert!(status.success(), "the run failed: {self:?}");
            return true;
        }
        if !may_kill {
            assert!(child.wait().unwrap().success());
            return true;
        }
        if dice.share() < 0.75 {
            child.kill().unwrap();
            child.wait().unwrap();
            self.killed += 1;
            let is_half_written =
                ["last.tmp", "best.tmp"].iter().any(|name| run.join("checkpoints").join(name).exists());
            self.while_writing += u32::from(is_half_written);
            return false;
        }
        // SAFETY: a signal to a child that was not waited for yet cannot reach another process.
        assert_eq!(unsafe { libc::kill(child.id() as i32, libc::SIGTERM) }, 0);
        let code = child.wait().unwrap().code();
        self.interrupted += 1;
        assert!(code == Some(143) || code == Some(0), "interrupted, it ended with {code:?}");
        code == Some(0)
    }
}

#[test]
fn ended_at_random_moments_the_run_ends_the_same() {
    ends_the_same(train_with, 6);
}

#[test]
fn a_detector_ended_at_random_moments_ends_the_same() {
    ends_the_same(train_detector, 3);
}

#[test]
fn networks_for_masks_keypoints_and_rotated_boxes_ended_at_random_moments_end_the_same() {
    let runs: [fn(&Path, usize) -> Command; 3] = [train_instances, train_pose, train_rotated];
    runs.into_iter().for_each(|train| ends_the_same(train, 2));
}

#[test]
fn sets_of_boxes_labels_and_classes_per_pixel_ended_at_random_moments_end_the_same() {
    let runs: [fn(&Path, usize) -> Command; 3] = [train_set, train_labels, train_semantic];
    runs.into_iter().for_each(|train| ends_the_same(train, 2));
}

#[test]
fn a_run_with_adapters_ended_at_random_moments_ends_the_same() {
    ends_the_same(train_adapters, 3);
}

#[test]
fn a_pix2pix_ended_at_random_moments_ends_the_same() {
    ends_the_same(train_pix2pix, 3);
}

#[test]
fn a_cyclegan_and_its_pools_ended_at_random_moments_end_the_same() {
    ends_the_same(train_cyclegan, 3);
}

fn ends_the_same(train: fn(&Path, usize) -> Command, usual: u32) {
    let kills: u32 = std::env::var("OCTANT_KILLS").ok().and_then(|count| count.parse().ok()).unwrap_or(usual);
    let folder = tempfile::tempdir().unwrap();
    let whole = folder.path().join("whole");
    let begun = Instant::now();
    finish(train(&whole, 1));
    let mut length = begun.elapsed();
    let expected = traces(&whole);
    let (mut tally, mut runs, mut dice) = (Tally::default(), 0, Dice(7));
    while tally.killed < kills {
        let run = folder.path().join(format!("run-{runs}"));
        runs += 1;
        loop {
            let workers = 1 + (3.0 * dice.share()) as usize;
            let mut child = train(&run, workers).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
            std::thread::sleep(Duration::from_secs_f64(length.as_secs_f64() * dice.share()));
            let may_kill = tally.killed < kills;
            let is_complete = tally.interrupt(&mut child, &run, &mut dice, may_kill);
            // Other work on the machine comes and goes; a run that was over before its time shows nothing.
            length = length.mul_f64(if is_complete { 0.8 } else { 1.05 });
            if is_complete {
                break;
            }
        }
        assert!(traces(&run) == expected, "run {runs} ended otherwise than the one left alone: {tally:?}");
        std::fs::remove_dir_all(&run).unwrap();
    }
    let Tally { killed, interrupted, while_writing, .. } = tally;
    println!(
        "{killed} killed ({while_writing} of them while a checkpoint was being written) and {interrupted} interrupted, over \
         {runs} runs with one to three loader threads: all ended with the same weights, tables and scalars"
    );
}
