//! What commands need that fetch files: the store in Octant's cache, and a line that shows how far a download is.

use crate::output::{bytes, duration};
use anyhow::Result;
use octant_fetch::{DownloadCache, FetchLocation, ProgressCallback};
use octant_pjrt::discover::cache_folder;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The store in a folder of Octant's cache, such as `weights`; files come from the mirror, if one is given.
pub(crate) fn store(folder: &str, mirror: Option<&str>) -> Result<DownloadCache> {
    let store = DownloadCache::open(cache_folder().join(folder))?.with_log(|line| eprintln!("{line}"));
    Ok(match mirror {
        Some(position) => store.mirror(position)?,
        None => store,
    })
}

/// A location as a local path; remote ones are mirrored into the cache.
pub(crate) fn localize(position: &Path, folder: &str) -> Result<PathBuf> {
    match FetchLocation::parse(&position.to_string_lossy())? {
        FetchLocation::Path(path) => Ok(path),
        elsewhere => {
            let store = store(folder, None)?;
            showing(&elsewhere.to_string(), |progress| elsewhere.localize(&store, progress))
        }
    }
}

/// A data set's location as a local path. A remote file that only describes images stands for the folder that holds them too.
pub(crate) fn localize_data(position: &Path) -> Result<PathBuf> {
    match described(&position.to_string_lossy()) {
        Some((folder, file)) => Ok(localize(Path::new(folder), "data")?.join(file)),
        None => localize(position, "data"),
    }
}

/// The folder of a remote description, and the description's path inside of it. COCO's lie in `annotations` beside the images.
fn described(position: &str) -> Option<(&str, &str)> {
    let start = position.find("://")? + 3;
    let extension = position.rsplit_once('.')?.1;
    if !["yaml", "yml", "json"].contains(&extension) {
        return None;
    }
    let slash = position.rfind('/').filter(|slash| *slash > start)?;
    let folder = position[..slash].strip_suffix("/annotations").filter(|folder| folder.len() > start);
    let folder = folder.unwrap_or(&position[..slash]);
    Some((folder, &position[folder.len() + 1..]))
}

/// Does something that takes a while, with a line on the terminal that shows how far it is.
pub(crate) fn showing<T>(
    label: &str,
    work: impl FnOnce(ProgressCallback) -> Result<T, octant_fetch::FetchError>,
) -> Result<T> {
    let mut line = Line { label, begun: Instant::now(), begun_at: None, drawn: None };
    let result = work(&mut |done, total| line.advance(done, total));
    line.clear();
    Ok(result?)
}

struct Line<'a> {
    label: &'a str,
    begun: Instant,
    /// What was there already, so that the speed is that of this connection.
    begun_at: Option<u64>,
    drawn: Option<Instant>,
}

impl Line<'_> {
    const INTERVAL: Duration = Duration::from_millis(200);

    fn advance(&mut self, done: u64, total: Option<u64>) {
        let begun_at = *self.begun_at.get_or_insert(done);
        let is_due = self.drawn.unwrap_or(self.begun).elapsed() >= Self::INTERVAL;
        if !is_due || !std::io::stderr().is_terminal() {
            return;
        }
        self.drawn = Some(Instant::now());
        let speed = done.saturating_sub(begun_at) as f64 / self.begun.elapsed().as_secs_f64();
        let rest = total.map(|total| total.saturating_sub(done) as f64 / speed.max(1.0));
        let of = total.map(|total| format!(" of {}", bytes(total))).unwrap_or_default();
        let left = rest.map(|rest| format!(", {} left", duration(Duration::from_secs_f64(rest)))).unwrap_or_default();
        eprint!("\r\x1b[2K{}  {}{of}, {}/s{left}", self.label, bytes(done), bytes(speed as u64));
        let _ = std::io::stderr().flush();
    }

    fn clear(&self) {
        if self.drawn.is_some() {
            eprint!("\r\x1b[2K");
        }
    }
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
