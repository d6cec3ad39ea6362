//! Metrics of tracks against trackeval; `golden/tracks.py` made the figures.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use octant_metrics::boxes::Rectangle;
use octant_metrics::tracks::{TracedBox, TrackFrame, TrackReport};
use serde_json::Value;

fn boxes(value: &Value) -> Vec<TracedBox> {
    let traced = |row: &Value| {
        let row: Vec<f64> = row.as_array().unwrap().iter().map(|number| number.as_f64().unwrap()).collect();
        let rectangle = Rectangle { x: row[1], y: row[2], width: row[3], height: row[4] };
        TracedBox { track: row[0] as u64, class: None, rectangle }
    };
    value.as_array().unwrap().iter().map(traced).collect()
}

#[test]
fn metrics_of_tracks_are_those_of_trackeval() {
    let cases: Value = serde_json::from_str(include_str!("../golden/tracks.json")).unwrap();
    for case in cases.as_array().unwrap() {
        let frame = |frame: &Value| TrackFrame { truth: boxes(&frame[0]), found: boxes(&frame[1]) };
        let frames: Vec<TrackFrame> = case["frames"].as_array().unwrap().iter().map(frame).collect();
        for (name, value) in TrackReport::of(&frames).metrics() {
            let wanted = case["expected"][&name].as_f64().unwrap();
            assert!((value - wanted).abs() < 1e-9, "{} {name}: {value}, not {wanted}", case["name"]);
        }
    }
}

#[test]
fn boxes_of_other_classes_do_not_match() {
    let traced =
        |class| TracedBox { track: 1, class, rectangle: Rectangle { x: 0.0, y: 0.0, width: 5.0, height: 5.0 } };
    let report =
        |truth, found| TrackReport::of(&[TrackFrame { truth: vec![traced(truth)], found: vec![traced(found)] }]);
    assert_eq!((report(Some(1), Some(1)).mota, report(Some(1), Some(2)).mota), (1.0, -1.0));
    assert_eq!(TrackReport::of(&[]).tracks, [0, 0]);
}
