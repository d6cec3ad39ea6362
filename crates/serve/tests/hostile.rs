//! Requests that a server must refuse, with the status that says why; afterwards it serves as before.

#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use crate::support::*;
use octant_serve::{ServeOptions, Server};
use octant_web::Limits;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

const INFER: &str = "POST /v2/models/tiny/infer";

struct Case {
    name: String,
    bytes: Vec<u8>,
    status: u16,
}

fn serving(options: ServeOptions) -> (Server, SocketAddr) {
    let server = start(vec![source("tiny", "resnet-tiny", 3)], &cpu(), options);
    let address = server.endpoint().address;
    (server, address)
}

fn still_serves(address: SocketAddr) {
    let (predictor, numbers) = (predictor("resnet-tiny", 3, &cpu()), numbers(2, 9));
    assert!(logits(address, "tiny", 2, &numbers).behind() == expected(&predictor, 2, &numbers));
}

fn input(fields: &str) -> String {
    format!(r#"{{"inputs":[{{"name":"images",{fields}}}]}}"#)
}

/// Bodies of requests for inference.
fn bodies(address: SocketAddr) -> Vec<Case> {
    let json = |name: &str, status: u16, body: &str| Case {
        name: name.into(),
        bytes: request(address, INFER, &[], body.as_bytes()),
        status,
    };
    let good = bytes_of(&numbers(1, 0));
    let binary = |name: &str, header: &str, shape: &str, size: usize, packed: &[u8]| {
        let json = input(&format!(r#""datatype":"FP32","shape":{shape},"parameters":{{"binary_data_size":{size}}}"#));
        let header = if header.is_empty() { json.len().to_string() } else { header.to_string() };
        let header = format!("Inference-Header-Content-Length: {header}");
        Case {
            name: name.into(),
            bytes: request(address, INFER, &[&header], &[json.as_bytes(), packed].concat()),
            status: 400,
        }
    };
    let mut nan = good.clone();
    nan[40..44].copy_from_slice(&f32::NAN.to_le_bytes());
    let shape = "[1,3,32,32]";
    let deep = format!(r#"{{"inputs":{}"#, "[".repeat(200_000));
    let wide = input(&format!(r#""datatype":"FP32","shape":[1000],"data":[{}1]"#, "1,".repeat(100_000)));
    vec![
        json("nothing", 400, ""),
        json("no JSON", 400, "{"),
        json("another object", 400, "{}"),
        json("a list", 400, "[]"),
        json("no input", 400, r#"{"inputs":[]}"#),
        json("an unknown field", 400, r#"{"inputs":[],"surprise":1}"#),
        json("an unknown parameter", 400, r#"{"inputs":[],"parameters":{"sequence_id":1}}"#),
        json("an unknown input", 400, r#"{"inputs":[{"name":"x","datatype":"FP32","shape":[1],"data":[1]}]}"#),
        json("an unknown type", 400, &input(r#""datatype":"FP8","shape":[1],"data":[1]"#)),
        json("another type", 400, &input(r#""datatype":"BYTES","shape":[1],"data":["AAAA"]"#)),
        json("a negative axis", 400, &input(r#""datatype":"FP32","shape":[-1,3,32,32],"data":[1]"#)),
        json(
            "axes whose product overflows",
            400,
            &input(r#""datatype":"FP32","shape":[4294967296,4294967296,16],"data":[]"#),
        ),
        json("an empty batch", 400, &input(r#""datatype":"FP32","shape":[0,3,32,32],"data":[]"#)),
        json("more numbers than the shape", 400, &wide),
        json("words for numbers", 400, &input(r#""datatype":"FP32","shape":[1,3,32,32],"data":["a"]"#)),
        json("NaN in JSON", 400, &input(r#""datatype":"FP32","shape":[1,3,32,32],"data":[NaN]"#)),
        json("neither data nor bytes", 400, &input(r#""datatype":"FP32","shape":[1,3,32,32]"#)),
        json("deep arrays", 400, &deep),
        json(
            "two inputs",
            400,
            r#"{"inputs":[{"name":"images","datatype":"FP32","shape":[1],"data":[1]},{"name":"images","datatype":"FP32","shape":[1],"data":[1]}]}"#,
        ),
        binary("NaN behind the JSON", "", shape, good.len(), &nan),
        binary("fewer bytes than announced", "", shape, good.len(), &good[..100]),
        binary("more bytes than announced", "", shape, good.len(), &[&good[..], &[0]].concat()),
        binary("another length than the shape", "", shape, good.len() - 4, &good[4..]),
        binary("another shape", "", "[1,32,32,3]", good.len(), &good),
        binary("a length beyond all memory", "", shape, usize::MAX, &good),
        binary("JSON longer than the request", "99999999", shape, good.len(), &good),
        binary("JSON of no length", "-1", shape, good.len(), &good),
        binary("JSON that ends early", "10", shape, good.len(), &good),
    ]
}

/// Heads, paths and images.
fn others(address: SocketAddr) -> Vec<Case> {
    let case = |name: &str, status: u16, line: &str, headers: &[&str], body: &[u8]| Case {
        name: name.into(),
        bytes: request(address, line, headers, body),
        status,
    };
    let file = png(&image(20, 20, 0));
    let huge = format!("X-Large: {}", "x".repeat(200_000));
    // A header of a PNG that announces more pixels than any memory holds.
    let mut bomb = file.clone();
    bomb[16..24].copy_from_slice(&[0x7f, 0xff, 0xff, 0xff, 0x7f, 0xff, 0xff, 0xff]);
    let strings = |bytes: &[u8]| binary_request("image", "BYTES", &[1], bytes);
    let (header, lying) = strings(&[0xff, 0xff, 0xff, 0xff, 1, 2, 3]);
    let (short_header, short) = strings(&[1, 0]);
    vec![
        case("an unknown model", 404, "POST /v2/models/tinny/infer", &[], b"{}"),
        case("an unknown version", 404, "GET /v2/models/tiny/versions/7", &[], b""),
        case("an unknown address", 404, "GET /v2/repository/index", &[], b""),
        case("another method", 405, "PUT /v2/models/tiny/infer", &[], b""),
        case("inference by GET", 405, "GET /v2/models/tiny/infer", &[], b""),
        case("an encoded path", 400, "GET /v2/models/%2e%2e", &[], b""),
        case("a head that is too large", 431, "GET /v2", &[&huge], b""),
        case("a page of elsewhere", 403, INFER, &["Origin: http://evil.example"], b"{}"),
        case("compressed", 415, INFER, &["Content-Encoding: gzip"], b"{}"),
        case("a form", 415, "POST /predict", &["Content-Type: multipart/form-data; boundary=x"], b"--x"),
        case("an unknown argument", 400, "POST /predict?tops=3", &[], &file),
        case("no image", 400, "POST /predict", &[], b"GIF89a"),
        case("half an image", 400, "POST /predict", &[], &file[..file.len() / 2]),
        case("an image beyond all memory", 400, "POST /predict", &[], &bomb),
        case("a drawing of classes", 400, "POST /predict?format=png", &[], &file),
        case("a string beyond its tensor", 400, INFER, &[&header], &lying),
        case("a string without its length", 400, INFER, &[&short_header], &short),
        Case {
            name: "the name of another server".into(),
            bytes: b"GET /v2 HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n".to_vec(),
            status: 403,
        },
        Case {
            name: "a body that is never sent, longer than what is taken".into(),
            bytes: format!(
                "{INFER} HTTP/1.1\r\nHost: {address}\r\nContent-Length: 99999999999\r\nConnection: close\r\n\r\n"
            )
            .into(),
            status: 413,
        },
        Case {
            name: "no HTTP at all".into(),
            bytes: b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".repeat(9),
            status: 400,
        },
    ]
}

#[test]
fn hostile_requests_are_refused_with_a_sentence_and_the_server_serves_as_before() {
    let (_server, address) = serving(options());
    for case in bodies(address).into_iter().chain(others(address)) {
        let response = raw(address, &case.bytes);
        let text = String::from_utf8_lossy(&response.body).into_owned();
        assert_eq!(response.status, case.status, "{}: {text}", case.name);
        if response.header("content-type").is_some_and(|kind| kind == "application/json") {
            let sentence = response.json()["error"].as_str().unwrap().to_string();
            assert!(sentence.len() > 10 && !sentence.contains("panicked"), "{}: {sentence}", case.name);
        }
    }
    still_serves(address);
}

#[test]
fn a_chunked_request_beyond_the_limit_is_cut_off_and_its_memory_given_back() {
    let (_server, address) = serving(ServeOptions { max_request: 1 << 20, memory: 2 << 20, ..options() });
    for _ in 0..5 {
        let head =
            format!("{INFER} HTTP/1.1\r\nHost: {address}\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n");
        let chunk = [b"10000\r\n".to_vec(), vec![b' '; 65536], b"\r\n".to_vec()].concat();
        let bytes = [head.into_bytes(), chunk.repeat(40), b"0\r\n\r\n".to_vec()].concat();
        // The server may close the connection before everything is sent.
        assert!([0, 413].contains(&raw(address, &bytes).status));
    }
    still_serves(address);
}

#[test]
fn requests_that_are_sent_too_slowly_are_ended() {
    let limits = Limits { head_time: Duration::from_millis(700), ..Limits::default() };
    let (_server, address) = serving(ServeOptions { timeout: Duration::from_millis(900), limits, ..options() });
    let ended = |bytes: &[u8]| {
        let begun = Instant::now();
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(bytes).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let mut response = Vec::new();
        let _ = stream.read_to_end(&mut response);
        assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
        String::from_utf8_lossy(&response).into_owned()
    };
    // Nothing, a part of the preface of HTTP/2, a part of a head, and a part of a body.
    ended(b"");
    ended(b"PR");
    ended(b"GET /v2 HTTP/1.1\r\nHost: ");
    let head = format!("{INFER} HTTP/1.1\r\nHost: {address}\r\nContent-Length: 1000\r\nConnection: close\r\n\r\n{{");
    assert!(ended(head.as_bytes()).contains(" 408 "), "the body never came");
    still_serves(address);
}

#[test]
fn a_client_that_sends_megabytes_to_an_unknown_model_lost_the_response() {
    let (_server, address) = serving(options());
    let body = vec![b' '; 8 << 20];
    let response = post(address, "/v2/models/tinny/infer", &[], &body);
    assert_eq!(response.status, 404);
    assert!(response.json()["error"].as_str().unwrap().contains("but tiny"));
}

#[test]
fn requests_hold_no_more_memory_than_is_allowed() {
    let (_server, address) = serving(ServeOptions { max_request: 1 << 20, memory: 1 << 20, ..options() });
    let send_request = || logits(address, "tiny", 1, &numbers(1, 0)).status;
    let begun = Instant::now();
    // A client that announces everything and sends nothing holds the memory until it goes, once no other request holds any.
    let greedy = loop {
        let mut greedy = TcpStream::connect(address).unwrap();
        let head = format!("{INFER} HTTP/1.1\r\nHost: {address}\r\nContent-Length: {}\r\n\r\n", 1 << 20);
        greedy.write_all(head.as_bytes()).unwrap();
        std::thread::sleep(Duration::from_millis(100));
        if send_request() == 429 {
            break greedy;
        }
        assert!(begun.elapsed() < Duration::from_secs(30), "nothing was refused");
    };
    assert_eq!(send_request(), 429);
    drop(greedy);
    while send_request() != 200 {
        assert!(begun.elapsed() < Duration::from_secs(60), "the memory was not given back");
    }
    still_serves(address);
}

#[test]
fn an_address_that_others_reach_needs_the_token_except_for_its_health() {
    let (server, _) = serving(ServeOptions { address: "0.0.0.0:0".parse().unwrap(), ..options() });
    let address = SocketAddr::new("127.0.0.1".parse().unwrap(), server.endpoint().address.port());
    let token = server.endpoint().token.clone().unwrap();
    assert!(token.len() >= 32);
    assert_eq!(get(address, "/v2/health/ready").status, 200);
    for path in ["/v2", "/v2/models/tiny", "/metrics", "/", &format!("/v2?token={}", "0".repeat(token.len()))] {
        assert_eq!(get(address, path).status, 401, "{path}");
    }
    let with_token = format!("Authorization: Bearer {token}");
    assert_eq!(post(address, "/predict", &[&with_token], &png(&image(9, 9, 0))).status, 200);
    assert_eq!(post(address, "/predict", &[], &png(&image(9, 9, 0))).status, 401);
    for wrong in ["short", "sixteen letters with spaces", "sixteen-letters;and=more"] {
        let options = ServeOptions { token: Some(wrong.into()), ..options() };
        let started = Server::start(vec![source("tiny", "resnet-tiny", 3)], &cpu(), options, |_| {});
        assert!(started.is_err_and(|error| error.to_string().contains("token")), "{wrong}");
    }
}
