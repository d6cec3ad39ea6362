//! The same against moto, a server of S3's interface that others wrote. `OCTANT_ORACLE_PYTHON` names a Python that has it
//! (`pip install moto[s3] flask-cors`).

use super::locations::{ENVIRONMENT, set};
use octant_fetch::{DownloadCache, FetchLocation, ObjectStore};
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

/// Serves until its input ends, so that it ends with the test.
const SERVER: &str = "
import sys
from moto.server import ThreadedMotoServer
import boto3
server = ThreadedMotoServer(ip_address='127.0.0.1', port=0, verbose=False)
server.start()
address = 'http://{}:{}'.format(*server.get_host_and_port())
client = boto3.client('s3', endpoint_url=address, region_name='us-east-1', aws_access_key_id='a', aws_secret_access_key='b')
client.create_bucket(Bucket='bucket')
print(address, flush=True)
sys.stdin.read()
";

#[test]
fn moto_keeps_what_is_stored_and_gives_it_back() {
    let _environment = ENVIRONMENT.lock();
    let Some(python) = std::env::var_os("OCTANT_ORACLE_PYTHON") else {
        return eprintln!("SKIPPED: OCTANT_ORACLE_PYTHON names no Python with moto");
    };
    let has_moto = Command::new(&python).args(["-c", "import moto.server, boto3"]).stderr(Stdio::null()).status();
    if !has_moto.unwrap().success() {
        return eprintln!("SKIPPED: {} has no moto", python.display());
    }
    let mut server = Command::new(&python)
        .args(["-c", SERVER])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut address = String::new();
    BufReader::new(server.stdout.take().unwrap()).read_line(&mut address).unwrap();
    set("AWS_ENDPOINT_URL", address.trim());
    set("AWS_ACCESS_KEY_ID", "a");
    set("AWS_SECRET_ACCESS_KEY", "b");
    let store = ObjectStore::open("s3://bucket/runs/a").unwrap().with_pieces(10);
    let folder = tempfile::tempdir().unwrap();
    let (sent, received) = (folder.path().join("sent"), folder.path().join("received"));
    std::fs::write(&sent, "a text of twenty-six bytes").unwrap();
    let stored = store.put_file("step-1/a b+c.bin", &sent).unwrap();
    store.put("last.json", b"{}").unwrap();
    store.put("last.json", b"[]").unwrap();
    assert_eq!(store.get("last.json").unwrap().as_deref(), Some(&b"[]"[..]));
    assert_eq!(store.get("best.json").unwrap(), None);
    let names: Vec<String> = (1..=3).map(|number| format!("step-1/a b+c.bin.part-0000{number}")).collect();
    assert_eq!(store.list("step-").unwrap(), names);
    store.get_file("step-1/a b+c.bin", &stored, &received).unwrap();
    assert_eq!(std::fs::read(&received).unwrap(), std::fs::read(&sent).unwrap());
    store.delete(&names[0]).unwrap();
    assert_eq!(store.list("step-").unwrap(), names[1..]);
    // Data folders are read from there by the same listing.
    let cache = DownloadCache::open(folder.path().join("cache")).unwrap();
    let path = FetchLocation::parse("s3://bucket/runs").unwrap().localize(&cache, &mut |_, _| ()).unwrap();
    assert_eq!(std::fs::read(path.join("a/last.json")).unwrap(), b"[]");
    set("AWS_ACCESS_KEY_ID", "");
    drop(server.stdin.take());
    server.wait().unwrap();
}
