//! Executables on disk, so that the second start of a program does not wait for the compiler.
//!
//! An entry is found by everything that the compiler's result depends on: program, options, plugin and devices. The
//! program's part of the key comes first in the file's name, so that a miss can report what has changed since the program
//! was last compiled. Entries carry a check sum; whatever does not match is deleted and compiled again, never an error.

mod in_flight;
mod stored;
mod times;

pub(crate) use in_flight::InFlight;
pub use stored::{StoreLimits, StoredFile};
pub use times::PastCompileTime;

use crate::{Plugin, XlaCompileOptions};
use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What an executable depends on.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Key {
    program: u128,
    facts: [Fact; 3],
}

/// One thing that an executable depends on, besides the program, in words and as a number.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Fact {
    name: &'static str,
    value: String,
}

impl Key {
    /// The key of a program's text, compiled with `options` by a plugin whose compiler calls itself `compiler`, for a board
    /// of devices of these kinds. The devices' numbers are no part of it: a board that was compiled for before it was
    /// rented has the same key as the one that runs the program.
    pub fn of(program: &str, options: &XlaCompileOptions, plugin: &Plugin, compiler: &str, kinds: &[&str]) -> Key {
        let options = XlaCompileOptions { device_ids: Vec::new(), ..options.clone() }.encode();
        // What a user sets for the compiler by hand makes another program.
        let by_hand = std::env::var("XLA_FLAGS").unwrap_or_default();
        let version = format!("{compiler} PJRT {}{by_hand}", plugin.version());
        Key::new(program, &options, &version, &counted(kinds))
    }

    /// The key of `program`, compiled with `options` (encoded) by a plugin of that `version` for `devices`.
    fn new(program: &str, options: &[u8], version: &str, devices: &str) -> Key {
        let fact = |name, value: String| Fact { name, value: value.replace('\n', " ") };
        let options = format!("{:032x}", hash(options));
        let facts =
            [fact("plugin", version.to_string()), fact("devices", devices.to_string()), fact("options", options)];
        Key { program: hash(program.as_bytes()), facts }
    }

    fn file_name(&self) -> String {
        let facts: Vec<&str> = self.facts.iter().map(|fact| fact.value.as_str()).collect();
        format!("{:032x}-{:032x}{ENDING}", self.program, hash(facts.join("\n").as_bytes()))
    }

    fn header(&self) -> String {
        self.facts.iter().map(|fact| format!("{}: {}\n", fact.name, fact.value)).collect()
    }
}

const MAGIC: &str = "octant executable 1\n";
const ENDING: &str = ".executable";

/// What a look into the cache found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lookup {
    /// The serialized executable.
    Hit(Vec<u8>),
    /// Nothing that can be used, and why, as a sentence for the log.
    Miss(String),
}

/// The file of one executable.
#[derive(Debug, Clone)]
pub(crate) struct CacheEntry {
    cache: ExecutableCache,
    key: Key,
}

impl CacheEntry {
    /// Deletes the file.
    pub(crate) fn discard(&self) {
        self.cache.discard(&self.key);
    }
}

/// A folder of executables.
#[derive(Debug, Clone)]
pub struct ExecutableCache {
    folder: PathBuf,
}

impl ExecutableCache {
    /// A cache in `folder`, which need not exist yet.
    pub fn new(folder: impl Into<PathBuf>) -> ExecutableCache {
        ExecutableCache { folder: folder.into() }
    }

    /// The folder of a helper that keeps its own files, such as XLA's autotuner.
    pub fn folder_for(&self, helper: &str) -> PathBuf {
        self.folder.join(helper)
    }

