//! Frames in order: a video, or the images of a folder.

use crate::Predictor;
use crate::error::{Result, refuse};
use crate::video::{Frames, is_video};
use octant_data::readers::images_below;
use octant_imaging::Image;
use std::collections::VecDeque;
use std::path::{Path, PathBuf};

/// A video or a folder of frames.
#[derive(Debug, Clone, PartialEq)]
pub struct FrameSequence {
    path: PathBuf,
    /// Its name, for the files that are made of it.
    pub name: String,
    /// MOTChallenge's ground truth beside the frames, if there is one.
    pub truth: Option<PathBuf>,
    /// Frames per second of a folder, where its `seqinfo.ini` has them.
    rate: Option<f64>,
}

impl FrameSequence {
    /// The sequence at a path: a video, a folder of images, which are frames in the order of the numbers in their names, or a
    /// folder of MOTChallenge's form with `img1/`.
    pub fn find(path: &Path) -> Result<FrameSequence> {
        if !path.exists() {
            refuse!("there is no video or folder {}", path.display());
        }
        if path.is_file() && !is_video(path) {
            refuse!("{} is neither a video nor a folder of frames", path.display());
        }
        let truth = Some(path.join("gt/gt.txt")).filter(|truth| truth.is_file());
        let rate = std::fs::read_to_string(path.join("seqinfo.ini")).ok().and_then(|text| stated_rate(&text));
        let whole = path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
        // A folder has no ending.
        let name = if path.is_file() { whole.file_stem() } else { whole.file_name() };
        let name = name.map_or_else(|| "tracks".into(), |name| name.to_string_lossy().into_owned());
        Ok(FrameSequence { path: path.to_path_buf(), name, truth, rate })
    }

    /// The sequences at several paths, whose names differ.
    pub fn find_all(paths: &[PathBuf]) -> Result<Vec<FrameSequence>> {
        let sequences = paths.iter().map(|path| FrameSequence::find(path)).collect::<Result<Vec<_>>>()?;
        let mut names: Vec<&str> = sequences.iter().map(|sequence| sequence.name.as_str()).collect();
        names.sort_unstable();
        match names.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => refuse!(
                "two sequences are called {}, and their files would be too; follow them into folders of their own",
                pair[0]
            ),
            None => Ok(sequences),
        }
    }

    /// Starts at the first frame.
    pub(super) fn open(&self) -> Result<FrameSource> {
        if self.path.is_file() {
            return Ok(FrameSource::Video(Box::new(Frames::open(&self.path)?)));
        }
        let inner = self.path.join("img1");
        let folder = if inner.is_dir() { &inner } else { &self.path };
        let mut files = images_below(folder)?;
        if files.is_empty() {
            refuse!("there are no images in {}", folder.display());
        }
        files.sort_by_cached_key(|path| by_number(&path.to_string_lossy()));
        Ok(FrameSource::Images { files: files.into(), rate: self.rate.unwrap_or(super::USUAL_RATE) })
    }
}

/// A name in parts, numbers by their value: `frame10` comes after `frame9`.
fn by_number(name: &str) -> Vec<(u64, String)> {
    let mut parts = vec![(0u64, String::new())];
    for character in name.chars() {
        let Some((number, text)) = parts.last_mut() else { continue };
        match character.to_digit(10) {
            Some(digit) if text.is_empty() => *number = number.saturating_mul(10).saturating_add(digit.into()),
            Some(digit) => parts.push((digit.into(), String::new())),
            None => text.push(character),
        }
    }
    parts
}

fn stated_rate(text: &str) -> Option<f64> {
    let value = text.lines().find_map(|line| line.trim().strip_prefix("frameRate="))?;
    value.trim().parse().ok().filter(|rate: &f64| *rate > 0.0 && rate.is_finite())
}

/// Frames that are read one after the other.
pub(super) enum FrameSource {
    Video(Box<Frames>),
    Images { files: VecDeque<PathBuf>, rate: f64 },
}

impl FrameSource {
    pub fn is_video(&self) -> bool {
        matches!(self, FrameSource::Video(_))
    }

    /// Frames per second.
    pub fn rate(&self) -> f64 {
        match self {
            FrameSource::Video(frames) => frames.rate,
            FrameSource::Images { rate, .. } => *rate,
        }
    }

    /// The next frame as the predictor reads images; none after the last one.
    pub fn next(&mut self, predictor: &Predictor) -> Result<Option<Image<u8>>> {
        match self {
            FrameSource::Video(frames) => frames.next(),
            FrameSource::Images { files, .. } => files.pop_front().map(|path| predictor.read(&path)).transpose(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_in_the_order_of_their_numbers() {
        let mut names = ["a/frame10.png", "a/frame9.png", "a/frame100.png", "a/frame009b.png"];
        names.sort_by_cached_key(|name| by_number(name));
        assert_eq!(names, ["a/frame9.png", "a/frame009b.png", "a/frame10.png", "a/frame100.png"]);
        assert_eq!(stated_rate("[Sequence]\nname=x\nframeRate=14\n"), Some(14.0));
        assert_eq!(stated_rate("frameRate=0"), None);
    }
}
