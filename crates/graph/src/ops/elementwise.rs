//! Operations on one element at a time, and the sources of values.

pub(super) mod gradient;

use crate::{Binary, Comparison, DType, HostTensor, Op, Shape, Tensor, Trace, Unary};
use std::ops;

pub(super) fn infer_iota(shape: &Shape, axis: usize) -> Result<Shape, String> {
    super::check_axis(axis, shape.rank())?;
    match shape.dtype() == DType::Bool {
        true => Err("iota is undefined for bool".into()),
        false => Ok(shape.clone()),
    }
}

pub(super) fn infer_random_bits(key: &Shape, dims: &[usize]) -> Result<Shape, String> {
    match *key == Shape::new(DType::U32, [2]) {
        true => Ok(Shape::new(DType::U32, dims)),
        false => Err(format!("the key must be u32[2], found {key}")),
    }
}

pub(super) fn infer_unary(unary: Unary, operand: &Shape) -> Result<Shape, String> {
    match (unary.domain().contains(operand.dtype()), unary == Unary::IsFinite) {
        (false, _) => Err(format!("is not defined for {operand}")),
        (true, true) => Ok(operand.with_dtype(DType::Bool)),
        (true, false) => Ok(operand.clone()),
    }
}

pub(super) fn infer_binary(binary: Binary, [left, right]: [&Shape; 2]) -> Result<Shape, String> {
    if left != right {
        return Err(format!("{left} and {right} differ"));
    }
    match binary.domain().contains(left.dtype()) {
        true => Ok(left.clone()),
        false => Err(format!("is not defined for {left}")),
    }
}

pub(super) fn infer_compare([left, right]: [&Shape; 2]) -> Result<Shape, String> {
    if left == right { Ok(left.with_dtype(DType::Bool)) } else { Err(format!("{left} and {right} differ")) }
}

pub(super) fn infer_select([condition, on_true, on_false]: [&Shape; 3]) -> Result<Shape, String> {
    let fits = condition.dtype() == DType::Bool && on_true == on_false && condition.dims() == on_true.dims();
    match fits {
        true => Ok(on_true.clone()),
        false => Err(format!("the condition {condition} and the choices {on_true} and {on_false} do not fit")),
    }
}

pub(super) fn infer_clamp([low, value, high]: [&Shape; 3]) -> Result<Shape, String> {
    match low == value && high == value {
        true => Ok(value.clone()),
        false => Err(format!("the bounds {low} and {high} differ from {value}")),
    }
}

pub(super) fn infer_bitcast(operand: &Shape, dtype: DType) -> Result<Shape, String> {
    match operand.dtype().size() == dtype.size() {
        true => Ok(operand.with_dtype(dtype)),
        false => Err(format!("{operand} has another width than {dtype}")),
    }
}

impl Trace {
    /// A scalar of any element type.
    pub fn scalar(&self, dtype: DType, value: f64) -> Tensor {
        let tensor = HostTensor::from_f64s(Shape::scalar(dtype), &[value]).expect("one element fills a scalar");
        self.constant(tensor)
    }

    /// One value everywhere.
    pub fn full(&self, shape: &Shape, value: f64) -> Tensor {
        self.scalar(shape.dtype(), value).broadcast_to(shape.dims())
    }

    /// 0, 1, 2 … along one axis.
    pub fn iota(&self, shape: Shape, axis: usize) -> Tensor {
        self.emit_one(Op::Iota { shape, axis }, &[])
    }
}

impl Tensor {
    pub(crate) fn unary(&self, unary: Unary) -> Tensor {
        self.trace().emit_one(Op::Unary(unary), &[self])
    }

    /// Two operands after NumPy's broadcasting; different element types are a mistake.
    pub fn binary(&self, binary: Binary, other: &Tensor) -> Tensor {
        let (left, right) = self.broadcast_pair(other);
        self.trace().emit_one(Op::Binary(binary), &[&left, &right])
    }

    /// Compares after NumPy's broadcasting.
    pub fn compare(&self, comparison: Comparison, other: &Tensor) -> Tensor {
        let (left, right) = self.broadcast_pair(other);
        self.trace().emit_one(Op::Compare(comparison), &[&left, &right])
    }

    fn broadcast_pair(&self, other: &Tensor) -> (Tensor, Tensor) {
        match broadcast_dims(self.dims(), other.dims()) {
            Some(dims) => (self.broadcast_to(&dims), other.broadcast_to(&dims)),
            // The operation itself reports the two shapes.
            None => (self.clone(), other.clone()),
        }
    }

    /// A scalar of this value's element type.
    pub fn scalar_like(&self, value: f64) -> Tensor {
        self.trace().scalar(self.dtype(), value)
    }