    /// The executable of that key, or why there is none.
    pub fn look_up(&self, key: &Key) -> Lookup {
        let path = self.folder.join(key.file_name());
        match fs::read(&path) {
            Ok(contents) => match payload(&contents, key) {
                Some(executable) => {
                    self.touch(&path);
                    Lookup::Hit(executable.to_vec())
                }
                None => {
                    self.discard(key);
                    Lookup::Miss("the stored executable was damaged and has been deleted".to_string())
                }
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => Lookup::Miss(self.explain(key)),
            Err(error) => Lookup::Miss(format!("{} could not be read: {error}", path.display())),
        }
    }

    /// Stores an executable. A reader sees all of it or nothing, whenever this process is killed.
    pub fn store(&self, key: &Key, executable: &[u8]) -> io::Result<()> {
        fs::create_dir_all(&self.folder)?;
        self.remove_abandoned_partial_files();
        let path = self.folder.join(key.file_name());
        let partial = self.folder.join(format!(".{}.{}", key.file_name(), std::process::id()));
        let written = write_entry(&partial, key, executable).and_then(|()| fs::rename(&partial, &path));
        if written.is_err() {
            // A full disk is the likely reason: do not leave half an entry on it.
            let _ = fs::remove_file(&partial);
        }
        // What cannot be deleted now is deleted after a later compilation.
        let _ = self.clean(&StoreLimits::default());
        written
    }

    /// A process that was killed while it wrote an entry leaves a part of it under a temporary name.
    fn remove_abandoned_partial_files(&self) {
        // No process takes longer than this to write one.
        const ABANDONED: Duration = Duration::from_secs(3600);
        let Ok(entries) = fs::read_dir(&self.folder) else { return };
        let is_partial = |name: &str| name.starts_with('.') && name.contains(ENDING);
        for entry in entries.flatten().filter(|entry| is_partial(&entry.file_name().to_string_lossy())) {
            let modified = entry.metadata().and_then(|metadata| metadata.modified()).ok();
            if modified.and_then(|then| then.elapsed().ok()).is_some_and(|age| age > ABANDONED) {
                let _ = fs::remove_file(entry.path());
            }
        }
    }

    /// Where it is.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The entry of that key.
    pub(crate) fn entry(&self, key: &Key) -> CacheEntry {
        CacheEntry { cache: self.clone(), key: key.clone() }
    }

    /// Deletes an entry, for instance because the plugin would not load it.
    pub fn discard(&self, key: &Key) {
        let _ = fs::remove_file(self.folder.join(key.file_name()));
    }

    /// Why there is no entry: never compiled, or compiled under other circumstances.
    fn explain(&self, key: &Key) -> String {
        let prefix = format!("{:032x}-", key.program);
        let Ok(entries) = fs::read_dir(&self.folder) else { return "the cache is empty".to_string() };
        let others = entries.flatten().filter(|entry| entry.file_name().to_string_lossy().starts_with(&prefix));
        let newest = others.max_by_key(|entry| entry.metadata().and_then(|metadata| metadata.modified()).ok());
        let Some(other) = newest else { return "this program has not been compiled before".to_string() };
        let header = read_header(&other.path()).unwrap_or_default();
        let changes = key.facts.iter().filter_map(|fact| {
            let before = header.lines().find_map(|line| line.strip_prefix(fact.name)?.strip_prefix(": "))?;
            (before != fact.value).then(|| describe_change(fact, before))
        });
        let changes: Vec<String> = changes.collect();
        match changes.is_empty() {
            true => "an older entry of this program cannot be used".to_string(),
            false => format!("this program was last compiled with {}", changes.join(" and ")),
        }
    }
}

/// `8 × TPU v3`.
fn counted(kinds: &[&str]) -> String {
    let groups = kinds.chunk_by(|a, b| a == b).map(|group| format!("{} × {}", group.len(), group[0]));
    groups.collect::<Vec<_>>().join(", ")
}

fn describe_change(fact: &Fact, before: &str) -> String {
    match fact.name {
        "options" => "other options".to_string(),
        name => format!("other {name} ({before}, now {})", fact.value),
    }
}

fn write_entry(path: &Path, key: &Key, executable: &[u8]) -> io::Result<()> {
    let mut file = fs::File::create(path)?;
    file.write_all(MAGIC.as_bytes())?;
    file.write_all(key.header().as_bytes())?;
    write!(file, "bytes: {}\nsum: {:032x}\n\n", executable.len(), hash(executable))?;
    file.write_all(executable)?;
    file.sync_all()
}

fn read_header(path: &Path) -> Option<String> {
    // Entries can be large, headers never are.
    const LONGEST: u64 = 4096;
    let mut start = Vec::new();
    fs::File::open(path).ok()?.take(LONGEST).read_to_end(&mut start).ok()?;
    let end = start.windows(2).position(|window| window == b"\n\n")?;
    String::from_utf8(start[..end].to_vec()).ok()
}

/// The executable in an entry, if the entry is whole and of that key.
fn payload<'a>(contents: &'a [u8], key: &Key) -> Option<&'a [u8]> {
    let rest = contents.strip_prefix(MAGIC.as_bytes())?.strip_prefix(key.header().as_bytes())?;
    let end = rest.windows(2).position(|window| window == b"\n\n")?;
    let (numbers, executable) = (std::str::from_utf8(&rest[..end]).ok()?, &rest[end + 2..]);
    let (bytes, sum) = numbers.strip_prefix("bytes: ")?.split_once("\nsum: ")?;
    let whole = bytes.parse() == Ok(executable.len()) && u128::from_str_radix(sum, 16) == Ok(hash(executable));
    whole.then_some(executable)
}

/// FNV-1a with 128 bits, eight bytes at a time: stable between versions of Octant, and far from collisions for the handful
/// of programs that a person compiles. The cache needs no protection from its owner. Byte by byte, a large program would
/// take longer to check than to read.
fn hash(bytes: &[u8]) -> u128 {
    const OFFSET: u128 = 0x6c62272e07bb014262b821756295c58d;
    const PRIME: u128 = 0x0000000001000000000000000000013b;
    let add = |hash: u128, next: u64| (hash ^ u128::from(next)).wrapping_mul(PRIME);
    let (words, rest) = bytes.as_chunks();
    let hash = words.iter().fold(OFFSET, |hash, &word| add(hash, u64::from_le_bytes(word)));
    rest.iter().fold(hash, |hash, &byte| add(hash, byte.into()))
}

#[cfg(test)]
mod tests;
