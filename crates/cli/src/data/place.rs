//! Where data lies: a path, or a place from which it is fetched once and kept.

use crate::output::bytes;
use anyhow::{Context, Result};
use octant_fetch::{Location, Store};
use octant_pjrt::discover::cache_folder;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The path behind `--data`: as it is, or for `s3://`, `gs://` and `http(s)://` that of a local copy, which is fetched
/// where it is missing or has changed.
pub(crate) fn locate(place: &Path) -> Result<PathBuf> {
    let text = place.to_string_lossy();
    match Location::parse(&text)? {
        Location::Path(path) => Ok(path),
        remote => {
            let store = Store::open(cache_folder().join("data"))?.with_log(|line| eprintln!("{line}"));
            let mut bar = Download::new(&text);
            let path = remote.localise(&store, &mut |done, total| bar.draw(done, total));
            bar.clear();
            path.with_context(|| format!("cannot read {text}"))
        }
    }
}

/// Bytes that arrive, on one line of a terminal.
pub(crate) struct Download {
    label: String,
    drawn: Option<Instant>,
    visible: bool,
}

impl Download {
    pub fn new(label: &str) -> Download {
        Download { label: label.to_string(), drawn: None, visible: std::io::stderr().is_terminal() }
    }

    pub fn draw(&mut self, done: u64, total: Option<u64>) {
        let is_due = self.drawn.is_none_or(|drawn| drawn.elapsed() >= Duration::from_millis(200));
        if self.visible && is_due {
            let of = total.map(|total| format!(" of {}", bytes(total))).unwrap_or_default();
            eprint!("\r\x1b[2K{}  {}{of}", self.label, bytes(done));
            let _ = std::io::stderr().flush();
            self.drawn = Some(Instant::now());
        }
    }

    /// Removes the line.
    pub fn clear(self) {
        if self.visible && self.drawn.is_some() {
            eprint!("\r\x1b[2K");
        }
    }
}
