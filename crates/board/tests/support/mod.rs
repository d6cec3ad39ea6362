//! Runs to serve, and a client that sends exactly the bytes it is given.

#![allow(dead_code, reason = "no test needs all of it")]

use octant_board::{Options, Serving, serve};
use octant_events::{Canvas, EventWriter, Histogram, RunDirectory, Setting, Value};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};

/// A run directory as `octant train` leaves it.
pub fn octant_run(path: &Path, index: usize, epochs: u64) {
    let config = format!(
        "name = \"glyphs\"\nmodel = \"fashion-cnn\"\nbatch_size = {}\nseed = {index}\n\n[[phases]]\nname = \"main\"\n\
         epochs = {}\noptimizer = \"sgd\"\n\n[phases.schedule]\nlr = {}\n",
        16 << (index % 3),
        epochs + 2,
        0.1 / (index + 1) as f64
    );
    let mut run = RunDirectory::create(path, &config).unwrap();
    run.events.settings(&[("lr".into(), Setting::Number(0.1))], &["val_accuracy".into()]).unwrap();
    run.events.text("config", &config).unwrap();
    run.log("fashion-cnn on 512 training and 64 validation images").unwrap();
    run.log("main: train compiled in 1.204 s, 14.2 MiB planned").unwrap();
    run.log("main: evaluate loaded from the cache in 0.031 s").unwrap();
    for epoch in 1..=epochs {
        let loss =
            2.0 * (-(epoch as f64) / (4.0 + index as f64)).exp() + 0.02 * ((epoch * 7 + index as u64) % 5) as f64;
        let accuracy = 1.0 - 0.45 * loss.min(2.0);
        let values = [("lr", 0.1), ("loss", loss), ("val_loss", loss * 1.1), ("val_accuracy", accuracy)];
        let row = [("epoch", epoch as f64), ("phase", 0.0), ("step", (epoch * 32) as f64)];
        let row = row.iter().chain(&values).map(|(name, value)| (name.to_string(), *value)).collect::<Vec<_>>();
        run.metrics.row(&row, &[]).unwrap();
        for (name, value) in values {
            run.events.scalar(epoch, name, value).unwrap();
        }
        let times =
            [("epoch", epoch as f64), ("seconds", 2.4), ("training", 1.9), ("input", 0.3 + 0.02 * epoch as f64)];
        let rest = [("validation", 0.4), ("checkpoint", 0.1), ("compile", if epoch == 1 { 1.2 } else { 0.0 })];
        let speed = [("images_per_second", 270.0 + 3.0 * (epoch % 4) as f64)];
        let times = times.iter().chain(&rest).chain(&speed).map(|(name, value)| (name.to_string(), *value));
        run.timing.row(&times.collect::<Vec<_>>(), &[]).unwrap();
        run.log(&format!("main: epoch {epoch} loss {loss:.6}; bound by device (66 % of the time; input 17 %)"))
            .unwrap();
        let weights: Vec<f32> =
            (0..2000).map(|i| ((i * 7919 % 2000) as f32 / 1000.0 - 1.0).powi(3) / epoch as f32).collect();
        run.events
            .values(epoch, vec![("weights/conv1/weight".into(), Value::Histogram(Histogram::of(&weights)))])
            .unwrap();
        let mut canvas = Canvas::new(120, 80);
        canvas.letters([8, 30], &format!("epoch {epoch}"), [200, 30, 30]);
        let image = |canvas: &Canvas| Value::Image { height: 80, width: 120, png: canvas.png() };
        let plain = image(&canvas);
        canvas.block([20, 10, 30, 15], [0, 200, 80]);
        run.events
            .values(epoch, vec![("predictions/plain".into(), plain), ("predictions".into(), image(&canvas))])
            .unwrap();
    }
    let findings = r#"{"confusion":{"names":["shirt","coat","bag"],"counts":[50,9,1,12,44,2,0,1,61]},
        "roc":{"area":0.91,"curve":[[0,0],[0.05,0.6],[0.2,0.85],[1,1]],"precision_recall":[[0,1],[0.6,0.9],[1,0.4]],
            "f1":[[0.99,0.2],[0.7,0.75],[0.4,0.86],[0.1,0.6]]},
        "calibration":{"error":0.052,"bins":[[0.4,0.45,0.4,20],[0.6667,0.72,0.66,50],[0.9333,0.97,0.93,110]]},
        "mistakes":{"tile":96,"columns":16,"drawn":2,"samples":[
            {"name":"valid/shirt/17.png","actual":0,"predicted":1,"confidence":0.98},
            {"name":"valid/coat/3.png","actual":1,"predicted":0,"confidence":0.9},
            {"name":"valid/shirt/4.png","actual":0,"predicted":1,"confidence":0.7}]}}"#;
    run.write("plots/findings.json", findings).unwrap();
    let network = r#"{"model":"fashion-cnn","blocks":[
        {"path":"conv","output":"f32[16,26,26,32]","parameters":320,"flops":389376},
        {"path":"head","output":"f32[16,10]","parameters":20490,"flops":40960},
        {"path":"head.fc","output":"f32[16,10]","parameters":20490,"flops":40960}]}"#;
    run.write("network.json", network).unwrap();
    let mut tiles = Canvas::new(96 * 16, 96);
    tiles.block([10, 10, 60, 60], [180, 40, 40]);
    tiles.block([110, 20, 60, 60], [40, 40, 180]);
    run.write("plots/mistakes.png", tiles.png()).unwrap();
    let spans = (0..400u64).map(|span| {
        let (lane, name) = (span % 2, ["conv", "norm", "update"][span as usize % 3]);
        format!(
            ",{{\"ph\":\"X\",\"name\":\"{name}\",\"pid\":0,\"tid\":{lane},\"ts\":{},\"dur\":{}}}",
            span * 50,
            20 + span % 27
        )
    });
    let trace = format!(
        "{{\"traceEvents\":[{{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":0,\"args\":{{\"name\":\"gpu\"}}}}{}]}}",
        spans.collect::<String>()
    );
    run.write("trace.json", trace).unwrap();
    run.write("plots/loss.png", Canvas::new(60, 40).png()).unwrap();
    if index != 1 {
        run.events.finished(epochs).unwrap();
    }
}

