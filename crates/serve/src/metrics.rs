//! Counters in the text format of Prometheus.

use crate::error::Reason;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Upper ends of the classes that the time of a request is counted in, in seconds.
const TIMES: [f64; 12] = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0, 30.0];

/// What is counted of one model.
pub(crate) struct ModelMetrics {
    succeeded: AtomicU64,
    refused: [AtomicU64; Reason::ALL.len()],
    /// Requests by their time; the last counts those that took longer.
    times: [AtomicU64; TIMES.len() + 1],
    /// Nanoseconds of all requests.
    time: AtomicU64,
    /// Batches by their images.
    batches: Vec<AtomicU64>,
    waited: AtomicU64,
    computed: AtomicU64,
    loads: AtomicU64,
}

fn add(counter: &AtomicU64, count: u64) {
    counter.fetch_add(count, Ordering::Relaxed);
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

impl ModelMetrics {
    pub fn new(max_batch: usize) -> ModelMetrics {
        ModelMetrics {
            succeeded: AtomicU64::new(0),
            refused: Default::default(),
            times: Default::default(),
            time: AtomicU64::new(0),
            batches: (0..=max_batch).map(|_| AtomicU64::new(0)).collect(),
            waited: AtomicU64::new(0),
            computed: AtomicU64::new(0),
            loads: AtomicU64::new(1),
        }
    }

    /// A request that was completed after that time.
    pub fn completed(&self, time: Duration) {
        add(&self.succeeded, 1);
        add(&self.time, nanoseconds(time));
        let class = TIMES.iter().position(|&end| time.as_secs_f64() <= end).unwrap_or(TIMES.len());
        add(&self.times[class], 1);
    }

    /// A request that was refused.
    pub fn refused(&self, reason: Reason) {
        let index = Reason::ALL.iter().position(|listed| *listed == reason);
        index.into_iter().for_each(|index| add(&self.refused[index], 1));
    }

    /// A batch of so many images, the time that they waited together, and the time that it ran.
    pub fn batch(&self, images: usize, waited: Duration, computed: Duration) {
        add(&self.batches[images.min(self.batches.len() - 1)], 1);
        add(&self.waited, nanoseconds(waited));
        add(&self.computed, nanoseconds(computed));
    }

    /// Another version was loaded.
    pub fn loaded(&self) {
        add(&self.loads, 1);
    }
}

/// A model of the page: its name, its counters, the images that wait, and the bytes of its weights.
pub(crate) type Shown<'a> = (&'a str, &'a ModelMetrics, usize, u64);

/// The page of metrics.
pub(crate) fn page(models: &[Shown]) -> String {
    let mut page = String::new();
    let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let seconds = |counter: &AtomicU64| read(counter) as f64 / 1e9;
    // Writing to a string cannot fail.
    let mut family = |name: &str, kind: &str, help: &str, lines: &dyn Fn(&Shown) -> Vec<(String, f64)>| {
        let _ = writeln!(page, "# HELP octant_{name} {help}\n# TYPE octant_{name} {kind}");
        for shown in models {
            for (rest, value) in lines(shown) {
                let _ = writeln!(page, "octant_{name}{rest} {value}");
            }
        }
    };
    let labels = |model: &str, more: &str| format!("{{model=\"{model}\"{more}}}");
    family("requests_total", "counter", "Inference requests by their result.", &|(model, metrics, ..)| {
        let refused = Reason::ALL.iter().zip(&metrics.refused);
        let lines = refused.map(|(reason, count)| (reason.word(), count)).chain([("ok", &metrics.succeeded)]);
        lines.map(|(word, count)| (labels(model, &format!(",result=\"{word}\"")), read(count) as f64)).collect()
    });
    family("request_seconds", "histogram", "Time of completed requests.", &|(model, metrics, ..)| {
        let mut sum = 0;
        let ends = TIMES.iter().map(f64::to_string).chain(["+Inf".to_string()]);
        let mut lines: Vec<(String, f64)> = ends
            .zip(&metrics.times)
            .map(|(end, count)| {
                sum += read(count);
                (format!("_bucket{}", labels(model, &format!(",le=\"{end}\""))), sum as f64)
            })
            .collect();
        lines.push((format!("_sum{}", labels(model, "")), seconds(&metrics.time)));
        lines.push((format!("_count{}", labels(model, "")), sum as f64));
        lines
    });
    family("batch_images", "histogram", "Images per batch that ran.", &|(model, metrics, ..)| {
        let (mut count, mut images) = (0, 0);
        let mut lines = Vec::new();
        for (size, batches) in metrics.batches.iter().enumerate().skip(1) {
            count += read(batches);
            images += read(batches) * size as u64;
            lines.push((format!("_bucket{}", labels(model, &format!(",le=\"{size}\""))), count as f64));
        }
        lines.push((format!("_bucket{}", labels(model, ",le=\"+Inf\"")), count as f64));
        lines.push((format!("_sum{}", labels(model, "")), images as f64));
        lines.push((format!("_count{}", labels(model, "")), count as f64));
        lines
    });
    family("queue_seconds_total", "counter", "Time that images waited for a batch.", &|(model, metrics, ..)| {
        vec![(labels(model, ""), seconds(&metrics.waited))]
    });
    family("compute_seconds_total", "counter", "Time that batches ran.", &|(model, metrics, ..)| {
        vec![(labels(model, ""), seconds(&metrics.computed))]
    });
    family("queue_images", "gauge", "Images that wait now.", &|(model, _, waiting, _)| {
        vec![(labels(model, ""), *waiting as f64)]
    });
    family("loads_total", "counter", "Versions that were loaded.", &|(model, metrics, ..)| {
        vec![(labels(model, ""), read(&metrics.loads) as f64)]
    });
    family("weight_bytes", "gauge", "Bytes of weights on the device.", &|(model, _, _, bytes)| {
        vec![(labels(model, ""), *bytes as f64)]
    });
    page
}
