//! Many clients at once: every response is the right one, limits hold, and nothing is lost when the server stops or reloads.

#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use crate::support::*;
use octant_serve::{ModelSource, ServeEvent, ServeOptions, Server};
use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

fn metric(address: SocketAddr, name: &str) -> f64 {
    let page = String::from_utf8(get(address, "/metrics").body).unwrap();
    let line = page.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("no {name} in\n{page}"));
    line.split(' ').next_back().unwrap().parse().unwrap()
}

/// Waits until that many images wait for the device.
fn until_waiting(address: SocketAddr, images: f64) {
    let begun = Instant::now();
    while metric(address, "octant_queue_images{model=\"tiny\"}") != images {
        assert!(begun.elapsed() < Duration::from_secs(20), "{images} images never waited");
        thread::sleep(Duration::from_millis(2));
    }
}

fn send_request(address: SocketAddr, count: usize, seed: usize) -> JoinHandle<HttpResponse> {
    thread::spawn(move || logits(address, "tiny", count, &numbers(count, seed)))
}

#[test]
fn clients_with_mixed_requests_each_get_their_own_predictions() {
    let device = cpu();
    let sources = vec![source("tiny", "resnet-tiny", 3), source("other", "resnet-tiny", 4)];
    let server = start(sources, &device, ServeOptions { max_delay: Duration::from_millis(1), ..options() });
    let address = server.endpoint().address;
    let predictors = [("tiny", predictor("resnet-tiny", 3, &device)), ("other", predictor("resnet-tiny", 4, &device))];
    thread::scope(|scope| {
        for client in 0..12 {
            let predictors = &predictors;
            scope.spawn(move || {
                for round in 0..6 {
                    let (name, predictor) = &predictors[(client + round) % 2];
                    let (count, seed) = (1 + (client * 5 + round) % 6, client * 100 + round);
                    if round % 3 == 2 {
                        let image = image(20 + client, 30 + round, seed);
                        let expected = predictor.predict([image.clone()]).unwrap().swap_remove(0).json(1);
                        let found = post(address, &format!("/predict?model={name}"), &[], &png(&image)).body;
                        // As text: parsing may round the last bit of a number.
                        let expected = serde_json::to_vec(&expected).unwrap();
                        assert!(found == expected, "{client} {round}");
                        continue;
                    }
                    let numbers = numbers(count, seed);
                    let response = logits(address, name, count, &numbers);
                    assert_eq!(response.status, 200);
                    assert!(response.behind() == expected(predictor, count, &numbers), "{client} {round}");
                }
            });
        }
    });
    let (images, batches) = (metric(address, "octant_batch_images_sum"), metric(address, "octant_batch_images_count"));
    assert!(batches < images, "{images} images went through {batches} batches: none shared one");
}

#[test]
fn requests_that_wait_are_put_together_and_those_beyond_the_queue_are_refused() {
    let (device, gate) = Gated::device();
    let server = start(vec![source("tiny", "resnet-tiny", 3)], &device, ServeOptions { queue: 6, ..options() });
    let address = server.endpoint().address;
    // The first is with the device; those behind it wait.
    let first = gate.hold(|| send_request(address, 1, 0));
    let waiting: Vec<_> = (1..=4).map(|seed| send_request(address, 1, seed)).collect();
    until_waiting(address, 4.0);
    let refused = logits(address, "tiny", 3, &numbers(3, 0));
    assert_eq!((refused.status, refused.header("retry-after").as_deref()), (429, Some("1")));
    assert_eq!(logits(address, "tiny", 7, &numbers(7, 0)).status, 413, "seven never fit");
    let runs = gate.runs.load(Ordering::SeqCst);
    gate.set_closed(false);
    let predictor = predictor("resnet-tiny", 3, &cpu());
    for (seed, response) in std::iter::once(first).chain(waiting).enumerate() {
        assert!(response.join().unwrap().behind() == expected(&predictor, 1, &numbers(1, seed)), "{seed}");
    }
    // The one that was held, and the four that waited behind it together.
    assert_eq!(gate.runs.load(Ordering::SeqCst) - runs, 2, "runs for five images");
}

#[test]
fn a_request_waits_for_others_as_long_as_it_may_and_no_longer_than_for_a_full_batch() {
    let device = cpu();
    let delay = Duration::from_secs(4);
    let limits = ServeOptions { max_delay: delay, max_batch: 2, timeout: Duration::from_secs(60), ..options() };
    let server = start(vec![source("tiny", "resnet-tiny", 3)], &device, limits);
    let address = server.endpoint().address;
    let begun = Instant::now();
    let both = [1, 2].map(|seed| send_request(address, 1, seed));
    for one in both {
        assert_eq!(one.join().unwrap().status, 200);
    }
    assert!(begun.elapsed() < delay, "a full batch does not wait");
    let begun = Instant::now();
    assert_eq!(send_request(address, 1, 3).join().unwrap().status, 200);
    assert!(begun.elapsed() >= delay, "nobody waited for a second image");
    let counts = ["octant_batch_images_sum", "octant_batch_images_count"].map(|name| metric(address, name));
    assert_eq!(counts, [3.0, 2.0], "images and batches");
}

