//! The folder of fetched files.

use crate::download::{RetryPolicy, Target, download};
use crate::http::{self, Failure, Remote};
use crate::{Checksum, FetchError, FetchLocation, ProgressCallback};
use std::fmt;
use std::fs::{self, File};
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use ureq::Agent;

/// A published file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// The name under which it is kept, and under which a mirror has it; folders are separated by `/`.
    pub name: String,
    /// Where it is published.
    pub url: String,
    /// Its size, if it is known beforehand.
    pub bytes: Option<u64>,
    /// The expected checksum. Without one, only the size is checked.
    pub checksum: Option<Checksum>,
}

/// A folder of files that were fetched and verified.
pub struct DownloadCache {
    folder: PathBuf,
    mirror: Option<FetchLocation>,
    pub(crate) agent: Agent,
    pub(crate) retry: RetryPolicy,
    log: Box<dyn Fn(&str) + Send + Sync>,
    received: AtomicU64,
}

impl fmt::Debug for DownloadCache {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.debug_struct("DownloadCache")
            .field("folder", &self.folder)
            .field("mirror", &self.mirror)
            .finish_non_exhaustive()
    }
}

impl DownloadCache {
    /// The cache in that folder, which is created if necessary.
    pub fn open(folder: impl Into<PathBuf>) -> Result<DownloadCache, FetchError> {
        let folder = folder.into();
        fs::create_dir_all(&folder).map_err(FetchError::disk(&folder))?;
        let log = Box::new(|_: &str| ());
        let (agent, retry, received) = (http::agent(), RetryPolicy::NORMAL, AtomicU64::new(0));
        Ok(DownloadCache { folder, mirror: None, agent, retry, log, received })
    }

    /// Downloads from a mirror instead of the published address: a folder, or an address to which names are appended.
    pub fn mirror(mut self, location: &str) -> Result<DownloadCache, FetchError> {
        self.mirror = Some(FetchLocation::parse(location)?);
        Ok(self)
    }

    /// Logs what happens to connections, one line at a time.
    pub fn with_log(mut self, log: impl Fn(&str) + Send + Sync + 'static) -> DownloadCache {
        self.log = Box::new(log);
        self
    }

    /// How often an attempt without progress is repeated, and the first wait; the wait doubles.
    pub fn with_retries(mut self, attempts: u32, first_wait: Duration) -> DownloadCache {
        self.retry = RetryPolicy { attempts, first_wait };
        self
    }

    pub(crate) fn log(&self, line: &str) {
        (self.log)(line);
    }

    /// The response to a request that is repeated while it fails for a passing reason.
    pub(crate) fn retrying<T>(&self, request: impl FnMut() -> Result<T, Failure>) -> Result<T, Failure> {
        self.retry.run(&|line| self.log(line), request)
    }

