//! Which batches end an update of the parameters.

use crate::step::StepPlan;

/// Counts batches, and groups them into updates. During a warm-up the groups grow from one batch to all of them, as YOLO's
/// trainers do it: the first updates are frequent, because they are small. Everything follows from the number of batches, so
/// a resumed run groups them as if it had not been stopped.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Accumulation {
    /// Batches per update after the warm-up.
    most: u64,
    /// Batches over which groups grow; 0 for none.
    ramp: u64,
    batches: u64,
    updates: u64,
    /// How many batches there were when the last update ended.
    ended: u64,
}

impl Accumulation {
    /// As a step is planned. Groups only grow where gradients are added: a mean needs to know how many there will be.
    pub fn of(plan: &StepPlan) -> Accumulation {
        let ramp = plan.phase.warmup.as_ref().and_then(|warmup| warmup.steps);
        let ramp = ramp.filter(|_| plan.task.sums_over_images()).unwrap_or(0);
        Accumulation::new(plan.phase.accumulate, ramp)
    }

    fn new(most: u64, ramp: u64) -> Accumulation {
        Accumulation { most: most.max(1), ramp, batches: 0, updates: 0, ended: 0 }
    }

    /// How many batches there were.
    pub fn batches(&self) -> u64 {
        self.batches
    }

    /// Begins anew and counts so many batches.
    pub fn go_to(&mut self, batches: u64) {
        *self = Accumulation::new(self.most, self.ramp);
        let grown = batches.min(self.ramp);
        (0..grown).for_each(|_| _ = self.next());
        // Groups are equal from here on.
        let whole = (batches - grown).saturating_sub(self.most) / self.most;
        let left = batches - grown - whole * self.most;
        (self.batches, self.ended, self.updates) =
            (self.batches + whole * self.most, self.ended + whole * self.most, self.updates + whole);
        (0..left).for_each(|_| _ = self.next());
    }

    /// Counts another batch: the number of the update that it belongs to, from 1 on, and whether it ends it.
    pub fn next(&mut self) -> (u64, bool) {
        let wanted = match self.batches < self.ramp {
            true => (1.0 + (self.most - 1) as f64 * self.batches as f64 / self.ramp as f64).round_ties_even() as u64,
            false => self.most,
        };
        self.batches += 1;
        let ends = self.batches - self.ended >= wanted;
        if ends {
            (self.ended, self.updates) = (self.batches, self.updates + 1);
        }
        (self.updates + u64::from(!ends), ends)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ends(most: u64, ramp: u64, batches: u64) -> Vec<u64> {
        let mut counted = Accumulation::new(most, ramp);
        (1..=batches).filter(|_| counted.next().1).collect()
    }

    #[test]
    fn groups_are_equal_without_a_warm_up() {
        assert_eq!(ends(4, 0, 13), [4, 8, 12]);
        assert_eq!(ends(1, 0, 3), [1, 2, 3]);
        let mut counted = Accumulation::new(3, 0);
        let updates: Vec<(u64, bool)> = (0..4).map(|_| counted.next()).collect();
        assert_eq!(updates, [(1, false), (1, false), (1, true), (2, false)]);
    }

    #[test]
    fn groups_grow_during_a_warm_up() {
        // One batch at first, then two, three, and four from there on.
        assert_eq!(ends(4, 12, 24), [1, 2, 4, 6, 9, 13, 17, 21]);
    }

    #[test]
    fn a_resumed_count_continues_as_if_it_had_not_been_stopped() {
        for (most, ramp) in [(4, 0), (4, 12), (1, 5), (7, 100)] {
            let mut counted = Accumulation::new(most, ramp);
            for batches in 0..150 {
                let mut resumed = Accumulation::new(most, ramp);
                resumed.go_to(batches);
                assert_eq!(resumed, counted, "{most} {ramp} {batches}");
                counted.next();
            }
        }
    }
}
