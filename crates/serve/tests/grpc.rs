//! The protocol over gRPC, with a client of HTTP/2 that is not the server's own library for gRPC.

#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use crate::support::*;
use axum::body::Bytes;
use axum::http::Request;
use octant_serve::ServeOptions;
use prost::Message;
use std::net::SocketAddr;
use std::time::Duration;

#[derive(Clone, PartialEq, Message)]
struct Named {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    version: String,
}

#[derive(Clone, PartialEq, Message)]
struct Tensor {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    datatype: String,
    #[prost(int64, repeated, tag = "3")]
    shape: Vec<i64>,
    #[prost(message, optional, tag = "5")]
    contents: Option<Contents>,
}

#[derive(Clone, PartialEq, Message)]
struct Contents {
    #[prost(float, repeated, tag = "6")]
    floats: Vec<f32>,
}

#[derive(Clone, PartialEq, Message)]
struct InferRequest {
    #[prost(string, tag = "1")]
    model: String,
    #[prost(string, tag = "3")]
    id: String,
    #[prost(message, repeated, tag = "5")]
    inputs: Vec<Tensor>,
    #[prost(bytes = "vec", repeated, tag = "7")]
    raw: Vec<Vec<u8>>,
}

#[derive(Clone, PartialEq, Message)]
struct InferResponse {
    #[prost(string, tag = "1")]
    model: String,
    #[prost(string, tag = "2")]
    version: String,
    #[prost(string, tag = "3")]
    id: String,
    #[prost(message, repeated, tag = "5")]
    outputs: Vec<Tensor>,
    #[prost(bytes = "vec", repeated, tag = "6")]
    raw: Vec<Vec<u8>>,
}

#[derive(Clone, PartialEq, Message)]
struct Metadata {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, repeated, tag = "2")]
    versions: Vec<String>,
    #[prost(message, repeated, tag = "4")]
    inputs: Vec<Tensor>,
    #[prost(message, repeated, tag = "5")]
    outputs: Vec<Tensor>,
}

/// The codes of gRPC that occur here.
const OK: i32 = 0;
const INVALID_ARGUMENT: i32 = 3;
const DEADLINE_EXCEEDED: i32 = 4;
const NOT_FOUND: i32 = 5;
const RESOURCE_EXHAUSTED: i32 = 8;

/// Calls a method; returns the status and the message.
async fn called(address: SocketAddr, method: &str, message: Vec<u8>, timeout: Option<&str>) -> (i32, Vec<u8>) {
    let stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let (client, connection) = h2::client::handshake(stream).await.unwrap();
    let driver = tokio::spawn(connection);
    let mut request = Request::post(format!("http://{address}/inference.GRPCInferenceService/{method}"))
        .header("content-type", "application/grpc")
        .header("te", "trailers");
    if let Some(timeout) = timeout {
        request = request.header("grpc-timeout", timeout);
    }
    let (response, mut body) = client.ready().await.unwrap().send_request(request.body(()).unwrap(), false).unwrap();
    let framed = [&[0][..], &(message.len() as u32).to_be_bytes(), &message].concat();
    let mut left = Bytes::from(framed);
    while !left.is_empty() {
        body.reserve_capacity(left.len());
        let Some(Ok(capacity)) = std::future::poll_fn(|context| body.poll_capacity(context)).await else { break };
        let now = left.split_to(capacity.min(left.len()));
        if body.send_data(now, left.is_empty()).is_err() {
            break;
        }
    }
    let response = response.await.unwrap();
    let code = |headers: &axum::http::HeaderMap| headers.get("grpc-status")?.to_str().ok()?.parse().ok();
    let mut status = code(response.headers());
    let mut body = response.into_body();
    let mut bytes = Vec::new();
    while let Some(piece) = body.data().await {
        let piece = piece.unwrap();
        body.flow_control().release_capacity(piece.len()).unwrap();
        bytes.extend(piece);
    }
    if let Some(trailers) = body.trailers().await.unwrap() {
        status = status.or(code(&trailers));
    }
    driver.abort();
    (status.unwrap(), bytes.get(5..).unwrap_or_default().to_vec())
}

fn call(address: SocketAddr, method: &str, message: &impl Message) -> (i32, Vec<u8>) {
    call_within(address, method, message, None)
}

