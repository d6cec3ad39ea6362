//! One file from one address, resumed where an earlier attempt stopped.

use crate::http::{Failure, Remote, header, version};
use crate::{FetchError, ProgressCallback};
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::time::Duration;
use ureq::Agent;

/// How often, and at which intervals, attempts without progress are repeated.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RetryPolicy {
    pub attempts: u32,
    pub first_wait: Duration,
}

impl RetryPolicy {
    pub const NORMAL: RetryPolicy = RetryPolicy { attempts: 5, first_wait: Duration::from_millis(500) };

    /// Repeats a request that broke.
    pub fn run<T>(self, log: &dyn Fn(&str), request: impl FnMut() -> Result<T, Failure>) -> Result<T, Failure> {
        self.run_while_advancing(log, || 0, request)
    }

    /// Repeats a request that broke. Only attempts after which `reached` has not grown are counted.
    pub fn run_while_advancing<T>(
        self,
        log: &dyn Fn(&str),
        reached: impl Fn() -> u64,
        mut request: impl FnMut() -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let mut without_progress = 0;
        loop {
            let before = reached();
            let failure = match request() {
                Ok(response) => return Ok(response),
                Err(failure) => failure,
            };
            without_progress = if reached() > before { 1 } else { without_progress + 1 };
            let reason = match failure {
                Failure::Broken(reason) if without_progress < self.attempts => reason,
                // Without a network nothing changes within seconds; one more attempt is for a server that restarts.
                Failure::Unreachable(reason) if without_progress < self.attempts.min(2) => reason,
                last => return Err(last),
            };
            let wait = self.first_wait * 2u32.pow(without_progress - 1);
            log(&format!("{reason}; trying again in {:.1} s", wait.as_secs_f64()));
            std::thread::sleep(wait);
        }
    }
}

/// Where the bytes go.
pub(crate) struct Target<'a> {
    /// The unfinished file.
    pub part: &'a Path,
    /// A file that holds which version of the remote file that is the beginning of.
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
    retry: RetryPolicy,
    log: &dyn Fn(&str),
    progress: ProgressCallback,
) -> Result<(), Failure> {
    let reached = || target.part.metadata().map_or(0, |metadata| metadata.len());
    retry.run_while_advancing(log, reached, || attempt(agent, remote, target, progress))
}

/// One request for what is missing, appended to the part.
fn attempt(agent: &Agent, remote: &Remote, target: &Target, progress: ProgressCallback) -> Result<(), Failure> {
    let mut file = open(target.part).map_err(Failure::Disk)?;
    let known_version = std::fs::read_to_string(target.version).ok();
    let mut have = file.metadata().map_err(Failure::Disk)?.len();
    // A part of unknown version is used only if the checksum will show whether the rest belongs to it.
    let is_trusted = target.is_verified || known_version.is_some();
    let is_too_long = target.bytes.is_some_and(|bytes| have > bytes);
    if !is_trusted || is_too_long {
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
            return Err(Failure::Broken("it does not continue where the last attempt stopped".into()));
        }
    };
    remember(target.version, version(&response)).map_err(Failure::Disk)?;
    file.set_len(have).and_then(|()| file.seek(SeekFrom::Start(have))).map_err(Failure::Disk)?;
    let total = total.or(target.bytes);
    let have = append(&mut file, response.into_body().into_reader(), have, |have| progress(have, total))?;
    match total {
        Some(total) if have < total => {
            Err(Failure::Broken(format!("the connection ended after {have} of {total} bytes")))
        }
        Some(_) | None => Ok(()),
    }
}

/// Writes what arrives to the end of a file that has `have` bytes. Returns how many it has afterwards.
fn append(file: &mut File, mut body: impl Read, mut have: u64, mut progress: impl FnMut(u64)) -> Result<u64, Failure> {
    let mut block = vec![0; 1 << 17];
    progress(have);
    loop {
        let count = body.read(&mut block).map_err(|error| Failure::Broken(error.to_string()))?;
        if count == 0 {
            break;
        }
        file.write_all(&block[..count]).map_err(Failure::Disk)?;
        have += count as u64;
        progress(have);
    }
    file.sync_all().map_err(Failure::Disk)?;
    Ok(have)
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
    /// The error message for users.
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
