//! A prefix in an object store that is written to and read from, object by object.
//!
//! Stores replace an object as a whole or not at all, and show it to every reader from then on. That is all that is needed to
//! commit something of several objects: the last one that is put names the others.

use crate::bucket::Endpoint;
use crate::checksum::{digest_of, hexadecimal};
use crate::download::RetryPolicy;
use crate::http::{self, Failure, Remote, header};
use crate::{FetchError, FetchLocation, listing};
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::time::Duration;
use ureq::Agent;

/// Stores take 5 GiB per request; smaller pieces are repeated sooner when a connection breaks.
const LARGEST_PIECE: u64 = 1 << 30;
/// The largest object that is read into memory.
const LARGEST_TEXT: u64 = 64 << 20;

/// A prefix in an object store.
pub struct ObjectStore {
    agent: Agent,
    endpoint: Endpoint,
    prefix: String,
    address: String,
    retry: RetryPolicy,
    piece: u64,
}

/// What a file became in a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredFile {
    /// Its size.
    pub bytes: u64,
    /// The SHA-256 of each of its pieces, which are objects `NAME`, or `NAME.part-00001` and so on where there are several.
    pub pieces: Vec<String>,
}

impl ObjectStore {
    /// `s3://bucket/prefix` or `gs://bucket/prefix`, with the providers' usual variables for keys and endpoints.
    pub fn open(address: &str) -> Result<ObjectStore, FetchError> {
        let problem = "give s3://bucket/prefix or gs://bucket/prefix";
        match FetchLocation::parse(address) {
            Ok(FetchLocation::Bucket(bucket)) if !bucket.prefix().is_empty() => Ok(ObjectStore {
                agent: http::agent(),
                endpoint: bucket.endpoint(),
                prefix: bucket.prefix().to_string(),
                address: FetchLocation::Bucket(bucket).to_string(),
                retry: RetryPolicy::NORMAL,
                piece: LARGEST_PIECE,
            }),
            _ => Err(FetchError::BadLocation { text: address.into(), problem }),
        }
    }

    /// How often a request that fails for a passing reason is repeated, and the first wait; the wait doubles.
    pub fn with_retries(mut self, attempts: u32, first_wait: Duration) -> ObjectStore {
        self.retry = RetryPolicy { attempts, first_wait };
        self
    }

    /// Files become pieces of at most so many bytes.
    pub fn with_pieces(mut self, bytes: u64) -> ObjectStore {
        self.piece = bytes.clamp(1, LARGEST_PIECE);
        self
    }

    /// Its address.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Stores an object.
    pub fn put(&self, name: &str, contents: &[u8]) -> Result<(), FetchError> {
        let hash = hexadecimal(&Sha256::digest(contents));
        self.send(name, || Ok(contents), contents.len() as u64, &hash)
    }

    /// Stores an object unless there is one of that name; false where there is. That may be the one of this very call, where the
    /// response was lost and the request was repeated. Stores that do not know the condition replace what is there.
    pub fn put_new(&self, name: &str, contents: &[u8]) -> Result<bool, FetchError> {
        let remote = self.endpoint.object(&self.key(name));
        let hash = hexadecimal(&Sha256::digest(contents));
        let of = (contents.len() as u64, hash.as_str());
        match self.repeated(|| remote.put(&self.agent, contents, of, Some(self.endpoint.if_new()))) {
            Ok(()) => Ok(true),
            // There is one; another one is being stored right now.
            Err(Failure::Status(412 | 409)) => Ok(false),
            Err(failure) => Err(self.failed(name, failure)),
        }
    }

    /// Stores a file, in pieces where it is large.
    pub fn put_file(&self, name: &str, path: &Path) -> Result<StoredFile, FetchError> {
        let bytes = path.metadata().map_err(FetchError::reading(path))?.len();
        let count = bytes.div_ceil(self.piece).max(1);
        let mut pieces = Vec::new();
        for number in 0..count {
            let begin = number * self.piece;
            let length = self.piece.min(bytes - begin);
            let piece = || -> std::io::Result<_> {
                let mut file = File::open(path)?;
                file.seek(SeekFrom::Start(begin))?;
                Ok(file.take(length))
            };
            let hash = piece().and_then(digest_of::<Sha256>).map_err(FetchError::reading(path))?;
            self.send(&piece_name(name, number, count), piece, length, &hash)?;
            pieces.push(hash);
        }
        Ok(StoredFile { bytes, pieces })
    }

    /// A small object; none where there is none.
    pub fn get(&self, name: &str) -> Result<Option<Vec<u8>>, FetchError> {
        let remote = self.endpoint.object(&self.key(name));
        let response = self.repeated(|| {
            let mut contents = Vec::new();
            let body = remote.get(&self.agent, &[])?.into_body().into_reader();
            let read = body.take(LARGEST_TEXT).read_to_end(&mut contents);
            read.map_err(|error| Failure::Broken(error.to_string()))?;
            Ok(contents)
        });
        match response {
            Ok(contents) => Ok(Some(contents)),
            Err(Failure::Status(404)) => Ok(None),
            Err(failure) => Err(self.failed(name, failure)),
        }
    }

