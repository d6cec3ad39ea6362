//! The loader: worker threads that turn positions into batches, in order, with bounded memory.
//!
//! Workers claim single rows, not batches, so the first batch is ready after 1/workers of its work. At most
//! `prefetch` batches are open at a time: when the consumer is slow, workers wait instead of piling up memory. The
//! order of delivery and the content of every batch follow from the [`Sampler`] and the sample's own random numbers,
//! never from scheduling.

mod assembly;
mod details;
mod mix;
mod pool;
mod worker;

use crate::{DataError, Dataset, GroundTruthImage, LastBatch, Position, SampleOrder, Sampler, Transform};
use assembly::RowLayout;
pub use details::MASK_STRIDE;
pub use mix::Mix;
use octant_tensor::HostTensor;
use pool::Pool;
use std::ops::Range;
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use worker::{Shared, worker};

/// What to do with a sample that cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Corrupt {
    /// End the stream with an error that names it.
    Fatal,
    /// Leave its row invalid, note it in [`Loader::skipped`], continue.
    Skip,
}

/// How batches are put together.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LoaderConfig {
    /// Rows per batch, over all shards.
    pub batch_size: usize,
    /// The seed of order and augmentation.
    pub seed: u64,
    /// A new order every epoch.
    pub shuffle: bool,
    /// What happens to the samples that do not fill the last batch.
    pub last: LastBatch,
    /// Worker threads; 0 means one per core.
    pub workers: usize,
    /// Batches that may be in preparation or waiting at a time.
    pub prefetch: usize,
    /// What to do with a sample that cannot be read.
    pub corrupt: Corrupt,
    /// The rows of every batch to return; all of them if none are named. What a row holds does not depend on it.
    pub rows: Option<Range<usize>>,
    /// Slots for boxes per image; further boxes are an error.
    pub max_boxes: usize,
    /// Mixup and cutmix, for 8-bit images with classes.
    pub mix: Option<Mix>,
}

impl Default for LoaderConfig {
    fn default() -> LoaderConfig {
        LoaderConfig {
            batch_size: 32,
            seed: 0,
            shuffle: true,
            last: LastBatch::Drop,
            workers: 0,
            prefetch: 4,
            corrupt: Corrupt::Fatal,
            rows: None,
            max_boxes: 1024,
            mix: None,
        }
    }
}

impl LoaderConfig {
    /// The same for one of `count` equal shards of every batch.
    pub fn shard(self, index: usize, count: usize) -> Result<LoaderConfig, DataError> {
        if count == 0 || index >= count || !self.batch_size.is_multiple_of(count) {
            return Err(DataError::request(format!(
                "shard {index} of {count} does not exist for a batch of {}; the batch must divide evenly",
                self.batch_size
            )));
        }
        let rows = self.batch_size / count;
        Ok(LoaderConfig { rows: Some(index * rows..(index + 1) * rows), ..self })
    }
}

/// The targets of a batch, one row per image.
#[derive(Debug, Clone, PartialEq)]
pub enum Targets {
    /// Class numbers: i32 `[n]`.
    Classes(HostTensor),
    /// Class numbers of images that were mixed in pairs.
    Mixed {
        /// The class of the image itself: i32 `[n]`.
        classes: HostTensor,
        /// The class of the image mixed in: i32 `[n]`.
        partners: HostTensor,
        /// How much of the image itself is left: f32 `[n]`.
        shares: HostTensor,
    },
    /// Label images: u8 `[n, h, w, 1]`.
    Masks(HostTensor),
    /// 1 for every label that an image has, 0 for the others: f32 `[n, k]`.
    Labels(HostTensor),
    /// Numbers to regress: f32 `[n, k]`.
    Values(HostTensor),
    /// Images: u8 `[n, h, w, c]`.
    Images(HostTensor),
    /// Boxes, padded to the same number per image.
    Boxes {
        /// Left, top, right, bottom in pixels: f32 `[n, max_boxes, 4]`.
        corners: HostTensor,
        /// Class numbers, −1 where there is no box: i32 `[n, max_boxes]`.
        classes: HostTensor,
        /// What labels say of the objects beside that. Of outlines, the object that is seen at every pixel of a grid of a
        /// [quarter](MASK_STRIDE) of the image's size: its slot from 1 on, 0 for none, i32 `[n, h, w]`. Of keypoints, column,
        /// row and 0, 1 or 2 for unknown, hidden and visible: f32 `[n, max_boxes, keypoints, 3]`. Of corners, column and row
        /// of the center, width, height and radians of the rotated box: f32 `[n, max_boxes, 5]`.
        details: Option<HostTensor>,
        /// The objects of every row as the data set's own evaluation counts them, where it has rules of its own.
        ground_truth: Vec<Option<Arc<GroundTruthImage>>>,
    },
}

/// Images and targets that are computed on together.
#[derive(Debug, Clone, PartialEq)]
pub struct Batch {
    /// Where in the stream this batch is.
    pub position: Position,
    /// `[n, h, w, c]` in the element type of the images, nearly always u8.
    pub images: HostTensor,
    /// What is to be predicted.
    pub targets: Targets,
    /// 1 for rows that count, 0 for padding and skipped samples: f32 `[n]`.
    pub mask: HostTensor,
    /// How many rows count.
    pub valid: usize,
    /// The sample of every row; `u64::MAX` for padding.
    pub indices: Vec<u64>,
}

