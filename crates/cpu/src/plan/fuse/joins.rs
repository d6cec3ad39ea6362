//! Concatenations that are parts of others, such as what a detector predicts at one scale among all scales: their operands
//! are written to the larger result at once.

use octant_graph::{Graph, Op, ValueId};
use std::collections::HashSet;

/// The concatenations that need no memory of their own: nothing but another concatenation reads them, as they are or with
/// some axes merged. `stored` values need it.
pub(super) fn placed(graph: &Graph, stored: &HashSet<ValueId>) -> HashSet<ValueId> {
    let mut users: Vec<Vec<ValueId>> = vec![Vec::new(); graph.values().len()];
    for node in graph.nodes() {
        for &input in &node.inputs {
            users[input.index()].extend(node.outputs.first());
        }
    }
    let is_placed = |mut value: ValueId| loop {
        let &[user] = users[value.index()].as_slice() else { return false };
        if stored.contains(&value) {
            return false;
        }
        let op = &graph.producer(user).op;
        if matches!(op, Op::Concatenate { .. }) {
            return true;
        }
        let Op::Reshape { dims } = op else { return false };
        if through_merge(graph.shape(value).dims(), dims, &vec![1; dims.len()]).is_none() {
            return false;
        }
        value = user;
    };
    let joins = graph.nodes().iter().filter(|node| matches!(node.op, Op::Concatenate { .. }));
    joins.map(|node| node.outputs[0]).filter(|&value| is_placed(value)).collect()
}

/// The strides of a value from those it has after a reshape; none if that does more than merge axes.
pub(crate) fn through_merge(dims: &[usize], merged: &[usize], strides: &[isize]) -> Option<Vec<isize>> {
    let mut found = vec![0; dims.len()];
    let mut left = dims.len();
    for (&length, &stride) in merged.iter().zip(strides).rev() {
        let mut inner = 1;
        while inner < length {
            left = left.checked_sub(1)?;
            found[left] = stride * inner as isize;
            inner *= dims[left];
        }
        if inner != length {
            return None;
        }
    }
    dims[..left].iter().all(|&dim| dim == 1).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::through_merge;

    #[test]
    fn merged_axes_keep_their_order_in_memory() {
        let through = |dims: &[usize], merged: &[usize], strides: &[isize]| through_merge(dims, merged, strides);
        assert_eq!(through(&[2, 4, 5, 3], &[2, 20, 3], &[300, 7, 1]), Some(vec![300, 35, 7, 1]));
        assert_eq!(through(&[1, 4, 3], &[4, 3], &[7, 1]), Some(vec![0, 7, 1]));
        assert_eq!(through(&[4, 3], &[1, 4, 1, 3], &[9, 7, 5, 1]), Some(vec![7, 1]));
        assert_eq!(through(&[4, 6], &[4, 2, 3], &[9, 3, 1]), None);
        assert_eq!(through(&[4, 6], &[6, 4], &[4, 1]), None);
    }
}
