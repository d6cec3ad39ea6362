//! What all processes do together: wait for each other, and exchange values.

use crate::error::{ClusterError, Result};
use crate::store::{Store, StoreError};
use std::time::{Duration, Instant};

/// How often rank 0 looks who came.
const GLANCE: Duration = Duration::from_millis(20);
/// How long rank 0 waits for the others to learn that the run ends.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// One process of several, as barriers see it.
pub(crate) struct Member<'a> {
    pub store: &'a dyn Store,
    pub rank: usize,
    pub ranks: usize,
}

impl Member<'_> {
    /// Every rank's value, in the order of ranks, once all have come. Rank 0 collects them, so that each rank puts one key and
    /// reads one. Who did not come is named by all. A name is used once per attempt.
    pub fn gather(&self, name: &str, value: &[u8], time_out: Duration) -> Result<Vec<Vec<u8>>> {
        let begun = Instant::now();
        self.store.put(&format!("{name}/from/{:06}", self.rank), value)?;
        let all = format!("{name}/all");
        if self.rank == 0 {
            let collected = self.collect(name, time_out, begun)?;
            self.store.put(&all, &encode(&collected))?;
        }
        // Rank 0 gives up first, and publishes who is missing.
        let patience = time_out.saturating_sub(begun.elapsed()) + Duration::from_secs(5);
        let found = self.store.get(&all, patience).map_err(|error| match error {
            StoreError::TimedOut { waited, .. } => ClusterError::Missing { what: what(name), missing: vec![0], waited },
            error => error.into(),
        })?;
        decode(&found, self.ranks).map_err(|missing| match missing {
            Some(missing) => {
                self.part(name, &missing);
                ClusterError::Missing { what: what(name), missing, waited: time_out }
            }
            None => ClusterError::Disagreement(format!(
                "{}: rank 0 counts other processes than rank {}: start all with the same number",
                what(name),
                self.rank
            )),
        })
    }

    /// Rank 0 serves the table, and ends only when those that are there know why.
    fn part(&self, name: &str, missing: &[usize]) {
        let (begun, prefix) = (Instant::now(), format!("{name}/seen/"));
        // Errors no longer matter: this process is about to end with one.
        let _ = self.store.put(&format!("{prefix}{:06}", self.rank), &[]);
        let expected = self.ranks - missing.len();
        while self.rank == 0 && begun.elapsed() < LAST_WORDS {
            match self.store.list(&prefix) {
                Ok(seen) if seen.len() < expected => std::thread::sleep(GLANCE),
                _ => return,
            }
        }
    }

    /// The values that came in time.
    fn collect(&self, name: &str, time_out: Duration, begun: Instant) -> Result<Vec<Option<Vec<u8>>>> {
        let prefix = format!("{name}/from/");
        loop {
            let mut values = vec![None; self.ranks];
            for (key, value) in self.store.list(&prefix)? {
                let rank = key[prefix.len()..].parse::<usize>().ok();
                if let Some(slot) = rank.and_then(|rank| values.get_mut(rank)) {
                    *slot = Some(value);
                }
            }
            if values.iter().all(Option::is_some) || begun.elapsed() >= time_out {
                return Ok(values);
            }
            std::thread::sleep(GLANCE);
        }
    }
}

fn what(name: &str) -> String {
    match name {
        "join" => "not all processes of the run are there".into(),
        name => format!("the processes of the run wait for each other at {name}"),
    }
}

/// For each rank 1 and its value, or 0 where it did not come.
fn encode(values: &[Option<Vec<u8>>]) -> Vec<u8> {
    let one = |value: &Option<Vec<u8>>| match value {
        None => vec![0],
        Some(value) => [&[1][..], &(value.len() as u32).to_le_bytes(), value].concat(),
    };
    values.iter().flat_map(one).collect()
}

/// The values, or the ranks that did not come; no list for bytes that are something else.
fn decode(mut bytes: &[u8], ranks: usize) -> std::result::Result<Vec<Vec<u8>>, Option<Vec<usize>>> {
    let (mut values, mut missing) = (Vec::new(), Vec::new());
    for rank in 0..ranks {
        let (flag, rest) = bytes.split_first().ok_or(None)?;
        bytes = rest;
        if *flag == 0 {
            missing.push(rank);
            continue;
        }
        let (length, rest) = bytes.split_first_chunk::<4>().ok_or(None)?;
        let (value, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize).ok_or(None)?;
        values.push(value.to_vec());
        bytes = rest;
    }
    match (missing.is_empty(), bytes.is_empty()) {
        (_, false) => Err(None),
        (false, true) => Err(Some(missing)),
        (true, true) => Ok(values),
    }
}
