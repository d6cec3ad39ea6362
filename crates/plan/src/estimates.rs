//! Estimates of our own, before any compiler: memory from the lifetimes of the program's values, time from arithmetic and traffic.

use crate::communication::{self, Exchanged, Network};
use crate::row::{Outcome, PlanRow};
use crate::shardings::{Ground, compared};
use crate::steps::Steps;
use crate::{BOARD_FACTOR, PlanRequest, Result};
use octant_pjrt::boards::Board;
use octant_pjrt::estimate::{Estimate, estimate, estimate_gpu};
use octant_pjrt::gpus::Gpu;
use octant_recipe::Surroundings;
use octant_run::search::{Search, Size};
use octant_runtime::Cost;
use std::time::Duration;

/// The estimate for one TPU board.
pub(crate) fn on_board(
    request: &PlanRequest,
    name: &str,
    board: &Board,
    surroundings: &dyn Surroundings,
) -> Result<PlanRow> {
    let devices = board.devices;
    let (steps, elsewhere, exchange) = divided(request, devices, &Network::of_board(board), surroundings)?;
    let of = |batch: usize| {
        let whole = estimate(&steps.training(batch.div_ceil(devices))?, board);
        Ok(Estimate { bytes: whole.bytes.saturating_sub(elsewhere), ..whole })
    };
    let rates = Rates { devices, memory: board.memory, factor: BOARD_FACTOR, complete: false };
    let outcome = with_exchange(estimated(request, &steps, &rates, of)?, exchange);
    let ground = Ground {
        step: &request.recipe.step,
        devices,
        group: devices / board.slices,
        network: Network::of_board(board),
        memory: board.memory,
        factor: BOARD_FACTOR,
        batch: outcome.batch,
    };
    let shardings = compared(&ground, &steps, &|program| estimate(program, board))?;
    Ok(Outcome { shardings, ..outcome }.to_row(name, request))
}

type Exchange = (Exchanged, f64);

/// The steps of one of several devices, the bytes of the state that it does not have, and what all exchange.
fn divided(
    request: &PlanRequest,
    devices: usize,
    network: &Network,
    surroundings: &dyn Surroundings,
) -> Result<(Steps, u64, Exchange)> {
    let steps = Steps::new(request, devices, surroundings)?;
    let elsewhere = steps.sharded_bytes()?;
    let exchanged = communication::estimated(&steps.training(devices)?);
    let seconds = network.seconds(&exchanged);
    // Devices do the same work on their shares of the batch.
    Ok((steps.of_one_device(devices), elsewhere, (exchanged, seconds)))
}

fn with_exchange(outcome: Outcome, (exchanged, seconds): Exchange) -> Outcome {
    let step = outcome.step.map(|step| step + communication::added(step, seconds));
    Outcome { step, exchanged, exchange: Some(seconds), ..outcome }
}

/// The estimate for GPUs of so many machines with so many each, which is all that there is without them.
pub(crate) fn on_gpus(
    request: &PlanRequest,
    name: &str,
    (gpu, nodes, per_node): (&Gpu, usize, usize),
    surroundings: &dyn Surroundings,
) -> Result<PlanRow> {
    let devices = nodes * per_node;
    let (steps, elsewhere, exchange) =
        divided(request, devices, &Network::of_gpus(gpu, nodes, per_node), surroundings)?;
    let of = |batch: usize| {
        let whole = estimate_gpu(&steps.training(batch.div_ceil(devices))?, gpu);
        Ok(Estimate { bytes: whole.bytes.saturating_sub(elsewhere), ..whole })
    };
    let rates = Rates { devices, memory: gpu.memory, factor: 1.0, complete: true };
    let outcome = with_exchange(estimated(request, &steps, &rates, of)?, exchange);
    let evaluation = estimate_gpu(&steps.evaluation(outcome.batch.div_ceil(devices))?, gpu).bytes;
    let ground = Ground {
        step: &request.recipe.step,
        devices,
        group: per_node,
        network: Network::of_gpus(gpu, nodes, per_node),
        memory: gpu.memory,
        factor: 1.0,
        batch: outcome.batch,
    };
    let shardings = compared(&ground, &steps, &|program| estimate_gpu(program, gpu))?;
    Ok(Outcome { evaluation: Some(evaluation), shardings, ..outcome }.to_row(name, request))
}

/// What an estimate is made for.
struct Rates {
    devices: usize,
    /// Bytes of every device.
    memory: u64,
    /// How much longer a step takes than its estimate.
    factor: f64,
    /// Nothing will be compiled.
    complete: bool,
}

/// The estimate of the batch that is wanted, and the largest that fits.
fn estimated(
    request: &PlanRequest,
    steps: &Steps,
    on: &Rates,
    of: impl Fn(usize) -> Result<Estimate>,
) -> Result<Outcome> {
    let Rates { devices, memory, factor, complete } = *on;
    let most = steps.images.count.next_multiple_of(devices);
    let first_batch = request.batch.unwrap_or(8 * devices).next_multiple_of(devices);
    let first = of(first_batch)?;
    // Memory is a straight line over the batch only where activations decide: small batches of large networks have their peak
    // in the update, so the line is tried out where it meets the limit.
    let second_batch = 2 * first_batch;
    let size = |bytes: u64| Size { bytes: Some(bytes), fits: bytes <= memory };
    let measured = vec![(first_batch, size(first.bytes)), (second_batch, size(of(second_batch)?.bytes))];
    let mut search = Search { step: devices, most, limit: memory, fixed: 0, tries: 5, measured };
    while let Some(batch) = search.next().filter(|batch| *batch > 0) {
        search.measured.push((batch, size(of(batch)?.bytes)));
    }
    let largest = search.largest().min(most) / devices * devices;
    let batch = request.batch.unwrap_or(largest.max(devices));
    let chosen = if batch.next_multiple_of(devices) == first_batch { first } else { of(batch)? };
    let cost = Cost {
        flops: chosen.flops * devices as f64,
        bytes: Some(chosen.traffic * devices as f64),
        seconds: Some(chosen.seconds),
        compile_time: Duration::ZERO,
        from_cache: false,
    };
    Ok(Outcome {
        batch,
        fits: chosen.bytes <= memory,
        memory: Some(chosen.bytes),
        inputs: None,
        limit: memory,
        largest,
        cost: Some(cost),
        step: Some(chosen.seconds * factor),
        evaluation: None,
        exchanged: Exchanged::new(),
        exchange: None,
        shardings: Vec::new(),
        images: steps.images.clone(),
        saved: None,
        estimate: true,
        complete,
    })
}
