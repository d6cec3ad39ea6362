//! A detector learns from boxes that lie on a web server or in a bucket as it does from a folder.

#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use octant_testing::http::{HttpResponse, Request, Server};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The files below a folder, by their names with slashes.
fn files(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut left = vec![folder.to_path_buf()];
    while let Some(current) = left.pop() {
        for entry in std::fs::read_dir(current).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => left.push(path),
                false => found.push(path.strip_prefix(folder).unwrap().to_str().unwrap().to_string()),
            }
        }
    }
    found.sort();
    found
}

/// Folders as pages of links, and everything again as a bucket called `bucket`.
fn respond(root: &Path, request: &Request) -> HttpResponse {
    let (path, query) = request.target.split_once('?').unwrap_or((&request.target, ""));
    if path == "/bucket/" {
        let prefix = query.split('&').find_map(|pair| pair.strip_prefix("prefix=")).unwrap_or("").replace("%2F", "/");
        let object = |key: &String| {
            let size = std::fs::metadata(root.join(key)).unwrap().len();
            format!("<Contents><Key>{key}</Key><ETag>&quot;{size}&quot;</ETag><Size>{size}</Size></Contents>")
        };
        let keys = files(root).into_iter().filter(|key| key.starts_with(&prefix));
        let listed: String = keys.map(|key| object(&key)).collect();
        let page = format!("<ListBucketResult>{listed}<IsTruncated>false</IsTruncated></ListBucketResult>");
        return HttpResponse::whole(page.as_bytes());
    }
    let local = root.join(path.strip_prefix("/bucket/").unwrap_or(path).trim_matches('/'));
    if local.is_dir() {
        let entry = |entry: std::io::Result<std::fs::DirEntry>| {
            let entry = entry.unwrap();
            let slash = if entry.path().is_dir() { "/" } else { "" };
            let name = entry.file_name().into_string().unwrap();
            format!("<a href=\"{name}{slash}\">{name}</a>")
        };
        let page: String = std::fs::read_dir(local).unwrap().map(entry).collect();
        return HttpResponse::whole(page.as_bytes()).with("content-type", "text/html");
    }
    match std::fs::read(local) {
        Ok(bytes) => HttpResponse::of(&bytes, request).with("content-type", "application/octet-stream"),
        Err(_) => HttpResponse::status(404),
    }
}

struct Setup {
    folder: tempfile::TempDir,
    server: Server,
}

impl Setup {
    fn octant(&self, arguments: &[&str]) -> String {
        let mut command = Command::new(env!("CARGO_BIN_EXE_octant"));
        command.args(arguments).env("OCTANT_CACHE", self.folder.path().join("cache"));
        command.env("AWS_ENDPOINT_URL_S3", &self.server.address);
        let output = command.output().unwrap();
        let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
        assert!(output.status.success(), "{arguments:?}: {text}");
        text
    }

    /// The table of metrics of an epoch on that data, without its times.
    fn learned(&self, name: &str, data: &str) -> Vec<Vec<String>> {
        let out = self.folder.path().join(name);
        let model = ["--model", "yolov8-tiny", "--image-size", "64", "--batch-size", "4", "--threads", "1"];
        let run = ["--epochs", "1", "--device", "cpu", "--out", out.to_str().unwrap()];
        self.octant(&[&["train", "detect", "--data", data][..], &model, &run].concat());
        let table = std::fs::read_to_string(out.join("metrics.csv")).unwrap();
        let rows: Vec<Vec<&str>> = table.lines().map(|line| line.split(',').collect()).collect();
        let kept = |column: &usize| ["loss", "mAP"].iter().any(|part| rows[0][*column].contains(part));
        let columns: Vec<usize> = (0..rows[0].len()).filter(kept).collect();
        rows.iter().map(|row| columns.iter().map(|&column| row[column].to_string()).collect()).collect()
    }
}

#[test]
fn boxes_of_a_web_server_and_of_a_bucket_are_learned_like_those_of_a_folder() {
    let folder = tempfile::tempdir().unwrap();
    let root: PathBuf = folder.path().join("remote");
    std::fs::create_dir(&root).unwrap();
    let served = root.clone();
    let setup = Setup { server: Server::start(move |_, request| respond(&served, request)), folder };
    let (set, packed) = (root.join("set"), root.join("packed"));
    let (set, packed) = (set.to_str().unwrap(), packed.to_str().unwrap());
    setup.octant(&["data", "synth", "scenes", set, "--count", "20", "--side", "64"]);
    setup.octant(&["data", "pack", set, packed]);
    let expected = setup.learned("folder", set);
    assert_eq!(expected.len(), 2, "{expected:?}");
    let web = &setup.server.address;
    let positions = [
        format!("{web}/set"),
        format!("{web}/set/data.yaml"),
        "s3://bucket/set/data.yaml".into(),
        "s3://bucket/packed".into(),
    ];
    for (index, position) in positions.iter().enumerate() {
        assert_eq!(setup.learned(&format!("run-{index}"), position), expected, "{position}");
    }
}
