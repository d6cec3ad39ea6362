//! Metrics elsewhere: an MLflow server gets every scalar of the event file once, also over a resumed run and when it is away
//! for a while; W&B's own reader reads the offline files. `OCTANT_ORACLE_WANDB` names a Python with wandb 0.16, the last
//! release whose reader can be called (`python -m venv w && w/bin/pip install wandb==0.16.6 setuptools`).

#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

mod runs;

use octant_events::{EventContent, Value as EventValue, read_run};
use runs::{finish, train};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};

/// What a server received: paths and bodies.
type Requests = Arc<Mutex<Vec<(String, Value)>>>;

/// Responds as MLflow does, but for the first `failures` requests, which it refuses.
fn mlflow(failures: usize) -> (SocketAddr, Requests) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, requests) = (listener.local_addr().unwrap(), Requests::default());
    let shared = requests.clone();
    std::thread::spawn(move || {
        let mut left = failures;
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            // A client keeps its connection for several requests.
            while let Some((path, body)) = request(&mut reader) {
                let (status, response) = match path.split('?').next().unwrap() {
                    _ if left > 0 => (503, json!({ "message": "starting" })),
                    "/api/2.0/mlflow/experiments/get-by-name" => {
                        (404, json!({ "error_code": "RESOURCE_DOES_NOT_EXIST" }))
                    }
                    "/api/2.0/mlflow/experiments/create" => (200, json!({ "experiment_id": "7" })),
                    "/api/2.0/mlflow/runs/create" => (200, json!({ "run": { "info": { "run_id": "abc" } } })),
                    "/api/2.0/mlflow/runs/log-batch" | "/api/2.0/mlflow/runs/update" => (200, json!({})),
                    other => panic!("{other} was requested"),
                };
                if left > 0 {
                    left -= 1;
                } else {
                    shared.lock().unwrap().push((path, body));
                }
                let text = response.to_string();
                let head = format!(
                    "HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
                    text.len()
                );
                stream.write_all(format!("{head}{text}").as_bytes()).unwrap();
            }
        }
    });
    (address, requests)
}

fn request(reader: &mut impl BufRead) -> Option<(String, Value)> {
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|&count| count > 0)?;
    let path = line.split(' ').nth(1)?.to_string();
    let mut length = 0;
    loop {
        let mut header = String::new();
        reader.read_line(&mut header).ok()?;
        match header.trim().to_lowercase().split_once(": ") {
            Some(("content-length", value)) => length = value.parse().unwrap(),
            Some(_) => {}
            None => break,
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some((path, serde_json::from_slice(&body).unwrap_or(Value::Null)))
}

/// Every scalar of the event files, by tag and step.
fn written(run: &Path) -> BTreeMap<(String, i64), f32> {
    let events = read_run(run).unwrap().into_iter();
    let values = events.flat_map(|event| match event.content {
        EventContent::Values(values) => values.into_iter().map(|(tag, value)| (event.step, tag, value)).collect(),
        _ => Vec::new(),
    });
    let scalar = |(step, tag, value)| match value {
        EventValue::Scalar(number) => Some(((tag, step), number)),
        _ => None,
    };
    values.filter_map(scalar).collect()
}

fn of(requests: &Requests, path: &str) -> Vec<Value> {
    let requests = requests.lock().unwrap();
    requests.iter().filter(|(found, _)| found.ends_with(path)).map(|(_, body)| body.clone()).collect()
}

#[test]
fn an_mlflow_server_gets_every_scalar_once_over_an_interruption_and_an_outage() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    let (address, requests) = mlflow(1);
    let server = format!("http://{address}");
    // The run is stopped at once and resumed; the server is down for its first request.
    let mut stopped = train(&run);
    stopped.args(["--mlflow", &server, "--time", "0s"]);
    finish(stopped);
    let mut resumed = train(&run);
    resumed.args(["--mlflow", &server]);
    finish(resumed);
    assert_eq!(of(&requests, "/experiments/create").len(), 1);
    let created = of(&requests, "/runs/create");
    assert_eq!(
        (created.len(), &created[0]["run_name"]),
        (1, &json!("run")),
        "a resumed run is the same run: {created:?}"
    );
    let batches = of(&requests, "/runs/log-batch");
    let parameters: Vec<&Value> = batches.iter().filter_map(|batch| batch["params"].as_array()).flatten().collect();
    assert!(parameters.contains(&&json!({ "key": "model", "value": "fashion-cnn-tiny" })), "{parameters:?}");
    let mut mirrored = BTreeMap::new();
    for metric in batches.iter().filter_map(|batch| batch["metrics"].as_array()).flatten() {
        let key = (metric["key"].as_str().unwrap().to_string(), metric["step"].as_i64().unwrap());
        let before = mirrored.insert(key.clone(), metric["value"].as_f64().unwrap() as f32);
        assert_eq!(before, None, "{key:?} was sent twice");
        assert!(metric["timestamp"].as_i64().unwrap() > 1_600_000_000_000);
    }
    assert_eq!(mirrored, written(&run));
    let updates = of(&requests, "/runs/update");
    assert_eq!(updates.last().unwrap()["status"], json!("FINISHED"), "{updates:?}");
}

