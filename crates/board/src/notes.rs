//! Notes and tags of runs: what people say about them, in one small file that any editor opens.
//!
//! `notes.md` begins with a line such as `tags: baseline, augmented` where there are tags; everything else is the note. The
//! board writes it only where it was started for that, for requests of its own pages, and replaces it as a whole.

use crate::error::BoardError;
use serde::Deserialize;
use std::path::Path;

pub(crate) const FILE: &str = "notes.md";
const TAGS: &str = "tags:";
/// Tags of one run.
const MOST_TAGS: usize = 50;
/// Letters of one tag.
const LONGEST_TAG: usize = 80;

/// What people say about a run.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
pub(crate) struct Notes {
    pub tags: Vec<String>,
    pub text: String,
}

impl Notes {
    pub fn parse(file: &str) -> Notes {
        let trimmed = file.trim_start();
        let (first, rest) = trimmed.split_once('\n').unwrap_or((trimmed, ""));
        let is_tags = first.get(..TAGS.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(TAGS));
        if !is_tags {
            return Notes { tags: Vec::new(), text: file.trim().into() };
        }
        let tags = first[TAGS.len()..].split(',').map(str::trim).filter(|tag| !tag.is_empty());
        Notes { tags: tags.map(str::to_string).collect(), text: rest.trim().into() }
    }

    fn to_file(&self) -> String {
        let text = match self.text.trim() {
            "" => String::new(),
            text => format!("{text}\n"),
        };
        match self.tags.is_empty() {
            // A note that begins like a line of tags would be read as one.
            true if text.to_lowercase().starts_with(TAGS) => format!("{TAGS}\n\n{text}"),
            true => text,
            false if text.is_empty() => format!("{TAGS} {}\n", self.tags.join(", ")),
            false => format!("{TAGS} {}\n\n{text}", self.tags.join(", ")),
        }
    }

    /// The first line with something on it, without the signs of a heading.
    pub fn title(&self) -> Option<String> {
        let mut lines = self.text.lines().map(|line| line.trim_start_matches('#').trim());
        lines.find(|line| !line.is_empty()).map(str::to_string)
    }

    pub fn check(mut self) -> Result<Notes, BoardError> {
        self.tags = self.tags.iter().map(|tag| tag.trim().to_string()).filter(|tag| !tag.is_empty()).collect();
        let is_plain = |tag: &String| tag.chars().count() <= LONGEST_TAG && !tag.contains([',', '\n', '\r']);
        match self.tags.len() <= MOST_TAGS && self.tags.iter().all(is_plain) {
            true => Ok(self),
            false => Err(BoardError::Request("a run has at most 50 tags of at most 80 letters, none with a comma")),
        }
    }

    /// Replaces the file of that run directory, whole or not at all; removes it where nothing is left to say.
    pub fn write(&self, folder: &Path) -> std::io::Result<()> {
        let (path, content) = (folder.join(FILE), self.to_file());
        if content.is_empty() {
            return match std::fs::remove_file(&path) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
                _ => Ok(()),
            };
        }
        let temporary = folder.join(format!("{FILE}.{}.tmp", std::process::id()));
        // A rename replaces a link instead of writing to what it points at.
        let written = std::fs::write(&temporary, content).and_then(|()| std::fs::rename(&temporary, &path));
        if written.is_err() {
            let _ = std::fs::remove_file(&temporary);
        }
        written
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_and_tags_survive_the_file() {
        let tags = |tags: &[&str]| tags.iter().map(|tag| tag.to_string()).collect::<Vec<_>>();
        for (tags, text) in [
            (tags(&[]), ""),
            (tags(&["a", "b c"]), ""),
            (tags(&[]), "# Title\n\ntext, more"),
            (tags(&["ü"]), "one\ntwo"),
            (tags(&[]), "Tags: this is a sentence"),
        ] {
            let notes = Notes { tags, text: text.into() };
            assert_eq!(Notes::parse(&notes.to_file()), notes);
        }
        assert_eq!(Notes::parse("plain\nTags: no"), Notes { tags: vec![], text: "plain\nTags: no".into() });
        assert_eq!(Notes::parse("\n\n## What\nrest").title().as_deref(), Some("What"));
    }
}
