//! One turn: a process runs to its end, is watched while it does, and prints its figures in its last line.

use super::PeerEvent;
use crate::error::{MeasureError, Result, refusal, refuse};
use serde_json::Value;
use std::io::Read;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The figures of one process.
#[derive(Debug, Clone, Copy)]
pub struct Figures {
    /// Images per second.
    pub images_per_second: f64,
    /// Seconds from its start to the end of the first step.
    pub start_to_first: f64,
    /// The largest memory in use, in bytes.
    pub peak_bytes: f64,
}

/// Whose turn it is.
pub(super) struct Turn<'a> {
    round: usize,
    label: &'a str,
}

impl<'a> Turn<'a> {
    pub fn new(round: usize, label: &'a str) -> Turn<'a> {
        Turn { round, label }
    }

    /// Runs the command and reads the line of JSON that it prints last; it is ended when it takes longer than `patience`.
    pub fn take(
        &self,
        mut command: Command,
        patience: Option<Duration>,
        observer: &mut dyn FnMut(PeerEvent),
    ) -> Result<Figures> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        // Interpreters take seconds to load before a script can look at the clock.
        command.env("OCTANT_BENCH_STARTED", now.as_secs_f64().to_string());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let started = command.spawn();
        let cannot = |error| MeasureError::Process(format!("cannot start {}", command.get_program().display()), error);
        let mut child = started.map_err(cannot)?;
        let (stdout, stderr) = (collect(child.stdout.take()), collect(child.stderr.take()));
        let lost = |error| MeasureError::Process("cannot wait for the process".into(), error);
        let Some(status) = self.wait(&mut child, patience, observer).map_err(lost)? else {
            let seconds = patience.unwrap_or_default().as_secs_f64();
            refuse!("it had not finished after {seconds} s; give it more patience, or fewer steps");
        };
        let text = stdout.join().unwrap_or_default();
        let line = text.lines().rev().find(|line| line.starts_with('{'));
        let Some(line) = line.filter(|_| status.success()) else {
            let error = stderr.join().unwrap_or_default();
            let tail: Vec<&str> = error.lines().rev().take(8).collect();
            refuse!("it ended with {status}: {}", tail.into_iter().rev().collect::<Vec<_>>().join("\n"));
        };
        figures(line)
    }

    /// Until the process ends: reports once a second how long it has taken. None when patience ended first.
    fn wait(
        &self,
        child: &mut Child,
        patience: Option<Duration>,
        observer: &mut dyn FnMut(PeerEvent),
    ) -> std::io::Result<Option<ExitStatus>> {
        // Rare enough that looking does not disturb what is measured.
        const GLANCE: Duration = Duration::from_millis(100);
        const INTERVAL: Duration = Duration::from_secs(1);
        let (begun, mut due) = (Instant::now(), INTERVAL);
        loop {
            if let Some(status) = child.try_wait()? {
                return Ok(Some(status));
            }
            if patience.is_some_and(|patience| begun.elapsed() > patience) {
                child.kill()?;
                child.wait()?;
                return Ok(None);
            }
            if begun.elapsed() >= due {
                due += INTERVAL;
                observer(PeerEvent::Waiting { round: self.round, side: self.label, time: begun.elapsed() });
            }
            std::thread::sleep(GLANCE);
        }
    }
}

/// Reads along, so that a process that prints much does not wait for us.
fn collect(pipe: Option<impl Read + Send + 'static>) -> JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        // What was read before a pipe breaks is all that can be reported.
        let _ = pipe.map(|mut pipe| pipe.read_to_end(&mut bytes));
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

fn figures(line: &str) -> Result<Figures> {
    let value: Value =
        serde_json::from_str(line).map_err(|error| refusal!("its last line is no JSON ({error}): {line}"))?;
    let figure = |name: &str| value[name].as_f64().ok_or_else(|| refusal!("it did not print {name}: {line}"));
    Ok(Figures {
        images_per_second: figure("images_per_second")?,
        start_to_first: figure("start_to_first_step_s")?,
        peak_bytes: figure("peak_rss_bytes")?,
    })
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    fn shell(script: &str, patience: Duration) -> Result<Figures> {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        Turn::new(1, "a peer").take(command, Some(patience), &mut |_| ())
    }

    #[test]
    fn the_last_line_has_the_figures() {
        let line = r#"{"images_per_second": 8, "start_to_first_step_s": 0.5, "peak_rss_bytes": 1024}"#;
        let figures = shell(&format!("echo warming up; echo '{line}'"), Duration::from_secs(60)).expect("figures");
        assert_eq!((figures.images_per_second, figures.start_to_first, figures.peak_bytes), (8.0, 0.5, 1024.0));
    }

    #[test]
    fn a_process_that_fails_or_takes_too_long_says_so() {
        let failed = shell("echo no compiler >&2; exit 3", Duration::from_secs(60)).expect_err("it failed").to_string();
        assert!(failed.contains("no compiler") && failed.contains('3'), "{failed}");
        let begun = Instant::now();
        let slow = shell("exec sleep 60", Duration::from_millis(200)).expect_err("it was too slow").to_string();
        assert!(slow.contains("more patience") && begun.elapsed() < Duration::from_secs(30), "{slow}");
    }
}
