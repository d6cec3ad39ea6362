//! What commands need that fetch files: the store in Octant's cache, and a line that shows how far a download is.

use crate::output::{Bar, bytes, duration};
use anyhow::Result;
use octant_device::cache_folder;
use octant_predict::{Downloads, Sources};
use octant_recipe::LocalCopy;
use octant_zoo::ModelEntry;
use octant_zoo::registry::Published;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The library's downloads, with Octant's cache.
pub(crate) fn downloads() -> Downloads {
    Downloads::new(cache_folder()).with_log(|line| eprintln!("{line}"))
}

/// A data set's location on this machine; a remote one is mirrored into the cache.
pub(crate) fn local_copy(location: &Path) -> Result<LocalCopy> {
    Ok(with_line(|progress| downloads().localize_data(location, progress))?)
}

/// The same as a path alone.
pub(crate) fn localize_data(location: &Path) -> Result<PathBuf> {
    Ok(local_copy(location)?.path)
}

/// The file that the `weights` argument names: a file, an address, `pretrained`, or the name of published weights.
pub(crate) fn weights(given: &Path, entry: &ModelEntry) -> Result<PathBuf> {
    Ok(with_line(|progress| downloads().weights(given, entry, progress))?)
}

/// Published weights, from the mirror if one is given.
pub(crate) fn published(published: &Published, mirror: Option<&str>) -> Result<PathBuf> {
    Ok(with_line(|progress| downloads().published(published, mirror, progress))?)
}

/// The files to predict that the arguments name.
pub(crate) fn sources(given: &[PathBuf]) -> Result<Sources> {
    Ok(with_line(|progress| Sources::find(given, &downloads(), progress))?)
}

/// Calls the library with a line on the terminal that shows how far downloads are.
pub(crate) fn with_line<T>(
    work: impl FnOnce(octant_predict::Progress) -> octant_predict::Result<T>,
) -> octant_predict::Result<T> {
    let mut line: Option<(String, Line)> = None;
    let result = work(&mut |label, done, total| {
        if line.as_ref().is_none_or(|(shown, _)| shown != label) {
            line = Some((label.to_string(), Line::new(label)));
        }
        line.iter_mut().for_each(|(_, line)| line.advance(done, total));
    });
    line.iter().for_each(|(_, line)| line.bar.wipe());
    result
}

struct Line {
    bar: Bar,
    /// What was there already, so that the speed is that of this connection.
    begun_at: Option<u64>,
}

impl Line {
    fn new(label: &str) -> Line {
        Line { bar: Bar::new(label.into(), 0), begun_at: None }
    }

    fn advance(&mut self, done: u64, total: Option<u64>) {
        let begun_at = *self.begun_at.get_or_insert(done);
        let elapsed = self.bar.elapsed();
        // What is quick needs no line.
        if elapsed < Bar::INTERVAL || !self.bar.is_due() {
            return;
        }
        let speed = done.saturating_sub(begun_at) as f64 / elapsed.as_secs_f64();
        let rest = total.map(|total| total.saturating_sub(done) as f64 / speed.max(1.0));
        let of = total.map(|total| format!(" of {}", bytes(total))).unwrap_or_default();
        let left = rest.map(|rest| format!(", {} left", duration(Duration::from_secs_f64(rest)))).unwrap_or_default();
        self.bar.draw_text(&format!("{}{of}, {}/s{left}", bytes(done), bytes(speed as u64)));
    }
}
