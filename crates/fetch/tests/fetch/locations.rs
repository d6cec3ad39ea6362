//! Locations in object stores and on the web, against a local server.

use octant_fetch::{DownloadCache, FetchError, FetchLocation};
use octant_testing::http::{HttpResponse, Request, Server};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

type Objects = Arc<Mutex<Vec<(&'static str, &'static str)>>>;

fn objects() -> Objects {
    Arc::new(Mutex::new(vec![
        ("data/train/", ""),
        ("data/train/a b.txt", "first"),
        ("data/train/deep/c.txt", "second"),
        ("data/train/d.txt", "third"),
        ("data/train2/e.txt", "of another folder"),
    ]))
}

/// A bucket called `bucket`, two objects to a page. The version of an object is its content.
fn bucket(objects: &Objects, request: &Request) -> HttpResponse {
    let objects = objects.lock().unwrap();
    let path = request.target.strip_prefix("/bucket/").unwrap();
    if let Some(query) = path.strip_prefix('?') {
        let value = |name: &str| query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='));
        let prefix = value("prefix").unwrap_or_default().replace("%2F", "/");
        let start: usize = value("continuation-token").map_or(0, |token| token.parse().unwrap());
        let listed: Vec<_> = objects.iter().filter(|(key, _)| key.starts_with(&prefix)).collect();
        let contents: String = listed
            .iter()
            .skip(start)
            .take(2)
            .map(|(key, content)| {
                let size = content.len();
                format!("<Contents><Key>{key}</Key><ETag>&quot;{content}&quot;</ETag><Size>{size}</Size></Contents>")
            })
            .collect();
        let more = match start + 2 < listed.len() {
            true => {
                format!("<IsTruncated>true</IsTruncated><NextContinuationToken>{}</NextContinuationToken>", start + 2)
            }
            false => "<IsTruncated>false</IsTruncated>".into(),
        };
        return HttpResponse::whole(format!("<ListBucketResult>{contents}{more}</ListBucketResult>").as_bytes());
    }
    let key = path.replace("%20", " ");
    match objects.iter().find(|(known, _)| *known == key) {
        Some((_, content)) => HttpResponse::of(content.as_bytes(), request).with("etag", format!("\"{content}\"")),
        None => HttpResponse::status(404),
    }
}

fn cache(folder: &Path) -> DownloadCache {
    DownloadCache::open(folder).unwrap().with_retries(2, Duration::from_millis(5))
}

fn localize(location: &str, folder: &Path) -> Result<std::path::PathBuf, FetchError> {
    FetchLocation::parse(location)?.localize(&cache(folder), &mut |_, _| ())
}

pub fn set(name: &str, value: &str) {
    // SAFETY: only the tests of this program's modules `locations` and `store` read these variables, and they hold the lock of `ENVIRONMENT` while they do.
    unsafe { std::env::set_var(name, value) }
}

/// The providers' settings are those of the whole process.
pub static ENVIRONMENT: Mutex<()> = Mutex::new(());

#[test]
fn a_prefix_is_mirrored_page_by_page_and_then_only_what_changed() {
    let _environment = ENVIRONMENT.lock();
    let objects = objects();
    let shared = objects.clone();
    let server = Server::start(move |_, request| bucket(&shared, request));
    set("AWS_ENDPOINT_URL", &server.address);
    let folder = tempfile::tempdir().unwrap();
    let mut last = (0, None);
    let location = FetchLocation::parse("s3://bucket/data/train/").unwrap();
    let path = location.localize(&cache(folder.path()), &mut |done, total| last = (done, total)).unwrap();
    assert_eq!(last, (16, Some(16)));
    let read = |name: &str| std::fs::read_to_string(path.join(name)).unwrap();
    assert_eq!((read("a b.txt"), read("deep/c.txt"), read("d.txt")), ("first".into(), "second".into(), "third".into()));
    assert!(!folder.path().join("s3/bucket/data/train2").exists());
    let listings = server.log().iter().filter(|line| line.contains("list-type=2")).count();
    assert_eq!((listings, server.log().len()), (3, 6));

    // Nothing changed: only the listing is read.
    localize("s3://bucket/data/train", folder.path()).unwrap();
    assert_eq!(server.log().len(), 9);

    // One object changed, one is gone.
    *objects.lock().unwrap() = vec![("data/train/a b.txt", "fifth"), ("data/train/d.txt", "third")];
    localize("s3://bucket/data/train", folder.path()).unwrap();
    assert_eq!(read("a b.txt"), "fifth");
    assert!(!path.join("deep/c.txt").exists());
    assert_eq!(server.log().len(), 11);

    // Without a network, what is complete is used.
    set("AWS_ENDPOINT_URL", "http://127.0.0.1:1");
    assert_eq!(localize("s3://bucket/data/train", folder.path()).unwrap(), path);
    let error = localize("s3://bucket/other", folder.path()).unwrap_err().to_string();
    assert!(error.contains("cannot reach s3://bucket/other"), "{error}");
}

