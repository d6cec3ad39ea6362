//! The processes of a run, joined.

use crate::barrier::Member;
use crate::coordinator::Coordinator;
use crate::error::{ClusterError, Result, ranks};
use crate::etcd::{self, EtcdStore, Lease};
use crate::place::Place;
use crate::remote::RemoteStore;
use crate::store::{Prefixed, Store, StoreError};
use crate::supervise;
use crate::watch::{Failure, Limits, Watch};
use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How a process joins.
pub struct JoinOptions {
    /// How long to wait for all processes.
    pub time_out: Duration,
    /// This process was started again: rank 0 and its table may still be those of the attempt before, and are tried again
    /// until they are not.
    pub restarted: bool,
    /// The times of the heartbeat.
    pub limits: Limits,
    /// Called once, on a thread of its own, when the run cannot continue.
    pub on_failure: Box<dyn FnOnce(Failure) + Send>,
}

impl JoinOptions {
    /// Ten minutes for all to come, and the usual limits. Nodes of one job may start minutes apart.
    pub fn new(on_failure: impl FnOnce(Failure) + Send + 'static) -> JoinOptions {
        let (time_out, limits) = (Duration::from_secs(600), Limits::default());
        JoinOptions { time_out, restarted: supervise::is_restarted(), limits, on_failure: Box::new(on_failure) }
    }
}

/// This process among those of its run.
pub struct Cluster {
    place: Place,
    hosts: Vec<String>,
    store: Arc<dyn Store>,
    watch: Watch,
    /// In rank 0. Fields are dropped in their order: the table is there until the last heartbeat.
    _table: Option<Table>,
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "Cluster({})", self.place)
    }
}

impl Cluster {
    /// Connects with the other processes, and waits until all are there.
    pub fn join(place: Place, options: JoinOptions) -> Result<Arc<Cluster>> {
        const PAUSE: Duration = Duration::from_millis(200);
        let begun = Instant::now();
        let table = loop {
            match (place.rank == 0).then(|| Table::open(&place, options.time_out)).transpose() {
                // The port may be that of the attempt before for a moment.
                Err(_) if options.restarted && begun.elapsed() < options.time_out => std::thread::sleep(PAUSE),
                opened => break opened?,
            }
        };
        // The table that is found first may be that of an attempt before, which is about to end.
        let may_be_old = match (options.restarted, etcd::is_address(&place.coordinator)) {
            (true, _) => options.time_out,
            (false, true) => options.time_out.min(2 * etcd::LIFE),
            (false, false) => Duration::ZERO,
        };
        let (store, joined) = loop {
            let left = options.time_out.saturating_sub(begun.elapsed());
            match meet(&place, table.as_ref(), left) {
                Err(ClusterError::Store(_)) if place.rank > 0 && begun.elapsed() < may_be_old => {
                    std::thread::sleep(PAUSE);
                }
                Err(ClusterError::Store(StoreError::AlreadyExists(_))) => {
                    return Err(ClusterError::Disagreement(format!(
                        "rank {} has joined already: two processes have the same number, or one of an earlier attempt still runs",
                        place.rank
                    )));
                }
                met => break met?,
            }
        };
        let hosts = hosts(&joined, place.ranks)?;
        let watch = Watch::start(store.clone(), place.rank, hosts.clone(), options.limits, options.on_failure)?;
        Ok(Arc::new(Cluster { place, hosts, store, watch, _table: table }))
    }

    /// Which of how many this process is.
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// The names of the hosts, in the order of ranks.
    pub fn hosts(&self) -> &[String] {
        &self.hosts
    }

    /// The table that all share.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// The heartbeat.
    pub fn watch(&self) -> &Watch {
        &self.watch
    }

    /// Every rank's value in the order of ranks, once all have come here. A name is used once.
    pub fn gather(&self, name: &str, value: &[u8], time_out: Duration) -> Result<Vec<Vec<u8>>> {
        Member { store: &*self.store, rank: self.place.rank, ranks: self.place.ranks }.gather(name, value, time_out)
    }

    /// Waits until all have come here.
    pub fn barrier(&self, name: &str, time_out: Duration) -> Result<()> {
        self.gather(name, &[], time_out).map(drop)
    }

    /// The signal that ended the run, which may have come to another process: all of them end alike. `own` is that of this
    /// process, if one came; without any, it is `usual`.
    pub fn agreed_signal(&self, own: Option<i32>, usual: i32) -> i32 {
        const KEY: &str = "run/signal";
        const PATIENCE: Duration = Duration::from_secs(5);
        if let Some(signal) = own {
            match self.store.put(KEY, signal.to_string().as_bytes()) {
                Ok(()) => return signal,
                // Another process was signaled first.
                Err(StoreError::AlreadyExists(_)) => {}
                Err(_) => return signal,
            }
        }
        let agreed = self.store.get(KEY, PATIENCE).ok();
        agreed.and_then(|text| String::from_utf8(text).ok()?.parse().ok()).unwrap_or(own.unwrap_or(usual))
    }

