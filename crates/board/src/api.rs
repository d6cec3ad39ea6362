//! The addresses of the board.

use crate::error::BoardError;
use crate::points::{Axis, Reduction, reduce, smooth};
use crate::run::Run;
use crate::store::Store;
use crate::{assets, judgement, machine, media, table};
use axum::extract::{Query, State};
use axum::http::header;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use serde::Deserialize;
use serde_json::json;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio_stream::wrappers::ReceiverStream;

pub(crate) type Shared = State<Arc<Store>>;

/// Wider charts than this are not drawn.
const WIDEST: usize = 8192;

pub(crate) fn router(store: Arc<Store>) -> Router {
    let mut router = Router::new()
        .route("/api/runs", get(table::runs))
        .route("/api/run", get(table::run))
        .route("/api/points", get(points))
        .route("/api/export", get(table::export))
        .route("/api/images", get(media::images))
        .route("/api/image", get(media::image))
        .route("/api/histograms", get(media::histograms))
        .route("/api/texts", get(media::texts))
        .route("/api/plots", get(media::plots))
        .route("/api/plot", get(media::plot))
        .route("/api/judgement", get(judgement::judgement))
        .route("/api/machine", get(machine::machine))
        .route("/api/log", get(machine::log))
        .route("/api/live", get(live));
    for (path, kind, bytes) in assets::ASSETS {
        router = router.route(path, get(move || async move { ([(header::CONTENT_TYPE, *kind)], *bytes) }));
    }
    router.with_state(store)
}

/// A run of a request.
pub(crate) fn find(store: &Store, id: u32) -> Result<Arc<Run>, BoardError> {
    store.run(id).ok_or(BoardError::Missing("run"))
}

/// Which runs a request is about: numbers and ranges, `1,4-9`; all when it does not say.
pub(crate) fn chosen(store: &Store, runs: Option<&str>) -> Result<Vec<Arc<Run>>, BoardError> {
    let Some(text) = runs else { return Ok(store.runs()) };
    let wrong = || BoardError::Request("runs are numbers and ranges, as in 1,4-9");
    let mut ranges = Vec::new();
    for part in text.split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let number = |text: &str| text.parse::<u32>().map_err(|_| wrong());
        ranges.push(number(first)?..=number(last)?);
    }
    Ok(store.runs().into_iter().filter(|run| ranges.iter().any(|range| range.contains(&run.id))).collect())
}

#[derive(Deserialize)]
struct PointsQuery {
    tag: String,
    runs: Option<String>,
    axis: Option<String>,
    from: Option<f64>,
    to: Option<f64>,
    width: Option<usize>,
    smooth: Option<f64>,
    log: Option<bool>,
}

impl PointsQuery {
    fn axis(&self) -> Result<Axis, BoardError> {
        match self.axis.as_deref() {
            None | Some("step") => Ok(Axis::Step),
            Some("epoch") => Ok(Axis::Epoch),
            Some("relative") => Ok(Axis::Relative),
            Some("wall") => Ok(Axis::Wall),
            Some(_) => Err(BoardError::Request("the axis is step, epoch, relative or wall")),
        }
    }
}

/// Points of one tag for all chosen runs, packed: the length of a JSON head, the head, then f64 and f32 columns, each
/// padded to eight bytes.
async fn points(State(store): Shared, Query(query): Query<PointsQuery>) -> Result<Response, BoardError> {
    let axis = query.axis()?;
    let runs = chosen(&store, query.runs.as_deref())?;
    // Arithmetic over millions of points is not for the threads that keep the connections going.
    let work = tokio::task::spawn_blocking(move || packed(&runs, axis, &query));
    let bytes = work.await.map_err(|_| BoardError::Request("the points could not be prepared"))?;
    Ok(([(header::CONTENT_TYPE, "application/octet-stream")], bytes).into_response())
}

