//! Operations other than convolutions on packed values. What mixes channels is done for every pixel of a block by itself.

use super::roles::Roles;
use super::values::Build;
use super::{BLOCK, Form, SIDE};
use crate::{Binary, Comparison, DType, Node, Op, Reduction, Shape, Unary, ValueId};

impl Build<'_> {
    /// The result of a node whose operands are packed as `roles` defines.
    pub fn packed(&mut self, node: &Node, roles: &Roles, operands: &[ValueId]) -> Result<ValueId, String> {
        let shape = self.graph.shape(node.outputs[0]).clone();
        let packed = roles.outputs[0].and_then(|form| form.packed(shape.dims()));
        let same = || packed.clone().ok_or("a result that cannot be packed");
        match &node.op {
            Op::Reshape { .. } => self.emit(Op::Reshape { dims: same()? }, operands),
            Op::Broadcast { axes, .. } => self.broadcast(operands[0], axes, roles, &shape, same()?),
            Op::Slice { starts, limits, strides } => {
                let window = [starts.clone(), limits.clone(), strides.clone()];
                match roles.outputs[0] {
                    Some(form) => self.slice(operands[0], window, form),
                    None => self.pixel(operands[0], window),
                }
            }
            Op::Pad { low, high, interior } => self.pad(operands, [low, high], interior, roles),
            Op::Concatenate { axis } if *axis + 1 == shape.rank() && roles.outputs[0] == Some(Form::Image) => {
                self.per_pixel(operands, |build, blocks| build.emit(node.op.clone(), blocks))
            }
            Op::Reduce { kind, axes } => self.reduce(operands[0], *kind, axes, roles),
            Op::ReduceWindow { kind, .. } => self.pool(operands[0], *kind, shape.dtype()),
            Op::SelectAndScatter { .. } => self.unpool(operands[0], operands[1]),
            op => self.emit(op.clone(), operands),
        }
    }

    /// The pixels of all blocks: images of half the height and width.
    fn blocks(&mut self, value: ValueId) -> Result<Vec<ValueId>, String> {
        let dims = self.builder.shape(value).dims().to_vec();
        let last = dims.len() - 1;
        let channels = dims[last] / BLOCK;
        let block = |index: usize| {
            let (mut starts, mut limits) = (vec![0; dims.len()], dims.clone());
            (starts[last], limits[last]) = (index * channels, (index + 1) * channels);
            Op::Slice { starts, limits, strides: vec![1; dims.len()] }
        };
        (0..BLOCK).map(|index| self.emit(block(index), &[value])).collect()
    }

    fn merge(&mut self, blocks: &[ValueId]) -> Result<ValueId, String> {
        let axis = self.builder.shape(blocks[0]).rank() - 1;
        self.emit(Op::Concatenate { axis }, blocks)
    }

    /// Does the same with every pixel of the blocks.
    fn per_pixel(
        &mut self,
        operands: &[ValueId],
        mut make: impl FnMut(&mut Self, &[ValueId]) -> Result<ValueId, String>,
    ) -> Result<ValueId, String> {
        let operands = operands.iter().map(|&operand| self.blocks(operand)).collect::<Result<Vec<_>, _>>()?;
        let results = (0..BLOCK).map(|index| {
            let blocks: Vec<ValueId> = operands.iter().map(|blocks| blocks[index]).collect();
            make(self, &blocks)
        });
        let results = results.collect::<Result<Vec<_>, _>>()?;
        self.merge(&results)
    }

    fn broadcast(
        &mut self,
        operand: ValueId,
        axes: &[usize],
        roles: &Roles,
        shape: &Shape,
        packed: Vec<usize>,
    ) -> Result<ValueId, String> {
        let last = shape.rank() - 1;
        let channels = match roles.outputs[0] {
            Some(Form::Image) => shape.dims()[last],
            Some(Form::Map) | None => 1,
        };
        // A packed operand of one channel ends in the pixels of blocks.
        let own = self.builder.shape(operand).dims().to_vec();
        match roles.inputs[0] {
            Some(form) => {
                let inner = packed.len() - 1;
                let axes = if form == Form::Map { [axes, &[inner]].concat() } else { axes.to_vec() };
                if own.last() == packed.last() {
                    return self.emit(Op::Broadcast { dims: packed, axes }, &[operand]);
                }
                let block = [&packed[..inner], &[channels]].concat();
                let spread = Op::Broadcast { dims: block, axes };
                self.per_pixel(&[operand], |build, blocks| build.emit(spread.clone(), blocks))
            }
            None => {
                let per_channel = channels > 1 && axes.last() == Some(&last) && own.last() == Some(&channels);
                let operand = match per_channel {
                    true => self.emit(Op::Concatenate { axis: own.len() - 1 }, &[operand; BLOCK])?,
                    false => operand,
                };
                self.emit(Op::Broadcast { dims: packed, axes: axes.to_vec() }, &[operand])
            }
        }
    }

    /// A slice that keeps all pixels.
    fn slice(&mut self, operand: ValueId, window: [Vec<usize>; 3], form: Form) -> Result<ValueId, String> {
        let dims = self.builder.shape(operand).dims().to_vec();
        let rows = dims.len() - 3;
        let [mut starts, mut limits, mut strides] = window;
        (limits[rows], limits[rows + 1]) = (dims[rows], dims[rows + 1]);
        let channels = dims[rows + 2] / BLOCK;
        let whole =
            form == Form::Map || starts[rows + 2] == 0 && limits[rows + 2] == channels && strides[rows + 2] == 1;
        if !whole {
            let slice = Op::Slice { starts, limits, strides };
            return self.per_pixel(&[operand], |build, blocks| build.emit(slice.clone(), blocks));
        }
        starts.truncate(rows + 2);
        limits.truncate(rows + 2);
        strides.truncate(rows + 2);
        starts.push(0);
        limits.push(dims[rows + 2]);
        strides.push(1);
        self.emit(Op::Slice { starts, limits, strides }, &[operand])
    }

    /// A slice of one pixel, which is some of the channels of one block.
    fn pixel(&mut self, operand: ValueId, window: [Vec<usize>; 3]) -> Result<ValueId, String> {
        let dims = self.builder.shape(operand).dims();
        let rows = dims.len() - 3;
        let channels = dims[rows + 2] / BLOCK;
        let [mut starts, mut limits, strides] = window;
        let within = starts[rows] % SIDE * SIDE + starts[rows + 1] % SIDE;
        for axis in [rows, rows + 1] {
            starts[axis] /= SIDE;
            limits[axis] = starts[axis] + 1;
        }
        starts[rows + 2] += within * channels;
        limits[rows + 2] += within * channels;
        self.emit(Op::Slice { starts, limits, strides }, &[operand])
    }

    fn pad(
        &mut self,
        operands: &[ValueId],
        [low, high]: [&Vec<i64>; 2],
        interior: &[usize],
        roles: &Roles,
    ) -> Result<ValueId, String> {
        let last = low.len() - 1;
        let mut op = Op::Pad { low: low.clone(), high: high.clone(), interior: interior.to_vec() };
        if roles.outputs[0] == Some(Form::Map) {
            // The pixels of blocks are one axis more.
            if let Op::Pad { low, high, interior } = &mut op {
                low.push(0);
                high.push(0);
                interior.push(0);
            }
        } else if low[last] != 0 || high[last] != 0 || interior[last] != 0 {
            let scalar = operands[1];
            return self.per_pixel(&operands[..1], |build, blocks| build.emit(op.clone(), &[blocks[0], scalar]));
        }
        self.emit(op, operands)
    }

    fn reduce(&mut self, operand: ValueId, kind: Reduction, axes: &[usize], roles: &Roles) -> Result<ValueId, String> {
        let rank = self.builder.shape(operand).rank();
        let (rows, inner) = (rank - 3, rank - 1);
        let (over_pixels, over_channels) = (axes.contains(&rows), axes.contains(&inner));
        let reduce = |axes: &[usize]| Op::Reduce { kind, axes: axes.to_vec() };
        match (over_pixels, over_channels) {
            (true, true) => self.emit(reduce(axes), &[operand]),
            (true, false) if roles.inputs[0] == Some(Form::Map) => {
                self.emit(reduce(&[axes, &[inner]].concat()), &[operand])
            }
            (true, false) => {
                let reduced = self.emit(reduce(axes), &[operand])?;
                let mut dims = self.builder.shape(reduced).dims().to_vec();
                let channels = dims.pop().unwrap_or(BLOCK) / BLOCK;
                let pixels = dims.len();
                let split = self.emit(Op::Reshape { dims: [&dims[..], &[BLOCK, channels]].concat() }, &[reduced])?;
                self.emit(reduce(&[pixels]), &[split])
            }
            (false, true) => self.per_pixel(&[operand], |build, blocks| {
                let reduced = build.emit(reduce(axes), blocks)?;
                let dims = [build.builder.shape(reduced).dims(), &[1]].concat();
                build.emit(Op::Reshape { dims }, &[reduced])
            }),
            (false, false) => self.emit(reduce(axes), &[operand]),
        }
    }

    /// The blocks' pixels combined; narrow floats are added up in f32.
    fn pool(&mut self, operand: ValueId, kind: Reduction, dtype: DType) -> Result<ValueId, String> {
        let wide = kind == Reduction::Sum && matches!(dtype, DType::BF16 | DType::F16);
        let mut pooled: Option<ValueId> = None;
        for block in self.blocks(operand)? {
            let block = if wide { self.emit(Op::Convert(DType::F32), &[block])? } else { block };
            pooled = Some(match pooled {
                Some(pooled) => self.emit(Op::Binary(kind.combining()), &[pooled, block])?,
                None => block,
            });
        }
        let pooled = pooled.ok_or("blocks have pixels")?;
        if wide { self.emit(Op::Convert(dtype), &[pooled]) } else { Ok(pooled) }
    }

    /// The source at the first of the largest pixels of every block, zeros elsewhere.
    fn unpool(&mut self, operand: ValueId, source: ValueId) -> Result<ValueId, String> {
        let blocks = self.blocks(operand)?;
        let mut best = blocks[0];
        let mut greater = Vec::new();
        for &block in &blocks[1..] {
            let is_greater = self.emit(Op::Compare(Comparison::Greater), &[block, best])?;
            best = self.emit(Op::Select, &[is_greater, block, best])?;
            greater.push(is_greater);
        }
        let zero = self.zero(&self.builder.shape(source).clone())?;
        // From the last to the first: a pixel counts unless a later one was greater.
        let mut parts = Vec::new();
        let mut later: Option<ValueId> = None;
        for is_greater in greater.into_iter().rev() {
            let (chosen, any) = match later {
                None => (is_greater, is_greater),
                Some(later) => {
                    let none_later = self.emit(Op::Unary(Unary::Not), &[later])?;
                    let chosen = self.emit(Op::Binary(Binary::And), &[is_greater, none_later])?;
                    (chosen, self.emit(Op::Binary(Binary::Or), &[later, is_greater])?)
                }
            };
            parts.push(self.emit(Op::Select, &[chosen, source, zero])?);
            later = Some(any);
        }
        let later = later.ok_or("blocks have several pixels")?;
        parts.push(self.emit(Op::Select, &[later, zero, source])?);
        parts.reverse();
        self.merge(&parts)
    }
}
