//! Places that people type: paths, addresses and prefixes of buckets.

use crate::bucket::{Endpoint, Provider};
use crate::http::{Failure, Remote, version};
use crate::listing::{self, Object};
use crate::{FetchError, Item, Progress, Store};
use std::fmt;
use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;

/// A place to read from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Location {
    /// On this machine.
    Path(PathBuf),
    /// One file on a web server.
    Web(String),
    /// An object, or all objects under a prefix, in an object store.
    Bucket(Bucket),
}

/// A prefix in a bucket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bucket {
    provider: Provider,
    bucket: String,
    prefix: String,
}

impl Location {
    /// `s3://bucket/prefix`, `gs://bucket/prefix`, `http://…`, `https://…`, or a path.
    pub fn parse(text: &str) -> Result<Location, FetchError> {
        let Some((scheme, rest)) = text.split_once("://") else { return Ok(Location::Path(text.into())) };
        let rest = rest.trim_end_matches('/');
        let wrong = |problem| Err(FetchError::NoPlace { text: text.into(), problem });
        let provider = match scheme {
            "file" => return Ok(Location::Path(rest.into())),
            "http" | "https" if !rest.is_empty() => return Ok(Location::Web(format!("{scheme}://{rest}"))),
            "s3" => Provider::S3,
            "gs" => Provider::Google,
            _ => return wrong("there are s3://bucket/prefix, gs://bucket/prefix, https://host/file and paths"),
        };
        match rest.split_once('/').unwrap_or((rest, "")) {
            ("", _) => wrong("it names no bucket"),
            (bucket, prefix) => Ok(Location::Bucket(Bucket { provider, bucket: bucket.into(), prefix: prefix.into() })),
        }
    }

    /// A path to the same content on this machine. What lies elsewhere is mirrored into the store: a file becomes a file,
    /// a prefix a folder. What has not changed since the last time is not fetched again; without a network, what was
    /// mirrored completely before is used as it is.
    pub fn localise(&self, store: &Store, progress: Progress) -> Result<PathBuf, FetchError> {
        match self {
            Location::Path(path) => Ok(path.clone()),
            Location::Web(url) => localise_file(url, store, progress),
            Location::Bucket(bucket) => bucket.localise(store, progress),
        }
    }

    /// Where a mirror at this place has the file of that name.
    pub(crate) fn below(&self, name: &str) -> Remote {
        match self {
            Location::Path(path) => Remote::public(path.join(name).to_string_lossy()),
            Location::Web(url) => Remote::public(format!("{url}/{name}")),
            Location::Bucket(Bucket { provider, bucket, prefix }) => {
                let key = if prefix.is_empty() { name.to_string() } else { format!("{prefix}/{name}") };
                Endpoint::of(*provider, bucket).object(&key)
            }
        }
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Location::Path(path) => write!(f, "{}", path.display()),
            Location::Web(url) => f.write_str(url),
            Location::Bucket(Bucket { provider, bucket, prefix }) => {
                write!(f, "{}://{bucket}/{prefix}", provider.scheme())
            }
        }
    }
}

fn localise_file(url: &str, store: &Store, progress: Progress) -> Result<PathBuf, FetchError> {
    let (_, place) = url.split_once("://").unwrap_or(("", url));
    let name = format!("web/{}", place.replace(['?', '#', '&', ':'], "_"));
    let item = Item { name, url: url.into(), bytes: None, checksum: None };
    let remote = Remote::public(url);
    match store.patience.attempts(&|line| store.say(line), || remote.head(&store.agent)) {
        Ok(response) => store.fetch(&remote, &item, version(&response).as_deref(), progress),
        Err(Failure::Unreachable(reason)) if store.cached(&item).is_some() => {
            store.say(&format!("cannot reach {url} ({reason}); using what was fetched before"));
            store.path(&item.name)
        }
        // Some servers refuse to be asked without being read.
        Err(Failure::Status(403 | 405 | 501)) => store.fetch(&remote, &item, None, progress),
        Err(failure) => Err(failure.at(url, store.folder())),
    }
}

