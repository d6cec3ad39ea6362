//! What is to be predicted, as people name it: files, folders, patterns, lists and addresses.

use crate::error::{Result, io, refuse};
use crate::video::is_video;
use crate::{Downloads, PredictError, Progress};
use octant_data::decode::ImageFileFormat;
use octant_data::readers::files_below;
use std::collections::HashSet;
use std::path::{Component, Path, PathBuf};

/// A file to be predicted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// The image or video.
    pub path: PathBuf,
    /// What is made of it is written under this path, which has no ending and which no other source has: below a folder that
    /// was given, its path in there.
    pub name: PathBuf,
}

impl Source {
    /// Whether it is a video.
    pub fn is_video(&self) -> bool {
        is_video(&self.path)
    }
}

/// All files that were named, and those in named folders that are neither image nor video.
#[derive(Debug, Default)]
pub struct Sources {
    /// In the order in which they were named; those of a folder in the order of names.
    pub files: Vec<Source>,
    /// Files in folders that are not predicted.
    pub skipped: Vec<PathBuf>,
    /// Addresses that could not be fetched, and why.
    pub unreachable: Vec<(PathBuf, PredictError)>,
    taken: HashSet<PathBuf>,
}

impl Sources {
    /// The images among the files, without videos.
    pub fn images(&self) -> Vec<PathBuf> {
        self.files.iter().filter(|file| !file.is_video()).map(|file| file.path.clone()).collect()
    }

    /// Finds the files that are meant: images, videos, folders, patterns such as `photos/*.jpg`, lists (`.txt` files with one of
    /// them per line) and addresses, which are fetched.
    pub fn find(given: &[PathBuf], downloads: &Downloads, progress: Progress) -> Result<Sources> {
        let mut sources = Sources::default();
        for path in given {
            sources.add(path, downloads, progress)?;
        }
        if sources.files.is_empty() {
            if !sources.unreachable.is_empty() {
                return Err(sources.unreachable.remove(0).1);
            }
            let given: Vec<String> = given.iter().map(|path| path.display().to_string()).collect();
            let skipped: Vec<String> = sources.skipped.iter().map(|path| path.display().to_string()).collect();
            match skipped.is_empty() {
                true => refuse!("there are no images in {}", given.join(", ")),
                false => refuse!("there are no images in {}, only {}", given.join(", "), octant_data::listed(&skipped)),
            }
        }
        Ok(sources)
    }

    fn add(&mut self, given: &Path, downloads: &Downloads, progress: Progress) -> Result<()> {
        if given.to_string_lossy().contains("://") {
            // Like a file that cannot be read, it does not end the others.
            match downloads.localize(given, "sources", progress) {
                Ok(local) => self.add(&local, downloads, progress)?,
                Err(error) => self.unreachable.push((given.to_path_buf(), error)),
            }
            return Ok(());
        }
        if given.is_dir() {
            for file in files_below(given)? {
                let name = file.strip_prefix(given).unwrap_or(&file).to_path_buf();
                match is_source(&file) {
                    true => self.push(file, name),
                    false => self.skipped.push(file),
                }
            }
            return Ok(());
        }
        if given.extension().is_some_and(|ending| ending == "txt") {
            return self.add_list(given, downloads, progress);
        }
        let found = if given.exists() { vec![given.to_path_buf()] } else { matching(given)? };
        for file in found {
            let name = file.file_name().map(PathBuf::from).unwrap_or_default();
            self.push(file, name);
        }
        Ok(())
    }

    /// The lines of a list. Relative paths start at the list's folder, or where the program runs.
    fn add_list(&mut self, list: &Path, downloads: &Downloads, progress: Progress) -> Result<()> {
        let text = std::fs::read_to_string(list).map_err(io("read", list))?;
        let beside = list.parent().unwrap_or(Path::new(""));
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
            if line.ends_with(".txt") {
                refuse!(
                    "{} names {line}, another list; a list names images, videos, folders and addresses",
                    list.display()
                );
            }
            let there = beside.join(line);
            let path = if line.contains("://") || !there.exists() { PathBuf::from(line) } else { there };
            self.add(&path, downloads, progress)?;
        }
        Ok(())
    }

    fn push(&mut self, path: PathBuf, name: PathBuf) {
        let stem = name.with_extension("");
        let numbered = (2..).map(|number| PathBuf::from(format!("{}-{number}", stem.display())));
        let free = std::iter::once(stem.clone()).chain(numbered).find(|name| self.taken.insert(name.clone()));
        self.files.push(Source { path, name: free.unwrap_or(stem) });
    }
}

fn is_source(path: &Path) -> bool {
    ImageFileFormat::has_image_extension(path) || is_video(path)
}

