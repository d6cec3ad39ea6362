//! How a loop is cut into tasks, steps and blocks.
//!
//! The dimensions are ordered as `outer`, `middle`, rows, columns. A task has fixed outer indices; inside it, steps run
//! over the middle dimensions and over blocks of rows × columns that fit the registers. The cut depends on the shape
//! alone, never on the number of threads, so results do not either.

use super::kernel::Loop;

/// Elements of a block register. A dozen registers of f32 fit the first-level cache.
pub(crate) const BLOCK: usize = 512;
/// Blocks of one task: enough work to be worth handing to another thread.
const TASK_BLOCKS: usize = 32;
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
        let (row_count, column_count) = (length(rows), length(columns));
        let columns_per_block = column_count.clamp(1, BLOCK);
        let mut nest = Nest {
            outer: lengths(outer),
            middle: lengths(middle),
            rows: row_count,
            columns: column_count,
            fold,
            rows_per_block: (BLOCK / columns_per_block).clamp(1, row_count.max(1)),
            columns_per_block,
            column_blocks: column_count.div_ceil(columns_per_block),
            steps_per_task: 1,
        };
        // Every operand has four groups of strides from here on: outer…, middle…, row, column.
        let order = [outer, middle, rows, columns].concat();
        body.permute(&order);
        insert_missing(body, outer.len() + middle.len(), rows.is_empty(), columns.is_empty());
        let steps = nest.steps();
        let block = (nest.rows_per_block * nest.columns_per_block).max(1);
        let wanted = (TASK_BLOCKS * BLOCK).div_ceil(block);
        nest.steps_per_task = match fold {
            FoldKind::Columns | FoldKind::Whole => wanted.max(steps.div_ceil(MOST_PARTIALS)),
            FoldKind::None | FoldKind::Rows => wanted,
        }
        .clamp(1, steps.max(1));
        nest
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

fn split_last_two(list: &[usize]) -> (&[usize], &[usize], &[usize], &[usize]) {
    let columns = list.len().saturating_sub(1);
    let rows = list.len().saturating_sub(2);
    (&list[..rows], &[], &list[rows..columns], &list[columns..])
}

/// Gives a loop without a row or column dimension one of length 1.
fn insert_missing(body: &mut Loop, rows_at: usize, no_rows: bool, no_columns: bool) {
    if no_rows {
        body.insert_unit(rows_at);
    }
    if no_columns {
        body.insert_unit(rows_at + 1);
    }
}
