//! Counter-based randomness: every number is a pure function of a key and a counter.
//!
//! The function is [`threefry`]. Nothing is carried from sample to sample, so samples can be prepared in any order by any
//! thread.

use octant_tensor::threefry;

/// The random numbers that belong to one sample of one epoch, or to any other thing that three numbers identify.
#[derive(Debug, Clone)]
pub struct SampleRng {
    key: [u32; 2],
    counter: u64,
    spare: Option<u32>,
    seed: u64,
    epoch: u64,
    index: u64,
}

impl SampleRng {
    /// The numbers of sample `index` in `epoch` of the run with that seed.
    pub fn new(seed: u64, epoch: u64, index: u64) -> SampleRng {
        let key = threefry(words(seed), words(epoch));
        SampleRng { key: threefry(key, words(index)), counter: 0, spare: None, seed, epoch, index }
    }

    /// An independent stream, identified by a number, that takes nothing from this one.
    pub fn fork(&self, stream: u64) -> SampleRng {
        let [low, high] = words(stream);
        // Sampling uses small counters; the high bit separates forks from samples.
        SampleRng { key: threefry(self.key, [low, high | 1 << 31]), counter: 0, spare: None, ..*self }
    }

    /// The epoch that these numbers belong to, for what changes in the course of a run.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The seed of the run.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// The number of the sample.
    pub fn index(&self) -> u64 {
        self.index
    }

    /// 32 random bits.
    pub fn bits(&mut self) -> u32 {
        if let Some(word) = self.spare.take() {
            return word;
        }
        let [first, second] = threefry(self.key, words(self.counter));
        self.counter += 1;
        self.spare = Some(second);
        first
    }

    /// A float in [0, 1) on a grid of 2⁻²⁴.
    pub fn uniform(&mut self) -> f32 {
        (self.bits() >> 8) as f32 / (1 << 24) as f32
    }

    /// A float in [low, high).
    pub fn between(&mut self, low: f32, high: f32) -> f32 {
        low + (high - low) * self.uniform()
    }

    /// An integer in 0..bound, without bias (Lemire's multiply-and-reject). A bound of zero gives zero.
    pub fn below(&mut self, bound: usize) -> usize {
        let bound = bound.min(u32::MAX as usize) as u32;
        if bound == 0 {
            return 0;
        }
        let threshold = bound.wrapping_neg() % bound;
        loop {
            let product = self.bits() as u64 * bound as u64;
            if product as u32 >= threshold {
                return (product >> 32) as usize;
            }
        }
    }

    /// An integer in low..=high.
    pub fn inclusive(&mut self, low: i64, high: i64) -> i64 {
        low + self.below((high - low).max(0) as usize + 1) as i64
    }

    /// True with that probability.
    pub fn chance(&mut self, probability: f32) -> bool {
        self.uniform() < probability
    }

    /// A standard normal number (Box–Muller).
    pub fn normal(&mut self) -> f32 {
        let radius = (-2.0 * (1.0 - self.uniform() as f64).ln()).sqrt();
        let angle = std::f64::consts::TAU * self.uniform() as f64;
        (radius * angle.cos()) as f32
    }

    /// A number from Gamma(shape, 1) (Marsaglia and Tsang, 2000; small shapes through the boost U^(1/shape)).
    pub fn gamma(&mut self, shape: f64) -> f64 {
        if shape < 1.0 {
            let boost = (1.0 - self.uniform() as f64).powf(1.0 / shape);
            return self.gamma(shape + 1.0) * boost;
        }
        let d = shape - 1.0 / 3.0;
        let c = 1.0 / (9.0 * d).sqrt();
        loop {
            let x = self.normal() as f64;
            let v = (1.0 + c * x).powi(3);
            let u = 1.0 - self.uniform() as f64;
            if v > 0.0 && u.ln() < 0.5 * x * x + d - d * v + d * v.ln() {
                return d * v;
            }
        }
    }

    /// A number in 0–1 from Beta(a, b): how mixup chooses its share.
    pub fn beta(&mut self, a: f64, b: f64) -> f32 {
        let (x, y) = (self.gamma(a), self.gamma(b));
        (x / (x + y).max(f64::MIN_POSITIVE)) as f32
    }

    /// A random order of the items.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last + 1));
        }
    }
}

fn words(value: u64) -> [u32; 2] {
    [value as u32, (value >> 32) as u32]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_right() {
        let mut rng = SampleRng::new(1, 2, 3);
        let count = 40_000;
        let mean = |draw: &mut dyn FnMut() -> f64| (0..count).map(|_| draw()).sum::<f64>() / count as f64;
        assert!((mean(&mut || rng.uniform() as f64) - 0.5).abs() < 0.01);
        assert!(mean(&mut || rng.normal() as f64).abs() < 0.02);
        assert!((mean(&mut || (rng.normal() as f64).powi(2)) - 1.0).abs() < 0.03);
        assert!((mean(&mut || rng.gamma(0.4)) - 0.4).abs() < 0.02);
        assert!((mean(&mut || rng.beta(2.0, 6.0) as f64) - 0.25).abs() < 0.01);
        assert!((mean(&mut || rng.below(7) as f64) - 3.0).abs() < 0.04);
    }

    #[test]
    fn samples_forks_and_epochs_differ() {
        let first = |mut rng: SampleRng| rng.bits();
        let base = SampleRng::new(5, 0, 0);
        let others =
            [SampleRng::new(5, 0, 1), SampleRng::new(5, 1, 0), SampleRng::new(6, 0, 0), base.fork(0), base.fork(1)];
        for other in others {
            assert_ne!(first(base.clone()), first(other));
        }
        assert_eq!(first(base.clone()), first(SampleRng::new(5, 0, 0)));
    }
}
