//! The log of one process of several: `logs/rank-00003.txt` in the run directory.
//!
//! Lines of ours begin with the time, so that `octant logs` can merge the files of all processes. What libraries print on their
//! own has no time and belongs to the line before.

use crate::hints;
use crate::logs::{self, stamp};
use octant_run::RunEvent;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

pub(crate) struct RankLog {
    file: File,
    /// The output of the launcher, once our own goes to the file.
    launcher: Option<File>,
}

impl RankLog {
    pub fn open(run: &Path, rank: usize) -> io::Result<RankLog> {
        let path = logs::path(run, rank);
        path.parent().map_or(Ok(()), std::fs::create_dir_all)?;
        let file = OpenOptions::new().create(true).append(true).open(path)?;
        Ok(RankLog { file, launcher: None })
    }

    /// A line with the time before it.
    pub fn line(&mut self, text: &str) {
        // One write each: several threads and libraries share the file. A log on a full disk must not end the run.
        let _ = self.file.write_all(format!("{} {text}\n", stamp(std::time::SystemTime::now())).as_bytes());
    }

    /// A line for the launcher, where our own standard error goes to the file.
    pub fn tell_launcher(&mut self, text: &str) {
        if let Some(launcher) = &mut self.launcher {
            let _ = writeln!(launcher, "{text}");
        }
    }

    /// Sends standard output and standard error of this process to the file.
    #[cfg(unix)]
    pub fn redirect(&mut self) -> io::Result<()> {
        use std::os::fd::{AsFd, AsRawFd};
        let launcher = io::stderr().as_fd().try_clone_to_owned()?;
        for descriptor in [libc::STDOUT_FILENO, libc::STDERR_FILENO] {
            // SAFETY: both descriptors are open; the standard streams go on to use theirs.
            if unsafe { libc::dup2(self.file.as_raw_fd(), descriptor) } < 0 {
                return Err(io::Error::last_os_error());
            }
        }
        self.launcher = Some(launcher.into());
        Ok(())
    }

    /// Elsewhere the output stays where the launcher has it.
    #[cfg(not(unix))]
    pub fn redirect(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// What an event is worth in a log.
    pub fn event(&mut self, event: &RunEvent) {
        match event {
            RunEvent::Message(text) => self.line(&hints::with_flags(text)),
            RunEvent::Warning(text) => self.line(&format!("warning: {}", hints::with_flags(text))),
            RunEvent::Started(start) => {
                self.line(&start.to_string());
                self.line(&start.device.to_string());
            }
            RunEvent::Phase(phase) => {
                let seconds = phase.compile_time.as_secs_f64();
                self.line(&format!("{}: the training step is ready after {seconds:.1} s", phase.name));
            }
            RunEvent::EpochBegins { epoch, epochs, steps, done } => {
                self.line(&format!("epoch {epoch} of {epochs} begins at step {done} of {steps}"));
            }
            RunEvent::Epoch(report) => {
                let metrics: Vec<String> =
                    report.metrics.iter().map(|(name, value)| format!("{name} {value:.6}")).collect();
                let (epoch, seconds) = (report.epoch, report.times.total.as_secs_f64());
                self.line(&format!("epoch {epoch}: {}, {seconds:.1} s, {}", metrics.join("  "), report.bottleneck));
            }
            RunEvent::Checkpoint { step } => self.line(&format!("checkpoint of step {step}")),
            RunEvent::Ended(outcome) => self.line(&format!("the run ended: {:?}", outcome.summary.ending)),
            RunEvent::Planned(_)
            | RunEvent::Step(_)
            | RunEvent::Loss { .. }
            | RunEvent::Validated { .. }
            | RunEvent::Recorded { .. } => {}
        }
    }
}
