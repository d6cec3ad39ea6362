//! Failing downloads: cut connections, wrong content, refused requests.

use octant_fetch::{Checksum, DownloadCache, FetchError, Item};
use octant_testing::http::{HttpResponse, Server};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tempfile::TempDir;

fn content() -> Vec<u8> {
    (0..1_000_000u32).map(|index| (index.wrapping_mul(2_654_435_761) >> 24) as u8).collect()
}

/// `sha256sum` and `md5sum` of the content.
const SHA256: &str = "720875c71138e974da5bb2d9013c11784bb46523debb9f5b5c13364e223bef3c";
const MD5: &str = "3daeab5bbad4d9d4764300c445051dd8";

fn item(address: &str) -> Item {
    Item {
        name: "models/weights.pth".into(),
        url: format!("{address}/weights.pth"),
        bytes: Some(1_000_000),
        checksum: Some(Checksum::Sha256(SHA256[..8].into())),
    }
}

fn cache(folder: &TempDir) -> DownloadCache {
    DownloadCache::open(folder.path()).unwrap().with_retries(3, Duration::from_millis(5))
}

fn quiet() -> impl FnMut(u64, Option<u64>) {
    |_, _| ()
}

#[test]
fn a_file_is_fetched_once_and_found_afterwards() {
    let server = Server::start(|_, request| HttpResponse::of(&content(), request));
    let folder = tempfile::tempdir().unwrap();
    let mut seen = Vec::new();
    let path = cache(&folder).get(&item(&server.address), &mut |done, total| seen.push((done, total))).unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), content());
    assert_eq!((seen[0], seen[seen.len() - 1]), ((0, Some(1_000_000)), (1_000_000, Some(1_000_000))));
    assert_eq!(cache(&folder).get(&item(&server.address), &mut quiet()).unwrap(), path);
    assert_eq!(server.log(), ["GET /weights.pth"]);
}

#[test]
fn a_cut_connection_resumes_where_it_stopped() {
    let server = Server::start(|number, request| match number {
        0 => HttpResponse::of(&content(), request).with("etag", "\"1\"").cut_after(400_000),
        1 => HttpResponse::of(&content(), request).with("etag", "\"1\"").cut_after(100_000),
        _ => HttpResponse::of(&content(), request).with("etag", "\"1\""),
    });
    let folder = tempfile::tempdir().unwrap();
    let lines = Arc::new(Mutex::new(Vec::new()));
    let log = lines.clone();
    let cache = cache(&folder).with_log(move |line| log.lock().unwrap().push(line.to_string()));
    let path = cache.get(&item(&server.address), &mut quiet()).unwrap();
    assert_eq!(std::fs::read(path).unwrap(), content());
    assert_eq!(server.log(), ["GET /weights.pth", "GET /weights.pth bytes=400000-", "GET /weights.pth bytes=500000-"]);
    assert_eq!(server.requests()[1].headers["if-range"], "\"1\"");
    assert_eq!(lines.lock().unwrap().len(), 2);
}

#[test]
fn another_process_resumes_where_one_was_killed() {
    let server = Server::start(|number, request| match number {
        0..3 => HttpResponse::of(&content(), request).cut_after(if number == 0 { 300_000 } else { 0 }),
        _ => HttpResponse::of(&content(), request),
    });
    let folder = tempfile::tempdir().unwrap();
    let error = cache(&folder).get(&item(&server.address), &mut quiet()).unwrap_err();
    assert!(matches!(error, FetchError::Unreachable { .. }), "{error}");
    assert!(!folder.path().join("models/weights.pth").exists());
    cache(&folder).get(&item(&server.address), &mut quiet()).unwrap();
    assert_eq!(server.log().last().unwrap(), "GET /weights.pth bytes=300000-");
}

#[test]
fn a_server_that_ignores_ranges_is_read_from_the_beginning() {
    let server = Server::start(|number, _| match number {
        0 => HttpResponse::whole(&content()).cut_after(400_000),
        _ => HttpResponse::whole(&content()),
    });
    let folder = tempfile::tempdir().unwrap();
    let path = cache(&folder).get(&item(&server.address), &mut quiet()).unwrap();
    assert_eq!(std::fs::read(path).unwrap(), content());
    assert_eq!(server.requests().len(), 2);
}

