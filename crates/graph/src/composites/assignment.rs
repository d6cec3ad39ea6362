//! The assignment of objects to predictions with the lowest total cost, inside of a program.

use crate::assignment::assign;
use crate::{DType, HostTensor, KernelHint, Shape, Tensor};
use std::sync::Arc;

/// A cost that no other reaches, finite so that differences of two have no NaN.
const NEVER: f64 = 1e30;

impl Tensor {
    /// The column of every row such that the sum of their costs is as low as it can be and no column is taken twice: scipy's
    /// `linear_sum_assignment` for every element of a batch. Costs are f32 `[n, rows, columns]`, with no more rows than columns;
    /// `exists` is bool `[n, rows]`, and rows that do not exist take no column. The result is i32 `[n, rows]`, 0 for those. It has
    /// no gradient.
    ///
    /// All elements of the batch go through the shortest augmenting paths of [`assign`](crate::assignment::assign) in step: a
    /// round of the loop looks at one row of each, so that the number of rounds is that of the element that takes the most.
    pub fn assignment(&self, exists: &Tensor) -> Tensor {
        let fits = self.rank() == 3
            && self.dim(1) <= self.dim(2)
            && exists.dims() == &self.dims()[..2]
            && exists.dtype() == DType::Bool;
        if !fits {
            let message = format!("assignment: costs {} and {} do not fit", self.shape(), exists.shape());
            return self.trace().fail(message, Shape::new(DType::I32, [0, 0]));
        }
        let kernel = AssignmentKernel { batch: self.dim(0), rows: self.dim(1), columns: self.dim(2) };
        let costs = finite(&self.stop_gradient().convert(DType::F32));
        let exists = exists.convert(DType::F32).stop_gradient();
        let hint = Some(Arc::new(kernel.hint()));
        let mut found =
            self.trace().call_kernel(&[costs, exists], false, hint, |inputs| vec![kernel.body(&inputs[0], &inputs[1])]);
        found.remove(0)
    }
}

/// The descriptor of the kernel `assignment`: from f32 costs `[batch, rows, columns]` and f32 `[batch, rows]`, 1 for rows that
/// exist, to i32 `[batch, rows]`. Where several assignments have the lowest total, a kernel may return another one than the body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AssignmentKernel {
    /// Elements of the batch.
    pub batch: usize,
    /// Rows of each.
    pub rows: usize,
    /// Columns of each.
    pub columns: usize,
}

impl AssignmentKernel {
    /// The name of the kernel.
    pub const NAME: &'static str = "assignment";

    fn hint(&self) -> KernelHint {
        KernelHint::new(AssignmentKernel::NAME, [self.batch, self.rows, self.columns].map(|size| size as i64).to_vec())
    }

    /// The descriptor in a hint; none where it is another kernel's.
    pub fn decode(hint: &KernelHint) -> Option<AssignmentKernel> {
        let [batch, rows, columns] = hint.integers[..] else { return None };
        let [batch, rows, columns] = [batch, rows, columns].map(|size| usize::try_from(size).ok());
        let kernel = AssignmentKernel { batch: batch?, rows: rows?, columns: columns? };
        (hint.name == AssignmentKernel::NAME).then_some(kernel)
    }

    fn body(&self, costs: &Tensor, exists: &Tensor) -> Tensor {
        let exists = is_set(exists);
        let begun = State::new(costs, [self.batch, self.rows, self.columns]).skipped(&exists);
        let ended = costs.trace().while_loop(
            &begun.list(),
            None,
            |carried| {
                let state = State::of(carried);
                state.current.less(&state.current.scalar_like(self.rows as f64)).any(&[0])
            },
            |carried| State::of(carried).advanced(costs, &exists).list(),
        );
        let found = State::of(&ended).column_of;
        found.max(&found.scalar_like(0.0)).convert(DType::I32)
    }

    /// The same on the host.
    pub fn run(&self, costs: &[f32], exists: &[f32], found: &mut [i32]) {
        found.fill(0);
        let matrices = costs.chunks_exact((self.rows * self.columns).max(1)).zip(exists.chunks_exact(self.rows.max(1)));
        for ((costs, exists), found) in matrices.zip(found.chunks_exact_mut(self.rows.max(1))) {
            let kept: Vec<usize> = (0..self.rows).filter(|&row| exists[row] > 0.5).collect();
            let own: Vec<f64> = kept
                .iter()
                .flat_map(|&row| costs[row * self.columns..][..self.columns].iter().map(|&cost| f64::from(cost)))
                .collect();
            for (row, column) in kept.iter().zip(assign(&own, self.columns)) {
                found[*row] = column.unwrap_or(0) as i32;
            }
        }
    }
}