fn call_within(address: SocketAddr, method: &str, message: &impl Message, timeout: Option<&str>) -> (i32, Vec<u8>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(called(address, method, message.encode_to_vec(), timeout))
}

fn request(model: &str, count: usize, numbers: &[f32]) -> InferRequest {
    let shape = vec![count as i64, 3, 32, 32];
    let input = Tensor { name: "images".into(), datatype: "FP32".into(), shape, contents: None };
    InferRequest { model: model.into(), id: "one".into(), inputs: vec![input], raw: vec![bytes_of(numbers)] }
}

#[test]
fn grpc_returns_the_same_bits_on_the_same_port() {
    let device = cpu();
    let server = start(vec![source("tiny", "resnet-tiny", 3)], &device, options());
    let address = server.endpoint().address;
    let predictor = predictor("resnet-tiny", 3, &device);
    for method in ["ServerLive", "ServerReady", "ServerMetadata"] {
        let (status, message) = call(address, method, &Named::default());
        assert!(status == OK && !message.is_empty(), "{method}");
    }
    let (status, message) = call(address, "ModelMetadata", &Named { name: "tiny".into(), version: String::new() });
    let metadata = Metadata::decode(&message[..]).unwrap();
    assert_eq!((status, metadata.inputs[0].shape.clone()), (OK, vec![-1, 3, 32, 32]));
    assert_eq!(call(address, "ModelReady", &Named { name: "tiny".into(), version: "1".into() }), (OK, vec![8, 1]));
    // Larger than what libraries take by default.
    let count = 64;
    let numbers = numbers(count, 2);
    let (status, message) = call(address, "ModelInfer", &request("tiny", count, &numbers));
    let response = InferResponse::decode(&message[..]).unwrap();
    assert_eq!((status, response.id.as_str(), response.outputs[0].shape.clone()), (OK, "one", vec![64, 3]));
    assert!(response.raw[0] == expected(&predictor, count, &numbers));
    let one = &numbers[..3 * 32 * 32];
    let mut elements = request("tiny", 1, &[]);
    elements.raw.clear();
    elements.inputs[0].contents = Some(Contents { floats: one.to_vec() });
    let (status, message) = call(address, "ModelInfer", &elements);
    let response = InferResponse::decode(&message[..]).unwrap();
    assert!(status == OK && response.raw[0] == expected(&predictor, 1, one));
}

#[test]
fn grpc_refuses_with_the_code_that_says_why() {
    let (device, gate) = Gated::device();
    let server = start(vec![source("tiny", "resnet-tiny", 3)], &device, ServeOptions { queue: 4, ..options() });
    let address = server.endpoint().address;
    let one = numbers(1, 0);
    assert_eq!(call(address, "ModelInfer", &request("tinny", 1, &one)).0, NOT_FOUND);
    assert_eq!(call(address, "ModelMetadata", &Named { name: "tiny".into(), version: "9".into() }).0, NOT_FOUND);
    let not_ready = (OK, Vec::new());
    assert_eq!(call(address, "ModelReady", &Named { name: "tiny".into(), version: "9".into() }), not_ready);
    assert_eq!(call(address, "ModelInfer", &request("tiny", 2, &one)).0, INVALID_ARGUMENT);
    let mut twice = request("tiny", 1, &one);
    twice.raw.push(Vec::new());
    assert_eq!(call(address, "ModelInfer", &twice).0, INVALID_ARGUMENT);
    let send_request =
        || std::thread::spawn(move || call(address, "ModelInfer", &request("tiny", 4, &numbers(4, 1))).0);
    let held = gate.hold(send_request);
    assert_eq!(call_within(address, "ModelInfer", &request("tiny", 1, &one), Some("100m")).0, DEADLINE_EXCEEDED);
    // Four are with the device and four wait.
    let waiting = send_request();
    let begun = std::time::Instant::now();
    while !String::from_utf8(get(address, "/metrics").body).unwrap().contains("octant_queue_images{model=\"tiny\"} 4") {
        assert!(begun.elapsed() < Duration::from_secs(20), "four never waited");
    }
    assert_eq!(call(address, "ModelInfer", &request("tiny", 1, &one)).0, RESOURCE_EXHAUSTED);
    gate.set_closed(false);
    assert_eq!((held.join().unwrap(), waiting.join().unwrap()), (OK, OK));
}