    /// Compares what must be the same everywhere; the error names what differs and where. All processes return the same.
    pub fn agree(&self, name: &str, facts: &[(&str, String)], time_out: Duration) -> Result<()> {
        let mine = facts.iter().map(|(name, value)| format!("{name}\t{}\n", value.replace(['\n', '\t'], " ")));
        let all = self.gather(name, mine.collect::<String>().as_bytes(), time_out)?;
        let all: Vec<String> = all.iter().map(|value| String::from_utf8_lossy(value).into_owned()).collect();
        let value = |rank: usize, name: &str| {
            let lines = all[rank].lines().filter_map(|line| line.split_once('\t'));
            lines.into_iter().find(|(known, _)| *known == name).map(|(_, value)| value.to_string()).unwrap_or_default()
        };
        for (name, _) in facts {
            let first = value(0, name);
            let others: Vec<usize> = (1..all.len()).filter(|&rank| value(rank, name) != first).collect();
            if let Some(&other) = others.first() {
                return Err(ClusterError::Disagreement(format!(
                    "the processes were not started alike: {name} is {} on {} and {first} on rank 0 ({}); start all with the same \
                     program, arguments and data",
                    value(other, name),
                    if others.len() == 1 { format!("rank {other} ({})", self.hosts[other]) } else { ranks(&others) },
                    self.hosts[0],
                )));
            }
        }
        Ok(())
    }
}

type Met = (Arc<dyn Store>, Vec<Vec<u8>>);

/// What rank 0 keeps the table with.
enum Table {
    Served(Coordinator),
    InEtcd(Lease),
}

impl Table {
    fn open(place: &Place, time_out: Duration) -> Result<Table> {
        match etcd::is_address(&place.coordinator) {
            true => Ok(Table::InEtcd(Lease::open(&place.coordinator, &place.attempt, time_out)?)),
            false => listen(place).map(Table::Served),
        }
    }

    fn store(&self) -> Arc<dyn Store> {
        match self {
            Table::Served(coordinator) => coordinator.store(),
            Table::InEtcd(lease) => Arc::new(lease.store()),
        }
    }
}

/// Connects with the table, and waits for all: what each says of itself.
fn meet(place: &Place, table: Option<&Table>, time_out: Duration) -> Result<Met> {
    let store: Arc<dyn Store> = match table {
        Some(table) => table.store(),
        None if etcd::is_address(&place.coordinator) => {
            Arc::new(EtcdStore::follow(&place.coordinator, &place.attempt, time_out)?)
        }
        None => Arc::new(RemoteStore::connect(&place.coordinator, time_out)?),
    };
    let store: Arc<dyn Store> = Arc::new(Prefixed::new(store, format!("octant/{}", place.attempt)));
    let member = Member { store: &*store, rank: place.rank, ranks: place.ranks };
    let here = format!("{}\n{}", place.ranks, host());
    let joined = member.gather("join", here.as_bytes(), time_out)?;
    Ok((store, joined))
}

/// Rank 0 listens. On the loopback address where that is what the others connect to, and else on all of its addresses: the
/// name of a host may lead to another of them from outside.
fn listen(place: &Place) -> Result<Coordinator> {
    let (host, port) = place.coordinator.rsplit_once(':').unwrap_or((&place.coordinator, "0"));
    let port: u16 = port.parse().unwrap_or(0);
    let address: SocketAddr = match host {
        "localhost" | "127.0.0.1" => (Ipv4Addr::LOCALHOST, port).into(),
        "[::1]" => (Ipv6Addr::LOCALHOST, port).into(),
        host if host.starts_with('[') => (Ipv6Addr::UNSPECIFIED, port).into(),
        _ => (Ipv4Addr::UNSPECIFIED, port).into(),
    };
    Coordinator::listen(address, place.ranks).map_err(|error| {
        ClusterError::Place(format!(
            "rank 0 cannot listen on port {port} ({error}): another run may use it; give --coordinator HOST:PORT with another port"
        ))
    })
}

/// Names of hosts, once all count the same number of processes.
fn hosts(joined: &[Vec<u8>], ranks: usize) -> Result<Vec<String>> {
    let mut hosts = Vec::new();
    for (rank, value) in joined.iter().enumerate() {
        let text = String::from_utf8_lossy(value);
        let (count, host) = text.split_once('\n').unwrap_or_default();
        if count != ranks.to_string() {
            let text =
                format!("rank {rank} ({host}) was started as one of {count} processes, this one as one of {ranks}");
            return Err(ClusterError::Disagreement(text));
        }
        hosts.push(host.to_string());
    }
    Ok(hosts)
}

/// The name of this host, for messages.
pub fn host() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").ok().or_else(|| std::env::var("HOSTNAME").ok());
    name.map(|name| name.trim().to_string()).filter(|name| !name.is_empty()).unwrap_or_else(|| "unnamed host".into())
}
