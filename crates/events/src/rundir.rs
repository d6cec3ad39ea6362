//! The run directory: `config.toml`, `log.txt`, `metrics.csv`, `timing.csv`, event files, `checkpoints/`, `plots/`.

use crate::writer::event_files;
use crate::{EventWriter, EventsError, Table};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

/// How long the files of a run were at a checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Lengths {
    /// Of `metrics.csv`.
    pub metrics: u64,
    /// Of `timing.csv`.
    pub timing: u64,
    /// Of the event file.
    pub events: u64,
}

/// One run's directory, locked against a second process.
pub struct RunDirectory {
    path: PathBuf,
    log: File,
    /// Only values that a second run reproduces.
    pub metrics: Table,
    /// How long things took.
    pub timing: Table,
    /// For TensorBoard.
    pub events: EventWriter,
    /// Another process writes what there is; what this one writes is discarded.
    follows: bool,
    /// Held, not read: the system gives the lock back when the process ends, however it ends.
    _lock: File,
}

impl RunDirectory {
    /// True when that directory holds a run.
    pub fn exists(path: &Path) -> bool {
        path.join("config.toml").exists()
    }

    /// Whether a process is at work in that directory.
    pub fn is_in_use(path: &Path) -> bool {
        path.join("run.lock").exists() && matches!(lock(path), Err(EventsError::InUse(_)))
    }

    /// Begins a run. What an earlier run left in the directory is removed.
    pub fn create(path: &Path, config: &str) -> Result<RunDirectory, EventsError> {
        make(path)?;
        let lock = lock(path)?;
        for folder in ["checkpoints", "plots", "predictions"] {
            remove(&path.join(folder))?;
        }
        let of_run =
            ["log.txt", "summary.json", "history.toml", "data.toml", "held_out.txt"].map(|name| path.join(name));
        for file in event_files(path).into_iter().chain(of_run) {
            remove(&file)?;
        }
        make(&path.join("checkpoints"))?;
        let run = RunDirectory {
            log: open_log(path)?,
            metrics: Table::create(&path.join("metrics.csv"))?,
            timing: Table::create(&path.join("timing.csv"))?,
            events: EventWriter::create(path)?,
            path: path.to_path_buf(),
            follows: false,
            _lock: lock,
        };
        // Last, because this file is what makes the directory a run.
        run.write("config.toml", config)?;
        Ok(run)
    }

    /// Resumes a run; its files are cut back to the lengths they had at the checkpoint.
    pub fn resume(path: &Path, lengths: impl FnOnce() -> Lengths) -> Result<RunDirectory, EventsError> {
        let lock = lock(path)?;
        let lengths = lengths();
        Ok(RunDirectory {
            log: open_log(path)?,
            metrics: Table::resume(&path.join("metrics.csv"), lengths.metrics)?,
            timing: Table::resume(&path.join("timing.csv"), lengths.timing)?,
            events: EventWriter::resume(path, lengths.events)?,
            path: path.to_path_buf(),
            follows: false,
            _lock: lock,
        })
    }

    /// The run of several processes in that directory, for those that write nothing into it.
    pub fn follow(path: &Path) -> Result<RunDirectory, EventsError> {
        Ok(RunDirectory {
            log: nowhere()?,
            metrics: Table::discarded(nowhere()?),
            timing: Table::discarded(nowhere()?),
            events: EventWriter::discarded(nowhere()?),
            path: path.to_path_buf(),
            follows: true,
            _lock: nowhere()?,
        })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// How long its files are now, and handles to them: the files must be synced before the lengths are stored.
    pub fn lengths(&self) -> Result<(Lengths, Vec<File>), EventsError> {
        let lengths =
            Lengths { metrics: self.metrics.length(), timing: self.timing.length(), events: self.events.length() };
        Ok((lengths, vec![self.metrics.handle()?, self.timing.handle()?, self.events.handle()?]))
    }

    /// A line for `log.txt`.
    pub fn log(&mut self, line: &str) -> Result<(), EventsError> {
        writeln!(self.log, "{line}").map_err(EventsError::write(&self.path.join("log.txt")))
    }

    /// Writes a file of the run, below its directory; a file of that name is always whole.
    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) -> Result<PathBuf, EventsError> {
        let path = self.path.join(name);
        if self.follows {
            return Ok(path);
        }
        if let Some(folder) = path.parent() {
            make(folder)?;
        }
        let temporary = self.path.join(format!("{name}.tmp"));
        let write = || {
            let mut file = File::create(&temporary)?;
            file.write_all(content.as_ref())?;
            file.sync_all()?;
            std::fs::rename(&temporary, &path)
        };
        write().map_err(EventsError::write(&path))?;
        Ok(path)
    }
}

/// A file that discards what is written.
fn nowhere() -> Result<File, EventsError> {
    let path = Path::new(if cfg!(windows) { "NUL" } else { "/dev/null" });
    OpenOptions::new().append(true).open(path).map_err(EventsError::write(path))
}

fn make(folder: &Path) -> Result<(), EventsError> {
    std::fs::create_dir_all(folder).map_err(EventsError::write(folder))
}

