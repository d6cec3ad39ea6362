//! What lies elsewhere, on this machine: addresses and published weights, fetched once into a cache.

use crate::error::{Result, io, refusal, refuse};
use octant_fetch::{Checksum, DownloadCache, FetchLocation, Item};
use octant_recipe::{LocalCopy, PublishedData};
use octant_train::run::Fetched;
use octant_zoo::registry::Published;
use octant_zoo::{ModelEntry, published};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

/// The word for a model's own published weights where a file of weights is expected.
pub const PRETRAINED: &str = "pretrained";

/// Called with what is fetched, the bytes that are here, and how many there are in all, where that is known.
pub type Progress<'a> = &'a mut dyn FnMut(&str, u64, Option<u64>);

/// Receives a line about a download that had to be repeated or that was not needed.
type Log = Arc<dyn Fn(&str) + Send + Sync>;

/// The cache for what is fetched.
///
/// ```no_run
/// let downloads = octant_predict::Downloads::new("/tmp/cache");
/// let entry = octant_zoo::find("resnet50")?;
/// let file = downloads.weights("pretrained".as_ref(), entry, &mut |name, done, _| println!("{name}: {done} bytes"))?;
/// # Ok::<(), octant_predict::PredictError>(())
/// ```
#[derive(Clone)]
pub struct Downloads {
    cache: PathBuf,
    log: Log,
}

impl Downloads {
    /// Keeps files below that folder.
    pub fn new(cache: impl Into<PathBuf>) -> Downloads {
        Downloads { cache: cache.into(), log: Arc::new(|_| {}) }
    }

    /// Reports repeated attempts to `log`.
    pub fn with_log(self, log: impl Fn(&str) + Send + Sync + 'static) -> Downloads {
        Downloads { log: Arc::new(log), ..self }
    }

    /// The part of the cache of that name, such as `weights`; files come from the mirror, if one is given.
    pub fn store(&self, folder: &str, mirror: Option<&str>) -> Result<DownloadCache> {
        let log = self.log.clone();
        let store = DownloadCache::open(self.cache.join(folder))?.with_log(move |line| log(line));
        Ok(match mirror {
            Some(location) => store.mirror(location)?,
            None => store,
        })
    }

    /// A location as a local path; what lies elsewhere is mirrored into that part of the cache.
    pub fn localize(&self, location: &Path, folder: &str, progress: Progress) -> Result<PathBuf> {
        Ok(self.copy(location, folder, progress)?.path)
    }

    /// The same, with what had to be fetched.
    fn copy(&self, location: &Path, folder: &str, progress: Progress) -> Result<LocalCopy> {
        let elsewhere = match FetchLocation::parse(&location.to_string_lossy())? {
            FetchLocation::Path(path) => return Ok(LocalCopy { path, fetched: None }),
            elsewhere => elsewhere,
        };
        let (address, cache, begun) = (elsewhere.to_string(), self.store(folder, None)?, Instant::now());
        let path = elsewhere.localize(&cache, &mut |done, all| progress(&address, done, all))?;
        let fetched = Fetched { address, bytes: cache.received(), time: begun.elapsed() };
        Ok(LocalCopy { path, fetched: Some(fetched).filter(|fetched| fetched.bytes > 0) })
    }

    /// A data set's location on this machine. A remote file that only describes images stands for the folder that holds them
    /// too.
    pub fn localize_data(&self, location: &Path, progress: Progress) -> Result<LocalCopy> {
        let text = location.to_string_lossy();
        let Some((folder, file)) = described(&text) else { return self.copy(location, "data", progress) };
        let copy = self.copy(Path::new(folder), "data", progress)?;
        Ok(LocalCopy { path: copy.path.join(file), ..copy })
    }

    /// The file of weights that a person names: a file, an address, `pretrained`, or the name of published weights.
    pub fn weights(&self, given: &Path, entry: &ModelEntry, progress: Progress) -> Result<PathBuf> {
        let text = given.to_string_lossy();
        if given.exists() || text.contains("://") {
            return self.localize(given, "weights", progress);
        }
        let name = if text == PRETRAINED { entry.name } else { &text };
        match published(name) {
            Ok((_, published)) => self.published(&published, None, progress),
            Err(error) if text == PRETRAINED => Err(error.into()),
            Err(error) => refuse!("there is no file {text} of weights, and as a name of published ones: {error}"),
        }
    }

    /// Published weights, verified where their checksum is known.
    pub fn published(&self, published: &Published, mirror: Option<&str>, progress: Progress) -> Result<PathBuf> {
        let item = Item {
            name: published.file.clone(),
            url: published.url.clone(),
            bytes: None,
            checksum: published.sha256_start.map(|digits| Checksum::Sha256(digits.into())),
        };
        let store = self.store("weights", mirror)?;
        Ok(store.get(&item, &mut |done, all| progress(&published.file, done, all))?)
    }
}

/// Fetches a published data set into a folder: what is there is kept, what broke off is resumed, and every file is verified. `fetched`
/// is called with each file and its size.
pub fn fetch_data(
    set: &PublishedData,
    out: &Path,
    mirror: Option<&str>,
    log: impl Fn(&str) + Send + Sync + 'static,
    progress: Progress,
    fetched: &mut dyn FnMut(&Path, u64),
) -> Result<()> {
    let mut store = DownloadCache::open(out)?.with_log(log);
    if let Some(mirror) = mirror {
        store = store.mirror(mirror)?;
    }
    for (file, md5) in set.files {
        let url = format!("{}{file}", set.base);
        let checksum = Some(Checksum::Md5(md5.to_string()));
        let item = Item { name: file.to_string(), url, bytes: None, checksum };
        let path = store.get(&item, &mut |done, all| progress(file, done, all));
        let path = path.map_err(|error| refusal!("{} could not be fetched: {error}", set.name))?;
        let kept = out.join(file);
        if path != kept {
            std::fs::copy(&path, &kept).map_err(io("write", &kept))?;
        }
        fetched(&kept, std::fs::metadata(&kept).map_err(io("read", &kept))?.len());
    }
    Ok(())
}

/// The folder of a remote description, and the description's path inside of it. COCO's lie in `annotations` beside the images.
fn described(location: &str) -> Option<(&str, &str)> {
    let start = location.find("://")? + 3;
    let extension = location.rsplit_once('.')?.1;
    if !["yaml", "yml", "json"].contains(&extension) {
        return None;
    }
    let slash = location.rfind('/').filter(|slash| *slash > start)?;
    let folder = location[..slash].strip_suffix("/annotations").filter(|folder| folder.len() > start);
    let folder = folder.unwrap_or(&location[..slash]);
    Some((folder, &location[folder.len() + 1..]))
}

#[cfg(test)]
mod tests {
    use super::described;

    #[test]
    fn a_remote_description_stands_for_its_folder() {
        assert_eq!(described("s3://b/set/data.yaml"), Some(("s3://b/set", "data.yaml")));
        assert_eq!(described("https://h/a/annotations/val.json"), Some(("https://h/a", "annotations/val.json")));
        assert_eq!(described("gs://bucket/annotations/val.json"), Some(("gs://bucket", "annotations/val.json")));
        for other in ["set/data.yaml", "s3://b/set", "s3://b/set.pack", "https://host.json"] {
            assert_eq!(described(other), None, "{other}");
        }
    }
}
