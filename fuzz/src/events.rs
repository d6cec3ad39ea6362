//! The targets that read event files.

use crate::data::{file, scratch};
use octant_events::{Edit, Editor, EventLog, Progress, RawRecords, TensorValue, Value, edit_files, framed};

/// Keeps half of the values, under another tag.
struct Half(u64);

impl Editor for Half {
    fn version(&mut self) -> bool {
        true
    }

    fn record(&mut self, step: i64) -> bool {
        step % 2 == 0
    }

    fn value(&mut self, _: i64, tag: &str) -> Edit {
        self.0 += 1;
        match self.0 % 3 {
            0 => Edit::Keep,
            1 => Edit::Drop,
            _ => Edit::Rename(format!("{tag}2")),
        }
    }
}

/// Any bytes as an event file that grows in two steps, and as the content of one record.
pub fn events(data: &[u8]) {
    let _ = (Value::decode(data), TensorValue::decode(data));
    for bytes in [data.to_vec(), framed(data)] {
        let path = file("events.out.tfevents.1", &bytes[..bytes.len() / 2]);
        let mut log = EventLog::new(&path);
        let _ = log.read(u64::MAX);
        let path = file("events.out.tfevents.1", &bytes);
        while log.read(64).is_ok_and(|progress| progress == Progress::More) {}
        for series in log.series() {
            assert_eq!(series.steps.len(), series.times.len());
            assert_eq!(series.steps.len(), series.numbers.len() + series.locations.len());
            for location in &series.locations {
                let _ = EventLog::value(&path, *location).map(|value| Value::decode(&value));
            }
        }
        let mut records = RawRecords::open(&path).expect("the file is there");
        let mut whole = 0;
        while let Some(record) = records.read().expect("the file can be read") {
            whole += record.map_or(0, |record| record.framed().len());
        }
        assert!(whole <= bytes.len());
        let target = scratch("edited/events.out.tfevents.2");
        let _ = std::fs::remove_file(&target);
        let _ = edit_files(&[&path], &target, &mut Half(0));
    }
}
