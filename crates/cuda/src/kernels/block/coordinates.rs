//! Which element of one array lies behind an element of another, as numbers or as C that computes them.

use super::step::{Action, Step, Steps};

/// What coordinates are counted in.
pub trait Number: Clone {
    fn whole(value: usize) -> Self;
    fn plus(self, other: Self) -> Self;
    fn times(self, factor: usize) -> Self;
    fn over(self, divisor: usize) -> Self;
    fn modulo(self, divisor: usize) -> Self;
}

impl Number for usize {
    fn whole(value: usize) -> usize {
        value
    }

    fn plus(self, other: usize) -> usize {
        self + other
    }

    fn times(self, factor: usize) -> usize {
        self * factor
    }

    fn over(self, divisor: usize) -> usize {
        self / divisor
    }

    fn modulo(self, divisor: usize) -> usize {
        self % divisor
    }
}

/// An expression, or a number.
impl Number for String {
    fn whole(value: usize) -> String {
        value.to_string()
    }

    fn plus(self, other: String) -> String {
        match (self.as_str(), other.as_str()) {
            ("0", _) => other,
            (_, "0") => self,
            _ => format!("{self} + {other}"),
        }
    }

    fn times(self, factor: usize) -> String {
        match (self.parse::<usize>(), factor) {
            (Ok(number), _) => (number * factor).to_string(),
            (_, 1) => self,
            _ => format!("{} * {factor}", in_parentheses(self)),
        }
    }

    fn over(self, divisor: usize) -> String {
        match (self.parse::<usize>(), divisor) {
            (Ok(number), _) => (number / divisor).to_string(),
            (_, 1) => self,
            _ => format!("{} / {divisor}", in_parentheses(self)),
        }
    }

    fn modulo(self, divisor: usize) -> String {
        match self.parse::<usize>() {
            Ok(number) => (number % divisor).to_string(),
            Err(_) => format!("{} % {divisor}", in_parentheses(self)),
        }
    }
}

fn in_parentheses(expression: String) -> String {
    if expression.contains(' ') { format!("({expression})") } else { expression }
}

/// The position of an element in its array, whose last axis is fastest.
pub fn index<N: Number>(at: &[N], dims: &[usize]) -> N {
    let (mut index, mut stride) = (N::whole(0), 1);
    for (at, dim) in at.iter().zip(dims).rev() {
        index = at.clone().times(stride).plus(index);
        stride *= dim;
    }
    index
}

/// The inverse.
pub fn coordinates<N: Number>(index: N, dims: &[usize]) -> Vec<N> {
    let elements: usize = dims.iter().product();
    let mut stride = elements;
    let mut along = |&dim: &usize| {
        let whole = stride;
        stride /= dim;
        match dim {
            1 => N::whole(0),
            _ if whole == elements => index.clone().over(stride),
            _ => index.clone().over(stride).modulo(dim),
        }
    };
    dims.iter().map(&mut along).collect()
}

/// The coordinates in its operand of the element that a move shows at these coordinates.
pub fn behind<N: Number>(steps: &Steps, step: &Step, at: &[N]) -> Vec<N> {
    let dims = step.operands.first().map_or(&[][..], |&operand| steps.dims(operand));
    let axes = 0..dims.len();
    match &step.action {
        Action::Broadcast { axes: to } => {
            axes.map(|axis| if dims[axis] == 1 { N::whole(0) } else { at[to[axis]].clone() }).collect()
        }
        Action::Transpose { permutation } => {
            let of = |axis| permutation.iter().position(|&from| from == axis).unwrap_or(axis);
            axes.map(|axis| at[of(axis)].clone()).collect()
        }
        Action::Slice { starts, strides } => {
            axes.map(|axis| at[axis].clone().times(strides[axis]).plus(N::whole(starts[axis]))).collect()
        }
        Action::Reshape | Action::Constant(_) | Action::Map(_) | Action::Reduce { .. } => {
            reshaped(at, steps.dims(step.result), dims)
        }
    }
}

/// The coordinates of an element that a reduction adds: `along` the axes that it reduces, for those that are `kept`.
pub fn reduced<N: Number>(dims: &[usize], axes: &[usize], kept: &[N], along: &[N]) -> Vec<N> {
    let (mut kept, mut along) = (kept.iter(), along.iter());
    let next = |axis| if axes.contains(&axis) { along.next() } else { kept.next() };
    (0..dims.len()).map(next).map(|at| at.cloned().unwrap_or(N::whole(0))).collect()
}

/// Axes that are neither divided nor joined keep their coordinates.
fn reshaped<N: Number>(at: &[N], from: &[usize], to: &[usize]) -> Vec<N> {
    let mut made = Vec::new();
    let (mut left, mut right) = (0, 0);
    while right < to.len() {
        // The fewest axes on both sides that have as many elements.
        let (first_left, first_right) = (left, right);
        let mut elements = [1, to[right]];
        right += 1;
        while elements[0] != elements[1] {
            if elements[0] < elements[1] {
                elements[0] *= from[left];
                left += 1;
            } else {
                elements[1] *= to[right];
                right += 1;
            }
        }
        let index = index(&at[first_left..left], &from[first_left..left]);
        made.extend(coordinates(index, &to[first_right..right]));
    }
    made
}
