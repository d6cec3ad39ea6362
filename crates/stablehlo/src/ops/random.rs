//! Threefry-2×32 written out in integer arithmetic: the same bits on every backend, which XLA's own generators do not
//! promise.

use super::movement;
use crate::function::Function;
use crate::operation::Value;
use octant_graph::{DType, Shape};

const ROTATIONS: [u32; 8] = [13, 15, 26, 6, 17, 29, 16, 24];
const PARITY: u32 = 0x1BD1_1BDA;

pub fn random_bits(f: &mut Function, key: &Value, dims: &[usize]) -> Value {
    let shape = Shape::new(DType::U32, dims);
    let inputs = [key.shape.clone()];
    let name = f.outlined("threefry", &inputs, |f, arguments| vec![words(f, &arguments[0], &shape)]);
    f.call(name, std::slice::from_ref(key), &[&shape]).remove(0)
}

/// The first word of the block of every counter.
fn words(f: &mut Function, key: &Value, shape: &Shape) -> Value {
    let keys = [0, 1].map(|word| key_word(f, key, word, shape));
    let mixed = f.same("xor", &[&keys[0], &keys[1]]);
    let parity = f.full(shape, PARITY as f64);
    let third = f.same("xor", &[&mixed, &parity]);
    let schedule = [keys[0].clone(), keys[1].clone(), third];
    let [low, high] = counters(f, shape);
    let mut x = [f.same("add", &[&low, &schedule[0]]), f.same("add", &[&high, &schedule[1]])];
    for round in 0..20 {
        let sum = f.same("add", &[&x[0], &x[1]]);
        let rotated = rotate(f, &x[1], ROTATIONS[round % 8]);
        x = [sum.clone(), f.same("xor", &[&rotated, &sum])];
        if round % 4 == 3 {
            let injection = round / 4 + 1;
            let number = f.full(shape, injection as f64);
            let second = f.same("add", &[&schedule[(injection + 1) % 3], &number]);
            x = [f.same("add", &[&x[0], &schedule[injection % 3]]), f.same("add", &[&x[1], &second])];
        }
    }
    let [first, _] = x;
    first
}

/// One word of the key, everywhere.
fn key_word(f: &mut Function, key: &Value, word: usize, shape: &Shape) -> Value {
    let one = Shape::new(DType::U32, [1]);
    let cut = movement::slice(f, key, [&[word], &[word + 1], &[1]], &one);
    let scalar = f.typed("reshape", &[&cut], &Shape::scalar(DType::U32));
    movement::broadcast(f, &scalar, &[], shape)
}

/// The row-major position of every element as two words. It is summed from the axes, so that each device of a mesh
/// computes only its own part.
fn counters(f: &mut Function, shape: &Shape) -> [Value; 2] {
    // Beyond 2^32 elements the position needs both words.
    let long = shape.elements() as u128 > 1 << 32;
    let wide = shape.with_dtype(if long { DType::U64 } else { DType::U32 });
    let mut position = f.full(&wide, 0.0);
    for (axis, stride) in shape.strides().into_iter().enumerate() {
        let index = movement::iota(f, &wide, axis);
        let factor = f.full(&wide, stride.max(1) as f64);
        let part = f.same("multiply", &[&index, &factor]);
        position = f.same("add", &[&position, &part]);
    }
    if !long {
        return [position, f.full(shape, 0.0)];
    }
    let shift = f.full(&wide, 32.0);
    let upper = f.same("shift_right_logical", &[&position, &shift]);
    [f.convert(&position, DType::U32), f.convert(&upper, DType::U32)]
}

fn rotate(f: &mut Function, x: &Value, by: u32) -> Value {
    let (left, right) = (f.full(&x.shape, by as f64), f.full(&x.shape, (32 - by) as f64));
    let up = f.same("shift_left", &[x, &left]);
    let down = f.same("shift_right_logical", &[x, &right]);
    f.same("or", &[&up, &down])
}
