//! What lies in the store of executables: listed, bounded, and copied to another machine.
//!
//! Several processes may use, clean and fill one store at the same time: files appear under their name when they are whole, and a
//! file that another process has just deleted is no error.

use super::{ENDING, ExecutableCache, read_header};
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, SystemTime};

/// A file of the store: an executable, or what a helper such as XLA's autotuner keeps.
#[derive(Debug, Clone)]
pub struct StoredFile {
    /// Below the store's folder.
    pub name: PathBuf,
    /// Its size.
    pub bytes: u64,
    /// When it was written, or an executable was loaded last.
    pub used: SystemTime,
    /// The devices that an executable is for.
    pub devices: Option<String>,
}

/// The most that a store keeps. Files that were used longest ago go first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoreLimits {
    /// All files together.
    pub bytes: u64,
    /// Since a file was used.
    pub age: Duration,
}

impl Default for StoreLimits {
    /// Room for hundreds of programs, and a version of every plugin that was in use within half a year.
    fn default() -> StoreLimits {
        StoreLimits { bytes: 16 << 30, age: Duration::from_secs(180 * 24 * 3600) }
    }
}

/// The first line of an archive of stored files.
const ARCHIVE: &str = "octant executables 1";

impl ExecutableCache {
    /// All files, the one that was used last first.
    pub fn stored(&self) -> io::Result<Vec<StoredFile>> {
        let mut files = Vec::new();
        match below(&self.folder, &self.folder, &mut files) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        files.sort_by(|a, b| b.used.cmp(&a.used).then_with(|| a.name.cmp(&b.name)));
        Ok(files)
    }

    /// Deletes what is beyond the limits, and returns it.
    pub fn clean(&self, limits: &StoreLimits) -> io::Result<Vec<StoredFile>> {
        let mut kept = 0u64;
        let mut deleted = Vec::new();
        for file in self.stored()? {
            let age = file.used.elapsed().unwrap_or_default();
            if age <= limits.age && kept.saturating_add(file.bytes) <= limits.bytes {
                kept += file.bytes;
                continue;
            }
            match fs::remove_file(self.folder.join(&file.name)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => deleted.push(file),
            }
        }
        Ok(deleted)
    }

    /// An executable was loaded: it is as young as a new one.
    pub(super) fn touch(&self, path: &Path) {
        // On a disk that cannot be written to, ages stay as they are.
        let _ = File::options().append(true).open(path).and_then(|file| file.set_modified(SystemTime::now()));
    }

    /// Writes all files into one archive, and returns them.
    pub fn export(&self, archive: &Path) -> io::Result<Vec<StoredFile>> {
        let mut out = io::BufWriter::new(File::create(archive)?);
        writeln!(out, "{ARCHIVE}")?;
        let mut written = Vec::new();
        for file in self.stored()? {
            // Another process may have deleted it, or written a newer one: what is read counts.
            let Ok(contents) = fs::read(self.folder.join(&file.name)) else { continue };
            writeln!(out, "{} {}", contents.len(), slashed(&file.name))?;
            out.write_all(&contents)?;
            written.push(StoredFile { bytes: contents.len() as u64, ..file });
        }
        out.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()?;
        Ok(written)
    }

    /// Adds the files of an archive that are not there yet, and returns their names. Executables for other devices or another
    /// version of the plugin are never loaded, so that they do no harm.
    pub fn import(&self, archive: &Path) -> io::Result<Vec<PathBuf>> {
        let mut archive = BufReader::new(File::open(archive)?);
        if line(&mut archive)?.as_deref() != Some(ARCHIVE) {
            return Err(damaged("it was not written by an export"));
        }
        let mut added = Vec::new();
        while let Some(header) = line(&mut archive)? {
            let (bytes, name) = header.split_once(' ').ok_or_else(|| damaged("a name is missing"))?;
            let bytes: u64 = bytes.parse().map_err(|_| damaged("a size is no number"))?;
            let name = PathBuf::from(name);
            if !name.components().all(|part| matches!(part, Component::Normal(_))) {
                return Err(damaged("a name leads out of the folder"));
            }
            let target = self.folder.join(&name);
            fs::create_dir_all(target.parent().unwrap_or(&self.folder))?;
            let partial = target.with_file_name(format!(".import{ENDING}.{}", std::process::id()));
            let mut file = File::create(&partial)?;
            let copied =
                io::copy(&mut (&mut archive).take(bytes), &mut file).and_then(|copied| match copied == bytes {
                    true => file.sync_all(),
                    false => Err(damaged("it ends early")),
                });
            match copied {
                Ok(()) if target.exists() => fs::remove_file(&partial)?,
                Ok(()) => {
                    fs::rename(&partial, &target)?;
                    added.push(name);
                }
                Err(error) => {
                    let _ = fs::remove_file(&partial);
                    return Err(error);
                }
            }
        }
        Ok(added)
    }
}

fn damaged(how: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("this is no archive of compiled programs: {how}"))
}

/// A line without its end; none at the end of the file.
fn line(archive: &mut impl BufRead) -> io::Result<Option<String>> {
    const LONGEST: u64 = 4096;
    let mut text = String::new();
    archive.take(LONGEST).read_line(&mut text)?;
    match text.strip_suffix('\n') {
        Some(line) => Ok(Some(line.to_string())),
        None if text.is_empty() => Ok(None),
        None => Err(damaged("a line does not end")),
    }
}

/// With the same separators on every system.
fn slashed(name: &Path) -> String {
    name.iter().map(|part| part.to_string_lossy()).collect::<Vec<_>>().join("/")
}

/// The files below a folder that are whole.
fn below(top: &Path, folder: &Path, files: &mut Vec<StoredFile>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.')) {
            continue;
        }
        // One that is gone by now is not listed.
        let Ok(facts) = path.metadata() else { continue };
        if facts.is_dir() {
            below(top, &path, files)?;
            continue;
        }
        let name = path.strip_prefix(top).unwrap_or(&path).to_path_buf();
        let header = path.to_string_lossy().ends_with(ENDING).then(|| read_header(&path)).flatten();
        let devices = header
            .and_then(|header| header.lines().find_map(|line| line.strip_prefix("devices: ")).map(str::to_string));
        files.push(StoredFile { name, bytes: facts.len(), used: facts.modified()?, devices });
    }
    Ok(())
}
