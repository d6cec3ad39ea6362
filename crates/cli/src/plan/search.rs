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
/// batch: it begins at `fixed` bytes and goes through the sizes that were measured. At most `tries` batches are measured
/// beyond the `first`.
pub(super) fn largest(
    first: (usize, Size),
    step: usize,
    most: usize,
    limit: u64,
    fixed: u64,
    tries: usize,
    mut measure: impl FnMut(usize) -> Result<Size>,
) -> Result<usize> {
    let mut fitting = if first.1.fits { first.0 } else { 0 };
    let mut failing = if first.1.fits { usize::MAX } else { first.0 };
    let mut latest = first;
    for attempt in 0..=tries {
        let guess = along_the_line(latest, step, most, limit, fixed);
        // A size that the compiler does not state halves the batch instead.
        let guess = guess.unwrap_or(latest.0 / 2 / step * step).min(failing.saturating_sub(1) / step * step);
        // Within a twentieth there is nothing to gain from another compilation.
        if guess <= fitting + fitting / 20 || guess == 0 {
            break;
        }
        if attempt == tries {
            return Ok(if tries == 0 { guess } else { fitting });
        }
        let size = measure(guess)?;
        match size.fits {
            true => fitting = fitting.max(guess),
            false => failing = failing.min(guess),
        }
        latest = (guess, size);
    }
    Ok(fitting)
}

fn along_the_line((batch, size): (usize, Size), step: usize, most: usize, limit: u64, fixed: u64) -> Option<usize> {
    let slope = size.bytes?.saturating_sub(fixed) as f64 / batch as f64;
    let room = limit.saturating_sub(fixed) as f64;
    // A little below the line, because compilers pad.
    let guess = if slope > 0.0 { room / slope * 0.98 } else { most as f64 };
    Some((guess as usize).min(most) / step * step)
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