/// The images that a pattern stands for, such as `'photos/*/*.jpg'` in quotes: `*` and `?` in any part of the path.
fn matching(pattern: &Path) -> Result<Vec<PathBuf>> {
    let has_wildcard = |part: &Component| part.as_os_str().to_string_lossy().contains(['*', '?']);
    if !pattern.components().any(|part| has_wildcard(&part)) {
        return Ok(vec![pattern.to_path_buf()]);
    }
    let mut found = vec![PathBuf::new()];
    let mut is_matched = false;
    for part in pattern.components() {
        if !has_wildcard(&part) {
            found.iter_mut().for_each(|path| path.push(part));
            continue;
        }
        let wanted: Vec<char> = part.as_os_str().to_string_lossy().chars().collect();
        let mut inside = Vec::new();
        for folder in &found {
            let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
            // Of what a wildcard matched, not everything is a folder.
            let entries = match std::fs::read_dir(folder) {
                Ok(entries) => entries,
                Err(_) if is_matched => continue,
                Err(error) => return Err(io("read", folder)(error)),
            };
            let own =
                |path: &PathBuf| path.file_name().unwrap_or_default().to_string_lossy().chars().collect::<Vec<_>>();
            inside.extend(entries.flatten().map(|entry| entry.path()).filter(|path| is_match(&wanted, &own(path))));
        }
        (found, is_matched) = (inside, true);
    }
    found.retain(|path| is_source(path) && path.is_file());
    found.sort();
    Ok(found)
}

/// Whether a name fits a pattern of characters, `?` for any one and `*` for any number of them.
fn is_match(pattern: &[char], name: &[char]) -> bool {
    match (pattern.split_first(), name.split_first()) {
        (None, None) => true,
        (Some(('*', rest)), _) => (0..=name.len()).any(|skipped| is_match(rest, &name[skipped..])),
        (Some(('?', rest)), Some((_, others))) => is_match(rest, others),
        (Some((wanted, rest)), Some((own, others))) => wanted == own && is_match(rest, others),
        (None, Some(_)) | (Some(_), None) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(given: &[PathBuf]) -> Result<Sources> {
        Sources::find(given, &Downloads::new("unused"), &mut |_, _, _| {})
    }

    #[test]
    fn patterns_stand_for_names() {
        let fits = |pattern: &str, name: &str| {
            is_match(&pattern.chars().collect::<Vec<_>>(), &name.chars().collect::<Vec<_>>())
        };
        assert!(fits("*.jpg", "a.jpg") && fits("img?_*.png", "img1_x.png") && fits("*", ""));
        assert!(!fits("*.jpg", "a.png") && !fits("?", ""));
    }

    #[test]
    fn a_pattern_for_folders_was_not_read() {
        let folder = folder(&["a/x.png", "b/x.png", "b/y.jpg", "notes.md"]);
        let count = |pattern: &str| found(&[folder.path().join(pattern)]).map(|sources| sources.files.len());
        assert_eq!((count("*/x.png").unwrap(), count("?/*").unwrap(), count("b/*.jpg").unwrap()), (2, 3, 1));
        assert!(count("c/*.png").unwrap_err().to_string().contains("cannot read"));
    }

    fn folder(names: &[&str]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for name in names {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
        }
        folder
    }

    #[test]
    fn two_inputs_of_one_name_overwrote_each_other() {
        let folder = folder(&["a/x.png", "b/x.png", "a/x.jpg"]);
        let names = |paths: &[&str]| -> Vec<String> {
            let paths: Vec<PathBuf> = paths.iter().map(|path| folder.path().join(path)).collect();
            found(&paths).unwrap().files.into_iter().map(|source| source.name.display().to_string()).collect()
        };
        assert_eq!(names(&["a/x.png", "b/x.png"]), ["x", "x-2"]);
        assert_eq!(names(&["a", "b"]), ["x", "x-2", "x-3"]);
        assert_eq!(names(&[""]), ["a/x", "a/x-2", "b/x"]);
    }

    #[test]
    fn files_that_are_no_images_were_skipped_without_a_word() {
        let folder = folder(&["in/a.png", "in/b.heic", "in/notes.md", "in/c.mp4"]);
        let sources = found(&[folder.path().join("in")]).unwrap();
        let names = |paths: Vec<&Path>| -> Vec<String> {
            paths.iter().map(|path| path.file_name().unwrap().to_string_lossy().into_owned()).collect()
        };
        assert_eq!(names(sources.files.iter().map(|source| source.path.as_path()).collect()), ["a.png", "c.mp4"]);
        assert_eq!(names(sources.skipped.iter().map(PathBuf::as_path).collect()), ["b.heic", "notes.md"]);
    }

    #[test]
    fn a_list_names_files_from_its_own_folder_on() {
        let folder = folder(&["set/a.png", "set/sub/b.png"]);
        std::fs::write(folder.path().join("set/list.txt"), "# two\na.png\n\n./sub/b.png\n").unwrap();
        let sources = found(&[folder.path().join("set/list.txt")]).unwrap();
        assert_eq!(sources.files.len(), 2);
        assert!(sources.files[1].path.is_file());
        std::fs::write(folder.path().join("other.txt"), "list.txt").unwrap();
        assert!(found(&[folder.path().join("other.txt")]).unwrap_err().to_string().contains("another list"));
    }
}
