//! The order of samples: which rows make up which batch of which epoch.

use crate::{Archives, Balance, DataError, SampleRng};
use octant_tensor::threefry;
use std::ops::Range;
use std::sync::Arc;

/// A pseudo-random order of `0..len` that is computed, not stored: any position of it costs the same.
///
/// A Feistel network permutes the smallest power of two that holds `len`; values outside are walked on until they fall
/// inside ("cycle walking"), which takes fewer than two steps on average and keeps the map a permutation.
#[derive(Debug, Clone)]
pub struct Permutation {
    len: u64,
    key: [u32; 2],
    low_bits: u32,
    high_bits: u32,
}

/// Few rounds leave visible structure in tiny domains; twelve cost about 100 ns.
const ROUNDS: u32 = 12;

impl Permutation {
    /// The order of `len` items in that epoch of the run with that seed.
    pub fn new(len: u64, seed: u64, epoch: u64) -> Permutation {
        // Sample streams use every index; the order has its own stream, out of reach of any of them.
        Permutation::of_stream(len, SampleRng::new(seed, epoch, u64::MAX))
    }

    /// The order of a part of an epoch, which begins at that position: independent of those of all other parts.
    pub(crate) fn of_part(len: u64, seed: u64, epoch: u64, begin: u64) -> Permutation {
        Permutation::of_stream(len, SampleRng::new(seed, epoch, u64::MAX - 1 - begin))
    }

    fn of_stream(len: u64, mut rng: SampleRng) -> Permutation {
        let key = [rng.bits(), rng.bits()];
        let bits = (u64::BITS - len.saturating_sub(1).leading_zeros()).max(2);
        Permutation { len, key, low_bits: bits / 2, high_bits: bits - bits / 2 }
    }

    /// The item at that position. Positions outside the range are taken modulo its length.
    pub fn at(&self, position: u64) -> u64 {
        if self.len < 2 {
            return 0;
        }
        let mut value = position % self.len;
        loop {
            value = self.permute(value);
            if value < self.len {
                return value;
            }
        }
    }

    /// The position of an item: the inverse of [`at`](Permutation::at).
    pub fn position(&self, item: u64) -> u64 {
        if self.len < 2 {
            return 0;
        }
        let mut value = item % self.len;
        loop {
            value = self.rounds(value, (0..ROUNDS).rev());
            if value < self.len {
                return value;
            }
        }
    }

    fn permute(&self, value: u64) -> u64 {
        self.rounds(value, 0..ROUNDS)
    }

    /// One pass of the network: the two halves take turns in being changed by a function of the other. Every round is its own
    /// inverse, so the rounds in descending order undo it.
    fn rounds(&self, value: u64, rounds: impl Iterator<Item = u32>) -> u64 {
        let (low_mask, high_mask) = ((1u64 << self.low_bits) - 1, (1u64 << self.high_bits) - 1);
        let (mut low, mut high) = (value & low_mask, value >> self.low_bits);
        for round in rounds {
            if round % 2 == 0 {
                high ^= self.scramble(round, low) & high_mask;
            } else {
                low ^= self.scramble(round, high) & low_mask;
            }
        }
        high << self.low_bits | low
    }

    fn scramble(&self, round: u32, half: u64) -> u64 {
        // Halves have at most 32 bits; the round number goes where their counter word is unused.
        let [a, b] = threefry(self.key, [half as u32, round]);
        (b as u64) << 32 | a as u64
    }
}

/// What happens to the samples that do not fill the last batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LastBatch {
    /// They are left out of this epoch (another epoch has another order): training.
    Drop,
    /// The batch is filled up with rows that the mask declares invalid: evaluation, where each sample counts once.
    Pad,
}

/// A position in the stream of batches. Checkpoints store it to resume the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, serde::Serialize, serde::Deserialize)]
pub struct Position {
    /// The epoch, from zero.
    pub epoch: u64,
    /// The batch in that epoch, from zero.
    pub batch: u64,
    /// Samples of the epoch that batches of another size took before batch 0.
    #[serde(default)]
    pub skipped: u64,
}

