//! Locations as users type them: paths, addresses and prefixes of buckets.

use crate::bucket::{Endpoint, Provider};
use crate::http::{Failure, Remote};
use crate::listing::{self, Object};
use crate::{DownloadCache, FetchError, Item, ProgressCallback, mirroring, web};
use std::fmt;
use std::path::PathBuf;

/// A location to read from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FetchLocation {
    /// On this machine.
    Path(PathBuf),
    /// A file on a web server, or a folder that the server lists.
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

impl FetchLocation {
    /// `s3://bucket/prefix`, `gs://bucket/prefix`, `http://…`, `https://…`, or a path.
    pub fn parse(text: &str) -> Result<FetchLocation, FetchError> {
        let Some((scheme, rest)) = text.split_once("://") else { return Ok(FetchLocation::Path(text.into())) };
        let rest = rest.trim_end_matches('/');
        let wrong = |problem| Err(FetchError::BadLocation { text: text.into(), problem });
        let provider = match scheme {
            "file" => return Ok(FetchLocation::Path(rest.into())),
            "http" | "https" if !rest.is_empty() => return Ok(FetchLocation::Web(format!("{scheme}://{rest}"))),
            "s3" => Provider::S3,
            "gs" => Provider::Google,
            _ => return wrong("there are s3://bucket/prefix, gs://bucket/prefix, https://host/file and paths"),
        };
        match rest.split_once('/').unwrap_or((rest, "")) {
            ("", _) => wrong("it names no bucket"),
            (bucket, prefix) => {
                Ok(FetchLocation::Bucket(Bucket { provider, bucket: bucket.into(), prefix: prefix.into() }))
            }
        }
    }

    /// A path to the same content on this machine. What lies elsewhere is mirrored into the cache: a file becomes a file,
    /// a prefix a folder. What has not changed since the last time is not fetched again; without a network, what was
    /// mirrored completely before is used as it is.
    pub fn localize(&self, cache: &DownloadCache, progress: ProgressCallback) -> Result<PathBuf, FetchError> {
        match self {
            FetchLocation::Path(path) => Ok(path.clone()),
            FetchLocation::Web(url) => web::localize(url, cache, progress),
            FetchLocation::Bucket(bucket) => bucket.localize(cache, progress),
        }
    }

    /// Where a mirror at this location has the file of that name.
    pub(crate) fn below(&self, name: &str) -> Remote {
        match self {
            FetchLocation::Path(path) => Remote::public(path.join(name).to_string_lossy()),
            FetchLocation::Web(url) => Remote::public(format!("{url}/{name}")),
            FetchLocation::Bucket(Bucket { provider, bucket, prefix }) => {
                let key = if prefix.is_empty() { name.to_string() } else { format!("{prefix}/{name}") };
                Endpoint::of(*provider, bucket).object(&key)
            }
        }
    }
}

impl fmt::Display for FetchLocation {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            FetchLocation::Path(path) => write!(f, "{}", path.display()),
            FetchLocation::Web(url) => f.write_str(url),
            FetchLocation::Bucket(Bucket { provider, bucket, prefix }) => {
                write!(f, "{}://{bucket}/{prefix}", provider.scheme())
            }
        }
    }
}

impl Bucket {
    pub(crate) fn prefix(&self) -> &str {
        &self.prefix
    }

    pub(crate) fn endpoint(&self) -> Endpoint {
        Endpoint::of(self.provider, &self.bucket)
    }

    fn localize(&self, cache: &DownloadCache, progress: ProgressCallback) -> Result<PathBuf, FetchError> {
        let endpoint = self.endpoint();
        let base = format!("{}/{}", self.provider.scheme(), self.bucket);
        let name = format!("{base}/{}", self.prefix);
        let name = name.trim_end_matches('/');
        let whole = FetchLocation::Bucket(self.clone()).to_string();
        let list = || listing::objects(&cache.agent, &endpoint, &self.prefix);
        let listed = match cache.retrying(list) {
            Ok(listed) => listed,
            Err(Failure::Unreachable(reason)) if mirroring::is_complete(cache, name)? => {
                cache.log(&format!("cannot reach {whole} ({reason}); using what was mirrored before"));
                return cache.path(name);
            }
            Err(failure) => return Err(failure.at(&whole, cache.folder())),
        };
        let wanted = self.wanted(listed);
        if wanted.is_empty() {
            return Err(FetchError::Nothing(whole));
        }
        let total = wanted.iter().map(|object| object.bytes).sum();
        let named = |object: &Object| format!("{base}/{}", object.key);
        let names: Vec<String> = wanted.iter().map(named).collect();
        mirroring::complete(cache, name, &names, || {
            mirroring::fetch_all(&wanted, Some(total), progress, |object, progress| {
                let remote = endpoint.object(&object.key);
                let (url, bytes) = (remote.url.clone(), Some(object.bytes));
                let item = Item { name: named(object), url, bytes, checksum: None };
                cache.fetch(&remote, &item, Some(&object.version), progress)?;
                // What was here already counts too.
                progress(object.bytes, None);
                Ok(())
            })
        })
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
