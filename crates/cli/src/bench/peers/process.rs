//! One turn: a process runs to its end, is watched meanwhile, and says its figures in its last line.

use crate::output::duration;
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::io::{IsTerminal, Read};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The figures of one process.
#[derive(Debug, Clone, Copy)]
pub(super) struct Figures {
    pub images_per_second: f64,
    pub start_to_first: f64,
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
    pub fn take(&self, mut command: Command, patience: Option<Duration>) -> Result<Figures> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        // Interpreters take seconds to load before a script can look at the clock.
        command.env("OCTANT_BENCH_STARTED", now.as_secs_f64().to_string());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let started = command.spawn();
        let mut child = started.with_context(|| format!("cannot start {}", command.get_program().display()))?;
        let (said, complained) = (collect(child.stdout.take()), collect(child.stderr.take()));
        let Some(status) = self.wait(&mut child, patience)? else {
            bail!(
                "it had not finished after {}; give it more time with --patience, or fewer --steps",
                duration(patience.unwrap_or_default())
            );
        };
        let text = said.join().unwrap_or_default();
        let line = text.lines().rev().find(|line| line.starts_with('{'));
        let Some(line) = line.filter(|_| status.success()) else {
            let error = complained.join().unwrap_or_default();
            let tail: Vec<&str> = error.lines().rev().take(8).collect();
            bail!("it ended with {status}: {}", tail.into_iter().rev().collect::<Vec<_>>().join("\n"));
        };
        figures(line)
    }

    /// Until the process ends: shows how long it has taken. None when patience ended first.
    fn wait(&self, child: &mut Child, patience: Option<Duration>) -> Result<Option<ExitStatus>> {
        // Rare enough that looking does not disturb what is measured.
        const GLANCE: Duration = Duration::from_millis(100);
        let is_terminal = std::io::stderr().is_terminal();
        // On a terminal the line is overwritten; a log gets one now and then.
        let interval = Duration::from_secs(if is_terminal { 1 } else { 60 });
        let (begun, mut due) = (Instant::now(), interval);
        let status = loop {
            if let Some(status) = child.try_wait()? {
                break Some(status);
            }
            if patience.is_some_and(|patience| begun.elapsed() > patience) {
                child.kill()?;
                child.wait()?;
                break None;
            }
            if begun.elapsed() >= due {
                due += interval;
                let text = format!("round {}: {} for {} so far", self.round, self.label, duration(begun.elapsed()));
                match is_terminal {
                    true => eprint!("\r\x1b[2K{text}"),
                    false => eprintln!("{text}"),
                }
            }
            std::thread::sleep(GLANCE);
        };
        if is_terminal {
            eprint!("\r\x1b[2K");
        }
        Ok(status)
    }
}

/// Reads along, so that a process that says much does not wait for us.
fn collect(pipe: Option<impl Read + Send + 'static>) -> JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        // What was read before a pipe breaks is all there is to tell.
        let _ = pipe.map(|mut pipe| pipe.read_to_end(&mut bytes));
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

fn figures(line: &str) -> Result<Figures> {
    let value: Value = serde_json::from_str(line)?;
    let figure = |name: &str| value[name].as_f64().with_context(|| format!("it did not say {name}: {line}"));
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
        Turn::new(1, "a peer").take(command, Some(patience))
    }

    #[test]
    fn the_last_line_tells_the_figures() {
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
        assert!(slow.contains("--patience") && begun.elapsed() < Duration::from_secs(30), "{slow}");
    }
}