/// Costs that are no number are avoided.
fn finite(costs: &Tensor) -> Tensor {
    let bound = costs.scalar_like(NEVER / 1e10);
    let is_number = costs.equal(costs);
    is_number.select(&costs.clamp(&-&bound, &bound), &bound.broadcast_to(costs.dims()))
}

/// What is known of every element of the batch. Numbers of rows and columns are f32, exact and cheap to compare; -1 is none.
struct State {
    /// The row that a path is looked for, `[n]`; as many as there are rows where all are done.
    current: Tensor,
    /// The row that is looked at, and the length of the path to it, `[n]`.
    row: Tensor,
    length: Tensor,
    /// Dual values `[n, rows]` and `[n, columns]`.
    of_rows: Tensor,
    of_columns: Tensor,
    /// The column of every row, and the row of every column.
    column_of: Tensor,
    row_of: Tensor,
    /// The length of the shortest path to every column, the row before it, and whether it was reached, 1 or 0.
    shortest: Tensor,
    before: Tensor,
    reached: Tensor,
}

/// Which of so many are a number, as 1 and 0: `[n]` becomes `[n, count]`.
fn hot(numbers: &Tensor, count: usize) -> Tensor {
    let dims = [numbers.dim(0), count];
    let counted = numbers.trace().iota(Shape::new(DType::F32, dims), 1);
    numbers.unsqueeze(1).broadcast_to(&dims).equal(&counted).convert(DType::F32)
}

/// The entry of a row `[n, count]` at each number `[n]`.
fn at(values: &Tensor, hot: &Tensor) -> Tensor {
    let is = hot.greater(&hot.scalar_like(0.5));
    is.select(values, &values.zeros_like()).sum(&[1])
}

/// `[n]` for each of so many.
fn spread(values: &Tensor, count: usize) -> Tensor {
    values.unsqueeze(1).broadcast_to(&[values.dim(0), count])
}

fn is_set(flag: &Tensor) -> Tensor {
    flag.greater(&flag.scalar_like(0.5))
}

impl State {
    fn new(like: &Tensor, [n, rows, columns]: [usize; 3]) -> State {
        let filled = |dims: &[usize], value: f32| {
            let count = dims.iter().product();
            let tensor = HostTensor::new(dims.to_vec(), &vec![value; count]).expect("one value per element");
            like.trace().constant(tensor)
        };
        let (of_row, of_column) = ([n, rows], [n, columns]);
        State {
            current: filled(&[n], 0.0),
            row: filled(&[n], 0.0),
            length: filled(&[n], 0.0),
            of_rows: filled(&of_row, 0.0),
            of_columns: filled(&of_column, 0.0),
            column_of: filled(&of_row, -1.0),
            row_of: filled(&of_column, -1.0),
            shortest: filled(&of_column, NEVER as f32),
            before: filled(&of_column, -1.0),
            reached: filled(&of_column, 0.0),
        }
    }

    fn list(&self) -> Vec<Tensor> {
        [
            &self.current,
            &self.row,
            &self.length,
            &self.of_rows,
            &self.of_columns,
            &self.column_of,
            &self.row_of,
            &self.shortest,
            &self.before,
            &self.reached,
        ]
        .map(Tensor::clone)
        .to_vec()
    }

    fn of(list: &[Tensor]) -> State {
        let [current, row, length, of_rows, of_columns, column_of, row_of, shortest, before, reached] =
            std::array::from_fn(|number| list[number].clone());
        State { current, row, length, of_rows, of_columns, column_of, row_of, shortest, before, reached }
    }

    /// The next row that exists, from the current one on.
    fn skipped(self, exists: &Tensor) -> State {
        let rows = exists.dim(1);
        let number = exists.trace().iota(Shape::new(DType::F32, exists.dims().to_vec()), 1);
        let is_left = exists.and(&number.greater_equal(&spread(&self.current, rows)));
        let current = is_left.select(&number, &number.full_like(rows as f64)).reduce_min(&[1]);
        State { row: current.clone(), current, ..self }
    }

