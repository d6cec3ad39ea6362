//! Memory for messages, counted while they arrive: a message does not say ahead how long it is.

use super::no_memory;
use crate::options::PART;
use crate::shared::Shared;
use axum::body::Body;
use axum::extract::Request;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio_stream::StreamExt;

/// The memory of one message, which is given back when it is dropped.
pub(super) struct Held {
    shared: Arc<Shared>,
    parts: AtomicUsize,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.shared.memory.add_permits(self.parts.load(Ordering::Relaxed));
    }
}

/// A request whose body counts what it holds.
pub(super) fn metered(request: Request, shared: &Arc<Shared>) -> (Request, Arc<Held>) {
    let held = Arc::new(Held { shared: shared.clone(), parts: AtomicUsize::new(0) });
    let (head, body) = request.into_parts();
    let holding = held.clone();
    let pieces = body.into_data_stream().map(move |piece| {
        let piece = piece.map_err(|error| tonic::Status::cancelled(format!("the request ended early: {error}")))?;
        let parts = piece.len().div_ceil(PART);
        let permit = holding.shared.memory.try_acquire_many(parts as u32).map_err(|_| no_memory())?;
        permit.forget();
        holding.parts.fetch_add(parts, Ordering::Relaxed);
        Ok::<_, tonic::Status>(piece)
    });
    (Request::from_parts(head, Body::from_stream(pieces)), held)
}
