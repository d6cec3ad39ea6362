//! How a loop is cut into tasks, steps and blocks.
//!
//! The dimensions are ordered as `outer`, `middle`, rows, columns; rows may be two dimensions, when those of one are too few
//! to fill a block. A task has fixed outer indices; inside it, steps run over the middle dimensions and over blocks of
//! rows × columns that fit the registers. The cut depends on the shape
//! alone, never on the number of threads, so results do not either.

use super::kernel::Loop;

/// Elements of a block register. A dozen registers of f32 fit the first-level cache.
pub(crate) const BLOCK: usize = 512;
/// Blocks of one task: enough work to be worth handing to another thread.
const TASK_BLOCKS: usize = 32;
/// The most tasks of a loop that folds nothing over tasks. Each fills the registers that stay the same, row by row.
const MOST_TASKS: usize = 128;
/// The most partial results per folded value.
const MOST_PARTIALS: usize = 64;

/// What the folds of a loop do with a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FoldKind {
    /// There are none.
    None,
    /// Columns are kept, rows are folded.
    Columns,
    /// Rows are kept, columns are folded; a row fits a block.
    Rows,
    /// Rows and columns are folded: one result per outer index.
    Whole,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Nest {
    pub outer: Vec<usize>,
    pub middle: Vec<usize>,
    pub rows: usize,
    /// Rows of the inner one of their two dimensions; all of them if the outer one has length 1.
    pub row_inner: usize,
    pub columns: usize,
    pub fold: FoldKind,
    pub rows_per_block: usize,
    pub columns_per_block: usize,
    /// Blocks of columns; with folded rows each is a task of its own, otherwise they are steps.
    pub column_blocks: usize,
    pub steps_per_task: usize,
}

impl Nest {
    /// Orders the loop's dimensions and cuts it. All folds of a loop are over the same dimensions, at least one.
    pub fn cut(body: &mut Loop) -> Nest {
        let folded: Vec<bool> = match body.folds.first() {
            Some(fold) => fold.to.strides.iter().map(|&stride| stride == 0).collect(),
            None => vec![false; body.dims.len()],
        };
        let rank = body.dims.len();
        let reduced: Vec<usize> = (0..rank).filter(|&d| folded[d]).collect();
        let kept: Vec<usize> = (0..rank).filter(|&d| !folded[d]).collect();
        let last_is_folded = folded.last().copied().unwrap_or(false);
        let fold = match (body.folds.is_empty(), last_is_folded) {
            (true, _) => FoldKind::None,
            (false, false) => FoldKind::Columns,
            (false, true) if reduced.len() == 1 && body.dims[rank - 1] <= BLOCK && !kept.is_empty() => FoldKind::Rows,
            (false, true) => FoldKind::Whole,
        };
        // (outer, middle, rows, columns) as lists of dimensions.
        let (outer, middle, rows, columns): (&[usize], &[usize], &[usize], &[usize]) = match fold {
            FoldKind::None => split_last_two(&kept),
            FoldKind::Rows => (&kept[..kept.len() - 1], &[], &kept[kept.len() - 1..], &reduced),
            FoldKind::Columns => {
                let (outer, columns) = kept.split_at(kept.len() - 1);
                let (middle, rows) = reduced.split_at(reduced.len() - 1);
                (outer, middle, rows, columns)
            }
            FoldKind::Whole => {
                let (middle, _, rows, columns) = split_last_two(&reduced);
                (&kept, middle, rows, columns)
            }
        };
        let length = |list: &[usize]| list.iter().map(|&d| body.dims[d]).product::<usize>();
        let lengths = |list: &[usize]| list.iter().map(|&d| body.dims[d]).collect::<Vec<_>>();
        let (row_inner, column_count) = (length(rows), length(columns));
        // A block that is mostly empty takes the next dimension in, too.
        let takes_outer = matches!(fold, FoldKind::None | FoldKind::Rows);
        let before = if takes_outer { outer } else { middle };
        let row_outer = match before.last() {
            Some(_) if !rows.is_empty() && row_inner * column_count <= BLOCK / 2 => &before[before.len() - 1..],
            _ => &[],
        };
        let shortened = &before[..before.len() - row_outer.len()];
        let (outer, middle) = if takes_outer { (shortened, middle) } else { (outer, shortened) };
        let row_count = length(row_outer) * row_inner;
        let columns_per_block = column_count.clamp(1, BLOCK);
        let mut nest = Nest {
            outer: lengths(outer),
            middle: lengths(middle),
            rows: row_count,
            row_inner,
            columns: column_count,
            fold,
            rows_per_block: rows_per_block(columns_per_block).clamp(1, row_count.max(1)),
            columns_per_block,
            column_blocks: column_count.div_ceil(columns_per_block),
            steps_per_task: 1,
        };
        // Every operand has five groups of strides from here on: outer…, middle…, outer row, row, column.
        let order = [outer, middle, row_outer, rows, columns].concat();
        body.permute(&order);
        let rows_at = outer.len() + middle.len();
        for (at, _) in [row_outer, rows, columns].into_iter().enumerate().filter(|(_, list)| list.is_empty()) {
            body.insert_unit(rows_at + at);
        }
        let steps = nest.steps();
        let block = (nest.rows_per_block * nest.columns_per_block).max(1);
        let wanted = (TASK_BLOCKS * BLOCK).div_ceil(block);
        nest.steps_per_task = match fold {
            FoldKind::Columns | FoldKind::Whole => wanted.max(steps.div_ceil(MOST_PARTIALS)),
            FoldKind::None | FoldKind::Rows => {
                wanted.max((nest.outer.iter().product::<usize>() * steps).div_ceil(MOST_TASKS))
            }
        }
        .clamp(1, steps.max(1));
        nest
    }

