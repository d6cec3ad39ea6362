//! A prefix of a bucket that is written to, against a local server.

use super::locations::{ENVIRONMENT, set};
use octant_fetch::{FetchError, ObjectStore, sha256};
use octant_testing::http::{HttpResponse, Request, Server, object_store};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

type Objects = Arc<Mutex<BTreeMap<String, Vec<u8>>>>;

/// A store at `s3://bucket/runs/a`, whose server may do something else first.
fn store(
    objects: &Objects,
    first: impl Fn(&Request) -> Option<HttpResponse> + Send + Sync + 'static,
) -> (Server, ObjectStore) {
    let objects = objects.clone();
    let server = Server::start(move |_, request| {
        first(request).unwrap_or_else(|| object_store(&mut objects.lock().unwrap(), request))
    });
    set("AWS_ENDPOINT_URL", &server.address);
    let store = ObjectStore::open("s3://bucket/runs/a/").unwrap().with_retries(3, Duration::from_millis(5));
    (server, store)
}

#[test]
fn objects_are_stored_listed_read_and_removed() {
    let _environment = ENVIRONMENT.lock();
    let objects = Objects::default();
    set("AWS_ACCESS_KEY_ID", "someone");
    set("AWS_SECRET_ACCESS_KEY", "secret");
    let (server, store) = store(&objects, |_| None);
    let store = store.with_pieces(10);
    let (folder, text) = (tempfile::tempdir().unwrap(), "a text of twenty-six bytes");
    let at = |name: &str| folder.path().join(name);
    std::fs::write(at("sent"), text).unwrap();
    std::fs::write(at("empty"), "").unwrap();
    store.put("list.json", b"{}").unwrap();
    let stored = store.put_file("files/a b", &at("sent")).unwrap();
    let empty = store.put_file("files/empty", &at("empty")).unwrap();
    assert_eq!((stored.bytes, stored.pieces.len(), empty.pieces.len()), (26, 3, 1));
    assert_eq!(objects.lock().unwrap()["runs/a/files/a b.part-00003"], b" bytes");
    assert_eq!(store.get("list.json").unwrap().as_deref(), Some(&b"{}"[..]));
    assert_eq!(store.get("nothing").unwrap(), None);
    assert_eq!(store.list("files/").unwrap().len(), 4);
    store.get_file("files/a b", &stored, &at("received")).unwrap();
    assert_eq!(std::fs::read_to_string(at("received")).unwrap(), text);
    store.get_file("files/empty", &empty, &at("received")).unwrap();
    assert_eq!(std::fs::read_to_string(at("received")).unwrap(), "");
    for request in server.requests().iter().filter(|request| request.method == "PUT") {
        assert!(request.headers["authorization"].starts_with("AWS4-HMAC-SHA256 Credential=someone/"), "{request:?}");
        assert_eq!(request.headers["x-amz-content-sha256"], sha256(&request.body));
        assert!(!request.headers.contains_key("transfer-encoding"), "stores want the length: {request:?}");
    }
    store.delete("list.json").unwrap();
    store.delete("list.json").unwrap();
    assert_eq!(store.get("list.json").unwrap(), None);
    set("AWS_ACCESS_KEY_ID", "");
}

#[test]
fn what_fails_for_a_passing_reason_is_repeated_and_what_is_damaged_is_noticed() {
    let _environment = ENVIRONMENT.lock();
    let objects = Objects::default();
    let number = AtomicUsize::new(0);
    // Every second request fails.
    let (_server, store) = store(&objects, move |_| {
        number.fetch_add(1, Ordering::Relaxed).is_multiple_of(2).then(|| HttpResponse::status(503))
    });
    let folder = tempfile::tempdir().unwrap();
    let (sent, received) = (folder.path().join("sent"), folder.path().join("received"));
    std::fs::write(&sent, "0123456789").unwrap();
    let stored = store.put_file("file", &sent).unwrap();
    store.get_file("file", &stored, &received).unwrap();
    assert_eq!(std::fs::read_to_string(&received).unwrap(), "0123456789");
    objects.lock().unwrap().insert("runs/a/file".into(), b"0123456780".to_vec());
    let error = store.get_file("file", &stored, &received).unwrap_err();
    assert!(matches!(error, FetchError::Damaged(_)), "{error}");
    objects.lock().unwrap().clear();
    let error = store.get_file("file", &stored, &received).unwrap_err();
    assert!(matches!(error, FetchError::Damaged(_)), "{error}");
}

#[test]
fn a_broken_connection_resumes_and_a_refusal_says_why() {
    let _environment = ENVIRONMENT.lock();
    let objects = Objects::default();
    let kept = objects.clone();
    let (server, store) = store(&objects, move |request| match request.method.as_str() {
        "GET" if !request.headers.contains_key("range") => {
            Some(HttpResponse::whole(kept.lock().unwrap().get("runs/a/file")?).cut_after(4))
        }
        _ if request.target.ends_with("secret") => Some(HttpResponse::status(403)),
        _ => None,
    });
    let folder = tempfile::tempdir().unwrap();
    let (sent, received) = (folder.path().join("sent"), folder.path().join("received"));
    std::fs::write(&sent, "0123456789").unwrap();
    let stored = store.put_file("file", &sent).unwrap();
    store.get_file("file", &stored, &received).unwrap();
    assert_eq!(std::fs::read_to_string(&received).unwrap(), "0123456789");
    assert!(server.log().iter().any(|line| line.ends_with("bytes=4-")), "{:?}", server.log());
    let error = store.put("secret", b"").unwrap_err().to_string();
    assert!(error.contains("403: it is not public; set AWS_ACCESS_KEY_ID"), "{error}");
    set("AWS_ENDPOINT_URL", "http://127.0.0.1:1");
    let store = ObjectStore::open("s3://bucket/runs/a").unwrap().with_retries(2, Duration::from_millis(5));
    let error = store.put("file", b"").unwrap_err().to_string();
    assert!(error.starts_with("s3://bucket/runs/a/file cannot be reached: "), "{error}");
    for text in ["s3://bucket", "runs/a", "https://example.org/runs"] {
        assert!(matches!(ObjectStore::open(text), Err(FetchError::BadLocation { .. })), "{text}");
    }
}
