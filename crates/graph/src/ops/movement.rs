//! Operations that move elements without changing them.

pub(super) mod gradient;

use crate::{Op, Shape, Tensor};

pub(super) fn infer_broadcast(operand: &Shape, dims: &[usize], axes: &[usize]) -> Result<Shape, String> {
    super::check_axes(axes, dims.len())?;
    let fits = axes.len() == operand.rank()
        && axes.iter().zip(operand.dims()).all(|(&axis, &length)| length == 1 || length == dims[axis]);
    match fits {
        true => Ok(operand.with_dims(dims)),
        false => Err(format!("{operand} cannot become {dims:?} with its axes at {axes:?}")),
    }
}

pub(super) fn infer_reshape(operand: &Shape, dims: &[usize]) -> Result<Shape, String> {
    let result = operand.with_dims(dims);
    match result.elements() == operand.elements() {
        true => Ok(result),
        false => {
            Err(format!("{operand} has {} elements, {dims:?} would have {}", operand.elements(), result.elements()))
        }
    }
}

pub(super) fn infer_transpose(operand: &Shape, permutation: &[usize]) -> Result<Shape, String> {
    let mut sorted = permutation.to_vec();
    sorted.sort_unstable();
    match sorted.iter().copied().eq(0..operand.rank()) {
        true => Ok(operand.with_dims(permutation.iter().map(|&axis| operand.dims()[axis]).collect::<Vec<_>>())),
        false => Err(format!("{permutation:?} is not an order of the axes of {operand}")),
    }
}

pub(super) fn infer_reverse(operand: &Shape, axes: &[usize]) -> Result<Shape, String> {
    super::check_axes(axes, operand.rank())?;
    Ok(operand.clone())
}

pub(super) fn infer_slice(
    operand: &Shape,
    starts: &[usize],
    limits: &[usize],
    strides: &[usize],
) -> Result<Shape, String> {
    let lengths = [("starts", starts.len()), ("limits", limits.len()), ("strides", strides.len())];
    super::check_lengths(operand.rank(), &lengths)?;
    let inside = (0..operand.rank())
        .all(|axis| starts[axis] <= limits[axis] && limits[axis] <= operand.dims()[axis] && strides[axis] > 0);
    if !inside {
        return Err(format!("{starts:?} to {limits:?} in steps of {strides:?} does not lie inside {operand}"));
    }
    let dims: Vec<usize> =
        (0..operand.rank()).map(|axis| (limits[axis] - starts[axis]).div_ceil(strides[axis])).collect();
    Ok(operand.with_dims(dims))
}

fn check_starts(starts: &[&Shape], rank: usize) -> Result<(), String> {
    if starts.len() != rank {
        return Err(format!("{} starts were given for {rank} axes", starts.len()));
    }
    starts.iter().try_for_each(|start| {
        super::check_index(start)?;
        if start.rank() == 0 { Ok(()) } else { Err(format!("a start must be a scalar, found {start}")) }
    })
}

pub(super) fn infer_dynamic_slice(inputs: &[&Shape], sizes: &[usize]) -> Result<Shape, String> {
    let (operand, starts) = inputs.split_first().ok_or("takes an operand and its starts")?;
    check_starts(starts, operand.rank())?;
    super::check_lengths(operand.rank(), &[("sizes", sizes.len())])?;
    match sizes.iter().zip(operand.dims()).all(|(size, dim)| size <= dim) {
        true => Ok(operand.with_dims(sizes)),
        false => Err(format!("a window of {sizes:?} does not fit into {operand}")),
    }
}

pub(super) fn infer_dynamic_update_slice(inputs: &[&Shape]) -> Result<Shape, String> {
    let [operand, update, starts @ ..] = inputs else { return Err("takes an operand, an update and starts".into()) };
    check_starts(starts, operand.rank())?;
    let fits = update.dtype() == operand.dtype()
        && update.rank() == operand.rank()
        && update.dims().iter().zip(operand.dims()).all(|(size, dim)| size <= dim);
    if fits { Ok((*operand).clone()) } else { Err(format!("the update {update} does not fit into {operand}")) }
}

pub(super) fn infer_pad(
    [operand, value]: [&Shape; 2],
    low: &[i64],
    high: &[i64],
    interior: &[usize],
) -> Result<Shape, String> {
    let lengths = [("low", low.len()), ("high", high.len()), ("interior", interior.len())];
    super::check_lengths(operand.rank(), &lengths)?;
    if *value != Shape::scalar(operand.dtype()) {
        return Err(format!("the padding of {operand} must be a scalar of its type, found {value}"));
    }
    let dims: Option<Vec<usize>> = (0..operand.rank())
        .map(|axis| super::padded_length(operand.dims()[axis], interior[axis] + 1, (low[axis], high[axis])))
        .map(|length| usize::try_from(length).ok())
        .collect();
    dims.map(|dims| operand.with_dims(dims))
        .ok_or_else(|| format!("padding {operand} by {low:?} and {high:?} would leave a negative length"))
}

