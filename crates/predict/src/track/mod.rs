//! Objects that keep their number from frame to frame: a detector's boxes in videos and folders of frames, as MOTChallenge's files
//! and drawn.
//!
//! Start reading at [`Tracker`], then [`Predictor::track`].

mod kalman;
mod mot;
mod sequence;
mod tracker;

pub use mot::{paired, read_mot};
pub use sequence::FrameSequence;
pub use tracker::{TrackOptions, TrackedBox, Tracker};

use crate::error::{Result, io, refuse};
use crate::video::Encoder;
use crate::{Cancel, Output, Predictor, draw};
use octant_data::write_png_u8;
use octant_events::metrics_json;
use octant_metrics::tracks::TrackReport;
use octant_recipe::TaskOutput;
use sequence::FrameSource;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Frames per call of the predictor.
const TOGETHER: usize = 8;
/// Frames per second that the buffer of lost tracks is meant for.
const USUAL_RATE: f64 = 30.0;

/// What is made of a sequence.
#[derive(Debug, Clone, PartialEq)]
pub struct TrackJob {
    /// The folder to write into.
    pub output: PathBuf,
    /// How boxes become tracks. The buffer is for 30 frames per second; other rates change it in proportion.
    pub options: TrackOptions,
    /// Also draws the tracks: a video of a video, images of a folder.
    pub draws: bool,
    /// MOTChallenge's ground truth to evaluate by; the sequence's own `gt/gt.txt` if not given.
    pub truth: Option<PathBuf>,
}

/// What a sequence came to.
#[derive(Debug, Clone, PartialEq)]
pub struct TrackSummary {
    /// How many frames it has.
    pub frames: u64,
    /// How many tracks were found, and how many boxes they have.
    pub tracks: usize,
    /// See there.
    pub boxes: u64,
    /// The file with a line per box.
    pub file: PathBuf,
    /// The video, or the folder of images, with the tracks drawn.
    pub drawn: Option<PathBuf>,
    /// How good the tracks are, where there is ground truth.
    pub report: Option<TrackReport>,
}

impl TrackedBox {
    /// The box as an object, with the names of the detector's classes.
    pub fn json(&self, names: &[String]) -> Value {
        let place = self.rectangle;
        json!({
            "track": self.track, "class": self.class, "name": names.get(self.class), "score": self.score,
            "box": [place.x, place.y, place.x + place.width, place.y + place.height],
        })
    }
}

impl TrackSummary {
    /// What a sequence of that name came to, as an object.
    pub fn json(&self, name: &str) -> Value {
        let TrackSummary { frames, tracks, boxes, file, drawn, report } = self;
        json!({
            "event": "done", "sequence": name, "frames": frames, "tracks": tracks, "boxes": boxes, "file": file, "drawn": drawn,
            "metrics": report.map(|report| metrics_json(&report.metrics())),
        })
    }
}

