//! Requests that a board must refuse, with the status that says why; nothing outside its folders is ever sent.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};
use support::{get, octant_run, raw, start, start_at};

const SECRET: &str = "the secret outside";

fn request(line: &str, headers: &[String]) -> Vec<u8> {
    format!(
        "{line} HTTP/1.1\r\n{}Connection: close\r\n\r\n",
        headers.iter().map(|h| format!("{h}\r\n")).collect::<String>()
    )
    .into_bytes()
}

struct Case {
    name: String,
    bytes: Vec<u8>,
    statuses: Vec<u16>,
}

fn case(name: impl Into<String>, bytes: Vec<u8>, statuses: &[u16]) -> Case {
    Case { name: name.into(), bytes, statuses: statuses.to_vec() }
}

fn hosts(address: SocketAddr) -> Vec<Case> {
    let port = address.port();
    let wrong = [
        "evil.example".to_string(),
        format!("evil.example:{port}"),
        format!("127.0.0.1.evil.example:{port}"),
        format!("localhost.evil.example:{port}"),
        format!("localhost:{}", port.wrapping_add(1).max(1)),
        "localhost".into(),
        "127.0.0.1".into(),
        format!("127.0.0.2:{port}"),
        format!("0.0.0.0:{port}"),
        format!("0x7f000001:{port}"),
        format!("2130706433:{port}"),
        format!("[::ffff:127.0.0.1]:{port}"),
        format!("localhost:{port}@evil.example"),
        format!("user@localhost:{port}"),
        format!("localhost:{port}, evil.example"),
        format!("localhost.:{port}"),
        String::new(),
        format!(":{port}"),
        format!("localhost:{port}/"),
    ];
    let mut cases: Vec<Case> = wrong
        .iter()
        .map(|host| case(format!("host {host:?}"), request("GET /api/runs", &[format!("Host: {host}")]), &[403, 400]))
        .collect();
    cases.push(case("no host", request("GET /api/runs", &[]), &[403, 400]));
    let both = [format!("Host: localhost:{port}"), "Host: evil.example".into()];
    cases.push(case("two hosts", request("GET /api/runs", &both), &[403, 400]));
    let absolute = request("GET http://evil.example/api/runs", &[format!("Host: localhost:{port}")]);
    cases.push(case("absolute form of another server", absolute, &[403, 400]));
    cases
}

fn origins(address: SocketAddr) -> Vec<Case> {
    let host = format!("Host: {address}");
    let wrong = [
        "Origin: http://evil.example".to_string(),
        "Origin: null".into(),
        format!("Origin: https://{address}"),
        format!("Origin: http://{address}.evil.example"),
        format!("Origin: http://localhost:{}", address.port().wrapping_sub(1)),
        "Origin: file://".into(),
        "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: no-cors\r\nSec-Fetch-Dest: image".into(),
        "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: cors".into(),
        "Sec-Fetch-Site: same-site\r\nSec-Fetch-Mode: cors".into(),
        "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\nSec-Fetch-Dest: iframe".into(),
    ];
    let attempt = |header: &String| request("GET /api/runs", &[host.clone(), header.clone()]);
    wrong.iter().map(|header| case(header.clone(), attempt(header), &[403])).collect()
}

fn paths(address: SocketAddr) -> Vec<Case> {
    let wrong = [
        "/../secret.txt",
        "/../../../../etc/passwd",
        "/%2e%2e/secret.txt",
        "/%2e%2e%2fsecret.txt",
        "/..%2fsecret.txt",
        "/%252e%252e/secret.txt",
        "/.%2e/secret.txt",
        "/..\\secret.txt",
        "/..%5csecret.txt",
        "/C:/Windows/win.ini",
        "/c%3a/windows/win.ini",
        "//etc/passwd",
        "/./etc/passwd",
        "/board.css/../../secret.txt",
        "/%c0%ae%c0%ae/secret.txt",
        "/%00",
        "/board.css%00.png",
        "/\\\\server\\share",
        "/runs/good/config.toml",
        "/api",
        "/api/",
        "/api/runs/1",
        "/API/RUNS",
        "/.git/config",
        "/web/index.html",
        "/index.html",
    ];
    let attempt = |path: &&str| request(&format!("GET {path}"), &[format!("Host: {address}")]);
    wrong.iter().map(|path| case(format!("path {path}"), attempt(path), &[400, 404])).collect()
}

