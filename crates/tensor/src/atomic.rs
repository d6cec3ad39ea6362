//! Files that appear whole or not at all.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Writes a file atomically: the content goes to a hidden neighbor, is forced
/// to disk, and takes the name in one step. When `content` fails, the disk is full, or this process dies, whatever
/// stood under `path` before is still there, untouched.
pub fn write_atomically<E: From<io::Error>>(
    path: &Path,
    content: impl FnOnce(&mut BufWriter<File>) -> Result<(), E>,
) -> Result<(), E> {
    let (file, unfinished) = Unfinished::create_beside(path)?;
    let mut writer = BufWriter::with_capacity(1 << 20, file);
    content(&mut writer)?;
    let file = writer.into_inner().map_err(io::IntoInnerError::into_error)?;
    file.sync_all()?;
    unfinished.rename_to(path)?;
    Ok(())
}

/// A file that is removed again unless it gets its final name.
struct Unfinished {
    path: PathBuf,
    renamed: bool,
}

impl Unfinished {
    fn create_beside(path: &Path) -> io::Result<(File, Unfinished)> {
        let name = path.file_name().ok_or_else(|| {
            io::Error::new(io::ErrorKind::InvalidInput, format!("{} does not name a file", path.display()))
        })?;
        // Distinct among processes and among the threads of this one, so that two writers never share a file.
        static SERIAL: AtomicU64 = AtomicU64::new(0);
        let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
        let mut hidden = OsString::from(".");
        hidden.push(name);
        hidden.push(format!(".{}-{serial}.partial", std::process::id()));
        let partial = path.with_file_name(hidden);
        let file = OpenOptions::new().write(true).create_new(true).open(&partial)?;
        Ok((file, Unfinished { path: partial, renamed: false }))
    }

    fn rename_to(mut self, path: &Path) -> io::Result<()> {
        fs::rename(&self.path, path)?;
        self.renamed = true;
        // The new name is an entry of the folder, which has to reach the disk as well. Not every file system lets a
        // folder be opened and synced; the content is safe either way.
        #[cfg(unix)]
        if let Some(folder) = path.parent() {
            let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
            let _ = File::open(folder).and_then(|folder| folder.sync_all());
        }
        Ok(())
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        if !self.renamed {
            let _ = fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<String> =
            fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn replaces_the_file_in_one_step() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("weights");
        for content in ["first", "second"] {
            write_atomically::<io::Error>(&path, |file| file.write_all(content.as_bytes())).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), content);
        }
        assert_eq!(names(folder.path()), ["weights"]);
    }

    #[test]
    fn a_failure_leaves_the_old_file_and_no_rubbish() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("weights");
        fs::write(&path, "old").unwrap();
        let result = write_atomically::<io::Error>(&path, |file| {
            file.write_all(b"half")?;
            Err(io::Error::other("no more"))
        });
        assert_eq!(result.unwrap_err().to_string(), "no more");
        assert_eq!(fs::read_to_string(&path).unwrap(), "old");
        assert_eq!(names(folder.path()), ["weights"]);
    }

    #[test]
    fn a_path_without_a_name_is_refused() {
        let result = write_atomically::<io::Error>(Path::new("/"), |_| Ok(()));
        assert!(result.unwrap_err().to_string().contains("does not name a file"));
    }
}
