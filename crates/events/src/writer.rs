//! Event files that TensorBoard reads.

use crate::EventsError;
use crate::message::{Event, EventContent, Setting, Value};
use crate::record::write_record;
use crate::runs::is_event_file;
use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// An event file that grows.
pub struct EventWriter {
    path: PathBuf,
    file: File,
    length: u64,
}

impl EventWriter {
    /// Begins a file `events.out.tfevents.<seconds>.octant` in that folder.
    pub fn create(folder: &Path) -> Result<EventWriter, EventsError> {
        let path = folder.join(format!("events.out.tfevents.{:010}.octant", now() as u64));
        let file = File::create(&path).map_err(EventsError::write(&path))?;
        let mut writer = EventWriter { path, file, length: 0 };
        writer.write(0, EventContent::Version("brain.Event:2".into()))?;
        Ok(writer)
    }

    /// A writer whose events nobody reads.
    pub(crate) fn discarded(file: File) -> EventWriter {
        EventWriter { path: PathBuf::new(), file, length: 0 }
    }

    /// Continues the folder's file, cut back to `length` bytes; begins one where there is none, or where the one
    /// there is shorter, which only an unclean machine stop can bring about.
    pub fn resume(folder: &Path, length: u64) -> Result<EventWriter, EventsError> {
        let Some(path) = event_files(folder).into_iter().next() else { return EventWriter::create(folder) };
        let file = OpenOptions::new().append(true).open(&path).map_err(EventsError::write(&path))?;
        let found = file.metadata().map_err(EventsError::read(&path))?.len();
        if length == 0 || found < length {
            drop(file);
            std::fs::remove_file(&path).map_err(EventsError::write(&path))?;
            return EventWriter::create(folder);
        }
        file.set_len(length).map_err(EventsError::write(&path))?;
        Ok(EventWriter { path, file, length })
    }

    /// Continues at the end of the folder's file.
    pub fn append(folder: &Path) -> Result<EventWriter, EventsError> {
        let length = event_files(folder).first().and_then(|path| path.metadata().ok()).map_or(0, |file| file.len());
        EventWriter::resume(folder, length)
    }

    /// How long the file is.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Where the file is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Values that belong to one step.
    pub fn values(&mut self, step: u64, values: Vec<(String, Value)>) -> Result<(), EventsError> {
        self.write(step, EventContent::Values(values))
    }

    /// One number.
    pub fn scalar(&mut self, step: u64, tag: &str, value: f64) -> Result<(), EventsError> {
        self.values(step, vec![(tag.into(), Value::Scalar(value as f32))])
    }

    /// Markdown under a tag.
    pub fn text(&mut self, tag: &str, text: &str) -> Result<(), EventsError> {
        self.values(0, vec![(format!("{tag}/text_summary"), Value::Text(text.into()))])
    }

    /// The settings of the run and the metrics to compare runs by, for TensorBoard's table of hyper-parameters.
    pub fn settings(&mut self, settings: &[(String, Setting)], metrics: &[String]) -> Result<(), EventsError> {
        let experiment = ("_hparams_/experiment".to_string(), Value::Metrics(metrics.to_vec()));
        let start = ("_hparams_/session_start_info".to_string(), Value::Settings(settings.to_vec()));
        self.values(0, vec![experiment, start])
    }

    /// Says that the run is over.
    pub fn finished(&mut self, step: u64) -> Result<(), EventsError> {
        self.values(step, vec![("_hparams_/session_end_info".into(), Value::Finished)])
    }

    /// Another handle to the file, for a thread that syncs it.
    pub fn handle(&self) -> Result<File, EventsError> {
        self.file.try_clone().map_err(EventsError::write(&self.path))
    }

    fn write(&mut self, step: u64, content: EventContent) -> Result<(), EventsError> {
        let record = Event { wall_time: now(), step: step as i64, content }.encode();
        write_record(&mut self.file, &record).map_err(EventsError::write(&self.path))?;
        self.length += record.len() as u64 + 16;
        Ok(())
    }
}

fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |time| time.as_secs_f64())
}

/// The event files of a folder, oldest first.
pub(crate) fn event_files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let is_wanted = |path: &PathBuf| path.file_name().and_then(|name| name.to_str()).is_some_and(is_event_file);
    let mut files: Vec<PathBuf> = entries.filter(is_wanted).collect();
    files.sort();
    files
}
