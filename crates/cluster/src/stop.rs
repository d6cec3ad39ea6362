//! Ending at the same step everywhere.
//!
//! A signal, a full clock or an eviction notice comes to one process at a time, and a step needs all of them: a process that just
//! stopped would leave the others waiting for ever. Instead each reports the last step that it began, and all end after the
//! greatest of these. While that is being decided no process begins another step; one that waits for the device inside of a
//! step need not be awake for it, since a thread reports in its place.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// The step of a run after which all processes stop, as one of them sees it.
#[derive(Default)]
pub struct StopPoint {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// The last step that was begun.
    begun: u64,
    /// This process wants to stop.
    requested: bool,
    decision: Decision,
}

#[derive(Default, Clone, Copy, PartialEq)]
enum Decision {
    #[default]
    None,
    /// The last step was reported, and no other begins until all have reported theirs.
    Pending,
    /// After that step.
    After(u64),
    /// The others are lost: nobody decides any more.
    Void,
}

impl StopPoint {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wants all processes to stop; returns at once.
    pub fn request(&self) {
        self.state().requested = true;
    }

    /// Whether this process wants to stop.
    pub fn is_requested(&self) -> bool {
        self.state().requested
    }

    /// To be called before each step with its number: whether it is to be done. Waits while the step to stop after is being
    /// decided.
    pub fn may_begin(&self, step: u64) -> bool {
        let undecided = |state: &mut State| state.decision == Decision::Pending;
        let mut state = self.changed.wait_while(self.state(), undecided).unwrap_or_else(PoisonError::into_inner);
        match state.decision {
            Decision::After(last) if step > last => false,
            Decision::Void => false,
            _ => {
                state.begun = state.begun.max(step);
                true
            }
        }
    }

    /// Holds the next step back, and returns the last one that was begun.
    pub(crate) fn hold(&self) -> u64 {
        let mut state = self.state();
        if state.decision == Decision::None {
            state.decision = Decision::Pending;
        }
        state.begun
    }

    /// The last step, as all have agreed.
    pub(crate) fn decide(&self, last: u64) {
        self.state().decision = Decision::After(last);
        self.changed.notify_all();
    }

    /// The others are lost: lets go of who waits.
    pub(crate) fn void(&self) {
        let mut state = self.state();
        if !matches!(state.decision, Decision::After(_)) {
            state.decision = Decision::Void;
        }
        drop(state);
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::time::Duration;

    #[test]
    fn a_step_waits_until_it_is_decided_whether_it_is_the_last() {
        let point = Arc::new(StopPoint::default());
        assert!(point.may_begin(1) && point.may_begin(2));
        assert_eq!(point.hold(), 2);
        let other = point.clone();
        let waiting = std::thread::spawn(move || (other.may_begin(3), other.may_begin(4)));
        std::thread::sleep(Duration::from_millis(20));
        assert!(!waiting.is_finished(), "no step begins while the decision is pending");
        point.decide(3);
        assert_eq!(waiting.join().ok(), Some((true, false)));
        assert!(point.may_begin(3) && !point.may_begin(5));
    }
}