    /// The distance in elements from an operand's first row to another.
    pub fn row_offset(&self, strides: &[isize], row: usize) -> isize {
        let [.., outer, inner, _] = strides else { return 0 };
        match self.row_inner == self.rows {
            true => row as isize * inner,
            false => (row / self.row_inner) as isize * outer + (row % self.row_inner) as isize * inner,
        }
    }

    /// Whether rows and columns of an operand lie in memory one after the other.
    pub fn lie_in_order(&self, strides: &[isize]) -> bool {
        let [.., outer, inner, column] = strides else { return false };
        let rows_in_order = *inner == self.columns as isize || self.row_inner == 1;
        let outer_in_order = self.row_inner == self.rows || *outer == (self.row_inner * self.columns) as isize;
        (*column == 1 || self.columns == 1) && rows_in_order && outer_in_order
    }

    /// Steps of all tasks of one outer index (and block of columns, when those are tasks).
    pub fn steps(&self) -> usize {
        let column_steps = if self.fold == FoldKind::Columns { 1 } else { self.column_blocks };
        self.middle.iter().product::<usize>() * self.rows.div_ceil(self.rows_per_block) * column_steps
    }

    /// Tasks that share an outer index (and block of columns): the partial results of one folded value.
    pub fn chunks(&self) -> usize {
        self.steps().div_ceil(self.steps_per_task)
    }

    /// Tasks in all.
    pub fn tasks(&self) -> usize {
        let column_tasks = if self.fold == FoldKind::Columns { self.column_blocks } else { 1 };
        self.outer.iter().product::<usize>() * column_tasks * self.chunks()
    }

    /// Elements of the partial results of one fold; 0 when tasks can write their results themselves.
    pub fn partials(&self) -> usize {
        match (self.fold, self.chunks()) {
            (FoldKind::None | FoldKind::Rows, _) | (_, 0 | 1) => 0,
            (FoldKind::Columns, _) => self.tasks() * self.columns_per_block,
            (FoldKind::Whole, _) => self.tasks(),
        }
    }
}

/// As many rows as fit a block, and fill whole vectors if a block holds enough of them.
fn rows_per_block(columns: usize) -> usize {
    const LANES: usize = 16;
    let most = BLOCK / columns;
    let together = LANES >> columns.trailing_zeros().min(LANES.trailing_zeros());
    if most > together { most - most % together } else { most }
}

fn split_last_two(list: &[usize]) -> (&[usize], &[usize], &[usize], &[usize]) {
    let columns = list.len().saturating_sub(1);
    let rows = list.len().saturating_sub(2);
    (&list[..rows], &[], &list[rows..columns], &list[columns..])
}
