//! The table of keys and values that the processes of a run share.

mod memory;

pub use memory::MemoryStore;

use std::sync::Arc;
use std::time::Duration;

/// The longest key.
pub const MOST_KEY_BYTES: usize = 4 << 10;
/// The longest value. The topology of a thousand hosts has about a megabyte.
pub const MOST_VALUE_BYTES: usize = 16 << 20;

/// Why a store did not do what it should.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The key is there already, and what is there stays.
    #[error("the key {0} was put before: another process of that rank, or an earlier attempt, is still running")]
    AlreadyExists(String),
    /// The key did not come in time.
    #[error("the key {key} did not come within {} s", .waited.as_secs_f64().round())]
    TimedOut {
        /// What was waited for.
        key: String,
        /// How long.
        waited: Duration,
    },
    /// The key is not there.
    #[error("there is no key {0}")]
    NotFound(String),
    /// A key or value that is too long, or a store that is full.
    #[error("{0}")]
    Refused(String),
    /// The store cannot be reached.
    #[error("{0}")]
    Unreachable(String),
}

/// A table of keys and values. All methods may be called from any thread at the same time.
pub trait Store: Send + Sync {
    /// Puts a value under a key that is not there yet.
    fn put(&self, key: &str, value: &[u8]) -> Result<(), StoreError>;

    /// Puts a value, and replaces the one that is there.
    fn replace(&self, key: &str, value: &[u8]) -> Result<(), StoreError>;

    /// The value of a key, once it is there.
    fn get(&self, key: &str, time_out: Duration) -> Result<Vec<u8>, StoreError>;

    /// The value of a key, if it is there.
    fn try_get(&self, key: &str) -> Result<Vec<u8>, StoreError>;

    /// All keys with that beginning, in alphabetical order, with their values.
    fn list(&self, prefix: &str) -> Result<Vec<(String, Vec<u8>)>, StoreError>;
}

/// Refuses keys and values that no store takes.
pub(crate) fn check(key: &str, value: &[u8]) -> Result<(), StoreError> {
    match (key.len(), value.len()) {
        (0, _) => Err(StoreError::Refused("a key has at least one character".into())),
        (length, _) if length > MOST_KEY_BYTES => {
            Err(StoreError::Refused(format!("a key of {length} bytes; {MOST_KEY_BYTES} are the most")))
        }
        (_, length) if length > MOST_VALUE_BYTES => {
            Err(StoreError::Refused(format!("a value of {length} bytes for {key}; {MOST_VALUE_BYTES} are the most")))
        }
        _ => Ok(()),
    }
}

/// The part of a store below a prefix: each attempt of a run has its own.
pub struct Prefixed {
    store: Arc<dyn Store>,
    prefix: String,
}

impl Prefixed {
    /// The keys of `store` that begin with `prefix`, without it.
    pub fn new(store: Arc<dyn Store>, prefix: impl Into<String>) -> Prefixed {
        Prefixed { store, prefix: prefix.into() }
    }

    fn key(&self, key: &str) -> String {
        format!("{}{key}", self.prefix)
    }
}

impl Store for Prefixed {
    fn put(&self, key: &str, value: &[u8]) -> Result<(), StoreError> {
        self.store.put(&self.key(key), value)
    }

    fn replace(&self, key: &str, value: &[u8]) -> Result<(), StoreError> {
        self.store.replace(&self.key(key), value)
    }

    fn get(&self, key: &str, time_out: Duration) -> Result<Vec<u8>, StoreError> {
        self.store.get(&self.key(key), time_out)
    }

    fn try_get(&self, key: &str) -> Result<Vec<u8>, StoreError> {
        self.store.try_get(&self.key(key))
    }

    fn list(&self, prefix: &str) -> Result<Vec<(String, Vec<u8>)>, StoreError> {
        let listed = self.store.list(&self.key(prefix))?.into_iter();
        Ok(listed.map(|(key, value)| (key[self.prefix.len()..].to_string(), value)).collect())
    }
}
