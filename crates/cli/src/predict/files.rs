//! The images that a command names, and those of them that failed.

use super::video::is_video;
use crate::Ending;
use crate::output::Json;
use anyhow::{Context, Result, bail};
use octant_data::decode::ImageFileFormat;
use octant_data::readers::images_below;
use serde_json::json;
use std::path::{Path, PathBuf};

/// Images that could not be read or asked about: each is said at once, and all of them make the command fail at the end.
pub(super) struct Failed {
    json: bool,
    files: Vec<PathBuf>,
}

impl Failed {
    pub fn new(json: bool) -> Failed {
        Failed { json, files: Vec::new() }
    }

    pub fn note<T>(&mut self, path: &Path, result: Result<T>) -> Option<T> {
        result
            .inspect_err(|error| {
                let text = crate::sentence(error);
                let text =
                    if text.contains(&*path.to_string_lossy()) { text } else { format!("{}: {text}", path.display()) };
                match self.json {
                    true => Json::line(json!({ "event": "failed", "path": path, "error": text })),
                    false => eprintln!("failed: {text}"),
                }
                self.files.push(path.to_path_buf());
            })
            .ok()
    }

    pub fn ending(self, all: usize) -> Result<Ending> {
        match self.files.len() {
            0 => Ok(Ending::Done),
            count => bail!("{count} of {all} images failed; they are listed above"),
        }
    }
}

/// All images among files and folders, folders in the order of names, each with the name of what is made of it: its path
/// below the folder that was given, and never the same one twice.
pub(super) fn files(paths: &[PathBuf]) -> Result<Vec<(PathBuf, PathBuf)>> {
    let mut files: Vec<(PathBuf, PathBuf)> = Vec::new();
    let mut taken = std::collections::HashSet::new();
    let mut add = |path: PathBuf, name: PathBuf| {
        let stem = name.with_extension("");
        let numbered = (2..).map(|number| PathBuf::from(format!("{}-{number}", stem.display())));
        let free = std::iter::once(stem.clone()).chain(numbered).find(|name| taken.insert(name.clone()));
        files.push((path, free.unwrap_or(stem)));
    };
    for path in paths {
        if path.is_dir() {
            for file in images_below(path)? {
                let name = file.strip_prefix(path).unwrap_or(&file).to_path_buf();
                add(file, name);
            }
        } else {
            let found = if path.exists() { vec![path.clone()] } else { matching(path)? };
            for file in found {
                let name = file.file_name().map(PathBuf::from).unwrap_or_default();
                add(file, name);
            }
        }
    }
    Ok(files)
}

/// The images that a pattern stands for, such as `'photos/*.jpg'` in quotes: `*` and `?` in the last part of the path.
fn matching(pattern: &Path) -> Result<Vec<PathBuf>> {
    let name = pattern.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let folder = pattern.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if !name.contains(['*', '?']) {
        return Ok(vec![pattern.to_path_buf()]);
    }
    let entries = std::fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let wanted: Vec<char> = name.chars().collect();
    let fits = |path: &PathBuf| {
        let own: Vec<char> = path.file_name().unwrap_or_default().to_string_lossy().chars().collect();
        is_match(&wanted, &own) && (ImageFileFormat::has_image_extension(path) || is_video(path))
    };
    let mut found: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).filter(fits).collect();
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
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_stand_for_names() {
        let fits = |pattern: &str, name: &str| {
            is_match(&pattern.chars().collect::<Vec<_>>(), &name.chars().collect::<Vec<_>>())
        };
        assert!(fits("*.jpg", "a.jpg") && fits("img?_*.png", "img1_x.png") && fits("*", ""));
        assert!(!fits("*.jpg", "a.png") && !fits("?", ""));
    }

    #[test]
    fn two_inputs_of_one_name_overwrote_each_other() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["a/x.png", "b/x.png", "a/x.jpg"] {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
        }
        let names = |paths: &[&str]| -> Vec<String> {
            let paths: Vec<PathBuf> = paths.iter().map(|path| folder.path().join(path)).collect();
            files(&paths).unwrap().into_iter().map(|(_, name)| name.display().to_string()).collect()
        };
        assert_eq!(names(&["a/x.png", "b/x.png"]), ["x", "x-2"]);
        assert_eq!(names(&["a", "b"]), ["x", "x-2", "x-3"]);
        assert_eq!(names(&[""]), ["a/x", "a/x-2", "b/x"]);
    }
}
