//! Which of how many processes this one is, from the environment of its launcher.
//!
//! Everything is a function of a map of variables, so that tests need no launcher. What is set by half, or differently by two
//! launchers, is refused with a sentence that names the variables.

mod chosen;
mod launchers;
mod names;

use crate::error::{ClusterError, Result};
use std::collections::BTreeMap;
use std::fmt;

/// Environment variables by name.
pub type Variables = BTreeMap<String, String>;

/// The port of the coordinator where the launcher does not imply one.
pub const PORT: u16 = 8482;

/// What started the processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Launcher {
    /// `--node-id`, `--num-nodes` and `--coordinator`.
    Flags,
    /// `torchrun`, and what sets its variables, such as Kubeflow's training operator.
    Torchrun,
    /// `mpirun` of Open MPI.
    OpenMpi,
    /// SkyPilot.
    SkyPilot,
    /// Hosts of a TPU pod.
    Tpu,
    /// An indexed Job or a JobSet of Kubernetes.
    Kubernetes,
    /// `srun` of Slurm.
    Slurm,
}

impl fmt::Display for Launcher {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self {
            Launcher::Flags => "the flags",
            Launcher::Torchrun => "torchrun",
            Launcher::OpenMpi => "Open MPI",
            Launcher::SkyPilot => "SkyPilot",
            Launcher::Tpu => "the TPU machine",
            Launcher::Kubernetes => "Kubernetes",
            Launcher::Slurm => "Slurm",
        })
    }
}

/// One process among those of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The number of this process, from 0.
    pub rank: usize,
    /// How many there are.
    pub ranks: usize,
    /// The number of this process among those of its host.
    pub local_rank: usize,
    /// How many processes its host has. Where there are several, each takes one device.
    pub local_ranks: usize,
    /// `host:port` of the coordinator, which runs in rank 0; or `etcd://host:port/name`, where the table is in etcd.
    pub coordinator: String,
    /// What makes this attempt of this job differ from others: the prefix of its keys.
    pub attempt: String,
    /// Where this was found.
    pub launcher: Launcher,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let Place { rank, ranks, coordinator, launcher, .. } = self;
        write!(f, "rank {rank} of {ranks} (from {launcher}), coordinator {coordinator}")
    }
}

/// What the user gave explicitly.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Given {
    /// `--node-id`.
    pub node_id: Option<usize>,
    /// `--num-nodes`.
    pub num_nodes: Option<usize>,
    /// `--coordinator`, `host` or `host:port`, or `etcd://host:port/name`.
    pub coordinator: Option<String>,
}

impl Given {
    /// Whether nothing was given.
    pub fn is_empty(&self) -> bool {
        *self == Given::default()
    }
}

impl Place {
    /// The place in this process's own environment.
    pub fn of_environment(given: &Given) -> Result<Place> {
        let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        Place::find(given, &std::env::vars_os().filter_map(text).collect())
    }

    /// The place: as given, or else as the innermost launcher says.
    pub fn find(given: &Given, variables: &Variables) -> Result<Place> {
        if given.node_id.is_some() || given.num_nodes.is_some() {
            return of_flags(given);
        }
        let mut found = Vec::new();
        // The innermost first: torchrun and mpirun may run inside of a job of Slurm or a pod of Kubernetes.
        for find in launchers::ALL {
            found.extend(find(&launchers::Environment { variables, coordinator: given.coordinator.as_deref() })?);
        }
        let mut found = found.into_iter();
        let Some(place) = found.next() else {
            return refused(
                "no launcher is known from the environment (Slurm's srun, torchrun, a Kubernetes indexed Job, SkyPilot, Open \
                 MPI, a TPU pod): start with one of them, or give --node-id, --num-nodes and --coordinator",
            );
        };
        for other in found {
            check_nested(&place, &other)?;
        }
        let coordinator = match &given.coordinator {
            Some(coordinator) => names::with_port(coordinator, PORT)?,
            None => place.coordinator.clone(),
        };
        checked(Place { coordinator, ..place })
    }
}

/// `--node-id`, `--num-nodes` and `--coordinator` belong together.
fn of_flags(given: &Given) -> Result<Place> {
    let (Some(rank), Some(ranks), Some(coordinator)) = (given.node_id, given.num_nodes, &given.coordinator) else {
        let flags = [
            ("--node-id", given.node_id.is_some()),
            ("--num-nodes", given.num_nodes.is_some()),
            ("--coordinator", given.coordinator.is_some()),
        ];
        let missing: Vec<&str> = flags.iter().filter(|(_, is_given)| !is_given).map(|(name, _)| *name).collect();
        return refused(format!(
            "--node-id, --num-nodes and --coordinator belong together: give {} too, or none of them and --nodes auto",
            missing.join(" and ")
        ));
    };
    checked(Place {
        rank,
        ranks,
        local_rank: 0,
        local_ranks: 1,
        coordinator: names::with_port(coordinator, PORT)?,
        attempt: String::new(),
        launcher: Launcher::Flags,
    })
}

fn checked(place: Place) -> Result<Place> {
    let Place { rank, ranks, local_rank, local_ranks, launcher, .. } = &place;
    if *ranks == 0 || rank >= ranks {
        return refused(format!(
            "{launcher} says rank {rank} of {ranks}: ranks count from 0 to one less than their number"
        ));
    }
    if local_rank >= local_ranks || local_ranks > ranks {
        return refused(format!(
            "{launcher} says process {local_rank} of {local_ranks} on this host, and {ranks} in all: that cannot be"
        ));
    }
    Ok(place)
}

/// A launcher inside of another starts as many processes per process of the outer one; anything else is a contradiction.
fn check_nested(inner: &Place, outer: &Place) -> Result<()> {
    let per = inner.ranks / outer.ranks.max(1);
    let is_nested = inner.ranks.is_multiple_of(outer.ranks.max(1)) && inner.rank / per.max(1) == outer.rank;
    // A job of one task, in which something else starts processes everywhere.
    if is_nested || outer.ranks == 1 {
        return Ok(());
    }
    refused(format!(
        "{} says rank {} of {}, and {} says rank {} of {}: start with one of them, or give --node-id, --num-nodes and \
         --coordinator",
        inner.launcher, inner.rank, inner.ranks, outer.launcher, outer.rank, outer.ranks
    ))
}

/// The variable that counts restarts of this process by our own supervisor. Processes are started again at different times and
/// perhaps differently often, so it is no part of the keys: the store of an attempt ends with its rank 0.
pub const ATTEMPT: &str = "OCTANT_ATTEMPT";

fn refused<T>(sentence: impl Into<String>) -> Result<T> {
    Err(ClusterError::Place(sentence.into()))
}

#[cfg(test)]
mod tests;