    /// Fetches a file and compares every piece with its checksum.
    pub fn get_file(&self, name: &str, stored: &StoredFile, path: &Path) -> Result<(), FetchError> {
        let mut file = File::create(path).map_err(FetchError::disk(path))?;
        let count = stored.pieces.len() as u64;
        for (number, expected) in stored.pieces.iter().enumerate() {
            let begin = file.stream_position().map_err(FetchError::disk(path))?;
            let name = piece_name(name, number as u64, count);
            let remote = self.endpoint.object(&self.key(&name));
            let mut received = Received { file: &mut file, begin, have: 0, hash: Sha256::new() };
            let reached = std::cell::Cell::new(0);
            let found = self.retry.run_while_advancing(
                &|_| (),
                || reached.get(),
                || {
                    let outcome = received.resume(&self.agent, &remote);
                    reached.set(received.have);
                    outcome
                },
            );
            match found {
                Ok(()) if hexadecimal(&received.hash.finalize()) == *expected => {}
                Ok(()) | Err(Failure::Status(404)) => return Err(FetchError::Damaged(self.url(&name))),
                Err(Failure::Disk(source)) => return Err(FetchError::Disk { path: path.into(), source }),
                Err(failure) => return Err(self.failed(&name, failure)),
            }
        }
        file.sync_all().map_err(FetchError::disk(path))?;
        match file.metadata().map_err(FetchError::disk(path))?.len() == stored.bytes {
            true => Ok(()),
            false => Err(FetchError::Damaged(self.url(name))),
        }
    }

    /// The names of all objects under the prefix that begin so.
    pub fn list(&self, beginning: &str) -> Result<Vec<String>, FetchError> {
        let prefix = self.key(beginning);
        let objects = self.repeated(|| listing::objects(&self.agent, &self.endpoint, &prefix));
        let objects = objects.map_err(|failure| self.failed(beginning, failure))?;
        let name =
            |object: listing::Object| Some(object.key.strip_prefix(&self.prefix)?.strip_prefix('/')?.to_string());
        Ok(objects.into_iter().filter_map(name).collect())
    }

    /// Removes an object.
    pub fn delete(&self, name: &str) -> Result<(), FetchError> {
        let remote = self.endpoint.object(&self.key(name));
        self.repeated(|| remote.delete(&self.agent)).map_err(|failure| self.failed(name, failure))
    }

    fn send<R: Read>(
        &self,
        name: &str,
        body: impl Fn() -> std::io::Result<R>,
        bytes: u64,
        hash: &str,
    ) -> Result<(), FetchError> {
        let remote = self.endpoint.object(&self.key(name));
        let sent = self.repeated(|| remote.put(&self.agent, body().map_err(Failure::Disk)?, (bytes, hash), None));
        sent.map_err(|failure| self.failed(name, failure))
    }

    fn repeated<T>(&self, request: impl FnMut() -> Result<T, Failure>) -> Result<T, Failure> {
        // Who waits for a store reports what did not work in the end.
        self.retry.run(&|_| (), request)
    }

    fn key(&self, name: &str) -> String {
        format!("{}/{name}", self.prefix)
    }

    fn url(&self, name: &str) -> String {
        format!("{}/{name}", self.address)
    }

    fn failed(&self, name: &str, failure: Failure) -> FetchError {
        match failure {
            Failure::Unreachable(reason) | Failure::Broken(reason) => {
                FetchError::NoStore { url: self.url(name), reason }
            }
            Failure::Disk(source) => FetchError::Unreadable { path: name.into(), source },
            failure => failure.at(&self.url(name), Path::new(&self.address)),
        }
    }
}

/// The object of a piece.
fn piece_name(name: &str, number: u64, count: u64) -> String {
    if count == 1 { name.to_string() } else { format!("{name}.part-{:05}", number + 1) }
}

/// A piece that is being received into a file.
struct Received<'a> {
    file: &'a mut File,
    /// Where the piece begins in the file.
    begin: u64,
    have: u64,
    hash: Sha256,
}

impl Received<'_> {
    /// One request for what is missing.
    fn resume(&mut self, agent: &Agent, remote: &Remote) -> Result<(), Failure> {
        let range = (self.have > 0).then(|| ("range", format!("bytes={}-", self.have)));
        let response = remote.get(agent, range.as_slice())?;
        if response.status().as_u16() != 206 {
            (self.have, self.hash) = (0, Sha256::new());
        }
        let end = self.begin + self.have;
        self.file.set_len(end).and_then(|()| self.file.seek(SeekFrom::Start(end))).map_err(Failure::Disk)?;
        let rest = header(&response, "content-length").and_then(|length| length.parse().ok());
        let total: Option<u64> = rest.map(|rest: u64| self.have + rest);
        let (mut body, mut block) = (response.into_body().into_reader(), vec![0; 1 << 17]);
        loop {
            let count = body.read(&mut block).map_err(|error| Failure::Broken(error.to_string()))?;
            if count == 0 {
                break;
            }
            self.hash.update(&block[..count]);
            self.file.write_all(&block[..count]).map_err(Failure::Disk)?;
            self.have += count as u64;
        }
        match total.filter(|&total| self.have < total) {
            Some(total) => Err(Failure::Broken(format!("the connection ended after {} of {total} bytes", self.have))),
            None => Ok(()),
        }
    }
}
