//! Kills a small run at random moments, resumes it, and compares everything with a run that was left alone.
//!
//! `OCTANT_KILLS=200 cargo test --release -p octant-cli --test kill -- --nocapture` is the long version.

#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

mod runs;

use runs::{finish, traces, train};
use std::time::{Duration, Instant};

/// Random enough to hit every place, the same every time.
struct Dice(u64);

impl Dice {
    fn share(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) as f64 / (1u64 << 31) as f64
    }
}

#[test]
fn killed_at_random_moments_the_run_ends_the_same() {
    let kills: u32 = std::env::var("OCTANT_KILLS").ok().and_then(|count| count.parse().ok()).unwrap_or(6);
    let folder = tempfile::tempdir().unwrap();
    let whole = folder.path().join("whole");
    let begun = Instant::now();
    finish(train(&whole));
    let length = begun.elapsed();
    let expected = traces(&whole);
    let (mut killed, mut runs, mut dice) = (0, 0, Dice(7));
    while killed < kills {
        let run = folder.path().join(format!("run-{runs}"));
        runs += 1;
        loop {
            let mut child = train(&run).stdout(std::process::Stdio::null()).spawn().unwrap();
            std::thread::sleep(Duration::from_secs_f64(length.as_secs_f64() * dice.share()));
            match child.try_wait().unwrap() {
                Some(status) => {
                    assert!(status.success(), "run {runs} failed after {killed} kills");
                    break;
                }
                None if killed < kills => {
                    child.kill().unwrap();
                    child.wait().unwrap();
                    killed += 1;
                }
                None => {
                    assert!(child.wait().unwrap().success());
                    break;
                }
            }
        }
        assert!(traces(&run) == expected, "run {runs} ended otherwise than the one left alone");
        std::fs::remove_dir_all(&run).unwrap();
    }
    println!("{killed} kills over {runs} runs: all ended with the same weights, tables and scalars");
}
