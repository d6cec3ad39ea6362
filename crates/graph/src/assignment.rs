//! The assignment of rows to columns with the lowest total cost.

/// The column of every row, such that the sum of their costs is as low as it can be and no column is taken twice. `costs` has
/// `columns` numbers per row, all finite; with more rows than columns, the rows that are left over have none.
///
/// It finds a shortest augmenting path per row (Jonker and Volgenant, 1987; in the form of Crouse, 2016, which scipy's
/// `linear_sum_assignment` has too).
///
/// ```
/// let costs = [4.0, 1.0, 3.0, 2.0, 0.5, 5.0];
/// assert_eq!(octant_graph::assignment::assign(&costs, 3), [Some(1), Some(0)]);
/// ```
pub fn assign(costs: &[f64], columns: usize) -> Vec<Option<usize>> {
    if columns == 0 {
        return Vec::new();
    }
    let rows = costs.len() / columns;
    if rows <= columns {
        return matched(rows, columns, |row, column| costs[row * columns + column]).into_iter().map(Some).collect();
    }
    let mut found = vec![None; rows];
    let of_columns = matched(columns, rows, |column, row| costs[row * columns + column]);
    of_columns.into_iter().enumerate().for_each(|(column, row)| found[row] = Some(column));
    found
}

/// The sum of the costs of an assignment.
pub fn total(costs: &[f64], columns: usize, found: &[Option<usize>]) -> f64 {
    found.iter().enumerate().filter_map(|(row, column)| Some(costs[row * columns + (*column)?])).sum()
}

/// No row or column.
const NONE: usize = usize::MAX;

/// The column of every row; there are at least as many columns as rows.
fn matched(rows: usize, columns: usize, cost: impl Fn(usize, usize) -> f64) -> Vec<usize> {
    let (mut of_rows, mut of_columns) = (vec![0.0; rows], vec![0.0; columns]);
    let (mut column_of, mut row_of) = (vec![NONE; rows], vec![NONE; columns]);
    let (mut shortest, mut path) = (vec![0.0; columns], vec![NONE; columns]);
    for current in 0..rows {
        shortest.fill(f64::INFINITY);
        let (mut seen_rows, mut seen_columns) = (vec![false; rows], vec![false; columns]);
        let mut remaining: Vec<usize> = (0..columns).rev().collect();
        let (mut row, mut length) = (current, 0.0);
        let end = loop {
            seen_rows[row] = true;
            let (mut nearest, mut lowest) = (0, f64::INFINITY);
            for (at, &column) in remaining.iter().enumerate() {
                let reached = length + cost(row, column) - of_rows[row] - of_columns[column];
                if reached < shortest[column] {
                    (shortest[column], path[column]) = (reached, row);
                }
                // Of equal ones a column that is free: the path ends there.
                let is_free = row_of[column] == NONE;
                if shortest[column] < lowest || (shortest[column] == lowest && is_free) {
                    (nearest, lowest) = (at, shortest[column]);
                }
            }
            length = lowest;
            let column = remaining.swap_remove(nearest);
            seen_columns[column] = true;
            match row_of[column] {
                NONE => break column,
                owner => row = owner,
            }
        };
        of_rows[current] += length;
        for row in (0..rows).filter(|&row| seen_rows[row] && row != current) {
            of_rows[row] += length - shortest[column_of[row]];
        }
        for column in (0..columns).filter(|&column| seen_columns[column]) {
            of_columns[column] -= length - shortest[column];
        }
        let mut column = end;
        loop {
            let row = path[column];
            row_of[column] = row;
            let before = std::mem::replace(&mut column_of[row], column);
            if row == current {
                break;
            }
            column = before;
        }
    }
    column_of
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lowest total over all assignments, by trying them.
    fn lowest(costs: &[f64], columns: usize, row: usize, taken: &mut Vec<bool>, left_over: usize) -> f64 {
        if row == costs.len() / columns {
            return 0.0;
        }
        let mut best = f64::INFINITY;
        for column in 0..columns {
            if !taken[column] {
                taken[column] = true;
                best = best.min(costs[row * columns + column] + lowest(costs, columns, row + 1, taken, left_over));
                taken[column] = false;
            }
        }
        if left_over > 0 {
            best = best.min(lowest(costs, columns, row + 1, taken, left_over - 1));
        }
        best
    }

    #[test]
    fn the_total_is_the_lowest_of_all_assignments() {
        let mut state = 1u64;
        let mut random = || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 40) as f64 / (1u64 << 24) as f64
        };
        for number in 0..400 {
            let (rows, columns) = (1 + number % 5, 1 + number / 5 % 6);
            // Every other matrix has ties.
            let costs: Vec<f64> = (0..rows * columns)
                .map(|_| if number % 2 == 0 { random() - 0.5 } else { (random() * 4.0).floor() })
                .collect();
            let found = assign(&costs, columns);
            assert_eq!(found.iter().flatten().count(), rows.min(columns));
            let mut columns_taken: Vec<usize> = found.iter().flatten().copied().collect();
            columns_taken.sort_unstable();
            columns_taken.dedup();
            assert_eq!(columns_taken.len(), rows.min(columns), "no column is taken twice");
            let wanted = lowest(&costs, columns, 0, &mut vec![false; columns], rows.saturating_sub(columns));
            assert!((total(&costs, columns, &found) - wanted).abs() < 1e-12, "{rows}×{columns} {costs:?}");
        }
        assert!(assign(&[], 3).is_empty() && assign(&[], 0).is_empty());
    }
}
