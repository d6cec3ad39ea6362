//! The one request that changes something: notes and tags of a run, on boards that allow it.

use crate::error::BoardError;
use crate::notes::{self, Notes};
use crate::response::{JsonResult, Shared, find};
use axum::Json;
use axum::body::Body;
use axum::extract::{Query, State};
use serde::Deserialize;
use serde_json::json;
use std::time::Duration;

/// Its address.
pub(crate) const EDITED: &str = "/api/notes";
/// How much it may be sent.
pub(crate) const LARGEST_EDIT: usize = 64 << 10;
/// How long a client may take to send a note.
const BODY_TIME: Duration = Duration::from_secs(10);

#[derive(Deserialize)]
pub(crate) struct NotesQuery {
    run: u32,
}

/// Changes notes and tags of a run. Whether that is allowed at all was decided by `octant_web::Access`.
pub(crate) async fn change(State(store): Shared, Query(query): Query<NotesQuery>, body: Body) -> JsonResult {
    let run = find(&store, query.run)?;
    let late = |_| BoardError::Request("the note did not arrive in time");
    let bytes = tokio::time::timeout(BODY_TIME, axum::body::to_bytes(body, LARGEST_EDIT)).await.map_err(late)?;
    let bytes = bytes.map_err(|_| BoardError::Request("the note is longer than 64 KB or broke off"))?;
    let notes: Notes = serde_json::from_slice(&bytes).map_err(|_| BoardError::Request("notes are {tags, text}"))?;
    let notes = notes.check()?;
    let write = move || {
        notes.write(run.path()).map_err(|source| BoardError::Write { path: notes::FILE.into(), source })?;
        run.read_facts();
        Ok::<_, BoardError>(run)
    };
    let run = tokio::task::spawn_blocking(write).await;
    let run = run.map_err(|_| BoardError::Request("the note could not be written"))??;
    store.announce(vec![run.id]);
    let notes = &run.facts().notes;
    Ok(Json(json!({ "notes": notes.text, "labels": notes.tags })))
}
