//! Ending a prediction early.

use crate::{PredictError, Result};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Ends predictions that are no longer needed. Clones cancel the same ones. It is looked at before every batch and every
/// tile; what a device has begun is finished.
#[derive(Debug, Clone, Default)]
pub struct Cancel {
    cancelled: Arc<AtomicBool>,
    deadline: Option<Instant>,
}

impl Cancel {
    /// Never, unless [`cancel`](Cancel::cancel) is called.
    pub fn never() -> Cancel {
        Cancel::default()
    }

    /// After that much time from now.
    pub fn after(time: Duration) -> Cancel {
        Cancel { deadline: Instant::now().checked_add(time), ..Cancel::default() }
    }

    /// Now.
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }

    /// An error if it is cancelled, or the deadline has passed.
    pub fn check(&self) -> Result<()> {
        let is_late = self.deadline.is_some_and(|deadline| Instant::now() >= deadline);
        if is_late || self.cancelled.load(Ordering::Relaxed) { Err(PredictError::Cancelled) } else { Ok(()) }
    }
}