#[test]
fn a_server_that_is_not_there_does_not_keep_a_run_from_its_end() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    let mut command = train(&run);
    // Nothing listens on the port of a listener that is gone.
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    command.args(["--mlflow", &format!("http://{free}")]);
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && text.contains("metrics are not mirrored to mlflow now: cannot reach"), "{text}");
}

const READER: &str = r#"
import json, sys
from wandb.proto import wandb_internal_pb2
from wandb.sdk.internal.datastore import DataStore
store = DataStore()
store.open_for_scan(sys.argv[1])
while True:
    data = store.scan_data()
    if data is None:
        break
    record = wandb_internal_pb2.Record()
    record.ParseFromString(data)
    kind = record.WhichOneof('record_type')
    if kind == 'run':
        config = {item.key: json.loads(item.value_json) for item in record.run.config.update}
        print(json.dumps({'kind': kind, 'project': record.run.project, 'name': record.run.display_name, 'config': config}))
    elif kind == 'history':
        row = {item.key or item.nested_key[0]: json.loads(item.value_json) for item in record.history.item}
        print(json.dumps({'kind': kind, 'step': record.history.step.num, 'row': row}))
    elif kind == 'exit':
        print(json.dumps({'kind': kind, 'code': record.exit.exit_code}))
    else:
        print(json.dumps({'kind': kind}))
"#;

#[test]
fn wandbs_own_reader_reads_every_row_of_the_offline_files() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    let mut command = train(&run);
    command.args(["--wandb", "glyphs"]);
    finish(command);
    let folders: Vec<_> = std::fs::read_dir(run.join("wandb")).unwrap().flatten().collect();
    let [offline] = &folders[..] else { panic!("{folders:?}") };
    let name = offline.file_name().into_string().unwrap();
    let id = name.rsplit('-').next().unwrap();
    assert!(name.starts_with("offline-run-20"), "{name}");
    let file = offline.path().join(format!("run-{id}.wandb"));
    assert_eq!(&std::fs::read(&file).unwrap()[..7], b":W&B\xe1\xbe\0");
    let Ok(python) = std::env::var("OCTANT_ORACLE_WANDB") else {
        println!("SKIPPED: OCTANT_ORACLE_WANDB names no Python with wandb 0.16");
        return;
    };
    let output = Command::new(python).args(["-c", READER]).arg(&file).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let records: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let kinds: Vec<&str> = records.iter().map(|record| record["kind"].as_str().unwrap()).collect();
    assert_eq!((kinds[0], kinds[1], *kinds.last().unwrap()), ("header", "run", "footer"), "{kinds:?}");
    assert_eq!((&records[1]["project"], &records[1]["name"]), (&json!("glyphs"), &json!("run")));
    assert_eq!(records[1]["config"]["model"], json!("fashion-cnn-tiny"));
    assert!(records.iter().any(|record| record["kind"] == "exit" && record["code"] == 0));
    let history: Vec<&Value> = records.iter().filter(|record| record["kind"] == "history").collect();
    let mut mirrored = BTreeMap::new();
    for (number, record) in history.iter().enumerate() {
        assert_eq!(record["step"], json!(number));
        let row = record["row"].as_object().unwrap();
        let step = row.get("step").or(row.get("epoch")).unwrap().as_i64().unwrap();
        let own = ["step", "epoch", "_step", "_timestamp", "_runtime"];
        for (tag, value) in row.iter().filter(|(tag, _)| !own.contains(&tag.as_str())) {
            assert_eq!(mirrored.insert((tag.clone(), step), value.as_f64().unwrap() as f32), None);
        }
    }
    assert_eq!(mirrored, written(&run));
}