    /// Bytes of files that came over the network since the cache was opened.
    pub fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }

    /// The folder of the files.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The file, if it has been fetched before. It was verified before it got its name.
    pub fn cached(&self, item: &Item) -> Option<PathBuf> {
        let path = self.path(&item.name).ok()?;
        let length = path.metadata().ok().filter(|metadata| metadata.is_file())?.len();
        item.bytes.is_none_or(|bytes| bytes == length).then_some(path)
    }

    /// The file: from the cache, otherwise from the mirror or the published address.
    ///
    /// A mirror that is a folder is read in place: the path returned lies in it, and nothing is copied.
    pub fn get(&self, item: &Item, progress: ProgressCallback) -> Result<PathBuf, FetchError> {
        self.path(&item.name)?;
        if let Some(path) = self.cached(item) {
            return Ok(path);
        }
        match &self.mirror {
            Some(FetchLocation::Path(folder)) => from_folder(folder, item),
            Some(location) => self.fetch(&location.below(&item.name), item, None, progress),
            None => self.fetch(&Remote::public(&item.url), item, None, progress),
        }
    }

    /// Downloads the file from that address, unless that version is cached.
    pub(crate) fn fetch(
        &self,
        remote: &Remote,
        item: &Item,
        version: Option<&str>,
        progress: ProgressCallback,
    ) -> Result<PathBuf, FetchError> {
        let path = self.path(&item.name)?;
        if self.is_here(item, version)? {
            return Ok(path);
        }
        let part = self.bookkeeping_file("unfinished", &item.name)?;
        // Two processes may fetch the same file; the second one waits and then finds it.
        let lock_file = self.bookkeeping_file("locks", &item.name)?;
        let lock = File::create(&lock_file).map_err(FetchError::disk(&lock_file))?;
        lock.lock().map_err(FetchError::disk(&lock_file))?;
        if !self.is_here(item, version)? {
            let begun_version = self.bookkeeping_file("unfinished-versions", &item.name)?;
            self.complete(remote, item, [&part, &begun_version], progress)?;
            drop(fs::remove_file(&begun_version));
            let kept_version = self.bookkeeping_file("versions", &item.name)?;
            fs::rename(&part, &path).map_err(FetchError::disk(&path))?;
            fs::write(&kept_version, version.unwrap_or_default()).map_err(FetchError::disk(&kept_version))?;
        }
        drop(fs::remove_file(&lock_file));
        Ok(path)
    }

    fn is_here(&self, item: &Item, version: Option<&str>) -> Result<bool, FetchError> {
        let Some(wanted) = version else { return Ok(self.cached(item).is_some() && item.checksum.is_some()) };
        let kept = fs::read_to_string(self.bookkeeping_file("versions", &item.name)?);
        Ok(self.cached(item).is_some() && kept.is_ok_and(|kept| kept == wanted))
    }

    /// Completes a partial download and verifies it.
    fn complete(
        &self,
        remote: &Remote,
        item: &Item,
        [part, version]: [&Path; 2],
        progress: ProgressCallback,
    ) -> Result<(), FetchError> {
        let target = Target { part, version, bytes: item.bytes, is_verified: item.checksum.is_some() };
        let was_begun = part.exists();
        // The first report of an attempt is what was there already.
        let mut before = None;
        let mut counted = |have: u64, total: Option<u64>| {
            let more = have.saturating_sub(before.replace(have).unwrap_or(have));
            self.received.fetch_add(more, Ordering::Relaxed);
            progress(have, total);
        };
        let mut once = || -> Result<(), FetchError> {
            download(&self.agent, remote, &target, self.retry, &|line| self.log(line), &mut counted)
                .map_err(|failure| failure.at(&remote.url, &self.folder))?;
            let verified = item.checksum.as_ref().map_or(Ok(()), |checksum| checksum.verify(part, &remote.url));
            verified.inspect_err(|_| drop(fs::remove_file(part)))
        };
        match once() {
            // The partial download may belong to another version: start again from the beginning.
            Err(FetchError::WrongChecksum { .. }) if was_begun => once(),
            other => other,
        }
    }

    /// Where a file of that name lies when it is complete.
    pub(crate) fn path(&self, name: &str) -> Result<PathBuf, FetchError> {
        let is_plain = |part: Component| matches!(part, Component::Normal(_));
        match !name.is_empty() && !name.ends_with('/') && Path::new(name).components().all(is_plain) {
            true => Ok(self.folder.join(name)),
            false => Err(FetchError::BadLocation { text: name.into(), problem: "it would lie outside of the cache" }),
        }
    }

    /// A bookkeeping file. These are in hidden folders, so that readers of a data folder see only data.
    pub(crate) fn bookkeeping_file(&self, what: &str, name: &str) -> Result<PathBuf, FetchError> {
        for folder in [self.path(name)?, self.folder.join(format!(".{what}")).join(name)] {
            let folder = folder.parent().unwrap_or(&self.folder);
            fs::create_dir_all(folder).map_err(FetchError::disk(folder))?;
        }
        Ok(self.folder.join(format!(".{what}")).join(name))
    }
}

/// Mirror folders are filled by hand, so the published file name is accepted, too.
fn from_folder(folder: &Path, item: &Item) -> Result<PathBuf, FetchError> {
    let published = item.url.rsplit('/').next().unwrap_or_default();
    let names = [item.name.as_str(), item.name.rsplit('/').next().unwrap_or_default(), published];
    let found = names.iter().filter(|name| !name.is_empty()).map(|name| folder.join(name)).find(|path| path.is_file());
    let path = found.ok_or_else(|| FetchError::NotInFolder {
        folder: folder.to_path_buf(),
        name: item.name.clone(),
        url: item.url.clone(),
    })?;
    if let Some(checksum) = &item.checksum {
        checksum.verify(&path, &path.to_string_lossy())?;
    }
    Ok(path)
}