/// A log folder of another program: many points, steps that are not epochs.
pub fn plain_run(path: &Path, points: u64) {
    std::fs::create_dir_all(path).unwrap();
    let mut events = EventWriter::create(path).unwrap();
    for step in 0..points {
        let value = (step as f64 / 500.0).sin() + if step == points / 3 { 25.0 } else { 0.0 };
        events.scalar(step * 10, "train/noise", value).unwrap();
    }
}

pub fn start(folder: &Path) -> Serving {
    start_at(folder, "127.0.0.1:0")
}

pub fn start_at(folder: &Path, address: &str) -> Serving {
    start_with(Options {
        folders: vec![folder.into()],
        address: address.parse().unwrap(),
        names: Vec::new(),
        edits: false,
    })
}

/// A board whose pages may change notes and tags.
pub fn start_editable(folder: &Path) -> Serving {
    let address = "127.0.0.1:0".parse().unwrap();
    start_with(Options { folders: vec![folder.into()], address, names: Vec::new(), edits: true })
}

fn start_with(options: Options) -> Serving {
    let serving = serve(&options).unwrap();
    let begun = Instant::now();
    while !serving.store().is_ready() {
        assert!(begun.elapsed() < Duration::from_secs(30), "the runs were not read");
        std::thread::sleep(Duration::from_millis(5));
    }
    serving
}

pub struct HttpResponse {
    pub status: u16,
    pub head: String,
    pub body: Vec<u8>,
}

impl HttpResponse {
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }
}

/// Sends bytes as they are; reads until the server closes. Status 0 when it closes without a response.
pub fn raw(address: SocketAddr, bytes: &[u8]) -> HttpResponse {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    // A server that refuses early may close before everything is sent.
    let _ = stream.write_all(bytes);
    let mut response = Vec::new();
    let _ = stream.read_to_end(&mut response);
    let end = response.windows(4).position(|window| window == b"\r\n\r\n").unwrap_or(response.len());
    let head = String::from_utf8_lossy(&response[..end]).into_owned();
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
    let body = response.get(end + 4..).unwrap_or_default().to_vec();
    let body = if head.to_lowercase().contains("transfer-encoding: chunked") { unchunked(&body) } else { body };
    HttpResponse { status, head, body }
}

fn unchunked(mut bytes: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    while let Some(end) = bytes.windows(2).position(|window| window == b"\r\n") {
        let size = usize::from_str_radix(std::str::from_utf8(&bytes[..end]).unwrap_or("0").trim(), 16).unwrap_or(0);
        let Some(chunk) = bytes.get(end + 2..end + 2 + size).filter(|_| size > 0) else { break };
        body.extend(chunk);
        bytes = bytes.get(end + 4 + size..).unwrap_or_default();
    }
    body
}

pub fn get(address: SocketAddr, path: &str) -> HttpResponse {
    raw(address, format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").as_bytes())
}
