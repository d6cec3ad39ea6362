//! From a task to its blocks, one after the other or several at once.

use super::block::{Block, BlockRange};
use super::native::Native;
use crate::plan::nest::FoldKind;
use std::iter::Peekable;

impl<'a> Block<'a> {
    pub(super) fn task(&mut self, task: usize) {
        let nest = &self.prepared.nest;
        let chunks = nest.chunks();
        let (group, chunk) = (task / chunks, task % chunks);
        let (outer, column_task) = match nest.fold {
            FoldKind::Columns => (group / nest.column_blocks, group % nest.column_blocks),
            _ => (group, 0),
        };
        let steps = chunk * nest.steps_per_task..((chunk + 1) * nest.steps_per_task).min(nest.steps());
        let row_blocks = nest.rows.div_ceil(nest.rows_per_block);
        let column_steps = if nest.fold == FoldKind::Columns { 1 } else { nest.column_blocks };
        self.folded = 0;
        if self.prepared.native.as_ref().is_some_and(|native| native.share.folds) {
            let columns = nest.columns_per_block.min(nest.columns - column_task * nest.columns_per_block);
            self.begin_folds(nest.rows_per_block * columns);
        }
        let range = |row_step: usize, column_step: usize| {
            let row = row_step % row_blocks * nest.rows_per_block;
            let column = (column_task + column_step) * nest.columns_per_block;
            let rows = nest.rows_per_block.min(nest.rows - row);
            let columns = nest.columns_per_block.min(nest.columns - column);
            BlockRange { outer, middle: row_step / row_blocks, row, column, rows, columns }
        };
        match nest.fold {
            // The order does not matter, and the code advances from row to row itself.
            FoldKind::None if self.runs_together().is_some() => {
                let rows = steps.start.div_ceil(column_steps)..steps.end.div_ceil(column_steps);
                self.blocks((0..column_steps).flat_map(|column| rows.clone().map(move |row| range(row, column))))
            }
            _ => self.blocks(steps.map(|step| range(step / column_steps, step % column_steps))),
        }
        match nest.fold {
            FoldKind::Columns => self.finish_columns(task, outer, column_task),
            FoldKind::Whole => self.finish_whole(task, outer),
            FoldKind::None | FoldKind::Rows => {}
        }
    }

    /// The loop's code, if it can run several blocks by itself.
    fn runs_together(&self) -> Option<&'a Native> {
        self.prepared.native.as_ref().filter(|native| native.share.steps.is_some())
    }

    pub(super) fn blocks(&mut self, ranges: impl Iterator<Item = BlockRange>) {
        match self.runs_together() {
            Some(native) => self.together(native, ranges.peekable()),
            None => self.one_by_one(ranges),
        }
    }

    /// Runs blocks that lie below each other together.
    fn together(&mut self, native: &Native, mut ranges: Peekable<impl Iterator<Item = BlockRange>>) {
        let mut before = None;
        while let Some(range) = ranges.next() {
            let fits = native.fits(range.rows * range.columns);
            let mut blocks = 1;
            while ranges.next_if(|next| fits && next.lies_below(&range, blocks)).is_some() {
                blocks += 1;
            }
            self.locate_next(&range);
            std::mem::swap(self.here, self.next);
            self.next.clear();
            self.block(&range, blocks, before.is_none(), before != Some(range.middle));
            before = Some(range.middle);
        }
    }

    /// Runs blocks one after the other. Where the next one lies is known while one is computed.
    fn one_by_one(&mut self, mut ranges: impl Iterator<Item = BlockRange>) {
        let Some(mut range) = ranges.next() else { return };
        self.locate_next(&range);
        // The first block of all, and of every index along the middle dimensions, fills what stays the same.
        let (mut first, mut first_here) = (true, true);
        loop {
            std::mem::swap(self.here, self.next);
            let after = ranges.next();
            match &after {
                Some(after) if after.is_beside(&range) => self.step_to(after, &range),
                Some(after) => self.locate_next(after),
                None => self.next.clear(),
            }
            self.block(&range, 1, first, first_here);
            let Some(after) = after else { return };
            (first, first_here) = (false, after.middle != range.middle);
            range = after;
        }
    }
}
