//! A run of several processes: the first one finds the run directory and writes it, the others follow.
//!
//! All of them resolve the same recipe on the same data, each for itself, and compare what came out before anything is compiled.
//! Only what depends on the state of the directory is decided by the first one and read by the others.

use crate::history::{SampleLists, flattened};
use crate::{Result, RunError};
use octant_cluster::{Cluster, ClusterError, ExitCode, StoreError};
use octant_data::Dataset;
use octant_events::crc32c;
use octant_recipe::{Data, Recipe};
use octant_runtime::RuntimeError;
use octant_train::TrainError;
use octant_train::options::OptionTable;
use std::path::PathBuf;
use std::time::Duration;

/// How long the others wait while the first one fetches data and weights, or reads an old run.
const LONGEST_PREPARATION: Duration = Duration::from_secs(4 * 3600);
/// How long processes may be apart once each has found its data.
const LONGEST_LAG: Duration = Duration::from_secs(1800);

/// Where the run of the first process lives, as the others hear of it.
const DIRECTORY: &str = "run/directory";
/// Whether there was nothing left to be done.
const FINISHED: &str = "run/finished";
/// Which step its checkpoint has.
const OPENED: &str = "run/opened";

/// Keys whose values may differ between processes: places on their own hosts.
const OF_HOSTS: [&str; 3] = ["device", "data.dir", "weights"];

/// The first process's part and that of the others.
pub(crate) struct Together<'a>(pub &'a Cluster);

impl Together<'_> {
    /// Whether this is the first process.
    pub fn leads(&self) -> bool {
        self.0.place().rank == 0
    }

    fn publish(&self, key: &str, value: &str) -> Result<()> {
        Ok(self.0.store().put(key, value.as_bytes()).map_err(ClusterError::from)?)
    }

    fn read(&self, key: &str, patience: Duration) -> Result<String> {
        let value = self.0.store().get(key, patience).map_err(|error| match error {
            StoreError::TimedOut { waited, .. } => {
                let what = "the first process prepares the run".to_string();
                ClusterError::Missing { what, missing: vec![0], waited }
            }
            error => error.into(),
        })?;
        Ok(String::from_utf8_lossy(&value).into_owned())
    }

    /// The run directory, once the first process has found it and everything that it reads.
    pub fn directory(&self) -> Result<PathBuf> {
        Ok(self.read(DIRECTORY, LONGEST_PREPARATION)?.into())
    }

    /// Lets the others begin.
    pub fn publish_directory(&self, path: &std::path::Path, is_finished: bool) -> Result<()> {
        self.publish(FINISHED, if is_finished { "yes" } else { "no" })?;
        self.publish(DIRECTORY, &path.to_string_lossy())
    }

    /// Whether the first process found nothing left to do.
    pub fn is_finished(&self) -> Result<bool> {
        Ok(self.read(FINISHED, LONGEST_PREPARATION)? == "yes")
    }

    /// Lets the others read the checkpoint that the first process resumes from.
    pub fn publish_opened(&self, step: Option<u64>) -> Result<()> {
        self.publish(OPENED, &step.map_or_else(|| "none".into(), |step| step.to_string()))
    }

    /// Waits until the first process has opened the directory; the step that all resume from must be that of its checkpoint.
    pub fn opened(&self, step: impl FnOnce() -> Result<Option<u64>>) -> Result<()> {
        let expected = self.read(OPENED, LONGEST_PREPARATION)?;
        let found = step()?.map_or_else(|| "none".into(), |step| step.to_string());
        match found == expected {
            true => Ok(()),
            false => Err(ClusterError::Disagreement(format!(
                "rank {} reads a checkpoint of step {found} where rank 0 has {expected}: the run directory must be the same on \
                 all hosts; put it on a file system that they share",
                self.0.place().rank
            ))
            .into()),
        }
    }

    /// Compares program, recipe and data, before anything is compiled.
    pub fn agree(&self, recipe: &Recipe, data: &Data) -> Result<()> {
        let mut facts = vec![("the program".to_string(), program())];
        let keys = flattened(&recipe.to_table()).into_iter().filter(|(key, _)| !OF_HOSTS.contains(&key.as_str()));
        facts.extend(keys.map(|(key, value)| (format!("`{key}`"), value.to_string())));
        let samples = SampleLists::of(data);
        let split = |name: &str, set: &dyn Dataset, print: &str| {
            (name.to_string(), format!("{} images, index {print}", set.len()))
        };
        let [train, valid] = samples.fingerprints();
        facts.push(split("the training data", &*data.train, train));
        facts.push(split("the validation data", &*data.valid, valid));
        let facts: Vec<(&str, String)> = facts.iter().map(|(name, value)| (name.as_str(), value.clone())).collect();
        Ok(self.0.agree("run/alike", &facts, LONGEST_LAG)?)
    }
}

/// What tells this program from another one: all processes must compile the same.
fn program() -> String {
    let version = env!("CARGO_PKG_VERSION");
    let file = std::env::current_exe().and_then(std::fs::read);
    file.map_or_else(|_| version.to_string(), |bytes| format!("{version} ({:08x})", crc32c(&bytes)))
}

impl RunError {
    /// The code of its own that a process exits with because of it, where launchers should know what happened.
    pub fn exit_code(&self) -> Option<ExitCode> {
        match self {
            RunError::Cluster(error) | RunError::Train(TrainError::Cluster(error)) => Some(error.exit_code()),
            RunError::Device(RuntimeError::Lost { .. }) => Some(ExitCode::DeviceLost),
            RunError::Train(TrainError::Device(RuntimeError::Lost { .. })) => Some(ExitCode::DeviceLost),
            _ => None,
        }
    }
}