fn queries(address: SocketAddr) -> Vec<Case> {
    let wrong = [
        "/api/plot?run=1&name=../secret.txt",
        "/api/plot?run=1&name=..%2f..%2fsecret.txt",
        "/api/plot?run=1&name=/etc/passwd",
        "/api/plot?run=1&name=link.png",
        "/api/plot?run=1&name=findings.json",
        "/api/plot?run=1&name=",
        "/api/plot?run=1",
        "/api/plot?run=../..&name=x",
        "/api/log?run=99999",
        "/api/log?run=-1",
        "/api/log?run=1e3",
        "/api/log",
        "/api/run?run=18446744073709551616",
        "/api/image?run=1&tag=predictions&index=999999",
        "/api/image?run=1&tag=predictions&index=0&sample=99",
        "/api/image?run=1&tag=../../etc/passwd&index=0",
        "/api/image?run=1&tag=predictions&index=-1",
        "/api/points?tag=loss&axis=sideways",
        "/api/points?tag=loss&runs=1-x",
        "/api/points?tag=loss&width=-5",
        "/api/points?tag=loss&from=abc",
        "/api/points",
        "/api/export?tag=loss&format=exe",
        "/api/export?tag=loss",
    ];
    let attempt = |path: &&str| request(&format!("GET {path}"), &[format!("Host: {address}")]);
    wrong.iter().map(|path| case(format!("query {path}"), attempt(path), &[400, 404])).collect()
}

