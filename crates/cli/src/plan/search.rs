//! The largest batch that fits, found with few compilations: each takes minutes on a large network.

use anyhow::Result;

/// How much memory a batch takes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Size {
    /// Bytes per device, where the compiler tells.
    pub bytes: Option<u64>,
    /// Whether that fits.
    pub fits: bool,
}

/// The largest batch that fits, a multiple of `step` and at most `most`. Memory is close to a straight line over the
/// batch: one that begins at `fixed` bytes and goes through the last size that was measured, or, once one batch fits and
/// another does not, the one through both. At most `tries` batches are measured beyond the `first`.
pub(super) fn largest(
    first: (usize, Size),
    step: usize,
    most: usize,
    limit: u64,
    fixed: u64,
    tries: usize,
    mut measure: impl FnMut(usize) -> Result<Size>,
) -> Result<usize> {
    let (mut fitting, mut failing) = if first.1.fits { (Some(first), None) } else { (None, Some(first)) };
    let mut latest = first;
    for attempt in 0..=tries {
        let guess = match (fitting, failing) {
            (Some(low), Some(high)) => crossing(low, high, limit),
            _ => crossing((0, Size { bytes: Some(fixed), fits: true }), latest, limit),
        };
        // A size that the compiler does not state halves the batch instead.
        let below = failing.map_or(most, |(batch, _)| batch - 1).min(most);
        let guess = guess.unwrap_or(latest.0 / 2).min(below) / step * step;
        let fits_already = fitting.map_or(0, |(batch, _)| batch);
        // Within a twentieth there is nothing to gain from another compilation.
        if guess <= fits_already + fits_already / 20 {
            break;
        }
        if attempt == tries {
            return Ok(if tries == 0 { guess } else { fits_already });
        }
        latest = (guess, measure(guess)?);
        *(if latest.1.fits { &mut fitting } else { &mut failing }) = Some(latest);
    }
    Ok(fitting.map_or(0, |(batch, _)| batch))
}

/// Where the line through two sizes meets the limit, or a little before, because compilers pad. A level line never does.
fn crossing((low, less): (usize, Size), (high, more): (usize, Size), limit: u64) -> Option<usize> {
    let (less, more) = (less.bytes? as f64, more.bytes? as f64);
    let slope = (more - less) / (high.max(low + 1) - low) as f64;
    let room = (limit as f64 - less).max(0.0);
    Some(if slope > 0.0 { low + (room / slope * 0.98) as usize } else { usize::MAX })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: u64 = 10_000;

    fn search(start: usize, memory: impl Fn(usize) -> u64, most: usize) -> (usize, usize) {
        let mut compilations = 0;
        let size = |batch: usize| Size { bytes: Some(memory(batch)), fits: memory(batch) <= LIMIT };
        let found = largest((start, size(start)), 8, most, LIMIT, 100, 3, |batch| {
            compilations += 1;
            Ok(size(batch))
        });
        (found.expect("nothing fails"), compilations)
    }

    #[test]
    fn a_straight_line_takes_one_compilation_more() {
        assert_eq!(search(8, |batch| 100 + 10 * batch as u64, 1 << 20), (968, 1));
    }

    #[test]
    fn a_line_that_bends_still_ends_with_something_that_fits() {
        let bent = |batch: usize| 100 + 10 * batch as u64 + (batch * batch / 100) as u64;
        let (found, compilations) = search(64, bent, 1 << 20);
        assert!(bent(found) <= LIMIT && bent(found + found / 5) > LIMIT, "{found}");
        assert!(compilations <= 3);
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
}
