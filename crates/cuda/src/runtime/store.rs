//! Compiled kernels on disk. Compiling takes tenths of a second each, which a warm start should not pay again.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;
use std::sync::Mutex;

static FOLDER: Mutex<Option<PathBuf>> = Mutex::new(None);

/// Keeps compiled kernels in that folder from now on.
pub fn keep_in(folder: PathBuf) {
    *FOLDER.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(folder);
}

/// What `make` makes from `key`, or what it made from it before. `works` says whether a stored one is still good; one
/// that is not is made again. Without a folder, or where it cannot be written, nothing is kept.
pub fn stored<T>(
    key: impl Hash,
    make: impl FnOnce() -> Result<Vec<u8>, String>,
    works: impl Fn(&[u8]) -> Result<T, String>,
) -> Result<T, String> {
    let folder = FOLDER.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone();
    let Some(folder) = folder else { return works(&make()?) };
    let mut hasher = DefaultHasher::new();
    (key, env!("CARGO_PKG_VERSION")).hash(&mut hasher);
    let path = folder.join(format!("{:016x}.cubin", hasher.finish()));
    if let Some(kept) = fs::read(&path).ok().and_then(|code| works(&code).ok()) {
        return Ok(kept);
    }
    let code = make()?;
    let made = works(&code)?;
    // Renamed when complete, so that a process that is killed leaves no half of it under that name.
    let temporary = path.with_extension(format!("{}.part", std::process::id()));
    let written = fs::create_dir_all(&folder).and_then(|()| fs::write(&temporary, &code));
    if written.and_then(|()| fs::rename(&temporary, &path)).is_err() {
        let _ = fs::remove_file(&temporary);
    }
    Ok(made)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn a_stored_kernel_is_used_until_it_no_longer_works() {
        let folder = std::env::temp_dir().join(format!("octant-cuda-{}", std::process::id()));
        keep_in(folder.clone());
        let compiled = Cell::new(0);
        let make = || {
            compiled.set(compiled.get() + 1);
            Ok(b"code".to_vec())
        };
        let works = |code: &[u8]| if code == b"code" { Ok(()) } else { Err("damaged".to_string()) };
        assert_eq!(stored(("a", 3), make, works), Ok(()));
        assert_eq!(stored(("a", 3), make, works), Ok(()));
        assert_eq!(compiled.get(), 1);
        let entries = fs::read_dir(&folder).into_iter().flatten().flatten();
        let damaged = entries.map(|entry| fs::write(entry.path(), b"half")).filter(Result::is_ok).count();
        assert_eq!(damaged, 1);
        assert_eq!(stored(("a", 3), make, works), Ok(()));
        assert_eq!(compiled.get(), 2);
        let _ = fs::remove_dir_all(folder);
    }
}