    /// One value everywhere, in this value's shape.
    pub fn full_like(&self, value: f64) -> Tensor {
        self.trace().full(self.shape(), value)
    }

    /// Zeros in this value's shape.
    pub fn zeros_like(&self) -> Tensor {
        self.full_like(0.0)
    }

    /// Where this bool holds `on_true`, elsewhere `on_false`; all three broadcast.
    pub fn select(&self, on_true: &Tensor, on_false: &Tensor) -> Tensor {
        let dims = broadcast_dims(on_true.dims(), on_false.dims()).and_then(|dims| broadcast_dims(&dims, self.dims()));
        let Some(dims) = dims else { return self.trace().emit_one(Op::Select, &[self, on_true, on_false]) };
        let [condition, on_true, on_false] = [self, on_true, on_false].map(|tensor| tensor.broadcast_to(&dims));
        self.trace().emit_one(Op::Select, &[&condition, &on_true, &on_false])
    }

    /// Kept between two bounds, which broadcast.
    pub fn clamp(&self, low: &Tensor, high: &Tensor) -> Tensor {
        let (low, high) = (low.broadcast_to(self.dims()), high.broadcast_to(self.dims()));
        self.trace().emit_one(Op::Clamp, &[&low, self, &high])
    }

    /// The nearest values of another element type.
    pub fn convert(&self, dtype: DType) -> Tensor {
        if self.dtype() == dtype { self.clone() } else { self.trace().emit_one(Op::Convert(dtype), &[self]) }
    }

    /// The same bits as another element type.
    pub fn bitcast(&self, dtype: DType) -> Tensor {
        self.trace().emit_one(Op::Bitcast(dtype), &[self])
    }

    /// Uniform random words from this key (`u32[2]`).
    pub fn random_bits(&self, dims: &[usize]) -> Tensor {
        self.trace().emit_one(Op::RandomBits { dims: dims.to_vec() }, &[self])
    }
}

/// The dimensions that two shapes broadcast to, aligned at the last axis.
fn broadcast_dims(left: &[usize], right: &[usize]) -> Option<Vec<usize>> {
    let rank = left.len().max(right.len());
    let at = |dims: &[usize], axis: usize| (axis + dims.len()).checked_sub(rank).map_or(1, |axis| dims[axis]);
    (0..rank)
        .map(|axis| match (at(left, axis), at(right, axis)) {
            (a, b) if a == b => Some(a),
            (1, b) => Some(b),
            (a, 1) => Some(a),
            (_, _) => None,
        })
        .collect()
}

macro_rules! operators {
    ($($op_trait:ident, $method:ident, $binary:ident;)*) => {$(
        impl ops::$op_trait<&Tensor> for &Tensor {
            type Output = Tensor;
            fn $method(self, other: &Tensor) -> Tensor { self.binary(Binary::$binary, other) }
        }
        impl ops::$op_trait<Tensor> for &Tensor {
            type Output = Tensor;
            fn $method(self, other: Tensor) -> Tensor { self.binary(Binary::$binary, &other) }
        }
        impl ops::$op_trait<&Tensor> for Tensor {
            type Output = Tensor;
            fn $method(self, other: &Tensor) -> Tensor { self.binary(Binary::$binary, other) }
        }
        impl ops::$op_trait<Tensor> for Tensor {
            type Output = Tensor;
            fn $method(self, other: Tensor) -> Tensor { self.binary(Binary::$binary, &other) }
        }
        impl ops::$op_trait<f64> for &Tensor {
            type Output = Tensor;
            fn $method(self, other: f64) -> Tensor { self.binary(Binary::$binary, &self.scalar_like(other)) }
        }
        impl ops::$op_trait<f64> for Tensor {
            type Output = Tensor;
            fn $method(self, other: f64) -> Tensor { self.binary(Binary::$binary, &self.scalar_like(other)) }
        }
        impl ops::$op_trait<&Tensor> for f64 {
            type Output = Tensor;
            fn $method(self, other: &Tensor) -> Tensor { other.scalar_like(self).binary(Binary::$binary, other) }
        }
        impl ops::$op_trait<Tensor> for f64 {
            type Output = Tensor;
            fn $method(self, other: Tensor) -> Tensor { other.scalar_like(self).binary(Binary::$binary, &other) }
        }
    )*};
}
operators! {
    Add, add, Add;
    Sub, sub, Sub;
    Mul, mul, Mul;
    Div, div, Div;
    Rem, rem, Rem;
}

impl ops::Neg for &Tensor {
    type Output = Tensor;
    fn neg(self) -> Tensor {
        self.unary(Unary::Neg)
    }
}

impl ops::Neg for Tensor {
    type Output = Tensor;
    fn neg(self) -> Tensor {
        self.unary(Unary::Neg)
    }
}
