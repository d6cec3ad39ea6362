//! An order of samples in which archives are read as wholes.
//!
//! The order of an epoch is one of archives first (a keyed permutation of them), cut into equal streams of neighbors; inside of
//! a stream, the samples of a few archives at a time, the window, are permuted among each other. A batch takes equally many
//! samples of every stream, in the order of its rows. A process that prepares some rows of every batch therefore reads the
//! archives of their streams alone, and of each one the whole, while the order itself knows nothing of processes: like the
//! plain one it is a function of (seed, epoch, position), and a run resumes anywhere in it. Nothing of it is kept but where
//! archives begin.

use crate::{DataError, Dataset, Permutation};
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

/// The archives of a data set, and how an epoch goes through them.
#[derive(Debug)]
pub struct Archives {
    /// Where the samples of each archive begin, and where those of the last one end.
    starts: Vec<u64>,
    streams: u64,
    window: u64,
    /// The epoch that was needed last: batches of one follow each other.
    latest: Mutex<Option<Arc<EpochOrder>>>,
}

impl Archives {
    /// The order of a data set's archives in that many streams, with windows of that many archives in each.
    pub fn of(dataset: &dyn Dataset, streams: usize, window: usize) -> Result<Archives, DataError> {
        if streams == 0 || window == 0 {
            return Err(DataError::request(
                "an order of archives needs one stream and a window of one archive at least",
            ));
        }
        let mut starts = Vec::new();
        let mut current = None;
        for index in 0..dataset.len() {
            let Some(archive) = dataset.archive(index) else {
                return Err(DataError::request(format!("{} is in no archive", dataset.location(index))));
            };
            if current != Some(archive) {
                starts.push(index as u64);
                current = Some(archive);
            }
        }
        starts.push(dataset.len() as u64);
        Ok(Archives { starts, streams: streams as u64, window: window as u64, latest: Mutex::default() })
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.starts.len() - 1
    }

    /// True when there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The samples of an archive.
    pub fn samples(&self, archive: usize) -> Range<u64> {
        self.starts[archive]..self.starts[archive + 1]
    }

    /// Streams of which a batch has equally many samples.
    pub fn streams(&self) -> usize {
        self.streams as usize
    }

    /// Archives of a stream whose samples are permuted among each other.
    pub fn window(&self) -> usize {
        self.window as usize
    }

    /// Refuses batches that have not equally many rows for every stream.
    pub(crate) fn check(&self, batch_size: u64) -> Result<(), DataError> {
        if batch_size.is_multiple_of(self.streams) {
            return Ok(());
        }
        Err(DataError::request(format!(
            "a batch of {batch_size} cannot take equally many samples of {} streams of archives; choose a batch size that they \
             divide, or fewer of them",
            self.streams
        )))
    }

    /// The sample in a row of a batch of that size, before which the epoch had `taken` samples. None where the row's stream has
    /// ended.
    pub(crate) fn at(&self, order: &EpochOrder, taken: u64, batch_size: u64, row: u64) -> Option<u64> {
        let rows = (batch_size / self.streams).max(1);
        order.at(self, row / rows, taken / self.streams + row % rows)
    }

    /// The archives that rows of batches of that size read in an epoch.
    pub fn read_by(&self, rows: Range<usize>, batch_size: usize, seed: u64, epoch: u64) -> BTreeSet<usize> {
        let order = self.epoch(seed, epoch);
        let per_stream = (batch_size / self.streams()).max(1);
        let streams = rows.start / per_stream..rows.end.div_ceil(per_stream);
        let archives = streams.filter_map(|stream| {
            let places = order.stream(self, stream as u64);
            (!places.is_empty()).then(|| order.slot(places.start)..order.slot(places.end - 1) + 1)
        });
        archives.flatten().map(|slot| order.archives[slot] as usize).collect()
    }

    /// The archives in the order of an epoch.
    pub(crate) fn epoch(&self, seed: u64, epoch: u64) -> Arc<EpochOrder> {
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(order) = latest.as_ref().filter(|order| (order.seed, order.epoch) == (seed, epoch)) {
            return order.clone();
        }
        let permutation = Permutation::new(self.len() as u64, seed, epoch);
        let archives: Vec<u64> = (0..self.len() as u64).map(|at| permutation.at(at)).collect();
        let lengths = archives.iter().map(|&archive| {
            let samples = self.samples(archive as usize);
            samples.end - samples.start
        });
        let begins = lengths
            .scan(0, |end, length| {
                *end += length;
                Some(*end - length)
            })
            .collect();
        latest.insert(Arc::new(EpochOrder { seed, epoch, archives, begins })).clone()
    }
}

/// The archives in the order of an epoch, one after the other. Positions count their samples.
#[derive(Debug)]
pub(crate) struct EpochOrder {
    seed: u64,
    epoch: u64,
    archives: Vec<u64>,
    /// The position where each of them begins.
    begins: Vec<u64>,
}

impl EpochOrder {
    /// The positions of a stream: all streams are as long as the others, but for one sample.
    fn stream(&self, of: &Archives, stream: u64) -> Range<u64> {
        let len = of.starts[of.len()];
        let edge = |stream: u64| (u128::from(stream) * u128::from(len) / u128::from(of.streams)) as u64;
        edge(stream)..edge(stream + 1)
    }

    /// The archive that holds a position, by its number in this order.
    fn slot(&self, position: u64) -> usize {
        self.begins.partition_point(|&begin| begin <= position).saturating_sub(1)
    }

    fn at(&self, of: &Archives, stream: u64, step: u64) -> Option<u64> {
        let stream = self.stream(of, stream);
        let position = stream.start.checked_add(step).filter(|position| stream.contains(position))?;
        // Windows are counted from the archive that the stream begins in.
        let (first, window) = (self.slot(stream.start), of.window as usize);
        let begin = first + (self.slot(position) - first) / window * window;
        let from = self.begins[begin].max(stream.start);
        let to = self.begins.get(begin + window).map_or(stream.end, |&end| end.min(stream.end));
        let shuffled = from + Permutation::of_part(to - from, self.seed, self.epoch, from).at(position - from);
        let slot = self.slot(shuffled);
        Some(of.starts[self.archives[slot] as usize] + shuffled - self.begins[slot])
    }
}