impl Position {
    /// A batch of an epoch whose batches all have one size.
    pub const fn new(epoch: u64, batch: u64) -> Position {
        Position { epoch, batch, skipped: 0 }
    }
}

/// The order in which an epoch takes its samples.
#[derive(Debug, Clone, Default)]
pub enum SampleOrder {
    /// Each once, in an order of its own per epoch, or as they lie where nothing is shuffled.
    #[default]
    Plain,
    /// Every class equally often; an epoch has as many samples as before.
    Balanced(Arc<Balance>),
    /// Each once, archive by archive.
    Archives(Arc<Archives>),
}

/// Says which samples are in which batch. It holds no state: everything follows from the position.
#[derive(Debug, Clone)]
pub struct Sampler {
    len: u64,
    batch_size: u64,
    seed: u64,
    shuffle: bool,
    last: LastBatch,
    /// The rows of every batch that this process prepares, in order.
    rows: Vec<Range<u64>>,
    order: SampleOrder,
}

impl Sampler {
    /// Batches of `batch_size` out of `len` samples, shuffled anew each epoch unless `shuffle` is false.
    pub fn new(len: usize, batch_size: usize, seed: u64, shuffle: bool, last: LastBatch) -> Result<Sampler, DataError> {
        if len == 0 {
            return Err(DataError::request("the data set is empty; check the folder and the split"));
        }
        if batch_size == 0 {
            return Err(DataError::request("the batch size must be at least 1"));
        }
        if last == LastBatch::Drop && batch_size > len {
            return Err(DataError::request(format!(
                "a batch of {batch_size} cannot be filled from {len} samples; use a smaller batch size"
            )));
        }
        let (len, batch_size) = (len as u64, batch_size as u64);
        let rows = std::iter::once(0..batch_size).collect();
        Ok(Sampler { len, batch_size, seed, shuffle, last, rows, order: SampleOrder::Plain })
    }

    /// Only these rows of every batch: what one host of several prepares.
    pub fn with_rows(self, rows: Range<usize>) -> Result<Sampler, DataError> {
        if rows.is_empty() || rows.end as u64 > self.batch_size {
            return Err(DataError::request(format!(
                "rows {} to {} of a batch of {} cannot be prepared; choose a larger batch size",
                rows.start, rows.end, self.batch_size
            )));
        }
        Ok(Sampler { rows: std::iter::once(rows.start as u64..rows.end as u64).collect(), ..self })
    }

    /// These rows and those as far from the end of the batch as they are from its beginning, and where the rows are among
    /// both.
    pub(crate) fn with_mirrored_rows(self, rows: Range<usize>) -> Result<(Sampler, Range<usize>), DataError> {
        let of_rows = self.with_rows(rows)?;
        let [rows] = &of_rows.rows[..] else { return Err(DataError::request("a batch without rows")) };
        let (rows, all) = (rows.clone(), of_rows.batch_size);
        let mirrored = all - rows.end..all - rows.start;
        let (first, second) = if rows.start <= mirrored.start { (&rows, &mirrored) } else { (&mirrored, &rows) };
        let is_one = second.start <= first.end;
        let both = match is_one {
            true => std::iter::once(first.start..first.end.max(second.end)).collect(),
            false => vec![first.clone(), second.clone()],
        };
        let before = match rows.start == first.start {
            true => 0,
            false if is_one => rows.start - first.start,
            false => first.end - first.start,
        };
        let kept = before as usize..(before + rows.end - rows.start) as usize;
        Ok((Sampler { rows: both, ..of_rows }, kept))
    }

    /// The same in another order.
    pub fn ordered(mut self, order: SampleOrder) -> Result<Sampler, DataError> {
        if let SampleOrder::Archives(archives) = &order {
            archives.check(self.batch_size)?;
        }
        self.order = order;
        Ok(self)
    }

