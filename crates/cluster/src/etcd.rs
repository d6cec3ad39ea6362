//! The table in etcd, where a cluster has one: `--coordinator etcd://HOST:2379/NAME`.
//!
//! Requests go to etcd's JSON gateway. Every key is attached to a lease of rank 0, which it renews while it lives, so that the
//! table ends with it as the one that it would serve itself. The lease's number is a part of all keys: nothing of an earlier
//! attempt is ever read by a later one. Under the key `session` the others find it.

mod address;
mod base64;
mod lease;

pub(crate) use address::with_port;
pub(crate) use lease::Lease;

use crate::store::{Store, StoreError, check};
use address::Address;
use base64::{decode, encode};
use octant_fetch::Service;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// How long the table outlives rank 0. The usual limit of heartbeats is the same.
pub(crate) const LIFE: Duration = Duration::from_secs(15);
/// How long requests are repeated while etcd does not respond: it chooses another leader in a few seconds.
const PATIENCE: Duration = Duration::from_secs(10);
/// Between two looks at a key that is waited for: at first, and at most.
const GLANCES: [Duration; 2] = [Duration::from_millis(10), Duration::from_millis(250)];
/// How often a wait looks whether rank 0 still has its lease.
const LOOK: Duration = Duration::from_secs(1);

/// Whether the coordinator's address names etcd instead of rank 0.
pub(crate) fn is_address(coordinator: &str) -> bool {
    Address::parse(coordinator).is_some()
}

/// etcd's table, below the lease of one attempt's rank 0.
#[derive(Clone)]
pub(crate) struct EtcdStore {
    client: Client,
    /// The key that holds the lease's number while rank 0 lives.
    session: String,
    lease: String,
}

/// Requests to the gateway.
#[derive(Clone)]
struct Client {
    address: String,
}

