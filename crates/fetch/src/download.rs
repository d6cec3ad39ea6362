//! One file from one address, going on where an earlier attempt stopped.

use crate::http::{Failure, Remote, header, version};
use crate::{FetchError, ProgressCallback};
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::time::Duration;
use ureq::Agent;

/// How often, and at which intervals, attempts without progress are repeated.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Patience {
    pub attempts: u32,
    pub first_wait: Duration,
}

impl Patience {
    pub const NORMAL: Patience = Patience { attempts: 5, first_wait: Duration::from_millis(500) };

    /// Repeats a request that broke.
    pub fn attempts<T>(self, log: &dyn Fn(&str), request: impl FnMut() -> Result<T, Failure>) -> Result<T, Failure> {
        self.attempts_that_advance(log, || 0, request)
    }

    /// Repeats a request that broke, as long as it likes while `reached` grows.
    fn attempts_that_advance<T>(
        self,
        log: &dyn Fn(&str),
        reached: impl Fn() -> u64,
        mut request: impl FnMut() -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let mut in_vain = 0;
        loop {
            let before = reached();
            let failure = match request() {
                Ok(answer) => return Ok(answer),
                Err(failure) => failure,
            };
            in_vain = if reached() > before { 1 } else { in_vain + 1 };
            let reason = match failure {
                Failure::Broken(reason) if in_vain < self.attempts => reason,
                // Without a network nothing changes within seconds; one more attempt is for a server that restarts.
                Failure::Unreachable(reason) if in_vain < self.attempts.min(2) => reason,
                last => return Err(last),
            };
            let wait = self.first_wait * 2u32.pow(in_vain - 1);
            log(&format!("{reason}; trying again in {:.1} s", wait.as_secs_f64()));
            std::thread::sleep(wait);
        }
    }
}

/// Where the bytes go.
pub(crate) struct Target<'a> {
    /// The unfinished file.
    pub part: &'a Path,
    /// A file that says which version of the remote file that is the beginning of.
    pub version: &'a Path,
    /// How large the whole is, if that is known beforehand.
    pub bytes: Option<u64>,
    /// Whether a checksum will be compared afterwards, so that a mix of two versions would be noticed.
    pub is_verified: bool,
}

/// Downloads until the part is the whole. The caller holds the lock of the part.
pub(crate) fn download(
    agent: &Agent,
    remote: &Remote,
    target: &Target,
    patience: Patience,
    log: &dyn Fn(&str),
    progress: ProgressCallback,
) -> Result<(), Failure> {
    let reached = || target.part.metadata().map_or(0, |metadata| metadata.len());
    patience.attempts_that_advance(log, reached, || attempt(agent, remote, target, progress))
}

fn attempt(agent: &Agent, remote: &Remote, target: &Target, progress: ProgressCallback) -> Result<(), Failure> {
    let mut file = open(target.part).map_err(Failure::Disk)?;
    let known_version = std::fs::read_to_string(target.version).ok();
    let mut have = file.metadata().map_err(Failure::Disk)?.len();
    if !(target.is_verified || known_version.is_some()) || target.bytes.is_some_and(|bytes| have > bytes) {
        have = 0;
    }
    if have > 0 && target.bytes == Some(have) {
        return Ok(());
    }
    let mut headers = Vec::new();
    if have > 0 {
        headers.push(("range", format!("bytes={have}-")));
        headers.extend(known_version.map(|version| ("if-range", version)));
    }
    let response = remote.get(agent, &headers)?;
    let total = match response.status().as_u16() {
        206 if range_start(&response) == Some(have) => content_length(&response).map(|rest| have + rest),
        200 => {
            have = 0;
            content_length(&response)
        }
        _ => {
            file.set_len(0).map_err(Failure::Disk)?;
            return Err(Failure::Broken("it does not go on where the last attempt stopped".into()));
        }
    };
    remember(target.version, version(&response)).map_err(Failure::Disk)?;
    file.set_len(have).and_then(|()| file.seek(SeekFrom::Start(have))).map_err(Failure::Disk)?;
    let mut body = response.into_body().into_reader();
    let mut block = vec![0; 1 << 17];
    progress(have, total.or(target.bytes));
    loop {
        let count = body.read(&mut block).map_err(|error| Failure::Broken(error.to_string()))?;
        if count == 0 {
            break;
        }
        file.write_all(&block[..count]).map_err(Failure::Disk)?;
        have += count as u64;
        progress(have, total.or(target.bytes));
    }
    file.sync_all().map_err(Failure::Disk)?;
    match total.or(target.bytes) {
        Some(total) if have < total => {
            Err(Failure::Broken(format!("the connection ended after {have} of {total} bytes")))
        }
        _ => Ok(()),
    }
}

fn open(part: &Path) -> std::io::Result<File> {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).open(part)
}

fn remember(file: &Path, version: Option<String>) -> std::io::Result<()> {
    match version {
        Some(version) => std::fs::write(file, version),
        None => std::fs::remove_file(file).or(Ok(())),
    }
}

fn content_length(response: &ureq::http::Response<ureq::Body>) -> Option<u64> {
    header(response, "content-length")?.parse().ok()
}

/// `bytes 100-199/200` begins at 100.
fn range_start(response: &ureq::http::Response<ureq::Body>) -> Option<u64> {
    let range = header(response, "content-range")?;
    range.strip_prefix("bytes ")?.split('-').next()?.parse().ok()
}

impl Failure {
    /// The error that people see.
    pub fn at(self, url: &str, cache: &Path) -> FetchError {
        let (url, cache) = (url.to_string(), cache.to_path_buf());
        match self {
            Failure::Unreachable(reason) | Failure::Broken(reason) => FetchError::Unreachable { url, reason, cache },
            Failure::Status(status) => FetchError::Refused { url, status },
            Failure::OtherRegion(region) => FetchError::OtherRegion { url, region },
            Failure::Disk(source) => FetchError::Disk { path: cache, source },
        }
    }
}
