//! Tracks: how well boxes were found and kept apart over the frames of a sequence.
//!
//! [`TrackReport::of`] computes HOTA (Luiten et al., 2021), the CLEAR metrics (MOTA; Bernardin and Stiefelhagen, 2008) and
//! identity metrics (IDF1; Ristani et al., 2016), number for number as MOTChallenge's evaluation.

mod clear;
mod hota;
mod identity;

use crate::Metric;
use crate::boxes::Rectangle;
use std::collections::HashMap;

/// A box that belongs to a track.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TracedBox {
    /// The number of the track.
    pub track: u64,
    /// The number of the class; boxes of two classes do not overlap, and a track of another class is another track.
    pub class: Option<u64>,
    /// Where it is.
    pub rectangle: Rectangle,
}

/// The boxes of one frame.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TrackFrame {
    /// Those that are there.
    pub truth: Vec<TracedBox>,
    /// Those that were found.
    pub found: Vec<TracedBox>,
}

/// A frame with tracks numbered from 0 on, and how much its boxes overlap.
struct Frame {
    truth: Vec<usize>,
    found: Vec<usize>,
    /// By ground truth, then by predicted box.
    overlaps: Vec<f64>,
}

/// What the boxes of a sequence are evaluated from.
struct Sequence {
    frames: Vec<Frame>,
    /// How many tracks there are, and in how many frames each is.
    truth: Vec<f64>,
    found: Vec<f64>,
}

/// Comparisons of overlaps with limits are as exact as this.
const EPSILON: f64 = f64::EPSILON;
/// The overlap of a match for CLEAR and identity metrics.
const MATCH: f64 = 0.5;

impl Sequence {
    fn new(frames: &[TrackFrame]) -> Sequence {
        let mut numbers: [HashMap<(u64, Option<u64>), usize>; 2] = Default::default();
        let mut counts: [Vec<f64>; 2] = Default::default();
        let mut numbered = |side: usize, boxes: &[TracedBox]| -> Vec<usize> {
            let number = |traced: &TracedBox| {
                let next = numbers[side].len();
                let number = *numbers[side].entry((traced.track, traced.class)).or_insert(next);
                counts[side].resize(numbers[side].len(), 0.0);
                counts[side][number] += 1.0;
                number
            };
            boxes.iter().map(number).collect()
        };
        let overlap =
            |a: &TracedBox, b: &TracedBox| if a.class == b.class { a.rectangle.iou(&b.rectangle) } else { 0.0 };
        let frame = |frame: &TrackFrame| Frame {
            overlaps: frame.truth.iter().flat_map(|a| frame.found.iter().map(|b| overlap(a, b))).collect(),
            truth: numbered(0, &frame.truth),
            found: numbered(1, &frame.found),
        };
        let frames = frames.iter().map(frame).collect();
        let [truth, found] = counts;
        Sequence { frames, truth, found }
    }
}

/// How good tracks are.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TrackReport {
    /// Higher-order tracking accuracy: the mean over limits of overlap from 0.05 to 0.95 of √(`deta` · `assa`).
    pub hota: f64,
    /// The share of detections that are right.
    pub deta: f64,
    /// How well matched detections are kept in one track.
    pub assa: f64,
    /// How much matched detections overlap.
    pub loca: f64,
    /// 1 − (missed + wrong + switched) / boxes; below 0 where more is wrong than there is.
    pub mota: f64,
    /// The mean overlap of matches.
    pub motp: f64,
    /// The F1 of boxes whose track is the one that their object's track is matched with over the whole sequence.
    pub idf1: f64,
    /// Its precision.
    pub idp: f64,
    /// Its recall.
    pub idr: f64,
    /// How often an object's track changed its number.
    pub switches: f64,
    /// How often an object's track was interrupted.
    pub fragments: f64,
    /// Wrong boxes.
    pub wrong: f64,
    /// Missed boxes.
    pub missed: f64,
    /// Objects that were followed for more than 80 % of their frames, for 20 % of them or more, and for less.
    pub followed: [f64; 3],
    /// Tracks of the ground truth, and found ones.
    pub tracks: [usize; 2],
}

impl TrackReport {
    /// Evaluates a sequence.
    pub fn of(frames: &[TrackFrame]) -> TrackReport {
        let sequence = Sequence::new(frames);
        let hota = hota::Hota::of(&sequence);
        let clear = clear::Clear::of(&sequence);
        let [right, wrong, missed] = identity::counts(&sequence);
        let share = |part: f64, all: f64| part / all.max(1.0);
        TrackReport {
            hota: hota.hota,
            deta: hota.deta,
            assa: hota.assa,
            loca: hota.loca,
            mota: share(clear.matched - clear.wrong - clear.switches, clear.matched + clear.missed),
            motp: share(clear.overlap, clear.matched),
            idf1: share(right, right + 0.5 * wrong + 0.5 * missed),
            idp: share(right, right + wrong),
            idr: share(right, right + missed),
            switches: clear.switches,
            fragments: clear.fragments,
            wrong: clear.wrong,
            missed: clear.missed,
            followed: clear.followed,
            tracks: [sequence.truth.len(), sequence.found.len()],
        }
    }

    /// The numbers by name.
    pub fn metrics(&self) -> Vec<Metric> {
        let [most, part, hardly] = self.followed;
        let metrics = [
            ("HOTA", self.hota),
            ("DetA", self.deta),
            ("AssA", self.assa),
            ("LocA", self.loca),
            ("MOTA", self.mota),
            ("MOTP", self.motp),
            ("IDF1", self.idf1),
            ("IDP", self.idp),
            ("IDR", self.idr),
            ("switches", self.switches),
            ("fragments", self.fragments),
            ("wrong", self.wrong),
            ("missed", self.missed),
            ("mostly_tracked", most),
            ("partly_tracked", part),
            ("mostly_lost", hardly),
        ];
        metrics.map(|(name, value)| (name.to_string(), value)).to_vec()
    }
}
