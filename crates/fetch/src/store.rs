//! The folder of fetched files.

use crate::download::{Patience, Target, download};
use crate::http::{self, Remote};
use crate::{Checksum, FetchError, FetchLocation, ProgressCallback};
use std::fmt;
use std::fs::{self, File};
use std::path::{Component, Path, PathBuf};
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
    /// What its content must add up to. Without one, any file of that size will do.
    pub checksum: Option<Checksum>,
}

/// A folder of files that were fetched and verified.
pub struct DownloadCache {
    folder: PathBuf,
    mirror: Option<FetchLocation>,
    pub(crate) agent: Agent,
    pub(crate) patience: Patience,
    log: Box<dyn Fn(&str) + Send + Sync>,
}

impl fmt::Debug for DownloadCache {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.debug_struct("Store").field("folder", &self.folder).field("mirror", &self.mirror).finish_non_exhaustive()
    }
}

impl DownloadCache {
    /// The store in that folder, which is made if it is not there.
    pub fn open(folder: impl Into<PathBuf>) -> Result<DownloadCache, FetchError> {
        let folder = folder.into();
        fs::create_dir_all(&folder).map_err(FetchError::disk(&folder))?;
        let log = Box::new(|_: &str| ());
        Ok(DownloadCache { folder, mirror: None, agent: http::agent(), patience: Patience::NORMAL, log })
    }

    /// Takes files from there instead of where they are published: a folder, or an address to which names are appended.
    pub fn mirror(mut self, position: &str) -> Result<DownloadCache, FetchError> {
        self.mirror = Some(FetchLocation::parse(position)?);
        Ok(self)
    }

    /// Says what happens to connections, one line at a time.
    pub fn with_log(mut self, log: impl Fn(&str) + Send + Sync + 'static) -> DownloadCache {
        self.log = Box::new(log);
        self
    }

    /// How often an attempt is repeated that brought nothing new, and how long it waits first; the wait doubles.
    pub fn with_patience(mut self, attempts: u32, first_wait: Duration) -> DownloadCache {
        self.patience = Patience { attempts, first_wait };
        self
    }

    pub(crate) fn say(&self, line: &str) {
        (self.log)(line);
    }

    /// Where the files lie.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The file, if it has been fetched before. It was verified before it got its name.
    pub fn cached(&self, item: &Item) -> Option<PathBuf> {
        let path = self.path(&item.name).ok()?;
        let length = path.metadata().ok().filter(|metadata| metadata.is_file())?.len();
        item.bytes.is_none_or(|bytes| bytes == length).then_some(path)
    }

    /// The file: from here if it has been fetched before, otherwise from the mirror or from where it is published.
    ///
    /// A mirror that is a folder is read in place: the path returned lies in it, and nothing is copied.
    pub fn get(&self, item: &Item, progress: ProgressCallback) -> Result<PathBuf, FetchError> {
        self.path(&item.name)?;
        if let Some(path) = self.cached(item) {
            return Ok(path);
        }
        match &self.mirror {
            Some(FetchLocation::Path(folder)) => from_folder(folder, item),
            Some(position) => self.fetch(&position.below(&item.name), item, None, progress),
            None => self.fetch(&Remote::public(&item.url), item, None, progress),
        }
    }

    /// The file from exactly there, unless it is here already in that version.
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
        let part = self.aside("unfinished", &item.name)?;
        // Two processes may want the same file; the second one waits and then finds it.
        let lock_file = self.aside("locks", &item.name)?;
        let lock = File::create(&lock_file).map_err(FetchError::disk(&lock_file))?;
        lock.lock().map_err(FetchError::disk(&lock_file))?;
        if !self.is_here(item, version)? {
            let begun_version = self.aside("unfinished-versions", &item.name)?;
            self.complete(remote, item, [&part, &begun_version], progress)?;
            drop(fs::remove_file(&begun_version));
            let kept_version = self.aside("versions", &item.name)?;
            fs::rename(&part, &path).map_err(FetchError::disk(&path))?;
            fs::write(&kept_version, version.unwrap_or_default()).map_err(FetchError::disk(&kept_version))?;
        }
        drop(fs::remove_file(&lock_file));
        Ok(path)
    }

    fn is_here(&self, item: &Item, version: Option<&str>) -> Result<bool, FetchError> {
        let Some(wanted) = version else { return Ok(self.cached(item).is_some() && item.checksum.is_some()) };
        let kept = fs::read_to_string(self.aside("versions", &item.name)?);
        Ok(self.cached(item).is_some() && kept.is_ok_and(|kept| kept == wanted))
    }

    /// Makes the part whole and verifies it.
    fn complete(
        &self,
        remote: &Remote,
        item: &Item,
        [part, version]: [&Path; 2],
        progress: ProgressCallback,
    ) -> Result<(), FetchError> {
        let target = Target { part, version, bytes: item.bytes, is_verified: item.checksum.is_some() };
        let was_begun = part.exists();
        let mut once = || -> Result<(), FetchError> {
            download(&self.agent, remote, &target, self.patience, &|line| self.say(line), progress)
                .map_err(|failure| failure.at(&remote.url, &self.folder))?;
            let verified = item.checksum.as_ref().map_or(Ok(()), |checksum| checksum.verify(part, &remote.url));
            verified.inspect_err(|_| drop(fs::remove_file(part)))
        };
        match once() {
            // What an earlier process left may have been the beginning of another version: once more, from nothing.
            Err(FetchError::WrongChecksum { .. }) if was_begun => once(),
            other => other,
        }
    }

    /// Where a file of that name lies when it is complete.
    pub(crate) fn path(&self, name: &str) -> Result<PathBuf, FetchError> {
        let is_plain = |part: Component| matches!(part, Component::Normal(_));
        match !name.is_empty() && !name.ends_with('/') && Path::new(name).components().all(is_plain) {
            true => Ok(self.folder.join(name)),
            false => Err(FetchError::NoPlace { text: name.into(), problem: "it would lie outside of the cache" }),
        }
    }

    /// A file about a file. These lie in hidden folders of their own, so that whoever reads a folder of data sees only data.
    pub(crate) fn aside(&self, what: &str, name: &str) -> Result<PathBuf, FetchError> {
        for folder in [self.path(name)?, self.folder.join(format!(".{what}")).join(name)] {
            let folder = folder.parent().unwrap_or(&self.folder);
            fs::create_dir_all(folder).map_err(FetchError::disk(folder))?;
        }
        Ok(self.folder.join(format!(".{what}")).join(name))
    }
}

/// People fill mirror folders by hand, so the published name of the file is as good as ours.
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
