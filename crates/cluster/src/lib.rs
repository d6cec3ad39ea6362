//! Several processes as one run.
//!
//! XLA's plugins do the communication between devices; what this crate does is to bring the processes together. [`Place`] finds
//! out which of how many processes this one is, from the launcher's environment variables. [`Cluster::join`] connects it with
//! the others through a [`Store`], a small table of keys and values that rank 0 serves over TCP ([`Coordinator`]) or keeps in etcd,
//! and which plugins use as well to exchange their topologies. Before anything is compiled, [`Cluster::agree`] compares what must be
//! the same everywhere; [`Watch`] names a process that is lost or stuck.
//!
//! Nothing here trusts the network: frames are bounded, what cannot be decoded closes its connection, and every wait ends.
//!
//! Around that is what one process needs: [`signals`] that end it cleanly, [`supervise`] to start it again after a loss, its
//! [`RankLog`], and [`launch`], which writes the files that start such a run on a cluster.
//!
//! Start reading at [`Cluster`].

mod barrier;
mod cluster;
mod coordinator;
mod error;
mod etcd;
mod exit;
pub mod launch;
mod log;
mod place;
mod remote;
pub mod signals;
mod stop;
mod store;
mod supervise;
mod watch;
mod wire;

pub use cluster::{Cluster, JoinOptions, host};
pub use coordinator::Coordinator;
pub use error::{ClusterError, Result};
pub use exit::{ExitCode, exit_now};
pub use log::{LogError, RankLog, merged};
pub use place::{ATTEMPT, Given, Launcher, Place, Variables};
pub use remote::RemoteStore;
pub use stop::StopPoint;
pub use store::{MemoryStore, Prefixed, Store, StoreError};
pub use supervise::{LostAttempt, is_attempt, is_restarted, supervise};
pub use watch::{Activity, Failure, Limits, Watch};
