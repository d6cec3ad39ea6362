//! The points of curves.

use crate::error::BoardError;
use crate::points::{Axis, PointReduction, reduce, smooth};
use crate::response::{Shared, chosen};
use crate::run::Run;
use axum::extract::{Query, State};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::json;
use std::sync::Arc;

/// Wider charts than this are not drawn.
const WIDEST: usize = 8192;

#[derive(Deserialize)]
pub(crate) struct PointsQuery {
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
pub(crate) async fn points(State(store): Shared, Query(query): Query<PointsQuery>) -> Result<Response, BoardError> {
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
            let (xs, order) = x_values(run, &query.tag, axis, steps, times);
            let ys: Vec<f32> = match &order {
                Some(order) => order.iter().map(|&index| numbers[index]).collect(),
                None => numbers.to_vec(),
            };
            let span = |given: Option<f64>, end: Option<&f64>| given.or(end.copied()).unwrap_or(0.0);
            let part = PointReduction {
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

/// The points' values on an axis, sorted; with the order that sorts them where steps do not.
///
/// Octant writes values of epochs with the number of the epoch where others have a step, and values of steps below `step/`.
fn x_values(run: &Run, tag: &str, axis: Axis, steps: &[i64], times: &[f64]) -> (Vec<f64>, Option<Vec<usize>>) {
    let facts = run.facts();
    let (is_octant, is_of_steps) = (facts.is_octant(), tag.starts_with("step/"));
    let swapped = |pairs: Vec<(f64, f64)>| pairs.into_iter().map(|(epoch, step)| (step, epoch)).collect();
    let plain = || steps.iter().map(|&step| step as f64).collect::<Vec<f64>>();
    let mapped = |pairs: Option<Vec<(f64, f64)>>| match pairs {
        Some(pairs) => steps.iter().map(|&step| follow(&pairs, step as f64)).collect(),
        None => plain(),
    };
    let xs: Vec<f64> = match axis {
        Axis::Step if is_octant && !is_of_steps => mapped(facts.steps_of_epochs()),
        Axis::Step => plain(),
        Axis::Epoch if is_octant && is_of_steps => mapped(facts.steps_of_epochs().map(swapped)),
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