/// A sample that was left out because it could not be read.
#[derive(Debug, Clone, PartialEq)]
pub struct Skipped {
    /// Its number in the data set.
    pub index: u64,
    /// Why, with its path.
    pub reason: String,
}

/// What the consumer of the batches experienced.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct LoaderStats {
    /// Batches delivered.
    pub batches: u64,
    /// Valid samples delivered.
    pub samples: u64,
    /// Time the consumer waited for batches: the price of slow data.
    pub waited: Duration,
}

/// Prepares batches of a data set.
pub struct Loader {
    job: Arc<Job>,
}

/// What workers need to know; it does not change while they run.
struct Job {
    dataset: Arc<dyn Dataset>,
    transform: Arc<dyn Transform>,
    config: LoaderConfig,
    sampler: Sampler,
    /// Of the rows that are prepared, those that are returned.
    kept: Range<usize>,
    pool: Arc<Pool>,
    /// Set by the first sample: compiled programs accept one shape only.
    layout: OnceLock<RowLayout>,
    skipped: Mutex<Vec<Skipped>>,
    stats: Mutex<LoaderStats>,
}

impl Loader {
    /// A loader over `dataset` whose samples pass through `transform`.
    pub fn new(
        dataset: Arc<dyn Dataset>,
        transform: Arc<dyn Transform>,
        config: LoaderConfig,
    ) -> Result<Loader, DataError> {
        Loader::ordered(dataset, transform, config, SampleOrder::Plain)
    }

    /// The same with samples in another order.
    pub fn ordered(
        dataset: Arc<dyn Dataset>,
        transform: Arc<dyn Transform>,
        config: LoaderConfig,
        order: SampleOrder,
    ) -> Result<Loader, DataError> {
        let LoaderConfig { batch_size, seed, shuffle, last, .. } = config;
        let rows = config.rows.clone().unwrap_or(0..batch_size);
        let sampler = Sampler::new(dataset.len(), batch_size, seed, shuffle, last)?.ordered(order)?;
        let (sampler, kept) = match config.mix.is_some() {
            // Rows are mixed with those at the other end of the batch.
            true => sampler.with_mirrored_rows(rows)?,
            false => (sampler.with_rows(rows.clone())?, 0..rows.len()),
        };
        // Every open batch, one at the consumer and one being computed on may hold a block each.
        let pool = Pool::new(2 * (config.prefetch.max(1) + 2));
        let job = Job {
            dataset,
            transform,
            config,
            sampler,
            kept,
            pool,
            layout: OnceLock::new(),
            skipped: Mutex::default(),
            stats: Mutex::default(),
        };
        Ok(Loader { job: Arc::new(job) })
    }

    /// The data set behind it.
    pub fn dataset(&self) -> &dyn Dataset {
        &*self.job.dataset
    }

    /// Which samples are in which batch.
    pub fn sampler(&self) -> &Sampler {
        &self.job.sampler
    }

    /// Batches per epoch.
    pub fn batches_per_epoch(&self) -> u64 {
        self.job.sampler.batches()
    }

    /// The batches of one epoch.
    pub fn epoch(&self, epoch: u64) -> Batches {
        self.stream(Position::new(epoch, 0), epoch + 1)
    }

    /// The batches from a position up to, but without, the epoch `end`. Preparation runs ahead over epoch boundaries.
    pub fn stream(&self, from: Position, end: u64) -> Batches {
        let workers = match self.job.config.workers {
            0 => std::thread::available_parallelism().map_or(1, |cores| cores.get()),
            workers => workers,
        };
        let shared = Arc::new(Shared::new(from, end, workers));
        let threads = (0..workers)
            .map(|number| {
                let (shared, job) = (shared.clone(), self.job.clone());
                std::thread::Builder::new().name(format!("loader-{number}")).spawn(move || worker(&shared, &job))
            })
            .filter_map(|thread| thread.inspect_err(|error| shared.worker_lost(error.to_string())).ok())
            .collect();
        Batches { shared, job: self.job.clone(), threads, ended: false }
    }

    /// The samples left out so far.
    pub fn skipped(&self) -> Vec<Skipped> {
        pool::lock(&self.job.skipped).clone()
    }

    /// What the consumer experienced so far.
    pub fn stats(&self) -> LoaderStats {
        *pool::lock(&self.job.stats)
    }
}

/// Batches in order; workers prepare the next ones concurrently. Dropping it stops and joins the workers.
pub struct Batches {
    shared: Arc<Shared>,
    job: Arc<Job>,
    threads: Vec<JoinHandle<()>>,
    ended: bool,
}

impl Iterator for Batches {
    type Item = Result<Batch, DataError>;

    fn next(&mut self) -> Option<Result<Batch, DataError>> {
        if self.ended {
            return None;
        }
        let start = Instant::now();
        let item = self.shared.take(&self.job.sampler);
        let mut stats = pool::lock(&self.job.stats);
        stats.waited += start.elapsed();
        match &item {
            Some(Ok(batch)) => {
                stats.batches += 1;
                stats.samples += batch.valid as u64;
            }
            // After an error the stream is over: later batches would hide it.
            Some(Err(_)) | None => self.ended = true,
        }
        item
    }
}

impl Drop for Batches {
    fn drop(&mut self) {
        self.shared.stop();
        for thread in self.threads.drain(..) {
            // A worker that panicked has already reported it through the stream.
            let _ = thread.join();
        }
    }
}
