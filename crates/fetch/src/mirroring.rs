//! Mirrors remote folders, file by file.

use crate::{DownloadCache, FetchError, ProgressCallback};
use std::collections::HashSet;
use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;

/// Small files are mostly waiting, so several are fetched at once.
const AT_ONCE: usize = 8;

/// Whether the last mirroring of a folder was complete.
pub(crate) fn is_complete(cache: &DownloadCache, folder: &str) -> Result<bool, FetchError> {
    Ok(cache.bookkeeping_file("complete", folder)?.exists())
}

/// Mirrors a folder by `fetch`, after which it holds exactly `names`, and records that it is complete.
pub(crate) fn complete(
    cache: &DownloadCache,
    folder: &str,
    names: &[String],
    fetch: impl FnOnce() -> Result<(), FetchError>,
) -> Result<PathBuf, FetchError> {
    let complete = cache.bookkeeping_file("complete", folder)?;
    drop(fs::remove_file(&complete));
    fetch()?;
    forget_others(cache, folder, names)?;
    fs::write(&complete, "").map_err(FetchError::disk(&complete))?;
    cache.path(folder)
}

enum Message {
    /// Bytes received; negative if an attempt was restarted.
    Bytes(i64),
    Failed(FetchError),
}

/// Fetches all of `files`, several at once. After a failure no further file is started.
pub(crate) fn fetch_all<T: Sync>(
    files: &[T],
    total: Option<u64>,
    progress: ProgressCallback,
    fetch: impl Fn(&T, ProgressCallback) -> Result<(), FetchError> + Sync,
) -> Result<(), FetchError> {
    let next = AtomicUsize::new(0);
    let (sender, receiver) = mpsc::channel();
    thread::scope(|scope| {
        for _ in 0..AT_ONCE.min(files.len()) {
            let (sender, next, fetch) = (sender.clone(), &next, &fetch);
            scope.spawn(move || {
                while let Some(file) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let mut known = 0;
                    let mut report = |done: u64, _: Option<u64>| {
                        // The receiver outlives the workers: it reads until the last of them is done.
                        drop(sender.send(Message::Bytes(done as i64 - known)));
                        known = done as i64;
                    };
                    if let Err(error) = fetch(file, &mut report) {
                        next.store(files.len(), Ordering::Relaxed);
                        drop(sender.send(Message::Failed(error)));
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
                    progress(done.max(0) as u64, total);
                }
                Message::Failed(error) => result = result.and(Err(error)),
            }
        }
        result
    })
}

/// Removes mirrored files that the origin no longer has.
fn forget_others(cache: &DownloadCache, folder: &str, names: &[String]) -> Result<(), FetchError> {
    let wanted: HashSet<PathBuf> = names.iter().filter_map(|name| cache.path(name).ok()).collect();
    let mut folders = vec![cache.path(folder)?];
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
