//! The threads that run batches.

use crate::error::{Reason, Refusal};
use crate::metrics::ModelMetrics;
use crate::queue::{Done, Job, Queue, Work};
use octant_predict::Cancel;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Instant;

/// Starts a thread that runs what a queue holds until it is closed and empty.
pub(crate) fn start(name: &str, queue: Arc<Queue>, metrics: Arc<ModelMetrics>) -> std::io::Result<JoinHandle<()>> {
    let thread = std::thread::Builder::new().name(format!("serve {name}"));
    thread.spawn(move || {
        while let Some(jobs) = queue.next() {
            let begun = Instant::now();
            let waited = jobs.iter().map(|job| begun.duration_since(job.queued) * job.images() as u32).sum();
            let images = jobs.iter().map(Job::images).sum();
            run(jobs);
            metrics.batch(images, waited, begun.elapsed());
        }
    })
}

/// Runs jobs as one batch. A panic is the failure of this batch alone.
fn run(jobs: Vec<Job>) {
    let (mut work, mut replies) = (Vec::with_capacity(jobs.len()), Vec::with_capacity(jobs.len()));
    let (mut loaded, mut deadline) = (None, Instant::now());
    for job in jobs {
        work.push(job.work);
        replies.push(job.reply);
        deadline = deadline.max(job.deadline);
        loaded = Some(job.loaded);
    }
    let Some(loaded) = loaded else { return };
    let computed = catch_unwind(AssertUnwindSafe(|| match &work[..] {
        [Work::Whole(image)] => {
            let cancel = Cancel::after(deadline.saturating_duration_since(Instant::now()));
            let made = loaded.predictor.predict_images(std::slice::from_ref(image), &cancel);
            made.map(|mut made| vec![Done::Whole(made.swap_remove(0))])
        }
        all => {
            let mut rows: Vec<&[u8]> = Vec::new();
            let (mut first, mut shape) = (Vec::with_capacity(all.len()), None);
            for work in all {
                let Work::Rows(of, given) = work else { unreachable!("whole images are computed alone") };
                shape = Some(of);
                first.push(rows.len());
                rows.extend(given.iter().map(|row| &row[..]));
            }
            let Some(shape) = shape else { unreachable!("a batch has at least one job") };
            let result = loaded.predictor.run_rows(shape, &rows).map(Arc::new);
            result.map(|result| first.into_iter().map(|first| Done::Rows(result.clone(), first)).collect())
        }
    }));
    match computed {
        // Clients that are gone by then need no reply.
        Ok(Ok(done)) => replies.into_iter().zip(done).for_each(|(reply, done)| drop(reply.send(Ok(done)))),
        Ok(Err(error)) => {
            let refusal = Refusal::of(&error);
            replies.into_iter().for_each(|reply| drop(reply.send(Err(refusal.clone()))));
        }
        Err(_) => {
            let refusal = Refusal::new(Reason::Failed, "the prediction failed inside the server");
            replies.into_iter().for_each(|reply| drop(reply.send(Err(refusal.clone()))));
        }
    }
}
