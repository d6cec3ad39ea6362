//! Programs that are being compiled, so that two threads never compile the same one.

use super::Key;
use std::collections::HashSet;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// The keys of programs that are being compiled by this process.
#[derive(Default)]
pub(crate) struct InFlight {
    keys: Mutex<HashSet<Key>>,
    ended: Condvar,
}

/// A compilation that nobody else begins until this is dropped.
pub(crate) struct Turn<'a> {
    in_flight: &'a InFlight,
    key: Key,
}

impl InFlight {
    /// Waits until nobody compiles the program of that key. The caller that waited looks whether it is stored by then.
    pub fn turn(&self, key: &Key) -> Turn<'_> {
        let mut keys = self.lock();
        while !keys.insert(key.clone()) {
            keys = self.ended.wait(keys).unwrap_or_else(PoisonError::into_inner);
        }
        Turn { in_flight: self, key: key.clone() }
    }

    fn lock(&self) -> MutexGuard<'_, HashSet<Key>> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.in_flight.lock().remove(&self.key);
        self.in_flight.ended.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::tests::key;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn equal_programs_were_compiled_at_the_same_time() {
        let (in_flight, inside, most) = (InFlight::default(), AtomicUsize::new(0), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let _turn = in_flight.turn(&key("a"));
                    most.fetch_max(inside.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    std::thread::sleep(std::time::Duration::from_millis(2));
                    inside.fetch_sub(1, Ordering::SeqCst);
                });
            }
        });
        assert_eq!(most.into_inner(), 1);
        // Other programs do not wait.
        let (_a, _b) = (in_flight.turn(&key("a")), in_flight.turn(&key("b")));
    }
}