impl Predictor {
    /// Follows the objects of a sequence from frame to frame. The options' `boxes` say which boxes the tracker sees: their lowest
    /// score should be its `low`. `report` hears every frame's number and boxes.
    pub fn track(
        &self,
        sequence: &FrameSequence,
        job: &TrackJob,
        cancel: &Cancel,
        report: &mut dyn FnMut(u64, &[TrackedBox]),
    ) -> Result<TrackSummary> {
        if self.network().output()? != TaskOutput::Boxes {
            refuse!("tracks are of detectors; {} is none", self.network().recipe.model);
        }
        let truth = match job.truth.as_ref().or(sequence.truth.as_ref()) {
            Some(path) => Some(read_mot(path, true)?),
            None => None,
        };
        std::fs::create_dir_all(&job.output).map_err(io("write to", &job.output))?;
        let (network, name) = (self.network(), &sequence.name);
        let mut frames = sequence.open()?;
        let buffer = (job.options.buffer as f64 * frames.rate() / USUAL_RATE) as u64;
        let mut tracker = Tracker::new(TrackOptions { buffer, ..job.options });
        let mut drawing = if job.draws { Some(Drawing::new(&job.output, name, &frames)?) } else { None };
        let (mut text, mut number, mut boxes, mut tracks) = (String::new(), 0, 0, BTreeSet::new());
        loop {
            let mut images = Vec::with_capacity(TOGETHER);
            while images.len() < TOGETHER
                && let Some(image) = frames.next(self)?
            {
                images.push(image);
            }
            if images.is_empty() {
                break;
            }
            for (image, prediction) in images.iter().zip(self.predict_images(&images, cancel)?) {
                number += 1;
                let Output::Boxes(found) = &prediction.output else { refuse!("a detector returned no boxes") };
                let found = tracker.update(&found.shown);
                text += &mot::lines(number, &found, network.outputs > 1);
                boxes += found.len() as u64;
                tracks.extend(found.iter().map(|found| found.track));
                if let Some(drawing) = &mut drawing {
                    drawing.add(number, &draw::tracks(image, &found, &network.names))?;
                }
                report(number, &found);
            }
        }
        let file = job.output.join(format!("{name}.txt"));
        std::fs::write(&file, text).map_err(io("write", &file))?;
        let drawn = drawing.map(Drawing::finish).transpose()?;
        let report = truth.map(|truth| evaluated(&truth, &file)).transpose()?;
        Ok(TrackSummary { frames: number, tracks: tracks.len(), boxes, file, drawn, report })
    }
}

/// How good the tracks in a file are. A ground truth without classes, or of a network that knows a single one, is compared
/// whatever the classes.
fn evaluated(truth: &BTreeMap<u64, Vec<octant_metrics::tracks::TracedBox>>, file: &Path) -> Result<TrackReport> {
    Ok(TrackReport::of(&paired(truth, &read_mot(file, false)?)))
}

/// Where frames with tracks go.
enum Drawing {
    Video { path: PathBuf, rate: f64, encoder: Option<Encoder> },
    Images(PathBuf),
}

impl Drawing {
    fn new(output: &Path, name: &str, frames: &FrameSource) -> Result<Drawing> {
        if frames.is_video() {
            return Ok(Drawing::Video { path: output.join(format!("{name}.mp4")), rate: frames.rate(), encoder: None });
        }
        let folder = output.join(name);
        std::fs::create_dir_all(&folder).map_err(io("write to", &folder))?;
        Ok(Drawing::Images(folder))
    }

    fn add(&mut self, number: u64, image: &octant_imaging::Image<u8>) -> Result<()> {
        match self {
            Drawing::Images(folder) => Ok(write_png_u8(folder.join(format!("{number:06}.png")), image)?),
            Drawing::Video { path, rate, encoder } => match encoder {
                Some(encoder) => encoder.write(image),
                none => none.insert(Encoder::create(path, *rate)?).write(image),
            },
        }
    }

    fn finish(self) -> Result<PathBuf> {
        match self {
            Drawing::Images(folder) => Ok(folder),
            Drawing::Video { path, encoder, .. } => {
                encoder.map_or(Ok(()), Encoder::finish)?;
                Ok(path)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use octant_metrics::boxes::Rectangle;

    #[test]
    fn boxes_have_corners_and_unknown_classes_no_name() {
        let rectangle = Rectangle { x: 1.0, y: 2.0, width: 3.0, height: 4.0 };
        let found = TrackedBox { track: 7, class: 1, rectangle, score: 0.5 };
        assert_eq!(found.json(&["a".into()])["name"], Value::Null);
        let value = found.json(&["a".into(), "b".into()]);
        assert_eq!((&value["name"], &value["box"]), (&json!("b"), &json!([1.0, 2.0, 4.0, 6.0])));
    }

    #[test]
    fn a_sequence_without_ground_truth_has_no_metrics() {
        let summary = TrackSummary { frames: 3, tracks: 1, boxes: 2, file: "a.txt".into(), drawn: None, report: None };
        let value = summary.json("a");
        assert_eq!((&value["metrics"], &value["drawn"], &value["frames"]), (&Value::Null, &Value::Null, &json!(3)));
    }
}
