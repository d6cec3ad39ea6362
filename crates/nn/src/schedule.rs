//! Learning-rate schedules: functions of time, evaluated on the host in double precision.
//!
//! Time is counted in whatever the recipe says (epochs or steps), from 0. [`Schedule`] holds those that depend on time
//! alone; [`Plateau`] watches a metric.

use std::f64::consts::PI;

/// A learning rate as a function of time.
#[derive(Debug, Clone, PartialEq)]
pub enum Schedule {
    /// Constant.
    Constant {
        /// The rate.
        rate: f64,
    },
    /// Multiplied by `factor` every `every` units of time.
    Step {
        /// The first rate.
        rate: f64,
        /// The time between changes.
        every: u64,
        /// What the rate is multiplied by.
        factor: f64,
    },
    /// Multiplied by `factor` at each milestone.
    MultiStep {
        /// The first rate.
        rate: f64,
        /// When the rate changes.
        milestones: Vec<u64>,
        /// What the rate is multiplied by.
        factor: f64,
    },
    /// `rate · (1 - t/total)^power`, 0 from `total` on.
    Polynomial {
        /// The first rate.
        rate: f64,
        /// When the rate is 0.
        total: u64,
        /// 1 is linear.
        power: f64,
    },
    /// Linear from `rate` to `min` at `total`, updated every `hold` units of time, times a linear factor from 0 to 1 during
    /// the warm-up.
    Linear {
        /// The first rate.
        rate: f64,
        /// The last rate.
        min: f64,
        /// When the last rate is reached.
        total: u64,
        /// The length of the warm-up.
        warmup: u64,
        /// How long every value is held: the steps of an epoch where time is counted in steps.
        hold: u64,
    },
    /// Half a cosine from `rate` down to `min` at `total`, and `min` from then on.
    Cosine {
        /// The first rate.
        rate: f64,
        /// The last rate.
        min: f64,
        /// When the last rate is reached.
        total: u64,
    },
    /// PyTorch's one-cycle policy with cosine annealing, over `total` steps.
    OneCycle {
        /// The largest rate.
        largest: f64,
        /// The number of steps.
        total: u64,
        /// The part of the cycle that rises (usually 0.3).
        rising: f64,
        /// The first rate is `largest / divisor` (usually 25).
        divisor: f64,
        /// The last rate is the first one divided by this (usually 10⁴).
        final_divisor: f64,
    },
    /// Cycles of a linear warm-up from `min` and half a cosine down to `min`.
    WarmupCosine {
        /// The largest rate of the first cycle.
        max: f64,
        /// The rate at both ends of a cycle.
        min: f64,
        /// The length of the first cycle, warm-up included.
        cycle: u64,
        /// The length of the warm-up.
        warmup: u64,
        /// Each cycle without its warm-up is this many times as long as the last.
        stretch: f64,
        /// Each cycle's largest rate is this many times the last one's.
        decay: f64,
    },
    /// timm's cosine: linear warm-up from `start`, whose time counts for the cosine too; then half a
    /// cosine from `rate` to `min` at `total`.
    TimmCosine {
        /// The rate at the top of the cosine.
        rate: f64,
        /// The last rate.
        min: f64,
        /// When the cosine ends.
        total: u64,
        /// The length of the warm-up.
        warmup: u64,
        /// The rate before the warm-up.
        start: f64,
        /// The cosine's time starts after the warm-up.
        prefix: bool,
    },
}

impl Schedule {
    /// The learning rate at a time.
    pub fn rate(&self, time: u64) -> f64 {
        let at = time as f64;
        match *self {
            Schedule::Constant { rate } => rate,
            Schedule::Step { rate, every, factor } => rate * factor.powi((time / every.max(1)) as i32),
            Schedule::MultiStep { rate, ref milestones, factor } => {
                rate * factor.powi(milestones.iter().filter(|&&milestone| milestone <= time).count() as i32)
            }
            Schedule::Polynomial { rate, total, power } => rate * (1.0 - fraction(at, total as f64)).powf(power),
            Schedule::Linear { rate, min, total, warmup, hold } => {
                let held = (time / hold.max(1) * hold.max(1)) as f64;
                let value = rate + (min - rate) * fraction(held, total as f64);
                value * if time < warmup { at / warmup as f64 } else { 1.0 }
            }
            Schedule::Cosine { rate, min, total } => cosine(rate, min, fraction(at, total as f64)),
            Schedule::OneCycle { largest, total, rising, divisor, final_divisor } => {
                one_cycle(at, largest, total as f64, rising, divisor, final_divisor)
            }
            Schedule::WarmupCosine { max, min, cycle, warmup, stretch, decay } => {
                let (index, within, length) = locate_cycle(time, cycle, warmup, stretch);
                let max = max * decay.powi(index);
                match within < warmup as f64 {
                    true => min + (max - min) * within / warmup as f64,
                    false => cosine(max, min, fraction(within - warmup as f64, length - warmup as f64)),
                }
            }
            Schedule::TimmCosine { rate, min, total, warmup, start, prefix } => {
                if time < warmup {
                    return start + at * (rate - start) / warmup as f64;
                }
                let at = if prefix { at - warmup as f64 } else { at };
                if at < total as f64 { cosine(rate, min, at / total as f64) } else { min }
            }
        }
    }

