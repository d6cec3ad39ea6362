//! The addresses of the board.

use crate::answer::Shared;
use crate::guard::EDITED;
use crate::store::Store;
use crate::{assets, curves, judgement, machine, media, notes, table, timeline};
use axum::Router;
use axum::extract::State;
use axum::http::header;
use axum::response::IntoResponse;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::routing::{get, post};
use serde_json::json;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio_stream::wrappers::ReceiverStream;

pub(crate) fn router(store: Arc<Store>) -> Router {
    let mut router = Router::new()
        .route("/api/runs", get(table::runs))
        .route("/api/run", get(table::run))
        .route("/api/points", get(curves::points))
        .route("/api/export", get(table::export))
        .route("/api/images", get(media::images))
        .route("/api/image", get(media::image))
        .route("/api/histograms", get(media::histograms))
        .route("/api/texts", get(media::texts))
        .route("/api/plots", get(media::plots))
        .route("/api/plot", get(media::plot))
        .route("/api/judgement", get(judgement::judgement))
        .route("/api/machine", get(machine::machine))
        .route("/api/timeline", get(timeline::timeline))
        .route(EDITED, post(notes::change))
        .route("/api/network", get(machine::network))
        .route("/api/log", get(machine::log))
        .route("/api/live", get(live));
    for (path, kind, bytes) in assets::ASSETS {
        router = router.route(path, get(move || async move { ([(header::CONTENT_TYPE, *kind)], *bytes) }));
    }
    router.with_state(store)
}

/// News as server-sent events: first which process this is, then the runs that grew.
async fn live(State(store): Shared) -> impl IntoResponse {
    let (sender, receiver) = tokio::sync::mpsc::channel::<Result<Event, Infallible>>(16);
    let mut news = store.news();
    tokio::spawn(async move {
        let hello = json!({ "session": store.session(), "ready": store.is_ready() });
        let mut message = Event::default().event("hello").data(hello.to_string());
        loop {
            if sender.send(Ok(message)).await.is_err() {
                return;
            }
            let runs = tokio::select! {
                runs = news.recv() => runs,
                () = sender.closed() => return,
            };
            message = match runs {
                Ok(runs) => {
                    Event::default().event("news").data(json!({ "runs": *runs, "ready": store.is_ready() }).to_string())
                }
                // Too much for a slow page: it asks for everything.
                Err(tokio::sync::broadcast::error::RecvError::Lagged(_)) => {
                    Event::default().event("news").data(json!({ "runs": [], "ready": store.is_ready() }).to_string())
                }
                Err(tokio::sync::broadcast::error::RecvError::Closed) => return,
            };
        }
    });
    let stream = ReceiverStream::new(receiver);
    Sse::new(stream).keep_alive(KeepAlive::new().interval(Duration::from_secs(5)))
}