impl Bucket {
    fn localise(&self, store: &Store, progress: Progress) -> Result<PathBuf, FetchError> {
        let endpoint = Endpoint::of(self.provider, &self.bucket);
        let base = format!("{}/{}", self.provider.scheme(), self.bucket);
        let name = format!("{base}/{}", self.prefix);
        let name = name.trim_end_matches('/');
        let whole = Location::Bucket(self.clone()).to_string();
        let list = || listing::objects(&store.agent, &endpoint, &self.prefix);
        let listed = match store.patience.attempts(&|line| store.say(line), list) {
            Ok(listed) => listed,
            Err(Failure::Unreachable(reason)) if store.aside("complete", name)?.exists() => {
                store.say(&format!("cannot reach {whole} ({reason}); using what was mirrored before"));
                return store.path(name);
            }
            Err(failure) => return Err(failure.at(&whole, store.folder())),
        };
        let wanted = self.wanted(listed);
        if wanted.is_empty() {
            return Err(FetchError::Nothing(whole));
        }
        let complete = store.aside("complete", name)?;
        drop(fs::remove_file(&complete));
        fetch_all(store, &endpoint, &base, &wanted, progress)?;
        forget_others(store, name, &base, &wanted)?;
        fs::write(&complete, "").map_err(FetchError::disk(&complete))?;
        store.path(name)
    }

    /// The object of exactly that name, or everything in the folder of that name. `data/train2` is not in `data/train`.
    fn wanted(&self, listed: Vec<Object>) -> Vec<Object> {
        if let Some(object) = listed.iter().find(|object| object.key == self.prefix) {
            return vec![object.clone()];
        }
        let folder = if self.prefix.is_empty() { String::new() } else { format!("{}/", self.prefix) };
        // Consoles make objects with names like `folder/` to show empty folders.
        listed.into_iter().filter(|object| object.key.starts_with(&folder) && !object.key.ends_with('/')).collect()
    }
}

/// Small files are mostly waiting, so several are fetched at once.
const AT_ONCE: usize = 8;

enum Message {
    /// So many bytes more, or fewer if an attempt began anew.
    Bytes(i64),
    Failed(FetchError),
}

fn fetch_all(
    store: &Store,
    endpoint: &Endpoint,
    base: &str,
    objects: &[Object],
    progress: Progress,
) -> Result<(), FetchError> {
    let total: u64 = objects.iter().map(|object| object.bytes).sum();
    let next = AtomicUsize::new(0);
    let (sender, receiver) = mpsc::channel();
    thread::scope(|scope| {
        for _ in 0..AT_ONCE.min(objects.len()) {
            let (sender, next) = (sender.clone(), &next);
            scope.spawn(move || {
                while let Some(object) = objects.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let mut known = 0;
                    let mut said = |done: u64, _: Option<u64>| {
                        // The receiver outlives the workers: it reads until the last of them is done.
                        drop(sender.send(Message::Bytes(done as i64 - known)));
                        known = done as i64;
                    };
                    match fetch_object(store, endpoint, base, object, &mut said) {
                        Ok(()) => said(object.bytes, None),
                        Err(error) => {
                            next.store(objects.len(), Ordering::Relaxed);
                            drop(sender.send(Message::Failed(error)));
                        }
                    }
                }
            });
        }
        drop(sender);
        let (mut done, mut result) = (0, Ok(()));
        for message in receiver {
            match message {
                Message::Bytes(more) => {
                    done += more;
                    progress(done.max(0) as u64, Some(total));
                }
                Message::Failed(error) => result = result.and(Err(error)),
            }
        }
        result
    })
}

fn fetch_object(
    store: &Store,
    endpoint: &Endpoint,
    base: &str,
    object: &Object,
    progress: Progress,
) -> Result<(), FetchError> {
    let remote = endpoint.object(&object.key);
    let name = format!("{base}/{}", object.key);
    let item = Item { name, url: remote.url.clone(), bytes: Some(object.bytes), checksum: None };
    store.fetch(&remote, &item, Some(&object.version), progress).map(drop)
}

/// Removes what was mirrored before and is not there any more, so that a folder holds what the bucket holds.
fn forget_others(store: &Store, name: &str, base: &str, objects: &[Object]) -> Result<(), FetchError> {
    let wanted: std::collections::HashSet<PathBuf> =
        objects.iter().filter_map(|object| store.path(&format!("{base}/{}", object.key)).ok()).collect();
    let mut folders = vec![store.path(name)?];
    while let Some(folder) = folders.pop() {
        let Ok(entries) = fs::read_dir(&folder) else { continue };
        for path in entries.filter_map(|entry| Some(entry.ok()?.path())) {
            match path.is_dir() {
                true => folders.push(path),
                false if !wanted.contains(&path) => fs::remove_file(&path).map_err(FetchError::disk(&path))?,
                false => {}
            }
        }
    }
    Ok(())
}
