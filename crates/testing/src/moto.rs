//! An object store that others wrote: moto, a server of S3's interface, in the Python of the references.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Serves until its input ends, so that it ends with the test. The files of a folder are in the bucket from the beginning.
const SERVER: &str = "
import os, sys
from moto.server import ThreadedMotoServer
import boto3
server = ThreadedMotoServer(ip_address='127.0.0.1', port=0, verbose=False)
server.start()
address = 'http://{}:{}'.format(*server.get_host_and_port())
client = boto3.client('s3', endpoint_url=address, region_name='us-east-1', aws_access_key_id='a', aws_secret_access_key='b')
client.create_bucket(Bucket='bucket')
for folder, _, names in os.walk(sys.argv[1]) if len(sys.argv) > 1 else []:
    for path in (os.path.join(folder, name) for name in names):
        client.upload_file(path, 'bucket', os.path.relpath(path, sys.argv[1]))
print(address, flush=True)
sys.stdin.read()
";

/// A store with a bucket called `bucket`, until it is dropped.
pub struct Moto {
    /// Where it is, as `http://…`.
    pub address: String,
    server: Child,
}

impl Moto {
    /// Starts one whose bucket has the files of that folder, by their paths in it. None, with a line, where that Python has no
    /// moto.
    ///
    /// # Panics
    /// Where it cannot be started.
    pub fn start(python: &OsStr, files: Option<&Path>) -> Option<Moto> {
        let has_moto = Command::new(python).args(["-c", "import moto.server, boto3"]).stderr(Stdio::null()).status();
        if !has_moto.unwrap().success() {
            eprintln!("SKIPPED: {} has no moto", python.display());
            return None;
        }
        let mut command = Command::new(python);
        command.args(["-c", SERVER]).args(files).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut server = command.spawn().unwrap();
        let mut address = String::new();
        BufReader::new(server.stdout.take().unwrap()).read_line(&mut address).unwrap();
        assert!(address.starts_with("http://"), "moto did not start");
        Some(Moto { address: address.trim().into(), server })
    }

    /// What a program needs in its environment to use it.
    pub fn environment(&self) -> [(&'static str, &str); 3] {
        [("AWS_ENDPOINT_URL", &self.address), ("AWS_ACCESS_KEY_ID", "a"), ("AWS_SECRET_ACCESS_KEY", "b")]
    }
}

impl Drop for Moto {
    fn drop(&mut self) {
        drop(self.server.stdin.take());
        // It ends by itself; that it did is not what is tested.
        let _ = self.server.wait();
    }
}