fn remove(path: &Path) -> Result<(), EventsError> {
    let removed = if path.is_dir() { std::fs::remove_dir_all(path) } else { std::fs::remove_file(path) };
    match removed {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(EventsError::write(path)(error)),
        _ => Ok(()),
    }
}

fn open_log(path: &Path) -> Result<File, EventsError> {
    let path = path.join("log.txt");
    OpenOptions::new().create(true).append(true).open(&path).map_err(EventsError::write(&path))
}

fn lock(path: &Path) -> Result<File, EventsError> {
    let file = path.join("run.lock");
    let lock = OpenOptions::new().create(true).append(true).open(&file).map_err(EventsError::write(&file))?;
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(std::fs::TryLockError::WouldBlock) => Err(EventsError::InUse(path.to_path_buf())),
        Err(std::fs::TryLockError::Error(error)) => Err(EventsError::write(&file)(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{EventContent, Setting, Value, read_run, read_table};

    #[test]
    fn a_resumed_run_forgets_what_came_after_its_checkpoint() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run");
        let row = |loss: f64| vec![("epoch".to_string(), 1.0), ("loss".to_string(), loss)];
        let mut run = RunDirectory::create(&path, "seed = 1\n").unwrap();
        assert!(matches!(RunDirectory::resume(&path, Lengths::default), Err(EventsError::InUse(_))));
        run.metrics.row(&row(0.5), &[]).unwrap();
        run.events.scalar(1, "loss", 0.5).unwrap();
        let (lengths, _) = run.lengths().unwrap();
        run.metrics.row(&row(9.0), &[]).unwrap();
        run.events.scalar(2, "loss", 9.0).unwrap();
        drop(run);

        let mut run = RunDirectory::resume(&path, || lengths).unwrap();
        run.metrics.row(&row(0.25), &[]).unwrap();
        run.events.scalar(2, "loss", 0.25).unwrap();
        let (columns, rows) = read_table(&path.join("metrics.csv")).unwrap();
        assert_eq!((columns.join(" "), rows), ("epoch loss".into(), vec![vec![1.0, 0.5], vec![1.0, 0.25]]));
        let events = read_run(&path).unwrap();
        assert_eq!(events[0].content, EventContent::Version("brain.Event:2".into()));
        let scalar = |value| EventContent::Values(vec![("loss".to_string(), Value::Scalar(value))]);
        assert_eq!(events[1..].iter().map(|event| &event.content).collect::<Vec<_>>(), [&scalar(0.5), &scalar(0.25)]);
    }

    #[test]
    fn processes_that_follow_leave_nothing_behind() {
        let folder = tempfile::tempdir().unwrap();
        let mut run = RunDirectory::follow(folder.path()).unwrap();
        run.metrics.row(&[("loss".to_string(), 1.0)], &[]).unwrap();
        run.events.scalar(1, "loss", 1.0).unwrap();
        run.log("a line").unwrap();
        run.write("network.json", "{}").unwrap();
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn every_kind_of_value_is_read_back() {
        let folder = tempfile::tempdir().unwrap();
        let mut run = RunDirectory::create(folder.path(), "").unwrap();
        let settings = vec![
            ("lr".to_string(), Setting::Number(0.1)),
            ("model".to_string(), Setting::Text("tiny".into())),
            ("nesterov".to_string(), Setting::Flag(true)),
        ];
        run.events.settings(&settings, &["val_accuracy".into()]).unwrap();
        run.events.text("config", "a *text*").unwrap();
        let image = Value::Image { height: 2, width: 3, png: vec![1, 2, 3] };
        let histogram = Value::Histogram(crate::Histogram::of(&[0.0, 0.5, 0.5, 1.0]));
        run.events.values(3, vec![("p".into(), image.clone()), ("h".into(), histogram.clone())]).unwrap();
        run.events.finished(3).unwrap();
        let values: Vec<(String, Value)> = read_run(folder.path())
            .unwrap()
            .into_iter()
            .flat_map(|event| match event.content {
                EventContent::Values(values) => values,
                _ => vec![],
            })
            .collect();
        let found: Vec<&Value> = values.iter().map(|(_, value)| value).collect();
        let metrics = Value::Metrics(vec!["val_accuracy".into()]);
        let text = Value::Text("a *text*".into());
        assert_eq!(found, [&metrics, &Value::Settings(settings), &text, &image, &histogram, &Value::Finished]);
    }

    #[test]
    fn a_flipped_bit_is_noticed_and_a_cut_tail_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let mut run = RunDirectory::create(folder.path(), "").unwrap();
        run.events.scalar(1, "loss", 0.5).unwrap();
        let file = run.events.path().to_path_buf();
        let bytes = std::fs::read(&file).unwrap();
        std::fs::write(&file, &bytes[..bytes.len() - 3]).unwrap();
        assert_eq!(read_run(folder.path()).unwrap().len(), 1);
        let mut damaged = bytes.clone();
        damaged[20] ^= 4;
        std::fs::write(&file, damaged).unwrap();
        assert!(read_run(folder.path()).unwrap_err().to_string().contains("checksum"));
    }
}
