//! `octant serve` as a process: from its first line, over a better checkpoint, to a polite end.

#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

mod binary;

use binary::{done, refused};
use octant::imaging::Image;
use octant_data::write_png_u8;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

fn json(line: &str) -> Value {
    serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))
}

/// The body of a response.
fn post(address: &str, path: &str, body: &[u8]) -> Value {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: {address}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(&[head.as_bytes(), body].concat()).unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    json(response.split_once("\r\n\r\n").unwrap().1)
}

struct Serving {
    child: Child,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
}

impl Serving {
    fn start(at: &Path, arguments: &[&str]) -> Serving {
        let mut command = Command::new(env!("CARGO_BIN_EXE_octant"));
        command.current_dir(at).env("OCTANT_CACHE", at.join("cache")).arg("serve").args(arguments);
        let mut child = command.args(["--port", "0", "--json"]).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Serving { child, lines }
    }

    /// The next line about an event.
    fn until(&mut self, event: &str) -> Value {
        let lines = self.lines.by_ref().map(|line| json(&line.unwrap()));
        lines.into_iter().find(|line| line["event"] == event).unwrap_or_else(|| panic!("it ended before {event}"))
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
    }
}

#[test]
fn a_run_is_served_as_predict_predicts_it_and_again_when_its_checkpoint_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    for (out, seed) in [("run", "1"), ("better", "2")] {
        let train = ["train", "glyphs", "--model", "fashion-cnn-tiny", "--device", "cpu", "--epochs", "1"];
        let small = ["--set", "data.train=128", "--set", "data.test=32", "--batch-size", "16"];
        done(at, &[&train[..], &small, &["--out", out, "--seed", seed]].concat());
    }
    let image = at.join("image.png");
    let pixels = Image::from_fn(30, 41, 1, |row, column, _| (row * 3 + column * 5) as u8);
    write_png_u8(&image, &pixels).unwrap();
    let predicted = |at: &Path| {
        let lines = done(at, &["predict", "run", image.to_str().unwrap(), "--device", "cpu", "--json"]);
        lines.lines().map(json).find(|line| line["event"] == "prediction").unwrap()
    };
    let mut serving = Serving::start(at, &["run", "--device", "cpu", "--reload", "0.2", "--max-batch", "2"]);
    let ready = serving.until("ready");
    let address = ready["address"].as_str().unwrap().to_string();
    let file = std::fs::read(&image).unwrap();
    let agrees = |served: &Value, predicted: &Value| {
        served
            .as_object()
            .unwrap()
            .iter()
            .filter(|(key, _)| *key != "path")
            .all(|(key, value)| predicted[key] == *value)
    };
    let (served, expected) = (post(&address, "/predict", &file), predicted(at));
    assert!(agrees(&served, &expected), "{served} {expected}");

    // As training replaces a checkpoint.
    std::fs::rename(at.join("run/checkpoints/best"), at.join("run/checkpoints/best.bak")).unwrap();
    std::fs::rename(at.join("better/checkpoints/best"), at.join("run/checkpoints/best")).unwrap();
    assert_eq!(serving.until("reloaded")["version"], 2);
    let (reloaded, expected) = (post(&address, "/predict", &file), predicted(at));
    assert!(agrees(&reloaded, &expected) && reloaded != served, "{reloaded} {expected}");

    // SAFETY: the process is our child, and has not been waited for.
    unsafe { libc::kill(serving.child.id() as i32, libc::SIGTERM) };
    assert_eq!(serving.until("stopped")["drained"], true);
    assert!(serving.child.wait().unwrap().success());
}

#[test]
fn what_cannot_be_served_is_refused_before_anything_listens() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    refused(at, &["serve", "resnet5o"], "no run or file resnet5o");
    refused(at, &["serve", "runs/nothing-1"], "there is no runs/nothing-1");
    refused(at, &["serve", "resnet18"], "needs weights");
    refused(at, &["serve", "resnet-tiny", "--weights", "random", "--layout", "nwhc"], "use nchw or nhwc");
    refused(at, &["serve", "resnet-tiny", "--weights", "random", "--checkpoint", "last"], "--checkpoint");
    refused(
        at,
        &["serve", "resnet-tiny", "resnet-tiny", "--weights", "random", "--port", "0"],
        "two models are called",
    );
    refused(at, &["serve", "a/b=resnet-tiny", "--weights", "random", "--port", "0"], "cannot be the name of a model");
    refused(at, &["serve", "resnet-tiny", "--weights", "random", "--max-batch", "0"], "at least one image");
    refused(at, &["serve", "resnet-tiny", "--weights", "random", "--token", "short"], "a token has at least");
    refused(at, &["serve", "resnet-tiny", "--weights", "random", "--timeout", "-1"], "--timeout -1");
}
