//! What a run does because other processes run the same steps: it ends where they end, and shows that it progresses.
//!
//! Every program with communication in it must be started by all processes in the same order. So nothing that one of them
//! decides by its own clock or signals may change what is run next: a stop is agreed upon, and validations are not interrupted.

use super::{Ending, Runner};
use crate::TrainError;
use octant_cluster::{Activity, Cluster};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long processes wait for the first one to write its last checkpoint.
const LONGEST_SAVING: Duration = Duration::from_secs(3600);

/// Something that may take long. Afterwards steps follow one another again.
pub(super) struct Busy(Option<Arc<Cluster>>);

impl Busy {
    /// The rest of the process takes as long as it takes.
    pub fn for_good(mut self) {
        self.0 = None;
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.iter().for_each(|cluster| cluster.watch().enter(Activity::Stepping));
    }
}

impl Runner<'_, '_> {
    /// Whether this process writes the run directory.
    pub(super) fn leads(&self) -> bool {
        self.plan.cluster.as_ref().is_none_or(|cluster| cluster.place().rank == 0)
    }

    /// Something begins that may take long, and lasts as long as what is returned.
    pub(super) fn busy(&self, what: &'static str) -> Busy {
        let cluster = self.plan.cluster.clone();
        cluster.iter().for_each(|cluster| cluster.watch().enter(Activity::Busy(what)));
        Busy(cluster)
    }

    /// A step of training or of a validation begins.
    pub(super) fn step_begins(&self) {
        if let Some(cluster) = &self.plan.cluster {
            cluster.watch().step();
        }
    }

    /// Waits until all processes have come here; each name once in a run.
    pub(super) fn wait_for_all(&self, name: &str) -> Result<(), TrainError> {
        match &self.plan.cluster {
            Some(cluster) => Ok(cluster.barrier(name, LONGEST_SAVING)?),
            None => Ok(()),
        }
    }

    /// Whether what is under way, which needs no other process, is to be ended.
    pub(super) fn stops_alone(&self) -> bool {
        self.plan.cluster.is_none() && self.watcher.stops()
    }

    /// Why the run ends before its next step, if it does.
    pub(super) fn interruption(&self) -> Option<Ending> {
        let time_up = self.plan.deadline.is_some_and(|deadline| Instant::now() >= deadline);
        let wanted = match self.watcher.stops() {
            true => Some(Ending::Stopped),
            false => time_up.then_some(Ending::TimeUp),
        };
        let Some(cluster) = &self.plan.cluster else { return wanted };
        let point = cluster.watch().stop_point();
        if wanted.is_some() {
            point.request();
        }
        // Another process may have wanted it.
        (!point.may_begin(self.progress.step + 1)).then(|| wanted.unwrap_or(Ending::Stopped))
    }
}