    /// The same schedule with every rate multiplied, as in the linear scaling rule for larger batches.
    pub fn scaled(&self, by: f64) -> Schedule {
        let mut schedule = self.clone();
        match &mut schedule {
            Schedule::Constant { rate }
            | Schedule::Step { rate, .. }
            | Schedule::MultiStep { rate, .. }
            | Schedule::Polynomial { rate, .. } => *rate *= by,
            Schedule::OneCycle { largest, .. } => *largest *= by,
            Schedule::Cosine { rate, min, .. } | Schedule::Linear { rate, min, .. } => {
                [rate, min].into_iter().for_each(|rate| *rate *= by)
            }
            Schedule::WarmupCosine { max, min, .. } => [max, min].into_iter().for_each(|rate| *rate *= by),
            Schedule::TimmCosine { rate, min, start, .. } => {
                [rate, min, start].into_iter().for_each(|rate| *rate *= by);
            }
        }
        schedule
    }
}

/// How far along `total` a time is, from 0 to 1.
fn fraction(at: f64, total: f64) -> f64 {
    if total <= 0.0 { 1.0 } else { (at / total).clamp(0.0, 1.0) }
}

/// Half a cosine from `from` to `to`.
fn cosine(from: f64, to: f64, fraction: f64) -> f64 {
    to + (from - to) * (1.0 + (PI * fraction).cos()) / 2.0
}

fn one_cycle(at: f64, largest: f64, total: f64, rising: f64, divisor: f64, final_divisor: f64) -> f64 {
    let first = largest / divisor;
    let top = rising * total - 1.0;
    match at <= top {
        true => cosine(first, largest, fraction(at, top)),
        false => cosine(largest, first / final_divisor, fraction(at - top, total - 1.0 - top)),
    }
}

/// Which cycle a time lies in, how far into it, and how long it is.
fn locate_cycle(time: u64, cycle: u64, warmup: u64, stretch: f64) -> (i32, f64, f64) {
    let (mut index, mut start, mut length) = (0, 0, cycle.max(1));
    while time - start >= length {
        start += length;
        index += 1;
        length = (((length - warmup.min(length)) as f64 * stretch) as u64 + warmup).max(1);
    }
    (index, (time - start) as f64, length as f64)
}

/// The linear scaling rule for batch sizes: learning rates and weight decay in proportion to
/// `batch / reference`. Larger rates need a longer warm-up, by the square root of the same factor: four times the batch,
/// twice the warm-up.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LinearScaling {
    /// What learning rates and weight decay are multiplied by.
    pub factor: f64,
}

impl LinearScaling {
    /// From a recipe written for batches of `reference` to batches of `batch`.
    pub fn new(reference: usize, batch: usize) -> LinearScaling {
        LinearScaling { factor: batch as f64 / reference.max(1) as f64 }
    }

    /// How long a warm-up should be that lasted `length` before; never shorter.
    pub fn warmup(&self, length: u64) -> u64 {
        (length as f64 * self.factor.max(1.0).sqrt()).ceil() as u64
    }
}

/// Reduces the rate when a metric stops improving, as PyTorch's `ReduceLROnPlateau` with a relative threshold. Its
/// fields are its whole state and belong into checkpoints.
#[derive(Debug, Clone, PartialEq)]
pub struct Plateau {
    /// What the rate is now.
    pub rate: f64,
    /// What it is multiplied by.
    pub factor: f64,
    /// Observations without improvement before the rate is reduced.
    pub patience: u64,
    /// The relative improvement that counts (usually 10⁻⁴).
    pub threshold: f64,
    /// Observations after a reduction during which none are counted.
    pub cooldown: u64,
    /// The rate never falls below.
    pub min: f64,
    /// Whether smaller metrics are better.
    pub smaller_is_better: bool,
    /// The best metric so far.
    pub best: Option<f64>,
    /// Observations without improvement since the best or the last reduction.
    pub bad: u64,
    /// What is left of the cooldown.
    pub cooling: u64,
}

impl Plateau {
    /// A plateau watcher with PyTorch's defaults for a metric that should fall.
    pub fn new(rate: f64, factor: f64, patience: u64, min: f64) -> Plateau {
        Plateau {
            rate,
            factor,
            patience,
            threshold: 1e-4,
            cooldown: 0,
            min,
            smaller_is_better: true,
            best: None,
            bad: 0,
            cooling: 0,
        }
    }

    /// Records the metric of an epoch and returns the rate for the next.
    pub fn observe(&mut self, metric: f64) -> f64 {
        let better = self.best.is_none_or(|best| match self.smaller_is_better {
            true => metric < best * (1.0 - self.threshold),
            false => metric > best * (1.0 + self.threshold),
        });
        if better {
            self.best = Some(metric);
            self.bad = 0;
        } else {
            self.bad += 1;
        }
        if self.cooling > 0 {
            self.cooling -= 1;
            self.bad = 0;
        }
        if self.bad > self.patience {
            // PyTorch ignores reductions too small to matter.
            let reduced = (self.rate * self.factor).max(self.min);
            if self.rate - reduced > 1e-8 {
                self.rate = reduced;
            }
            self.cooling = self.cooldown;
            self.bad = 0;
        }
        self.rate
    }
}

#[cfg(test)]
mod tests;