impl EtcdStore {
    /// The table that rank 0 of this attempt has opened, once it has.
    pub fn follow(coordinator: &str, attempt: &str, time_out: Duration) -> Result<EtcdStore, StoreError> {
        let (client, session) = opened(coordinator, attempt)?;
        let begun = Instant::now();
        loop {
            match client.value(&session) {
                Ok(lease) => {
                    let lease = String::from_utf8_lossy(&lease).into_owned();
                    return Ok(EtcdStore { client, session, lease });
                }
                Err(StoreError::NotFound(_)) if begun.elapsed() < time_out => std::thread::sleep(GLANCES[1]),
                Err(StoreError::NotFound(_)) => {
                    return Err(StoreError::Unreachable(format!(
                        "rank 0 has not come to {coordinator} for {} s: check that it was started, with the same address",
                        time_out.as_secs_f64().round()
                    )));
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn key(&self, key: &str) -> String {
        let folder = self.session.trim_end_matches(SESSION);
        format!("{folder}{}/{key}", self.lease)
    }

    /// Whether rank 0 still has its lease.
    fn is_current(&self) -> Result<(), StoreError> {
        match self.client.value(&self.session) {
            Ok(lease) if lease == self.lease.as_bytes() => Ok(()),
            Ok(_) | Err(StoreError::NotFound(_)) => Err(self.ended()),
            Err(error) => Err(error),
        }
    }

    fn ended(&self) -> StoreError {
        StoreError::Unreachable(format!("rank 0 no longer renews its lease at {}", self.client.address))
    }

    fn put_operation(&self, key: &str, value: &[u8]) -> Value {
        json!({"key": encode(self.key(key).as_bytes()), "value": encode(value), "lease": self.lease})
    }
}

const SESSION: &str = "session";

fn opened(coordinator: &str, attempt: &str) -> Result<(Client, String), StoreError> {
    let address = Address::parse(coordinator)
        .ok_or_else(|| StoreError::Refused(format!("{coordinator} is no address of etcd")))?;
    let session = format!("octant/{}/{attempt}{SESSION}", address.name);
    Ok((Client { address: address.server }, session))
}

impl Client {
    /// The response to a request, which is repeated while etcd has a passing problem.
    fn call(&self, path: &str, body: &Value) -> Result<Value, StoreError> {
        self.repeated(path, body).map(|(response, _)| response)
    }

    /// The same, and whether an earlier attempt may have been carried out.
    fn repeated(&self, path: &str, body: &Value) -> Result<(Value, bool), StoreError> {
        let begun = Instant::now();
        for attempt in 0.. {
            let problem = match self.service().call(path, Some(&body.to_string())) {
                Ok((200, text)) => {
                    let response =
                        serde_json::from_str(&text).map_err(|_| self.unreachable("what responds is no etcd"))?;
                    return Ok((response, attempt > 0));
                }
                Ok((status, text)) => match Problem::of(status, &text) {
                    Problem::Passing(text) => text,
                    Problem::Refused(text) => {
                        return Err(StoreError::Refused(format!("etcd at {}: {text}", self.address)));
                    }
                    Problem::NoLease => {
                        return Err(self.unreachable("the lease of rank 0 has ended"));
                    }
                },
                Err(error) => error.to_string(),
            };
            if begun.elapsed() >= PATIENCE {
                return Err(self.unreachable(&problem));
            }
            std::thread::sleep(GLANCES[1]);
        }
        Err(self.unreachable("it does not respond"))
    }

    /// Clients are cheap, and one that waits does not hold others up.
    fn service(&self) -> Service {
        Service::new(&format!("http://{}", self.address), None)
    }

    fn unreachable(&self, problem: &str) -> StoreError {
        StoreError::Unreachable(format!("etcd at {}: {problem}", self.address))
    }

    /// The value of a key in etcd's own name.
    fn value(&self, key: &str) -> Result<Vec<u8>, StoreError> {
        let found = self.pairs(&json!({"key": encode(key.as_bytes())}))?;
        found.into_iter().next().map(|(_, value)| value).ok_or_else(|| StoreError::NotFound(key.into()))
    }

    fn pairs(&self, range: &Value) -> Result<Vec<(String, Vec<u8>)>, StoreError> {
        let response = self.call("/v3/kv/range", range)?;
        let pair = |pair: &Value| {
            let part = |name: &str| decode(pair[name].as_str().unwrap_or_default());
            Some((String::from_utf8(part("key")?).ok()?, part("value")?))
        };
        let pairs: Option<Vec<_>> = response["kvs"].as_array().into_iter().flatten().map(pair).collect();
        pairs.ok_or_else(|| self.unreachable("what responds is no etcd"))
    }

    /// Puts a value where there is none; false where there is one.
    fn create(&self, operation: &Value) -> Result<bool, StoreError> {
        let absent = json!({"target": "CREATE", "key": operation["key"], "create_revision": "0", "result": "EQUAL"});
        let found = json!({"request_range": {"key": operation["key"]}});
        let body = json!({"compare": [absent], "success": [{"request_put": operation}], "failure": [found]});
        let (response, is_repeated) = self.repeated("/v3/kv/txn", &body)?;
        // The first attempt may have put it, and only its response was lost.
        let there = &response["responses"][0]["response_range"]["kvs"][0];
        let is_ours = || there["value"] == operation["value"] && there["lease"] == operation["lease"];
        Ok(response["succeeded"] == true || is_repeated && is_ours())
    }
}

/// What a response that is none means.
enum Problem {
    Passing(String),
    Refused(String),
    NoLease,
}

impl Problem {
    fn of(status: u16, text: &str) -> Problem {
        let response: Value = serde_json::from_str(text).unwrap_or_default();
        let message = ["message", "error"].iter().find_map(|name| response[*name].as_str());
        let message = message.map_or_else(|| format!("it returned status {status}"), str::to_string);
        match status {
            _ if message.contains("lease not found") => Problem::NoLease,
            // Servers may be set to take less than usual.
            _ if message.contains("too large") || message.contains("larger than max") => Problem::Refused(message),
            408 | 429 | 500.. => Problem::Passing(message),
            _ => Problem::Refused(message),
        }
    }
}

impl Store for EtcdStore {
    fn put(&self, key: &str, value: &[u8]) -> Result<(), StoreError> {
        check(key, value)?;
        match self.client.create(&self.put_operation(key, value))? {
            true => Ok(()),
            false => Err(StoreError::AlreadyExists(key.into())),
        }
    }

    fn replace(&self, key: &str, value: &[u8]) -> Result<(), StoreError> {
        check(key, value)?;
        self.client.call("/v3/kv/put", &self.put_operation(key, value)).map(drop)
    }

    fn get(&self, key: &str, time_out: Duration) -> Result<Vec<u8>, StoreError> {
        let (begun, mut looked, mut pause) = (Instant::now(), Instant::now(), GLANCES[0]);
        loop {
            match self.try_get(key) {
                Err(StoreError::NotFound(_)) => {}
                found => return found,
            }
            let left = time_out.saturating_sub(begun.elapsed());
            if left.is_zero() {
                return Err(StoreError::TimedOut { key: key.into(), waited: time_out });
            }
            if looked.elapsed() >= LOOK {
                self.is_current()?;
                looked = Instant::now();
            }
            std::thread::sleep(pause.min(left));
            pause = (pause * 2).min(GLANCES[1]);
        }
    }

    fn try_get(&self, key: &str) -> Result<Vec<u8>, StoreError> {
        self.client.value(&self.key(key)).map_err(|error| match error {
            StoreError::NotFound(_) => StoreError::NotFound(key.into()),
            error => error,
        })
    }

    fn list(&self, prefix: &str) -> Result<Vec<(String, Vec<u8>)>, StoreError> {
        let first = self.key(prefix);
        // Keys are text, so no byte of a prefix is the last there is.
        let mut end = first.clone().into_bytes();
        end.last_mut().into_iter().for_each(|last| *last += 1);
        let range = json!({"key": encode(first.as_bytes()), "range_end": encode(&end)});
        let own = first.len() - prefix.len();
        Ok(self.client.pairs(&range)?.into_iter().map(|(key, value)| (key[own..].to_string(), value)).collect())
    }
}
