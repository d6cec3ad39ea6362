//! The operations that random graphs are made of. Each takes what it picks and bends it until the operation is defined.

mod combine;
mod elementwise;
mod movement;

use super::generator::{GraphGenerator, Tracked};
use combine::{control, convolve, dot, order, pool, reduce};
use elementwise::{arithmetic, compare, exact_unary, integers, quotient, select, smooth};
use movement::{broadcast, concatenate, pad, reshape, reverse, rows, slice, transpose, window};

type Generate = fn(&mut GraphGenerator, [u8; 2], usize) -> Option<Tracked>;

const GENERATORS: [Generate; 24] = [
    smooth,
    smooth,
    exact_unary,
    arithmetic,
    arithmetic,
    quotient,
    compare,
    select,
    broadcast,
    reshape,
    transpose,
    reverse,
    slice,
    pad,
    concatenate,
    reduce,
    dot,
    pool,
    convolve,
    order,
    rows,
    window,
    control,
    integers,
];

/// Adds one operation to the generator.
pub fn apply(generator: &mut GraphGenerator, kind: usize, picks: [u8; 2], choice: usize) {
    if let Some(made) = GENERATORS[kind % GENERATORS.len()](generator, picks, choice) {
        generator.keep(made);
    }
}