    /// The stream of random numbers for a row, where that is not the one of its sample: a balanced epoch may have a sample
    /// several times.
    pub fn stream(&self, position: Position, row: usize) -> Option<u64> {
        let repeats = matches!(self.order, SampleOrder::Balanced(_));
        let place = if repeats { self.places(position).nth(row) } else { None };
        place.map(|place| self.len + place)
    }

    /// Samples of the epoch before a batch.
    fn taken(&self, position: Position) -> u64 {
        position.skipped + position.batch * self.batch_size
    }

    /// The places in its epoch of a batch's rows.
    fn places(&self, position: Position) -> impl Iterator<Item = u64> + use<'_> {
        let first = self.taken(position);
        self.rows.iter().flat_map(move |rows| first + rows.start..first + rows.end)
    }

    /// Batches per epoch.
    pub fn batches(&self) -> u64 {
        self.batches_after(0)
    }

    /// Batches of an epoch once some of its samples were taken.
    fn batches_after(&self, skipped: u64) -> u64 {
        let left = self.len.saturating_sub(skipped);
        match self.last {
            LastBatch::Drop => left / self.batch_size,
            LastBatch::Pad => left.div_ceil(self.batch_size),
        }
    }

    /// Where batches of another size continue: with the sample that the batch at `position` would begin with.
    pub fn resized(&self, position: Position, batch_size: usize) -> Position {
        let batch_size = batch_size.max(1) as u64;
        let other = Sampler { batch_size, ..self.clone() };
        let skipped = self.taken(position);
        match other.batches_after(skipped) {
            0 => Position::new(position.epoch + 1, 0),
            _ => Position { skipped, ..Position::new(position.epoch, 0) },
        }
    }

    /// Rows per batch that are prepared.
    pub fn rows(&self) -> usize {
        self.rows.iter().map(|rows| (rows.end - rows.start) as usize).sum()
    }

    /// The sample in every row of a batch; `None` for the rows that only fill up the last one.
    pub fn batch(&self, position: Position) -> Vec<Option<u64>> {
        if let SampleOrder::Archives(archives) = &self.order {
            let (order, taken) = (archives.epoch(self.seed, position.epoch), self.taken(position));
            let sample = |place: u64| archives.at(&order, taken, self.batch_size, place - taken);
            return self.places(position).map(sample).collect();
        }
        let order = Permutation::new(self.len, self.seed, position.epoch);
        let sample = |at: u64| match (&self.order, self.shuffle) {
            (SampleOrder::Balanced(balance), _) => balance.at(order.at(at), self.len, self.seed, position.epoch),
            (_, true) => order.at(at),
            (_, false) => at,
        };
        self.places(position).map(|at| (at < self.len).then(|| sample(at))).collect()
    }

    /// The position after this one.
    pub fn next(&self, position: Position) -> Position {
        if position.batch + 1 < self.batches_after(position.skipped) {
            Position { batch: position.batch + 1, ..position }
        } else {
            Position::new(position.epoch + 1, 0)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_length_is_permuted_completely() {
        for len in (1..70).chain([255, 256, 257, 1000, 60_000]) {
            let order = Permutation::new(len, 7, 1);
            let seen: HashSet<u64> = (0..len).map(|position| order.at(position)).collect();
            assert_eq!(seen.len() as u64, len);
            assert!(seen.iter().all(|&item| item < len));
            assert!((0..len.min(300)).all(|position| order.position(order.at(position)) == position));
        }
    }

    /// Each item lands at each position about equally often, and neighbors do not stay together.
    #[test]
    fn the_order_looks_random() {
        let (len, epochs) = (10u64, 20_000u64);
        let mut counts = vec![0u32; (len * len) as usize];
        let mut neighbors = 0u32;
        for epoch in 0..epochs {
            let order = Permutation::new(len, 3, epoch);
            let items: Vec<u64> = (0..len).map(|position| order.at(position)).collect();
            items.iter().enumerate().for_each(|(at, &item)| counts[at * len as usize + item as usize] += 1);
            neighbors += items.windows(2).filter(|pair| pair[0] + 1 == pair[1]).count() as u32;
        }
        let expected = (epochs / len) as f64;
        let chi_square: f64 = counts.iter().map(|&count| (count as f64 - expected).powi(2) / expected).sum();
        assert!(chi_square < 140.0, "81 degrees of freedom: {chi_square}");
        // One of the nine neighboring pairs is expected to be consecutive nine times in ten: 0.9 per epoch.
        assert!((neighbors as f64 / epochs as f64 - 0.9).abs() < 0.05);
    }

    #[test]
    fn padding_marks_the_rows_that_do_not_count() {
        let sampler = Sampler::new(10, 4, 0, false, LastBatch::Pad).unwrap();
        assert_eq!(sampler.batches(), 3);
        assert_eq!(sampler.batch(Position::new(0, 2)), [Some(8), Some(9), None, None]);
        assert_eq!(Sampler::new(10, 4, 0, false, LastBatch::Drop).unwrap().batches(), 2);
    }

    #[test]
    fn the_order_of_samples_does_not_depend_on_batch_sizes() {
        let sampler = |size: usize| Sampler::new(53, size, 9, true, LastBatch::Drop).unwrap();
        let taken = |changes: &[(usize, u64)]| {
            let (mut position, mut samples) = (Position::default(), Vec::new());
            for (number, &(size, batches)) in changes.iter().enumerate() {
                let sampler = sampler(size);
                for _ in 0..batches {
                    samples.extend(sampler.batch(position).into_iter().flatten());
                    position = sampler.next(position);
                }
                let next = changes.get(number + 1).map_or(1, |(size, _)| *size);
                position = sampler.resized(position, next);
            }
            samples
        };
        let singly = taken(&[(1, 53)]);
        assert_eq!(taken(&[(4, 3), (10, 2), (1, 21)]), singly);
        assert_eq!(taken(&[(5, 7), (3, 6)]), singly);
        // Two samples are left where seven are wanted: the next epoch begins, as at the end of any epoch.
        let rest = taken(&[(3, 17), (7, 1)]);
        assert_eq!(rest[..51], singly[..51]);
        assert_eq!(rest[51..], taken(&[(53, 1), (7, 1)])[53..]);
    }

    #[test]
    fn shards_together_are_the_whole_batch() {
        let whole = Sampler::new(103, 8, 9, true, LastBatch::Pad).unwrap();
        for batch in 0..whole.batches() {
            let position = Position::new(2, batch);
            let parts: Vec<_> = (0..4)
                .flat_map(|index| whole.clone().with_rows(2 * index..2 * index + 2).unwrap().batch(position))
                .collect();
            assert_eq!(parts, whole.batch(position));
        }
        assert!(whole.with_rows(8..10).is_err());
    }

    #[test]
    fn mirrored_rows_are_symmetric_and_hold_the_rows() {
        let whole = Sampler::new(100, 9, 3, true, LastBatch::Drop).unwrap();
        let position = Position::new(1, 2);
        let all = whole.batch(position);
        for (start, end) in (0..9).flat_map(|start| (start + 1..10).map(move |end| (start, end))) {
            let (both, kept) = whole.clone().with_mirrored_rows(start..end).unwrap();
            let prepared = both.batch(position);
            assert_eq!(prepared[kept], all[start..end], "{start}..{end}");
            let wanted = (0..9).filter(|row| (start..end).contains(row) || (start..end).contains(&(8 - row)));
            assert_eq!(prepared, wanted.map(|row| all[row]).collect::<Vec<_>>(), "{start}..{end}");
        }
    }
}
