//! Several processes as one run.
//!
//! XLA's plugins do the communication between devices; what this crate does is to bring the processes together. [`Place`] finds
//! out which of how many processes this one is, from the launcher's environment variables. [`Cluster::join`] connects it with
//! the others through a [`Store`], a small table of keys and values that rank 0 serves over TCP ([`Coordinator`]), and which
//! plugins use as well to exchange their topologies. Before anything is compiled, [`Cluster::agree`] compares what must be
//! the same everywhere; [`Watch`] names a process that is lost or stuck.
//!
//! Nothing here trusts the network: frames are bounded, what cannot be decoded closes its connection, and every wait ends.
//!
//! [`launch`] writes the files that start such a run on a cluster.
//!
//! Start reading at [`Cluster`].

mod barrier;
mod cluster;
mod coordinator;
mod error;
mod exit;
pub mod launch;
mod place;
mod remote;
mod stop;
mod store;
mod watch;
mod wire;

pub use cluster::{Cluster, JoinOptions};
pub use coordinator::Coordinator;
pub use error::{ClusterError, Result};
pub use exit::ExitCode;
pub use place::{ATTEMPT, Given, Launcher, Place, Variables};
pub use remote::RemoteStore;
pub use stop::StopPoint;
pub use store::{MemoryStore, Prefixed, Store, StoreError};
pub use watch::{Activity, Failure, Limits, Watch};
