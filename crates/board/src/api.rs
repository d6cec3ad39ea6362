//! The addresses of the board: pages, data and news.

use crate::editing::EDITED;
use crate::response::Shared;
use crate::store::Store;
use crate::{curves, editing, findings, machine, media, table, timeline};
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
use tokio::sync::broadcast::error::RecvError;
use tokio_stream::wrappers::ReceiverStream;

const SCRIPT: &str = "text/javascript; charset=utf-8";

macro_rules! script {
    ($name:literal) => {
        (concat!("/", $name), SCRIPT, include_bytes!(concat!("../web/", $name)))
    };
}

/// The pages, inside of the binary: address, type and content.
const ASSETS: &[(&str, &str, &[u8])] = &[
    ("/", "text/html; charset=utf-8", include_bytes!("../web/index.html")),
    ("/board.css", "text/css; charset=utf-8", include_bytes!("../web/board.css")),
    ("/icon.svg", "image/svg+xml", include_bytes!("../web/icon.svg")),
    script!("main.js"),
    script!("state.js"),
    script!("dom.js"),
    script!("chart.js"),
    script!("scale.js"),
    script!("picker.js"),
    script!("curves.js"),
    script!("runs.js"),
    script!("notes.js"),
    script!("compare.js"),
    script!("images.js"),
    script!("evaluation.js"),
    script!("confusion.js"),
    script!("machine.js"),
    script!("timeline.js"),
    script!("network.js"),
    script!("histograms.js"),
    script!("log.js"),
];

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
        .route("/api/plots", get(findings::plots))
        .route("/api/plot", get(findings::plot))
        .route("/api/evaluation", get(findings::findings))
        .route("/api/machine", get(machine::machine))
        .route("/api/timeline", get(timeline::timeline))
        .route(EDITED, post(editing::change))
        .route("/api/network", get(machine::network))
        .route("/api/log", get(machine::log))
        .route("/api/live", get(live));
    for (path, kind, bytes) in ASSETS {
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
        let grown = |runs: &[u32]| {
            let data = json!({ "runs": runs, "ready": store.is_ready() });
            Event::default().event("news").data(data.to_string())
        };
        loop {
            if sender.send(Ok(message)).await.is_err() {
                return;
            }
            let runs = tokio::select! {
                runs = news.recv() => runs,
                () = sender.closed() => return,
            };
            message = match runs {
                Ok(runs) => grown(&runs),
                // Too much for a slow page: it requests everything.
                Err(RecvError::Lagged(_)) => grown(&[]),
                Err(RecvError::Closed) => return,
            };
        }
    });
    let stream = ReceiverStream::new(receiver);
    Sse::new(stream).keep_alive(KeepAlive::new().interval(Duration::from_secs(5)))
}
