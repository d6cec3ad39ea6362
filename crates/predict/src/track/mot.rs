//! MOTChallenge's files: a line per box, `frame,track,left,top,width,height,score,class,visibility`.

use super::TrackedBox;
use crate::error::{Result, io, refuse};
use octant_metrics::boxes::Rectangle;
use octant_metrics::tracks::{TracedBox, TrackFrame};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

/// The lines of a frame. Classes are numbered from 1; networks that know a single one have -1 there, as MOTChallenge's results
/// do.
pub(super) fn lines(frame: u64, found: &[TrackedBox], has_classes: bool) -> String {
    let mut text = String::new();
    for TrackedBox { track, class, rectangle, score } in found {
        let Rectangle { x, y, width, height } = rectangle;
        let class = if has_classes { *class as i64 + 1 } else { -1 };
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{frame},{track},{x:.2},{y:.2},{width:.2},{height:.2},{score:.4},{class},-1,-1");
    }
    text
}

/// The boxes of a file by frame, from 1 on. Those that a ground truth marks as not to be counted (0 in the seventh column) are
/// left out.
pub fn read_mot(path: &Path, is_truth: bool) -> Result<BTreeMap<u64, Vec<TracedBox>>> {
    let text = std::fs::read_to_string(path).map_err(io("read", path))?;
    let mut frames: BTreeMap<u64, Vec<TracedBox>> = BTreeMap::new();
    for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let fields: Option<Vec<f64>> =
            line.split([',', ' ', '\t']).filter(|field| !field.is_empty()).map(|field| field.parse().ok()).collect();
        let whole = |value: f64| (value >= 0.0 && value.fract() == 0.0).then_some(value as u64);
        let Some([frame, track, x, y, width, height, rest @ ..]) = fields.as_deref() else {
            refuse!("{}:{}: a line has at least six numbers: {line:?}", path.display(), number + 1)
        };
        let (Some(frame), Some(track)) = (whole(*frame), whole(*track)) else {
            refuse!("{}:{}: frame and track are whole numbers from 0 on: {line:?}", path.display(), number + 1)
        };
        let is_counted = !is_truth || rest.first().is_none_or(|&flag| flag != 0.0);
        let class = rest.get(1).copied().filter(|&class| class >= 0.0).map(|class| class as u64);
        let rectangle = Rectangle { x: *x, y: *y, width: *width, height: *height };
        if is_counted {
            let boxes = frames.entry(frame).or_default();
            if boxes.iter().any(|other| other.track == track && other.class == class) {
                refuse!("{}:{}: track {track} is twice in frame {frame}", path.display(), number + 1);
            }
            boxes.push(TracedBox { track, class, rectangle });
        }
    }
    Ok(frames)
}

/// Ground truth and tracks, frame by frame. Classes count where both sides have them.
pub fn paired(truth: &BTreeMap<u64, Vec<TracedBox>>, found: &BTreeMap<u64, Vec<TracedBox>>) -> Vec<TrackFrame> {
    let has_classes =
        |frames: &BTreeMap<u64, Vec<TracedBox>>| frames.values().flatten().all(|traced| traced.class.is_some());
    let by_class = has_classes(truth) && has_classes(found);
    let of = |frames: &BTreeMap<u64, Vec<TracedBox>>, frame: u64| -> Vec<TracedBox> {
        let boxes = frames.get(&frame).into_iter().flatten();
        boxes.map(|traced| TracedBox { class: traced.class.filter(|_| by_class), ..*traced }).collect()
    };
    let first = truth.keys().chain(found.keys()).min().copied().unwrap_or(1);
    let last = truth.keys().chain(found.keys()).max().copied().unwrap_or(0);
    (first..=last).map(|frame| TrackFrame { truth: of(truth, frame), found: of(found, frame) }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let found = TrackedBox {
            track: 7,
            class: 2,
            rectangle: Rectangle { x: 1.5, y: -2.25, width: 10.0, height: 20.0 },
            score: 0.75,
        };
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.txt");
        std::fs::write(&path, lines(1, &[found], true) + &lines(3, &[found], false)).unwrap();
        let frames = read_mot(&path, false).unwrap();
        assert_eq!(frames.keys().copied().collect::<Vec<_>>(), [1, 3]);
        let traced = |class| TracedBox { track: 7, class, rectangle: found.rectangle };
        assert_eq!((frames[&1][0], frames[&3][0]), (traced(Some(3)), traced(None)));
        assert_eq!(paired(&frames, &frames).len(), 3);
        std::fs::write(&path, "1,1,0,0,5,5,0,1,1\n2 1 0 0 5 5 1 1 0.5\n").unwrap();
        assert_eq!(read_mot(&path, true).unwrap().keys().copied().collect::<Vec<_>>(), [2]);
        for wrong in ["1,1,0,0,5\n", "a,1,0,0,5,5\n", "1.5,1,0,0,5,5\n", "1,1,0,0,5,5\n1,1,9,9,5,5\n"] {
            std::fs::write(&path, wrong).unwrap();
            assert!(read_mot(&path, true).is_err(), "{wrong}");
        }
    }
}