    /// After a look at one row.
    fn advanced(self, costs: &Tensor, exists: &Tensor) -> State {
        let [rows, columns] = [costs.dim(1), costs.dim(2)];
        let here = hot(&self.row, rows);
        let own = costs.take_rows(&self.row.unsqueeze(1).convert(DType::I32)).reshape(&[costs.dim(0), columns]);
        let base = &self.length - at(&self.of_rows, &here);
        let reached = own - &self.of_columns + spread(&base, columns);
        let is_open = self.reached.less(&self.reached.scalar_like(0.5));
        let is_shorter = is_open.and(&reached.less(&self.shortest));
        let shortest = is_shorter.select(&reached, &self.shortest);
        let before = is_shorter.select(&spread(&self.row, columns), &self.before);
        let open = is_open.select(&shortest, &shortest.full_like(2.0 * NEVER));
        let (length, nearest) = open.arg_min(1);
        let there = hot(&nearest.convert(DType::F32), columns);
        let owner = at(&self.row_of, &there);
        let is_free = owner.less(&owner.scalar_like(0.0));
        let next = State {
            length,
            shortest,
            before,
            reached: self.reached.max(&there),
            row: is_free.select(&self.row, &owner),
            ..self
        };
        let is_active = next.current.less(&next.current.scalar_like(rows as f64));
        next.ended(&nearest.convert(DType::F32), &is_free.and(&is_active), exists)
    }

    /// Where a path has ended at a free column: the dual values follow, the columns of the rows on it are exchanged, and the next
    /// row begins.
    fn ended(self, end: &Tensor, has_ended: &Tensor, exists: &Tensor) -> State {
        let [rows, columns] = [self.of_rows.dim(1), self.of_columns.dim(1)];
        let (per_row, per_column) = (
            has_ended.unsqueeze(1).broadcast_to(self.of_rows.dims()),
            has_ended.unsqueeze(1).broadcast_to(self.of_columns.dims()),
        );
        // A column that was reached and is not the end belongs to a row that was looked at, which moves as the column does.
        let slack = spread(&self.length, columns) - &self.shortest;
        let slack = is_set(&self.reached).select(&slack, &slack.zeros_like());
        let of_columns = per_column.select(&(&self.of_columns - &slack), &self.of_columns);
        let owners = hot_rows(&self.row_of, rows);
        let owned = (owners * slack.unsqueeze(1).broadcast_to(&[slack.dim(0), rows, columns])).sum(&[2]);
        let first = hot(&self.current, rows) * spread(&self.length, rows);
        let of_rows = per_row.select(&(&self.of_rows + owned + first), &self.of_rows);
        // From the end back to the row that the path began with.
        let none = end.full_like(-1.0);
        let at_end = has_ended.select(end, &none);
        let (before, current) = (self.before.clone(), self.current.clone());
        let exchanged = end.trace().while_loop(
            &[at_end, self.column_of.clone(), self.row_of.clone()],
            None,
            |carried| carried[0].greater_equal(&carried[0].scalar_like(0.0)).any(&[0]),
            |carried| {
                let [column, column_of, row_of] = carried else { unreachable!("three values are carried") };
                let there = hot(column, columns);
                let row = at(&before, &there);
                let is_walking = column.greater_equal(&column.scalar_like(0.0));
                let row = is_walking.select(&row, &row.full_like(-1.0));
                let here = hot(&row, rows);
                let old = at(column_of, &here);
                let column_of = is_set(&here).select(&spread(column, rows), column_of);
                let row_of = is_set(&there).select(&spread(&row, columns), row_of);
                let is_first = row.equal(&current);
                let continues = is_walking.and(&is_first.not());
                vec![continues.select(&old, &old.full_like(-1.0)), column_of, row_of]
            },
        );
        let [_, column_of, row_of] = &exchanged[..] else { unreachable!("three values are carried") };
        let fresh = |values: &Tensor, value: f64, ended: &Tensor| ended.select(&values.full_like(value), values);
        let next = State {
            current: has_ended.select(&(&self.current + 1.0), &self.current),
            row: self.row.clone(),
            length: fresh(&self.length, 0.0, has_ended),
            of_rows,
            of_columns,
            column_of: column_of.clone(),
            row_of: row_of.clone(),
            shortest: fresh(&self.shortest, NEVER, &per_column),
            before: fresh(&self.before, -1.0, &per_column),
            reached: fresh(&self.reached, 0.0, &per_column),
        };
        // Those whose path continues keep the row that they look at.
        let row = next.row.clone();
        let next = next.skipped(exists);
        State { row: has_ended.select(&next.row, &row), ..next }
    }
}

/// Which row every column belongs to, as 1 and 0: `[n, columns]` becomes `[n, rows, columns]`.
fn hot_rows(row_of: &Tensor, rows: usize) -> Tensor {
    let dims = [row_of.dim(0), rows, row_of.dim(1)];
    let counted = row_of.trace().iota(Shape::new(DType::F32, dims), 1);
    row_of.unsqueeze(1).broadcast_to(&dims).equal(&counted).convert(DType::F32)
}