#[test]
fn a_file_with_another_checksum_is_thrown_away() {
    let server = Server::start(|_, request| HttpResponse::of(&vec![7; 1_000_000], request));
    let folder = tempfile::tempdir().unwrap();
    let error = cache(&folder).get(&item(&server.address), &mut quiet()).unwrap_err();
    assert!(matches!(error, FetchError::WrongChecksum { .. }), "{error}");
    assert!(error.to_string().contains(&SHA256[..8]), "{error}");
    let again = cache(&folder).get(&item(&server.address), &mut quiet());
    assert!(again.is_err());
    // Nothing of it was kept: the second attempt requested the whole again.
    assert_eq!(server.log(), ["GET /weights.pth", "GET /weights.pth"]);
}

#[test]
fn the_beginning_of_another_version_does_not_spoil_the_file() {
    let server = Server::start(|_, request| HttpResponse::of(&content(), request));
    let folder = tempfile::tempdir().unwrap();
    let part = folder.path().join(".unfinished/models/weights.pth");
    std::fs::create_dir_all(part.parent().unwrap()).unwrap();
    std::fs::write(&part, vec![9; 5000]).unwrap();
    let path = cache(&folder).get(&item(&server.address), &mut quiet()).unwrap();
    assert_eq!(std::fs::read(path).unwrap(), content());
    assert_eq!(server.log(), ["GET /weights.pth bytes=5000-", "GET /weights.pth"]);
}

#[test]
fn passing_problems_are_waited_for_and_lasting_ones_are_reported() {
    let busy = Server::start(|number, request| match number {
        0..2 => HttpResponse::status(503),
        _ => HttpResponse::of(&content(), request),
    });
    let folder = tempfile::tempdir().unwrap();
    cache(&folder).get(&item(&busy.address), &mut quiet()).unwrap();
    assert_eq!(busy.requests().len(), 3);

    let gone = Server::start(|_, _| HttpResponse::status(404));
    let folder = tempfile::tempdir().unwrap();
    let error = cache(&folder).get(&item(&gone.address), &mut quiet()).unwrap_err().to_string();
    assert!(error.contains("404") && error.contains("no such file"), "{error}");
    assert_eq!(gone.requests().len(), 1);
}

#[test]
fn without_a_network_the_cache_is_enough_and_otherwise_the_error_helps() {
    let folder = tempfile::tempdir().unwrap();
    let unreachable = "http://127.0.0.1:1";
    let error = cache(&folder).get(&item(unreachable), &mut quiet()).unwrap_err().to_string();
    assert!(error.contains("cannot reach") && error.contains("mirror"), "{error}");
    std::fs::create_dir_all(folder.path().join("models")).unwrap();
    std::fs::write(folder.path().join("models/weights.pth"), content()).unwrap();
    cache(&folder).get(&item(unreachable), &mut quiet()).unwrap();
}

#[test]
fn a_folder_as_mirror_is_read_in_place_and_verified() {
    let (folder, mirror) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let cache = cache(&folder).mirror(mirror.path().to_str().unwrap()).unwrap();
    let item = item("https://example.org");
    let error = cache.get(&item, &mut quiet()).unwrap_err().to_string();
    assert!(error.contains("has no file") && error.contains("https://example.org/weights.pth"), "{error}");
    let file = mirror.path().join("weights.pth");
    std::fs::write(&file, "something else").unwrap();
    assert!(matches!(cache.get(&item, &mut quiet()), Err(FetchError::WrongChecksum { .. })));
    std::fs::write(&file, content()).unwrap();
    assert_eq!(cache.get(&item, &mut quiet()).unwrap(), file);
    let md5 = Item { checksum: Some(Checksum::Md5(MD5.to_uppercase())), ..item };
    assert_eq!(cache.get(&md5, &mut quiet()).unwrap(), file);
}

#[test]
fn an_address_as_mirror_takes_the_place_of_the_published_one() {
    let server = Server::start(|_, request| HttpResponse::of(&content(), request));
    let folder = tempfile::tempdir().unwrap();
    let cache = cache(&folder).mirror(&format!("{}/copies/", server.address)).unwrap();
    cache.get(&item("http://127.0.0.1:1"), &mut quiet()).unwrap();
    assert_eq!(server.log(), ["GET /copies/models/weights.pth"]);
}

#[test]
fn many_at_once_fetch_a_file_once() {
    let server = Server::start(|_, request| HttpResponse::of(&content(), request));
    let folder = tempfile::tempdir().unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| cache(&folder).get(&item(&server.address), &mut quiet()).unwrap());
        }
    });
    assert_eq!(server.requests().len(), 1);
}

#[test]
fn names_stay_inside_the_cache() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["../x", "/etc/passwd", "", "a/../../b"] {
        let item = Item { name: name.into(), ..item("http://127.0.0.1:1") };
        assert!(matches!(cache(&folder).get(&item, &mut quiet()), Err(FetchError::BadLocation { .. })), "{name}");
    }
}
