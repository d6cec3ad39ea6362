//! Ranks as threads of one process: joining, agreement, heartbeats, stopping, and a hostile client.

use octant_cluster::{
    Activity, Cluster, ClusterError, Coordinator, ExitCode, Failure, JoinOptions, Launcher, Limits, Place, RemoteStore,
    Store, StoreError,
};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

const SHORT: Duration = Duration::from_millis(300);
const LONG: Duration = Duration::from_secs(20);

fn limits() -> Limits {
    let ms = Duration::from_millis;
    Limits { beat: ms(20), lost: ms(400), stuck: ms(400), busy: LONG }
}

/// A port that is free now.
fn free_address() -> String {
    std::net::TcpListener::bind("127.0.0.1:0")
        .and_then(|listener| listener.local_addr())
        .expect("a free port")
        .to_string()
}

fn place(rank: usize, ranks: usize, coordinator: &str) -> Place {
    let (coordinator, attempt) = (coordinator.to_string(), "test/".into());
    Place { rank, ranks, local_rank: 0, local_ranks: 1, coordinator, attempt, launcher: Launcher::Flags }
}

type Joined = (Arc<Cluster>, mpsc::Receiver<Failure>);

fn join(place: Place, time_out: Duration) -> Result<Joined, ClusterError> {
    let (sender, failures) = mpsc::channel();
    let on_failure = Box::new(move |failure| drop(sender.send(failure)));
    Ok((Cluster::join(place, JoinOptions { time_out, restarted: false, limits: limits(), on_failure })?, failures))
}

/// Runs the same in so many ranks at the same time; their results in order.
fn run<T: Send>(ranks: usize, work: impl Fn(Joined) -> T + Sync) -> Vec<T> {
    let address = free_address();
    std::thread::scope(|scope| {
        let start = |rank| {
            let (address, work) = (&address, &work);
            scope.spawn(move || work(join(place(rank, ranks, address), LONG).expect("all ranks join")))
        };
        let threads: Vec<_> = (0..ranks).map(start).collect();
        threads.into_iter().map(|thread| thread.join().expect("no rank panics")).collect()
    })
}

#[test]
fn ranks_join_agree_and_exchange_values() {
    let outcomes = run(3, |(cluster, _)| {
        let rank = cluster.place().rank;
        let values = cluster.gather("numbers", &[rank as u8; 2], LONG).unwrap();
        let same = [("recipe", "abc".to_string())];
        cluster.agree("agree", &same, LONG).unwrap();
        let differs = [("recipe", "abc".into()), ("data", if rank == 2 { "other" } else { "same" }.to_string())];
        let error = cluster.agree("agree-again", &differs, LONG).unwrap_err();
        cluster.watch().end(Ok(()));
        (values, error)
    });
    for (values, error) in &outcomes {
        assert_eq!(*values, [[0, 0], [1, 1], [2, 2]]);
        assert!(error.to_string().contains("data is other on rank 2"), "{error}");
        assert_eq!((error, error.exit_code()), (&outcomes[0].1, ExitCode::NotAlike));
    }
}