fn shapes(address: SocketAddr) -> Vec<Case> {
    let host = format!("Host: {address}");
    let attempt = |line: &str| request(line, std::slice::from_ref(&host));
    let mut cases: Vec<Case> = ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "PROPFIND", "BREW"]
        .iter()
        .map(|method| case(*method, attempt(&format!("{method} /api/runs")), &[405, 400]))
        .collect();
    let long = "a".repeat(20_000);
    cases.push(case("a long address", attempt(&format!("GET /{long}")), &[414, 431, 400]));
    cases.push(case("a long query", attempt(&format!("GET /api/points?tag={}", &long[..10_000])), &[414, 431, 400]));
    let huge = request("GET /", &[host.clone(), format!("X-Huge: {}", "b".repeat(200_000))]);
    cases.push(case("a huge header", huge, &[431, 400, 0]));
    let many: Vec<String> = (0..500).map(|index| format!("X-{index}: y")).chain([host.clone()]).collect();
    cases.push(case("five hundred headers", request("GET /", &many), &[431, 400]));
    let body = request("GET /api/runs", &[host.clone(), "Content-Length: 1000000000".into()]);
    cases.push(case("a body", body, &[413, 400]));
    let smuggled = request("GET /", &[host.clone(), "Content-Length: 4".into(), "Transfer-Encoding: chunked".into()]);
    cases.push(case("two lengths", smuggled, &[413, 400]));
    cases.push(case("no HTTP", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".to_vec(), &[400, 0]));
    cases.push(case("HTTP/2 in clear", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(), &[400, 505, 0]));
    cases.push(case("HTTP/0.9", b"GET /\r\n\r\n".to_vec(), &[400, 0]));
    cases.push(case(
        "a bare line feed in a header",
        request("GET /", &[host, "X: a\nHost: evil.example".into()]),
        &[403, 400],
    ));
    cases
}

#[test]
fn hostile_requests_are_refused_and_nothing_outside_is_sent() {
    let parent = tempfile::tempdir().unwrap();
    let runs = parent.path().join("runs");
    octant_run(&runs.join("good"), 0, 2);
    std::fs::write(parent.path().join("secret.txt"), SECRET).unwrap();
    #[cfg(unix)]
    {
        use std::os::unix::fs::symlink;
        symlink(parent.path().join("secret.txt"), runs.join("good/plots/link.png")).unwrap();
        symlink(parent.path().join("secret.txt"), runs.join("good/notes.md")).unwrap();
        std::fs::create_dir(runs.join("linked")).unwrap();
        symlink(parent.path().join("secret.txt"), runs.join("linked/config.toml")).unwrap();
        std::fs::remove_file(runs.join("good/log.txt")).unwrap();
        symlink(parent.path().join("secret.txt"), runs.join("good/log.txt")).unwrap();
    }
    let serving = start(&runs);
    let address = serving.address();
    let cases: Vec<Case> = [hosts(address), origins(address), paths(address), queries(address), shapes(address)]
        .into_iter()
        .flatten()
        .collect();
    assert!(cases.len() >= 60, "only {}", cases.len());
    println!("{} hostile requests", cases.len());
    for Case { name, bytes, statuses } in &cases {
        let response = raw(address, bytes);
        assert!(
            statuses.contains(&response.status),
            "{name}: {} instead of {statuses:?}: {}",
            response.status,
            response.text()
        );
        assert!(!response.text().contains(SECRET) && !response.text().contains("root:"), "{name} sent a secret");
        assert!(!response.text().contains(parent.path().to_str().unwrap()), "{name} sent a path of this machine");
    }
    // What is beside the folder, or behind a link, is not in any response.
    for path in [
        "/api/runs",
        "/api/run?run=1",
        "/api/log?run=1",
        "/api/machine?run=1",
        "/api/plots?run=1",
        "/api/evaluation?run=1",
    ] {
        let response = get(address, path);
        assert_eq!(response.status, 200, "{path}: {}", response.text());
        assert!(!response.text().contains(SECRET), "{path} sent a secret");
        assert!(!response.text().contains("link.png"), "{path} lists a link");
    }
}

#[test]
fn every_response_forbids_frames_and_outside_requests() {
    let folder = tempfile::tempdir().unwrap();
    let serving = start(folder.path());
    for path in ["/", "/main.js", "/api/runs", "/nothing", "/../x"] {
        let head = get(serving.address(), path).head.to_lowercase();
        for wanted in ["default-src 'none'", "frame-ancestors 'none'", "x-frame-options: deny", "nosniff", "no-store"] {
            assert!(head.contains(wanted), "{path} lacks {wanted}:\n{head}");
        }
    }
    let page = get(serving.address(), "/");
    assert_eq!(page.status, 200);
    assert!(page.text().contains("<title>Octant board"));
}

#[test]
fn addresses_that_others_reach_need_the_token() {
    let folder = tempfile::tempdir().unwrap();
    let serving = start_at(folder.path(), "0.0.0.0:0");
    assert!(serving.needs_token());
    let address: SocketAddr = format!("127.0.0.1:{}", serving.address().port()).parse().unwrap();
    let url = serving.url();
    let token = url.split("token=").nth(1).unwrap();
    assert!(token.len() >= 32);
    for path in ["/", "/api/runs", "/main.js", "/?token=", "/?token=x", &format!("/?token={}x", &token[1..])] {
        assert_eq!(get(address, path).status, 401, "{path}");
    }
    let response = get(address, &format!("/?token={token}"));
    assert_eq!(response.status, 303, "{}", response.head);
    let cookie = response.head.lines().find_map(|line| line.strip_prefix("set-cookie: ")).unwrap().to_string();
    assert!(cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict"), "{cookie}");
    let cookie = format!("Cookie: {}", cookie.split(';').next().unwrap());
    assert_eq!(raw(address, &request("GET /api/runs", &[format!("Host: {address}"), cookie])).status, 200);
    let bearer = format!("Authorization: Bearer {token}");
    assert_eq!(raw(address, &request("GET /api/runs", &[format!("Host: {address}"), bearer])).status, 200);
}

/// `--host 0.0.0.0` printed `localhost`, and the machine's own address was refused.
#[cfg(target_os = "linux")]
#[test]
fn a_board_on_all_addresses_is_reached_by_each_of_them_and_by_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let serving = start_at(folder.path(), "0.0.0.0:0");
    let port = serving.address().port();
    let token = serving.url().split("token=").nth(1).unwrap().to_string();
    // On Linux all of 127.0.0.0/8 are addresses of this machine.
    let reached: SocketAddr = format!("127.0.0.2:{port}").parse().unwrap();
    let status = |host: &str| {
        let headers = [format!("Host: {host}"), format!("Authorization: Bearer {token}")];
        raw(reached, &request("GET /api/runs", &headers)).status
    };
    assert_eq!(status(&format!("127.0.0.2:{port}")), 200);
    for other in [format!("127.0.0.3:{port}"), format!("evil.example:{port}"), "127.0.0.2".into()] {
        assert_eq!(status(&other), 403, "{other}");
    }
    if let Some(url) = serving.url_for_others() {
        let address = url.strip_prefix("http://").unwrap().split('/').next().unwrap();
        let headers = [format!("Host: {address}"), format!("Authorization: Bearer {token}")];
        assert_eq!(raw(address.parse().unwrap(), &request("GET /api/runs", &headers)).status, 200, "{url}");
    }
}

#[test]
fn clients_that_send_slowly_are_let_go() {
    let folder = tempfile::tempdir().unwrap();
    let serving = start(folder.path());
    let begun = Instant::now();
    let mut slow = TcpStream::connect(serving.address()).unwrap();
    slow.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    slow.write_all(b"GET / HTTP/1.1\r\nHost: loc").unwrap();
    let mut rest = Vec::new();
    let _ = slow.read_to_end(&mut rest);
    assert!(begun.elapsed() < Duration::from_secs(20), "it was kept for {:?}", begun.elapsed());
    assert_eq!(get(serving.address(), "/").status, 200);
}

#[test]
fn ten_thousand_connections_are_bounded() {
    let folder = tempfile::tempdir().unwrap();
    let serving = start(folder.path());
    let (mut held, mut opened, begun) = (Vec::new(), 0, Instant::now());
    while opened < 10_000 && begun.elapsed() < Duration::from_secs(15) {
        // This process has a limit on open files of its own: the oldest are let go.
        if held.len() > 700 {
            held.drain(..100);
        }
        if let Ok(mut stream) = TcpStream::connect_timeout(&serving.address(), Duration::from_millis(500)) {
            let _ = stream.write_all(b"GET / HT");
            held.push(stream);
            opened += 1;
        }
    }
    assert!(opened > 700, "only {opened} could be opened");
    // All positions are taken: of those that hold on, the ones above the limit were closed at once.
    let is_closed = |stream: &mut TcpStream| {
        let _ = stream.set_read_timeout(Some(Duration::from_millis(1)));
        match stream.read(&mut [0; 1]) {
            Ok(read) => read == 0,
            Err(error) => error.kind() == ErrorKind::ConnectionReset,
        }
    };
    let closed = held.iter_mut().filter_map(|stream| is_closed(stream).then_some(())).count();
    println!("{opened} connections were opened; {closed} of the {} held ones were closed", held.len());
    assert!(held.len() <= 512 || closed > 0, "{} are all open", held.len());
    drop(held);
    let begun = Instant::now();
    while get(serving.address(), "/").status != 200 {
        assert!(begun.elapsed() < Duration::from_secs(20), "it did not come back");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// A request to change notes.
fn edit(address: SocketAddr, origin: &str, path: &str, body: &str) -> support::HttpResponse {
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: {address}\r\n{origin}Content-Type: application/json\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n{body}",
        body.len()
    );
    raw(address, head.as_bytes())
}

#[test]
fn notes_change_only_on_boards_that_allow_it_for_their_own_pages_in_their_own_folders() {
    let folder = tempfile::tempdir().unwrap();
    octant_run(&folder.path().join("runs/one"), 0, 2);
    let outside = folder.path().join("outside.md");
    std::fs::write(&outside, SECRET).unwrap();
    let (runs, note) = (folder.path().join("runs"), folder.path().join("runs/one/notes.md"));
    let good = r#"{"tags":["a"],"text":"noted"}"#;
    let closed = start(&runs);
    let own = |address: SocketAddr| format!("Origin: http://{address}\r\n");
    assert_eq!(edit(closed.address(), &own(closed.address()), "/api/notes?run=1", good).status, 405);
    drop(closed);
    let open = support::start_editable(&runs);
    let address = open.address();
    let own = own(address);
    let long = format!(r#"{{"tags":[],"text":"{}"}}"#, "x".repeat(70 << 10));
    let many = format!(r#"{{"tags":[{}],"text":""}}"#, vec!["\"t\""; 51].join(","));
    for (name, origin, path, body, status) in [
        ("no origin", "", "/api/notes?run=1", good, 403),
        ("another origin", "Origin: http://evil.example\r\n", "/api/notes?run=1", good, 403),
        ("null origin", "Origin: null\r\n", "/api/notes?run=1", good, 403),
        ("another address", own.as_str(), "/api/runs", good, 405),
        ("no such run", own.as_str(), "/api/notes?run=99", good, 404),
        ("no run", own.as_str(), "/api/notes", good, 400),
        ("no JSON", own.as_str(), "/api/notes?run=1", "tags=a", 400),
        ("too long", own.as_str(), "/api/notes?run=1", &long, 413),
        ("too many tags", own.as_str(), "/api/notes?run=1", &many, 400),
        ("a tag of two lines", own.as_str(), "/api/notes?run=1", r#"{"tags":["a\nb"],"text":""}"#, 400),
    ] {
        assert_eq!(edit(address, origin, path, body).status, status, "{name}");
        assert!(!note.exists(), "{name} wrote something");
    }
    let chunked = format!(
        "POST /api/notes?run=1 HTTP/1.1\r\nHost: {address}\r\n{own}Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n0\r\n\r\n"
    );
    assert_eq!(raw(address, chunked.as_bytes()).status, 413);
    let removal = format!("DELETE /api/notes?run=1 HTTP/1.1\r\nHost: {address}\r\n{own}Connection: close\r\n\r\n");
    assert_eq!(raw(address, removal.as_bytes()).status, 405);
    // A link that stands where the note would is replaced; what it points at stays.
    #[cfg(unix)]
    std::os::unix::fs::symlink(&outside, &note).unwrap();
    let response = edit(address, &own, "/api/notes?run=1", good);
    assert_eq!((response.status, response.json()), (200, serde_json::json!({ "notes": "noted", "labels": ["a"] })));
    assert_eq!(std::fs::read_to_string(&outside).unwrap(), SECRET);
    assert_eq!(std::fs::read_to_string(&note).unwrap(), "tags: a\n\nnoted\n");
    assert!(!note.is_symlink());
    // An empty note leaves no file behind.
    assert_eq!(edit(address, &own, "/api/notes?run=1", r#"{"tags":[],"text":""}"#).status, 200);
    assert!(
        !note.exists()
            && std::fs::read_dir(note.parent().unwrap())
                .unwrap()
                .flatten()
                .all(|entry| { !entry.file_name().to_string_lossy().ends_with(".tmp") })
    );
}