#[test]
fn one_object_becomes_one_file_and_requests_are_signed() {
    let _environment = ENVIRONMENT.lock();
    let objects = objects();
    let server = Server::start(move |_, request| bucket(&objects, request));
    set("AWS_ENDPOINT_URL", &server.address);
    set("AWS_ACCESS_KEY_ID", "someone");
    set("AWS_SECRET_ACCESS_KEY", "secret");
    let folder = tempfile::tempdir().unwrap();
    let path = localize("s3://bucket/data/train/d.txt", folder.path()).unwrap();
    assert_eq!(std::fs::read_to_string(path).unwrap(), "third");
    for request in server.requests() {
        assert!(request.headers["authorization"].starts_with("AWS4-HMAC-SHA256 Credential=someone/"), "{request:?}");
    }
    let error = localize("s3://bucket/nothing", folder.path()).unwrap_err();
    assert!(matches!(error, FetchError::Nothing(_)), "{error}");
    set("AWS_ACCESS_KEY_ID", "");
}

#[test]
fn googles_buckets_are_read_with_a_token() {
    let _environment = ENVIRONMENT.lock();
    let objects = objects();
    let server = Server::start(move |_, request| bucket(&objects, request));
    set("STORAGE_EMULATOR_HOST", &server.address);
    set("GOOGLE_OAUTH_ACCESS_TOKEN", "token");
    let folder = tempfile::tempdir().unwrap();
    let path = localize("gs://bucket/data/train2", folder.path()).unwrap();
    assert_eq!(std::fs::read_to_string(path.join("e.txt")).unwrap(), "of another folder");
    assert!(server.requests().iter().all(|request| request.headers["authorization"] == "Bearer token"));
}

#[test]
fn a_file_on_the_web_is_checked_for_a_new_version() {
    let version = Arc::new(Mutex::new("one"));
    let current = version.clone();
    let server = Server::start(move |_, request| {
        let version = *current.lock().unwrap();
        HttpResponse::of(version.as_bytes(), request).with("etag", format!("\"{version}\""))
    });
    let folder = tempfile::tempdir().unwrap();
    let location = format!("{}/data/list.txt?x=1", server.address);
    let path = localize(&location, folder.path()).unwrap();
    localize(&location, folder.path()).unwrap();
    assert_eq!(server.log().iter().filter(|line| line.starts_with("GET")).count(), 1);
    *version.lock().unwrap() = "two";
    assert_eq!(localize(&location, folder.path()).unwrap(), path);
    assert_eq!(std::fs::read_to_string(path).unwrap(), "two");
}

/// What `python -m http.server` returns.
fn folder_on_the_web(request: &Request) -> HttpResponse {
    let page = |text: &str| HttpResponse::whole(text.as_bytes()).with("content-type", "text/html; charset=utf-8");
    match request.target.as_str() {
        "/set" | "/set/" => page(r#"<a href="../">..</a><a href="a%20b.txt">a b</a><a href="deep/">deep</a>"#),
        "/set/deep/" => page(r#"<a href="c.txt">c</a>"#),
        "/set/a%20b.txt" => HttpResponse::of(b"first", request).with("etag", "\"1\""),
        "/set/deep/c.txt" => HttpResponse::of(b"second", request).with("last-modified", "today"),
        "/welcome" | "/welcome/" => page("<h1>Welcome</h1>"),
        _ => HttpResponse::status(404),
    }
}

#[test]
fn a_folder_on_the_web_is_mirrored_by_its_listing() {
    let server = Server::start(|_, request| folder_on_the_web(request));
    let folder = tempfile::tempdir().unwrap();
    let path = localize(&format!("{}/set/", server.address), folder.path()).unwrap();
    let read = |name: &str| std::fs::read_to_string(path.join(name)).unwrap();
    assert_eq!((read("a b.txt"), read("deep/c.txt")), ("first".into(), "second".into()));
    std::fs::write(path.join("gone.txt"), "is not there any more").unwrap();
    localize(&format!("{}/set", server.address), folder.path()).unwrap();
    assert!(!path.join("gone.txt").exists());
    let fetched = server.log().iter().filter(|line| line.starts_with("GET") && line.ends_with("txt")).count();
    assert_eq!(fetched, 2, "what has not changed is not fetched again: {:?}", server.log());
    let error = localize(&format!("{}/welcome", server.address), folder.path()).unwrap_err();
    assert!(matches!(error, FetchError::NoFolder(_)), "{error}");
}

#[test]
fn locations_are_distinguished_from_paths() {
    assert_eq!(FetchLocation::parse("some/folder").unwrap(), FetchLocation::Path("some/folder".into()));
    assert_eq!(FetchLocation::parse("file:///x/y").unwrap(), FetchLocation::Path("/x/y".into()));
    for text in ["https://example.org/x.tar", "s3://bucket/x/y", "gs://bucket/x"] {
        assert_eq!(FetchLocation::parse(text).unwrap().to_string(), text);
    }
    for text in ["ftp://example.org/x", "s3://", "gs:///x"] {
        assert!(matches!(FetchLocation::parse(text), Err(FetchError::BadLocation { .. })), "{text}");
    }
}
