//! The largest batch that fits, found with few compilations: each takes minutes on a large network.

/// How much memory a batch takes.
#[derive(Debug, Clone, Copy)]
pub struct Size {
    /// Bytes per device, where the compiler reports it.
    pub bytes: Option<u64>,
    /// Whether that fits.
    pub fits: bool,
}

/// A search over batches that are multiples of `step` and at most `most`. Memory is close to a straight line over the batch:
/// through the two largest batches that were measured, or from the `fixed` bytes of an empty batch through the first.
pub struct Search {
    /// Batches are multiples of it.
    pub step: usize,
    /// The largest batch.
    pub most: usize,
    /// The memory that there is.
    pub limit: u64,
    /// The memory of an empty batch.
    pub fixed: u64,
    /// How many batches may be measured beyond the first.
    pub tries: usize,
    /// What was measured so far.
    pub measured: Vec<(usize, Size)>,
}

impl Search {
    /// The batch to measure next; none when the result would hardly change.
    pub fn next(&self) -> Option<usize> {
        let guess = self.guess()?;
        let fits = self.fitting();
        // Within a twentieth there is nothing to gain from another compilation.
        (self.tries_left() > 0 && guess > fits + fits / 20).then_some(guess)
    }

    /// How many more batches may be measured.
    pub fn tries_left(&self) -> usize {
        (self.tries + 1).saturating_sub(self.measured.len())
    }

    /// What is known of the largest batch now: where the line meets the limit as long as it could still be measured,
    /// afterwards the largest that was seen to fit.
    pub fn largest(&self) -> usize {
        match self.guess() {
            Some(guess) if self.tries == 0 || self.next().is_some() => guess.max(self.fitting()),
            _ => self.fitting(),
        }
    }

    fn fitting(&self) -> usize {
        self.measured.iter().filter(|(_, size)| size.fits).map(|(batch, _)| *batch).max().unwrap_or(0)
    }

    /// Where the line meets the limit.
    fn guess(&self) -> Option<usize> {
        let mut points = vec![(0, Size { bytes: Some(self.fixed), fits: true })];
        points.extend(self.measured.iter().filter(|(_, size)| size.bytes.is_some()));
        points.sort_by_key(|(batch, _)| *batch);
        let failing = self.measured.iter().filter(|(_, size)| !size.fits).map(|(batch, _)| *batch).min();
        let below = failing.map_or(self.most, |batch| batch - 1).min(self.most);
        let line = match points[..] {
            [.., low, high] => crossing(low, high, self.limit),
            _ => None,
        };
        // A size that the compiler does not state halves the batch instead.
        let guess = line.or_else(|| Some(self.measured.last()?.0 / 2))?;
        Some(guess.min(below) / self.step * self.step)
    }
}

/// Where the line through two sizes meets the limit, or a little before, because compilers pad. A level line never does.
fn crossing((low, less): (usize, Size), (high, more): (usize, Size), limit: u64) -> Option<usize> {
    let (less, more) = (less.bytes? as f64, more.bytes? as f64);
    let bytes_per_image = (more - less) / (high.max(low + 1) - low) as f64;
    let room = limit as f64 - less;
    Some(if bytes_per_image > 0.0 {
        (low as f64 + room / bytes_per_image * 0.98).max(0.0) as usize
    } else {
        usize::MAX
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: u64 = 10_000;

    fn search(start: usize, memory: impl Fn(usize) -> u64, most: usize) -> (usize, usize) {
        let size = |batch: usize| Size { bytes: Some(memory(batch)), fits: memory(batch) <= LIMIT };
        let measured = vec![(start, size(start))];
        let mut search = Search { step: 8, most, limit: LIMIT, fixed: 100, tries: 2, measured };
        while let Some(batch) = search.next() {
            search.measured.push((batch, size(batch)));
        }
        (search.largest(), search.measured.len() - 1)
    }

    #[test]
    fn a_straight_line_takes_one_compilation_more() {
        assert_eq!(search(8, |batch| 100 + 10 * batch as u64, 1 << 20), (968, 1));
    }

    /// What the compiler needs whatever the batch is more than the state; two measured points know that.
    #[test]
    fn a_line_that_begins_elsewhere_takes_two() {
        let (found, compilations) = search(32, |batch| 3000 + 10 * batch as u64, 1 << 20);
        assert!((600..=696).contains(&found), "{found}");
        assert!(compilations <= 2, "{compilations}");
    }

    #[test]
    fn a_line_that_bends_still_ends_with_something_that_fits() {
        let bent = |batch: usize| 100 + 10 * batch as u64 + (batch * batch / 100) as u64;
        let (found, compilations) = search(64, bent, 1 << 20);
        assert!(bent(found) <= LIMIT && bent(found + found / 4) > LIMIT, "{found}");
        assert!(compilations <= 2);
    }

    #[test]
    fn a_start_that_does_not_fit_goes_down() {
        let (found, _) = search(4096, |batch| 100 + 10 * batch as u64, 1 << 20);
        assert!((900..=990).contains(&found), "{found}");
    }

    #[test]
    fn a_batch_is_never_larger_than_an_epoch() {
        assert_eq!(search(8, |_| 100, 800).0, 800);
        assert_eq!(search(8, |_| LIMIT + 1, 800).0, 0);
    }

    /// `--quick`: one compilation, and the line through it.
    #[test]
    fn without_tries_the_line_is_the_result() {
        let first = (8, Size { bytes: Some(180), fits: true });
        let search = Search { step: 8, most: 1 << 20, limit: LIMIT, fixed: 100, tries: 0, measured: vec![first] };
        assert_eq!((search.next(), search.largest()), (None, 968));
    }
}