#[test]
fn late_requests_and_those_of_clients_that_are_gone_are_not_computed() {
    let (device, gate) = Gated::device();
    let server = start(vec![source("tiny", "resnet-tiny", 3)], &device, options());
    let address = server.endpoint().address;
    let held = gate.hold(|| send_request(address, 1, 0));
    let body = format!(
        r#"{{"parameters":{{"timeout":50000}},"inputs":[{{"name":"images","datatype":"FP32","shape":[1,3,32,32],"data":{:?}}}]}}"#,
        numbers(1, 1)
    );
    assert_eq!(post(address, "/v2/models/tiny/infer", &[], body.as_bytes()).status, 504);
    let (header, body) = binary_request("images", "FP32", &[1, 3, 32, 32], &bytes_of(&numbers(1, 2)));
    let mut gone = TcpStream::connect(address).unwrap();
    gone.write_all(&request(address, "POST /v2/models/tiny/infer", &[&header], &body)).unwrap();
    until_waiting(address, 1.0);
    drop(gone);
    thread::sleep(Duration::from_millis(200));
    let runs = gate.runs.load(Ordering::SeqCst);
    gate.set_closed(false);
    assert_eq!(held.join().unwrap().status, 200);
    until_waiting(address, 0.0);
    thread::sleep(Duration::from_millis(100));
    assert_eq!(gate.runs.load(Ordering::SeqCst) - runs, 1, "only the one that was held is computed");
}

#[test]
fn a_server_that_stops_completes_what_is_under_way_and_nothing_wrong() {
    let device = cpu();
    let server = start(vec![source("tiny", "resnet-tiny", 3)], &device, options());
    let address = server.endpoint().address;
    let predictor = predictor("resnet-tiny", 3, &device);
    let (completed, stops) = (AtomicUsize::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        for client in 0..8 {
            let (completed, stops, predictor) = (&completed, &stops, &predictor);
            scope.spawn(move || {
                for round in 0.. {
                    let numbers = numbers(1, client * 1000 + round);
                    let response = logits(address, "tiny", 1, &numbers);
                    match response.status {
                        200 => {
                            assert!(response.behind() == expected(predictor, 1, &numbers));
                            completed.fetch_add(1, Ordering::Relaxed);
                        }
                        // The connection was refused, or closed before the request was read.
                        0 | 503 if stops.load(Ordering::Acquire) => return,
                        other => panic!("{other} while it serves"),
                    }
                }
            });
        }
        while completed.load(Ordering::Relaxed) < 20 {
            thread::sleep(Duration::from_millis(5));
        }
        stops.store(true, Ordering::Release);
        assert!(server.stop(Duration::from_secs(20)), "requests under way were not completed in time");
    });
    assert!(TcpStream::connect(address).is_err(), "it still listens");
}

#[test]
fn a_stop_is_bounded_when_the_device_hangs() {
    let (device, gate) = Gated::device();
    let server = start(vec![source("tiny", "resnet-tiny", 3)], &device, options());
    let address = server.endpoint().address;
    let held = gate.hold(|| send_request(address, 1, 0));
    let opener = thread::spawn(move || {
        thread::sleep(Duration::from_secs(2));
        gate.set_closed(false);
    });
    assert!(!server.stop(Duration::from_millis(300)), "the held request was counted as completed");
    opener.join().unwrap();
    assert_ne!(held.join().unwrap().status, 200);
}

#[test]
fn a_changed_file_is_served_and_a_broken_one_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("weights.safetensors");
    let write = |seed: u64| {
        let temporary = folder.path().join("new");
        crate::support::write_weights(&temporary, "resnet-tiny", seed);
        std::fs::rename(&temporary, &path).unwrap();
    };
    write(3);
    let (send, events) = mpsc::channel();
    let network = octant_predict::NetworkFile::open(&path).unwrap().network().unwrap();
    let source = ModelSource {
        name: "tiny".into(),
        network,
        path: Some(path.clone()),
        checkpoint: None,
        arithmetic: None,
        options: Default::default(),
    };
    let options = ServeOptions { reload: Some(Duration::from_millis(30)), ..options() };
    let device = cpu();
    let server = Server::start(vec![source], &device, options, move |event| match event {
        ServeEvent::Reloaded { version, .. } => drop(send.send(Ok(version))),
        ServeEvent::NotReloaded { error, .. } => drop(send.send(Err(error.to_string()))),
        ServeEvent::Compiled { .. } => {}
    });
    let server = server.unwrap();
    let address = server.endpoint().address;
    let numbers = numbers(1, 1);
    let response = |seed: u64| expected(&predictor("resnet-tiny", seed, &device), 1, &numbers);
    let versions = [response(3), response(4)];
    assert_ne!(versions[0], versions[1]);
    assert!(logits(address, "tiny", 1, &numbers).behind() == versions[0]);
    let wait = || events.recv_timeout(Duration::from_secs(60)).unwrap();
    let is_done = AtomicBool::new(false);
    thread::scope(|scope| {
        let (numbers, versions, done) = (&numbers, &versions, &is_done);
        for _ in 0..3 {
            scope.spawn(move || {
                while !done.load(Ordering::Acquire) {
                    let response = logits(address, "tiny", 1, numbers);
                    assert!(response.status == 200 && versions.iter().any(|version| response.behind() == version));
                }
            });
        }
        write(4);
        assert_eq!(wait(), Ok(2));
        assert!(logits(address, "tiny", 1, numbers).behind() == versions[1]);
        done.store(true, Ordering::Release);
    });
    assert_eq!(get(address, "/v2/models/tiny").json()["versions"][0], "2");
    std::fs::write(folder.path().join("new"), b"no weights").unwrap();
    std::fs::rename(folder.path().join("new"), &path).unwrap();
    assert!(wait().is_err());
    assert!(logits(address, "tiny", 1, &numbers).behind() == versions[1], "the version before is still served");
}
