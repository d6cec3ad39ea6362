//! Rank 0's part: it opens the table, and keeps it for as long as it lives.

use super::base64::encode;
use super::{EtcdStore, GLANCES, LIFE, opened};
use crate::store::StoreError;
use serde_json::json;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The lease that all keys belong to. It is renewed on a thread of its own until it is dropped, and the keys are gone with it; after
/// the end of a process that cannot drop it, they are gone a little later.
pub(crate) struct Lease {
    store: EtcdStore,
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Lease {
    /// Opens the table of this attempt, once that of an earlier one is gone.
    pub fn open(coordinator: &str, attempt: &str, time_out: Duration) -> Result<Lease, StoreError> {
        let (client, session) = opened(coordinator, attempt)?;
        let granted = client.call("/v3/lease/grant", &json!({"TTL": LIFE.as_secs().to_string()}))?;
        let lease = granted["ID"].as_str().ok_or_else(|| client.unreachable("it grants no lease"))?.to_string();
        let (stop, stopped) = channel();
        let renewing = {
            let (client, lease) = (client.clone(), lease.clone());
            // Nothing is left to be done where a renewal fails: the next one may succeed, and heartbeats report the rest.
            move || {
                while stopped.recv_timeout(LIFE / 5) == Err(RecvTimeoutError::Timeout) {
                    let _ = client.call("/v3/lease/keepalive", &json!({"ID": lease}));
                }
            }
        };
        let thread = std::thread::Builder::new().name("lease".into()).spawn(renewing);
        let thread = thread.map_err(|error| client.unreachable(&format!("no thread for its lease: {error}")))?;
        let store = EtcdStore { client, session, lease };
        let opened = Lease { store, stop: Some(stop), thread: Some(thread) };
        opened.announce(coordinator, time_out)?;
        Ok(opened)
    }

    /// Puts the lease's number where the others look for it. What an earlier attempt has left there ends with its own lease.
    fn announce(&self, coordinator: &str, time_out: Duration) -> Result<(), StoreError> {
        let (begun, patience) = (Instant::now(), time_out.min(2 * LIFE));
        let EtcdStore { client, session, lease } = &self.store;
        let number = json!({"key": encode(session.as_bytes()), "value": encode(lease.as_bytes()), "lease": lease});
        while !client.create(&number)? {
            if begun.elapsed() >= patience {
                return Err(StoreError::Refused(format!(
                    "another run is at {coordinator}: give each a name of its own, such as --coordinator etcd://{}/NAME",
                    client.address
                )));
            }
            std::thread::sleep(GLANCES[1]);
        }
        Ok(())
    }

    /// The table.
    pub fn store(&self) -> EtcdStore {
        self.store.clone()
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        drop(self.stop.take());
        // A panic of the thread was printed.
        self.thread.take().into_iter().for_each(|thread| drop(thread.join()));
        let EtcdStore { client, lease, .. } = &self.store;
        // Once, since the lease ends by itself as well.
        let _ = client.service().call("/v3/lease/revoke", Some(&json!({"ID": lease}).to_string()));
    }
}
