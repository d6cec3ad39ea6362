//! Devices that belong to several processes.

use crate::client::{Client, PjrtDevice};
use crate::error::{PjrtError, Result};
use octant_runtime::Process;
use std::collections::BTreeMap;

/// Whose devices there are.
pub(super) struct Processes {
    pub process: Process,
    /// The numbers of the devices of every process, in the order of ranks.
    ids: Vec<Vec<i64>>,
}

impl Processes {
    /// The processes of a client, and the devices of this one.
    pub fn of(client: &Client) -> Result<(Processes, Vec<PjrtDevice>)> {
        let mut ours = client.devices()?;
        let all = client.all_devices()?;
        let mut by_process = BTreeMap::<i32, Vec<i64>>::new();
        // Platforms number devices by their place in the network, whatever the process.
        all.iter().for_each(|device| by_process.entry(device.host.unwrap_or(0)).or_default().push(device.id.into()));
        if by_process.len() <= 1 {
            let ids = vec![ours.iter().map(|device| device.description().id.into()).collect()];
            return Ok((Processes { process: Process::ALONE, ids }, ours));
        }
        let own = client.process()?;
        let rank = by_process.keys().position(|&process| process == own).ok_or_else(|| {
            PjrtError::Broken(format!("this is process {own}, and none of the client's devices belongs to it"))
        })?;
        let ranks = by_process.len();
        let here = by_process.get(&own).map_or(0, Vec::len);
        if let Some((process, ids)) = by_process.iter().find(|(_, ids)| ids.len() != here) {
            let there = ids.len();
            return Err(PjrtError::Misuse(format!(
                "process {own} has {here} devices and process {process} has {there}: all must have the same number; choose \
                 as many on each, such as with --device cuda:0,1"
            )));
        }
        let mut ids: Vec<Vec<i64>> = by_process.into_values().collect();
        ids.iter_mut().for_each(|ids| ids.sort_unstable());
        // As the program's devices of this process are ordered.
        ours.sort_by_key(|device| device.description().id);
        Ok((Processes { process: Process { rank, ranks }, ids }, ours))
    }

    /// The numbers of the first `each` devices of every process.
    pub fn ids(&self, each: usize) -> Vec<i64> {
        self.ids.iter().flat_map(|ids| ids.iter().take(each).copied()).collect()
    }
}
