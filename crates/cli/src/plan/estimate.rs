//! The first row of every board: an estimate of our own, for which nothing is compiled.

use super::Arguments;
use super::board::{OPTIMISM, Outcome, asked};
use super::search::{Search, Size};
use super::steps::Steps;
use crate::recipes::Recipe;
use anyhow::Result;
use octant_pjrt::boards::Board;
use octant_pjrt::estimate::estimate;
use octant_runtime::Cost;
use serde_json::Value;
use std::time::Duration;

/// The estimate for one board, as a row.
pub(super) fn row(arguments: &Arguments, recipe: &Recipe, target: &str) -> Result<Value> {
    let board = Board::named(target)?;
    let devices = board.devices;
    // Devices do the same work on their shares of the batch.
    let steps = Steps::new(arguments, recipe, devices)?.of_one_device(devices);
    let most = steps.images.next_multiple_of(devices);
    let of = |batch: usize| Ok::<_, anyhow::Error>(estimate(&steps.training(batch.div_ceil(devices))?, &board));
    let first_batch = asked(arguments, recipe)?.unwrap_or(8 * devices).next_multiple_of(devices);
    let first = of(first_batch)?;
    // Memory is a straight line over the batch only where activations decide: small batches of large networks have their peak
    // in the update, so the line is tried out where it meets the limit.
    let second_batch = 2 * first_batch;
    let size = |bytes: u64| Size { bytes: Some(bytes), fits: bytes <= board.memory };
    let measured = vec![(first_batch, size(first.bytes)), (second_batch, size(of(second_batch)?.bytes))];
    let mut search = Search { step: devices, most, limit: board.memory, fixed: 0, tries: 5, measured };
    while let Some(batch) = search.next().filter(|batch| *batch > 0) {
        search.measured.push((batch, size(of(batch)?.bytes)));
    }
    let largest = search.largest().min(most) / devices * devices;
    let batch = asked(arguments, recipe)?.unwrap_or(largest.max(devices));
    let chosen = if batch.next_multiple_of(devices) == first_batch { first } else { of(batch)? };
    let cost = Cost {
        flops: chosen.flops * devices as f64,
        bytes: Some(chosen.traffic * devices as f64),
        seconds: Some(chosen.seconds),
        compile_time: Duration::ZERO,
        from_cache: false,
    };
    let outcome = Outcome {
        batch,
        fits: chosen.bytes <= board.memory,
        memory: Some(chosen.bytes),
        limit: board.memory,
        largest,
        cost: Some(cost),
        step: Some(chosen.seconds * OPTIMISM),
        evaluation: None,
        images: steps.images,
        saved: None,
        estimate: true,
        complete: false,
    };
    Ok(outcome.to_json(target, arguments, recipe))
}
