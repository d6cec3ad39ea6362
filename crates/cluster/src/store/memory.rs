//! The store inside of a process: what the coordinator serves.

use super::{Store, StoreError, check};
use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The most that all keys and values take together: a client that keeps putting cannot fill the host's memory.
const MOST_BYTES: usize = 1 << 30;

/// A table in memory.
#[derive(Default)]
pub struct MemoryStore {
    table: Mutex<Table>,
    changed: Condvar,
}

#[derive(Default)]
struct Table {
    values: BTreeMap<String, Vec<u8>>,
    bytes: usize,
    closed: bool,
}

impl MemoryStore {
    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends all waits, now and later.
    pub(crate) fn close(&self) {
        self.table().closed = true;
        self.changed.notify_all();
    }

    fn insert(&self, key: &str, value: &[u8], replaces: bool) -> Result<(), StoreError> {
        check(key, value)?;
        let mut table = self.table();
        let before = table.values.get(key).map(|value| key.len() + value.len());
        if before.is_some() && !replaces {
            return Err(StoreError::AlreadyExists(key.into()));
        }
        let bytes = table.bytes - before.unwrap_or(0) + key.len() + value.len();
        if bytes > MOST_BYTES {
            return Err(StoreError::Refused(format!("the store is full: it keeps {MOST_BYTES} bytes at most")));
        }
        table.bytes = bytes;
        table.values.insert(key.into(), value.into());
        drop(table);
        self.changed.notify_all();
        Ok(())
    }
}

impl Store for MemoryStore {
    fn put(&self, key: &str, value: &[u8]) -> Result<(), StoreError> {
        self.insert(key, value, false)
    }

    fn replace(&self, key: &str, value: &[u8]) -> Result<(), StoreError> {
        self.insert(key, value, true)
    }

    fn get(&self, key: &str, time_out: Duration) -> Result<Vec<u8>, StoreError> {
        let begun = Instant::now();
        let mut table = self.table();
        loop {
            if let Some(value) = table.values.get(key) {
                return Ok(value.clone());
            }
            if table.closed {
                return Err(StoreError::Unreachable("the coordinator is shutting down".into()));
            }
            let left = time_out.saturating_sub(begun.elapsed());
            if left.is_zero() {
                return Err(StoreError::TimedOut { key: key.into(), waited: time_out });
            }
            table = self.changed.wait_timeout(table, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn try_get(&self, key: &str) -> Result<Vec<u8>, StoreError> {
        self.table().values.get(key).cloned().ok_or_else(|| StoreError::NotFound(key.into()))
    }

    fn list(&self, prefix: &str) -> Result<Vec<(String, Vec<u8>)>, StoreError> {
        let table = self.table();
        let range = table.values.range(prefix.to_string()..).take_while(|(key, _)| key.starts_with(prefix));
        Ok(range.map(|(key, value)| (key.clone(), value.clone())).collect())
    }
}