#[test]
fn ranks_that_do_not_come_are_named_by_all() {
    let address = free_address();
    let errors: Vec<String> = std::thread::scope(|scope| {
        let start = |rank| {
            let address = &address;
            scope.spawn(move || join(place(rank, 4, address), SHORT).expect_err("two ranks are missing").to_string())
        };
        let threads: Vec<_> = [0, 2].map(start).into();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    errors.iter().for_each(|error| assert!(error.contains("ranks 1 and 3 did not come"), "{error}"));
    let error = join(place(1, 2, &free_address()), SHORT).err().unwrap().to_string();
    assert!(error.contains("rank 0 at 127.0.0.1") && error.contains("cannot be reached"), "{error}");
}

#[test]
fn a_rank_that_is_there_twice_is_refused() {
    let address = free_address();
    std::thread::scope(|scope| {
        let start = |rank| {
            let address = &address;
            scope.spawn(move || join(place(rank, 2, address), LONG))
        };
        let ranks = [start(0), start(1)].map(|thread| thread.join().unwrap().unwrap());
        let error = join(place(1, 2, &address), SHORT).err().unwrap();
        assert!(error.to_string().contains("rank 1 has joined already"), "{error}");
        ranks.iter().for_each(|(cluster, _)| {
            if cluster.place().rank == 1 {
                cluster.watch().end(Ok(()))
            }
        });
        ranks.iter().for_each(|(cluster, _)| cluster.watch().end(Ok(())));
    });
}

#[test]
fn a_rank_that_failed_is_reported_by_the_others_in_its_own_words() {
    let outcomes = run(3, |(cluster, failures)| {
        if cluster.place().rank == 1 {
            cluster.watch().end(Err("the disk is full".into()));
            return None;
        }
        let failure = failures.recv_timeout(LONG).unwrap();
        cluster.watch().end(Err("another failed".into()));
        Some(failure)
    });
    for failure in outcomes.into_iter().flatten() {
        assert!(failure.sentence.contains("rank 1") && failure.sentence.contains("the disk is full"), "{failure:?}");
        assert_eq!((failure.exit, failure.ranks), (ExitCode::PeerLost, vec![1]));
    }
}

#[test]
fn the_stuck_rank_is_named_and_not_those_that_wait_for_it() {
    let outcomes = run(3, |(cluster, failures)| {
        let watch = cluster.watch();
        watch.enter(Activity::Stepping);
        // Rank 2 begins no step after its sixth; the others wait inside of their eighth.
        for _ in 0..if cluster.place().rank == 2 { 6 } else { 8 } {
            watch.step();
            std::thread::sleep(Duration::from_millis(10));
        }
        let begun = Instant::now();
        let failure = failures.recv_timeout(LONG).unwrap();
        watch.end(Err("stuck".into()));
        (failure, begun.elapsed())
    });
    for (failure, time) in outcomes {
        assert!(failure.sentence.contains("rank 2") && failure.sentence.contains("no step for"), "{failure:?}");
        assert_eq!((failure.exit, failure.ranks), (ExitCode::Stuck, vec![2]));
        assert!(time < Duration::from_secs(10), "{time:?}");
    }
}

#[test]
fn what_may_take_long_is_not_stuck() {
    let outcomes = run(2, |(cluster, failures)| {
        let watch = cluster.watch();
        watch.enter(Activity::Stepping);
        (0..6).for_each(|_| watch.step());
        if cluster.place().rank == 0 {
            watch.enter(Activity::Busy("saving"));
        }
        let failure = failures.recv_timeout(Duration::from_millis(1200));
        watch.end(Ok(()));
        failure.is_err()
    });
    assert_eq!(outcomes, [true, true]);
}

#[test]
fn all_ranks_stop_after_the_same_step() {
    let outcomes = run(3, |(cluster, _)| {
        let watch = cluster.watch();
        let rank = cluster.place().rank;
        let mut done = 0;
        // Ranks are at different steps when the request comes, as those that queue steps ahead are.
        while watch.stop_point().may_begin(done + 1) {
            done += 1;
            if rank == 1 && done == 5 {
                watch.stop_point().request();
            }
            std::thread::sleep(Duration::from_millis(3 + 4 * rank as u64));
        }
        watch.end(Ok(()));
        done
    });
    assert!(outcomes[0] >= 5 && outcomes.iter().all(|done| *done == outcomes[0]), "{outcomes:?}");
}

#[test]
fn a_silent_rank_is_lost() {
    let address = free_address();
    // The process of rank 1 is played by bare calls, so that it can fall silent.
    let coordinator = std::thread::scope(|scope| {
        let first = scope.spawn(|| join(place(0, 2, &address), LONG));
        let store = RemoteStore::connect(&address, LONG).unwrap();
        store.put("octant/test/join/from/000001", b"2\nhost-b").unwrap();
        store.replace("octant/test/beat/000001", b"1\n0\nstepping\n").unwrap();
        first.join().unwrap().unwrap()
    });
    let (cluster, failures) = coordinator;
    let failure = failures.recv_timeout(LONG).unwrap();
    assert!(failure.sentence.starts_with("rank 1 (host-b) is lost: no heartbeat for"), "{failure:?}");
    // And the others, were there any, would read the same.
    let published = cluster.store().get("failure", SHORT).unwrap();
    assert!(String::from_utf8_lossy(&published).contains("rank 1 (host-b) is lost"));
    cluster.watch().end(Ok(()));
}

#[test]
fn a_lost_coordinator_is_named() {
    let address = free_address();
    let coordinator = Coordinator::listen(address.as_str(), 2).unwrap();
    let store = coordinator.store();
    store.put("octant/test/join/from/000000", b"2\nhost-a").unwrap();
    let all = [&[1, 8, 0, 0, 0][..], b"2\nhost-a", &[1, 8, 0, 0, 0], b"2\nhost-b"].concat();
    store.put("octant/test/join/all", &all).unwrap();
    let (_cluster, failures) = join(place(1, 2, &address), LONG).unwrap();
    drop(coordinator);
    let failure = failures.recv_timeout(LONG).unwrap();
    assert!(failure.sentence.starts_with("rank 0 (host-a) is lost"), "{failure:?}");
    assert_eq!(failure.exit, ExitCode::PeerLost);
}

#[test]
fn the_store_puts_once_and_waits() {
    let coordinator = Coordinator::listen("127.0.0.1:0", 2).unwrap();
    let address = coordinator.address().to_string();
    let store = Arc::new(RemoteStore::connect(&address, LONG).unwrap());
    store.put("a", b"1").unwrap();
    assert_eq!(store.put("a", b"2"), Err(StoreError::AlreadyExists("a".into())));
    assert_eq!(store.try_get("a").unwrap(), b"1");
    store.replace("a", b"3").unwrap();
    assert_eq!(store.get("a", SHORT).unwrap(), b"3");
    assert_eq!(store.try_get("b"), Err(StoreError::NotFound("b".into())));
    let begun = Instant::now();
    assert_eq!(store.get("b", SHORT), Err(StoreError::TimedOut { key: "b".into(), waited: SHORT }));
    assert!(begun.elapsed() >= SHORT);
    assert!(matches!(store.put("", b""), Err(StoreError::Refused(_))));
    assert!(matches!(store.put("big", &vec![0; 17 << 20]), Err(StoreError::Refused(_))));
    // Sixteen waits at the same time, ended by one put.
    std::thread::scope(|scope| {
        let waits: Vec<_> = (0..16).map(|_| scope.spawn(|| store.get("later", LONG))).collect();
        std::thread::sleep(Duration::from_millis(30));
        coordinator.store().put("later", &[7; 100_000]).unwrap();
        waits.into_iter().for_each(|wait| assert_eq!(wait.join().unwrap().unwrap().len(), 100_000));
    });
    assert_eq!(store.list("l").unwrap().len(), 1);
}

#[test]
fn hostile_bytes_close_their_own_connection_only() {
    let coordinator = Coordinator::listen("127.0.0.1:0", 1).unwrap();
    let address = coordinator.address();
    let hello = b"octant\x00\x01";
    let mut attacks: Vec<Vec<u8>> = vec![
        b"GET / HTTP/1.1\r\n\r\n".to_vec(),
        vec![0xff; 4096],
        [&hello[..], &u32::MAX.to_le_bytes()].concat(),
        [&hello[..], &[6, 0, 0, 0], &[4, 255, 255, 255, 255, 0]].concat(),
        [&hello[..], &[0, 0, 0, 0]].concat(),
        [&hello[..], &[1, 0, 0, 0, 99]].concat(),
        [&hello[..], &[6, 0, 0, 0], &[4, 1, 0, 0, 0, 0xff]].concat(),
    ];
    // Pseudo-random frames of a right length.
    let mut state = 1u64;
    for _ in 0..200 {
        let mut next = || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) as u8
        };
        let body: Vec<u8> = (0..next() % 40).map(|_| next() % 6).collect();
        attacks.push([&hello[..], &(body.len() as u32).to_le_bytes(), &body].concat());
    }
    for attack in attacks {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        // The coordinator may close before all is written.
        let _ = stream.write_all(&attack).and_then(|()| stream.shutdown(std::net::Shutdown::Write));
        let _ = stream.read_to_end(&mut Vec::new());
    }
    let store = RemoteStore::connect(&address.to_string(), LONG).unwrap();
    store.put("still", b"here").unwrap();
    assert_eq!(store.try_get("still").unwrap(), b"here");
}
