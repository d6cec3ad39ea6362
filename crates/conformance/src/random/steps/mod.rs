//! The operations that random graphs are made of. Each takes what it picks and bends it until the operation is defined.

mod combine;
mod elementwise;
mod movement;

use super::growth::{Garden, Tracked};
use combine::{control, convolve, dot, order, pool, reduce};
use elementwise::{arithmetic, compare, exact_unary, integers, quotient, select, smooth};
use movement::{broadcast, concatenate, pad, reshape, reverse, rows, slice, transpose, window};

type Maker = fn(&mut Garden, [u8; 2], usize) -> Option<Tracked>;

const MAKERS: [Maker; 24] = [
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

/// Adds one operation to the garden.
pub fn grow(garden: &mut Garden, kind: usize, picks: [u8; 2], choice: usize) {
    if let Some(made) = MAKERS[kind % MAKERS.len()](garden, picks, choice) {
        garden.keep(made);
    }
}