fn packed(runs: &[Arc<Run>], axis: Axis, query: &PointsQuery) -> Vec<u8> {
    let (mut heads, mut body) = (Vec::new(), Vec::new());
    let columns = query.width.unwrap_or(1024).clamp(1, WIDEST);
    let weight = query.smooth.unwrap_or(0.0).clamp(0.0, 1.0);
    for run in runs {
        let curve = run.with_numbers(&query.tag, |steps, times, numbers| {
            let (xs, order) = positions(run, axis, steps, times);
            let ys: Vec<f32> = match &order {
                Some(order) => order.iter().map(|&index| numbers[index]).collect(),
                None => numbers.to_vec(),
            };
            let span = |given: Option<f64>, end: Option<&f64>| given.or(end.copied()).unwrap_or(0.0);
            let part = Reduction {
                from: span(query.from, xs.first()),
                to: span(query.to, xs.last()),
                columns,
                is_log: query.log.unwrap_or(false),
            };
            let kept = reduce(&xs, &ys, &part);
            let mut counts = vec![push(&mut body, &xs, &ys, &kept)];
            if weight > 0.0 {
                let smoothed = smooth(&ys, weight);
                let kept = reduce(&xs, &smoothed, &part);
                counts.push(push(&mut body, &xs, &smoothed, &kept));
            }
            json!({
                "run": run.id, "version": run.version(), "counts": counts, "all": xs.len(),
                "first": xs.first(), "last": xs.last(),
            })
        });
        heads.extend(curve);
    }
    let mut head = json!({ "curves": heads }).to_string().into_bytes();
    head.resize(head.len().next_multiple_of(8), b' ');
    [&(head.len() as u64).to_le_bytes()[..], &head, &body].concat()
}

/// Adds a curve's columns; returns how many points it has.
fn push(body: &mut Vec<u8>, xs: &[f64], ys: &[f32], kept: &[usize]) -> usize {
    kept.iter().for_each(|&index| body.extend(xs[index].to_le_bytes()));
    kept.iter().for_each(|&index| body.extend(ys[index].to_le_bytes()));
    body.resize(body.len().next_multiple_of(8), 0);
    kept.len()
}

/// Where points lie on an axis, sorted; with the order that sorts them where steps do not.
fn positions(run: &Run, axis: Axis, steps: &[i64], times: &[f64]) -> (Vec<f64>, Option<Vec<usize>>) {
    let facts = run.facts();
    let is_octant = facts.is_octant();
    let plain = || steps.iter().map(|&step| step as f64).collect::<Vec<f64>>();
    let mapped = |pairs: Option<Vec<(f64, f64)>>| match pairs {
        Some(pairs) => steps.iter().map(|&step| follow(&pairs, step as f64)).collect(),
        None => plain(),
    };
    let xs: Vec<f64> = match axis {
        Axis::Step if is_octant => mapped(facts.steps_of_epochs()),
        Axis::Step => plain(),
        Axis::Epoch if is_octant => plain(),
        Axis::Epoch => mapped(run.with_numbers("epoch", |steps, _, epochs| {
            steps.iter().zip(epochs).map(|(&step, &epoch)| (step as f64, f64::from(epoch))).collect()
        })),
        Axis::Relative => {
            let began = run.began().unwrap_or(0.0);
            times.iter().map(|time| time - began).collect()
        }
        Axis::Wall => times.to_vec(),
    };
    if xs.is_sorted() {
        return (xs, None);
    }
    let mut order: Vec<usize> = (0..xs.len()).collect();
    order.sort_by(|&a, &b| xs[a].total_cmp(&xs[b]));
    (order.iter().map(|&index| xs[index]).collect(), Some(order))
}

/// Linear between the pairs, and on along the last two of them.
fn follow(pairs: &[(f64, f64)], x: f64) -> f64 {
    let after = pairs.partition_point(|pair| pair.0 < x);
    match (after.checked_sub(1).and_then(|before| pairs.get(before)), pairs.get(after)) {
        (_, Some(exact)) if exact.0 == x => exact.1,
        (Some(a), Some(b)) => a.1 + (b.1 - a.1) * (x - a.0) / (b.0 - a.0),
        (None, Some(first)) if first.0 != 0.0 => first.1 * x / first.0,
        (Some(last), None) if last.0 != 0.0 => last.1 * x / last.0,
        (Some(pair), None) | (None, Some(pair)) => pair.1,
        (None, None) => x,
    }
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

/// JSON of numbers that may not be finite: those become `null`.
pub(crate) fn finite(value: f64) -> serde_json::Value {
    if value.is_finite() { json!(value) } else { serde_json::Value::Null }
}

pub(crate) type Answer = Result<Json<serde_json::Value>, BoardError>;