pub(super) fn infer_concatenate(inputs: &[&Shape], axis: usize) -> Result<Shape, String> {
    let (first, rest) = inputs.split_first().ok_or("takes at least one operand")?;
    super::check_axis(axis, first.rank())?;
    let mut dims = first.dims().to_vec();
    for shape in rest {
        let alike = shape.dtype() == first.dtype()
            && shape.rank() == first.rank()
            && (0..first.rank()).all(|other| other == axis || shape.dims()[other] == first.dims()[other]);
        if !alike {
            return Err(format!("{first} and {shape} do not fit together along axis {axis}"));
        }
        dims[axis] += shape.dims()[axis];
    }
    Ok(first.with_dims(dims))
}

impl Tensor {
    /// Repeated to `dims` by NumPy's rule: axes align at the last, lengths of 1 are repeated.
    pub fn broadcast_to(&self, dims: &[usize]) -> Tensor {
        if self.dims() == dims {
            return self.clone();
        }
        let Some(lead) = dims.len().checked_sub(self.rank()) else {
            return self
                .trace()
                .fail(format!("broadcast: {} cannot become {dims:?}", self.shape()), self.shape().with_dims(dims));
        };
        self.broadcast_in_dim(dims, &(lead..dims.len()).collect::<Vec<_>>())
    }

    /// Operand axis `i` becomes result axis `axes[i]`; the others are repeated.
    pub fn broadcast_in_dim(&self, dims: &[usize], axes: &[usize]) -> Tensor {
        self.trace().emit_one(Op::Broadcast { dims: dims.to_vec(), axes: axes.to_vec() }, &[self])
    }

    /// The same elements under other dimensions.
    pub fn reshape(&self, dims: &[usize]) -> Tensor {
        if self.dims() == dims {
            return self.clone();
        }
        self.trace().emit_one(Op::Reshape { dims: dims.to_vec() }, &[self])
    }

    /// All axes from `axis` on as one.
    pub fn flatten_from(&self, axis: usize) -> Tensor {
        let axis = axis.min(self.rank());
        let mut dims = self.dims()[..axis].to_vec();
        dims.push(self.dims()[axis..].iter().product());
        self.reshape(&dims)
    }

    /// Result axis `i` is axis `permutation[i]`.
    pub fn transpose(&self, permutation: &[usize]) -> Tensor {
        self.trace().emit_one(Op::Transpose { permutation: permutation.to_vec() }, &[self])
    }

    /// Reverses the order along some axes.
    pub fn reverse(&self, axes: &[usize]) -> Tensor {
        self.trace().emit_one(Op::Reverse { axes: axes.to_vec() }, &[self])
    }

    /// A window with steps.
    pub fn slice(&self, starts: &[usize], limits: &[usize], strides: &[usize]) -> Tensor {
        let op = Op::Slice { starts: starts.to_vec(), limits: limits.to_vec(), strides: strides.to_vec() };
        self.trace().emit_one(op, &[self])
    }

    /// The part `start..limit` along one axis.
    pub fn slice_axis(&self, axis: usize, start: usize, limit: usize) -> Tensor {
        if axis >= self.rank() {
            let message = format!("slice: there is no axis {axis} in {}", self.shape());
            return self.trace().fail(message, self.shape().clone());
        }
        let mut starts = vec![0; self.rank()];
        let mut limits = self.dims().to_vec();
        (starts[axis], limits[axis]) = (start, limit);
        self.slice(&starts, &limits, &vec![1; self.rank()])
    }

    /// A window whose start is computed by the program.
    pub fn dynamic_slice(&self, starts: &[Tensor], sizes: &[usize]) -> Tensor {
        let inputs: Vec<&Tensor> = std::iter::once(self).chain(starts).collect();
        self.trace().emit_one(Op::DynamicSlice { sizes: sizes.to_vec() }, &inputs)
    }

    /// This value with a window overwritten by `update`.
    pub fn dynamic_update_slice(&self, update: &Tensor, starts: &[Tensor]) -> Tensor {
        let inputs: Vec<&Tensor> = [self, update].into_iter().chain(starts).collect();
        self.trace().emit_one(Op::DynamicUpdateSlice, &inputs)
    }

    /// `value` added before, after and between elements.
    pub fn pad(&self, value: &Tensor, low: &[i64], high: &[i64], interior: &[usize]) -> Tensor {
        let op = Op::Pad { low: low.to_vec(), high: high.to_vec(), interior: interior.to_vec() };
        self.trace().emit_one(op, &[self, value])
    }

    /// Several values one after another along an axis. There must be at least one.
    pub fn concatenate(parts: &[Tensor], axis: usize) -> Tensor {
        let inputs: Vec<&Tensor> = parts.iter().collect();
        parts[0].trace().emit_one(Op::Concatenate { axis }, &inputs)
    }
}
